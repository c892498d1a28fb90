use std::collections::BTreeSet;
use std::sync::Arc;

use throng_broker::{Announced, ChannelMember, Request, Ticket};
use throng_remote::{NodeIo, RemoteOptions, Verbs as _};
use throng_types::{ChannelName, Publisher};

use super::*;
use crate::link::{ANSWERS, NatsMessage, NatsServer};

/// A node whose connection has just been made.
pub(crate) fn node() -> Nats {
    let mut node = Nats::new(
        NodeIo::without_shards(RemoteOptions::for_tests()),
        Vec::new(),
        None,
        1,
    );
    node.connected(NatsServer {
        server: 1,
        is_clustered: false,
        payload_max: 1 << 20,
    });
    node
}

/// The request that waits for an answer, by what the answer is for.
pub(crate) fn asked(node: &Nats, is_it: impl Fn(&Flight) -> bool) -> Option<u64> {
    let mut flights = node.flights.iter();
    flights.find_map(|(number, pending)| is_it(&pending.flight).then_some(*number))
}

fn answer(node: &mut Nats, number: u64, subjects: &[&str]) {
    let counted = subjects.iter().map(|it| format!("\"{it}\":1"));
    let counted = counted.collect::<Vec<_>>().join(",");
    let payload = format!("{{\"state\":{{\"subjects\":{{{counted}}}}}}}");
    say(node, number, None, payload);
}

/// Answers the request of a kind.
pub(crate) fn hear(node: &mut Nats, is_it: impl Fn(&Flight) -> bool, mut message: Message) {
    let number = asked(node, is_it).expect("it was asked");
    (message.sid, message.subject) = (ANSWERS, format!("inbox.{number}").into());
    node.message(NatsMessage::Message(message))
        .expect("an answer");
}

fn say(node: &mut Nats, number: u64, status: Option<u16>, payload: String) {
    let message = Message {
        sid: ANSWERS,
        subject: format!("inbox.{number}").into(),
        status,
        seq: 0,
        key: None,
        traces: None,
        payload: payload.into_bytes().into(),
    };
    node.message(NatsMessage::Message(message))
        .expect("an answer");
}

/// NATS stores the lease, and the node in the roster.
fn enter(node: &mut Nats) {
    for step in [
        |it: &Flight| matches!(it, Flight::Leased),
        |it: &Flight| matches!(it, Flight::Rostered),
    ] {
        let number = asked(node, step).expect("it is asked for");
        say(node, number, None, r#"{"stream":"s","seq":1}"#.to_owned());
    }
}

/// Asks for the nodes that may have members; says that `other` may; and returns the question
/// about leases from before, and the one that follows.
fn roster_with(node: &mut Nats, other: &str) -> (u64, u64) {
    let before = asked(node, |it| matches!(it, Flight::Leases(None))).expect("leases");
    let rosters = asked(node, |it| matches!(it, Flight::Rosters)).expect("rosters");
    answer(node, rosters, &[&node.names.roster(other)]);
    let after = asked(node, |it| matches!(it, Flight::Leases(Some(_)))).expect("leases again");
    (before, after)
}

#[test]
fn a_node_that_came_after_leases_were_asked_for_is_not_dead() {
    let mut node = node();
    let other = "ffffffffffffffff";
    let (before, after) = roster_with(&mut node, other);
    // NATS looked before the other node was there, and this answer comes last.
    answer(&mut node, before, &[]);
    assert!(asked(&node, |it| matches!(it, Flight::Orphans(_))).is_none());
    let lease = node.names.lease(other);
    answer(&mut node, after, &[&lease]);
    assert!(asked(&node, |it| matches!(it, Flight::Orphans(_))).is_none());
    assert_eq!(node.live, Some(BTreeSet::from([other.to_owned()])));
    assert!(node.dead.is_empty());
}

#[test]
fn a_node_without_a_lease_is_dead_and_its_members_are_looked_for() {
    let mut node = node();
    let other = "ffffffffffffffff";
    let (_, after) = roster_with(&mut node, other);
    answer(&mut node, after, &[]);
    let orphans = |it: &Flight| matches!(it, Flight::Orphans(name) if name == other);
    assert!(asked(&node, orphans).is_some());
    assert_eq!(node.dead, BTreeSet::from([other.to_owned()]));
}

/// A server that has just come back does not have a row that its leader lists.
#[test]
fn a_row_that_could_not_be_removed_is_looked_for_again() {
    let mut node = node();
    enter(&mut node);
    let compares = |it: &Flight| matches!(it, Flight::OwnRows(_));
    let row = node.names.member("c", &node.incarnation, "u.v");
    for _ in 0..3 {
        node.compare_at_ms.get_or_insert(0);
        node.core.io.now_ms = node.compare_at_ms.expect("a time");
        node.compare_rows();
        let compared = asked(&node, compares).expect("a comparison");
        answer(&mut node, compared, &[&row]);
        let orphan = |it: &Flight| matches!(it, Flight::Orphan(subject) if *subject == row);
        let asked = asked(&node, orphan).expect("a question for the row");
        say(&mut node, asked, Some(404), String::new());
        assert!(node.compare_at_ms > Some(node.core.io.now_ms));
    }
    node.core.io.now_ms = node.compare_at_ms.expect("a time");
    node.compare_rows();
    let compared = asked(&node, compares).expect("a comparison");
    answer(&mut node, compared, &[]);
    assert_eq!(node.compare_at_ms, None);
}

/// Its members would stay in the list, since others look for those of nodes in the roster.
#[test]
fn no_member_is_listed_before_the_node_is_in_the_roster() {
    let mut node = node();
    let who = Publisher {
        client: "v".into(),
        user: "u".into(),
        ..Publisher::default()
    };
    let comes = |node: &mut Nats, ticket| {
        let subscribe = Request::Subscribe {
            ticket: Ticket(ticket),
            channel: ChannelName::new("c").expect("a name"),
            since: None,
            presence: Some(ChannelMember {
                who: Arc::new(who.clone()),
                is_listed: true,
                announced: Announced::Nothing,
            }),
        };
        node.request(0, subscribe);
    };
    let lists = |node: &Nats| {
        let rows = |it: &Flight| matches!(it, Flight::Row(_) | Flight::RowTaken(..));
        asked(node, rows).is_some()
    };
    comes(&mut node, 1);
    assert!(!lists(&node));
    enter(&mut node);
    assert!(lists(&node));
    // On another connection as well.
    node.disconnected();
    assert!(node.unrostered.is_empty() && !lists(&node));
    // And of members who come from another process.
    let mut node = self::node();
    let presence = ChannelMember {
        who: Arc::new(who),
        is_listed: true,
        announced: Announced::Nothing,
    };
    node.take_somebody(ChannelName::new("c").expect("a name"), presence);
    node.compare_at_ms = Some(0);
    node.compare_rows();
    assert!(!lists(&node));
    enter(&mut node);
    assert!(lists(&node));
}

/// JetStream may be full while a hand-over goes on.
#[test]
fn a_member_of_another_process_is_stored_again_if_that_was_refused() {
    let mut node = node();
    let presence = ChannelMember {
        who: Arc::new(Publisher::default()),
        is_listed: true,
        announced: Announced::Nothing,
    };
    enter(&mut node);
    node.take_somebody(ChannelName::new("c").expect("a name"), presence);
    let taken = |it: &Flight| matches!(it, Flight::RowTaken(..));
    let number = asked(&node, taken).expect("a row");
    let full = r#"{"error":{"code":503,"err_code":10023}}"#.to_owned();
    say(&mut node, number, None, full);
    assert!(asked(&node, taken).is_none());
    node.core.io.now_ms = node.compare_at_ms.expect("a time");
    node.compare_rows();
    assert!(asked(&node, taken).is_some());
}

/// Servers of a cluster store more slowly than they say what is stored.
#[test]
fn a_node_is_in_the_roster_whatever_is_answered_first() {
    let mut node = node();
    let is_leased = |it: &Flight| matches!(it, Flight::Leased);
    let is_rostered = |it: &Flight| matches!(it, Flight::Rostered);
    let stored = || r#"{"stream":"s","seq":1}"#.to_owned();
    let leases = asked(&node, |it| matches!(it, Flight::Leases(None))).expect("leases");
    answer(&mut node, leases, &[]);
    // The first does not get there.
    for failed in [true, false] {
        let leased = asked(&node, is_leased).expect("a lease");
        say(&mut node, leased, None, stored());
        let rostered = asked(&node, is_rostered).expect("a place in the roster");
        let error = r#"{"error":{"code":503,"err_code":10077}}"#.to_owned();
        say(
            &mut node,
            rostered,
            None,
            if failed { error } else { stored() },
        );
        node.core.io.now_ms += RENEW_MS;
        node.keep_lease();
    }
    let leased = asked(&node, is_leased).expect("a lease");
    say(&mut node, leased, None, stored());
    assert!(asked(&node, is_rostered).is_none());
}
