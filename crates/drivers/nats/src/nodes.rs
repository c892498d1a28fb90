//! The other nodes: who lives, whose members are to be removed, and questions to all of them.
//!
//! Each node renews a lease, a message that NATS forgets after [`LEASE_MS`]. A node that has none
//! is dead. The living node whose name comes first removes its members and tells of each: they are
//! listed for at most [`LEASE_MS`] and [`SWEEP_MS`], and the time that this takes.

use std::collections::BTreeSet;

use throng_nats_protocol::write;
use throng_remote::{For, PeerEvent, Questions, ToPeers};

use crate::api;
use crate::flight::Flight;
use crate::link::{Message, NAMED};
use crate::node::{LEASE_MS, Node};
use crate::record::Kind;
use crate::rows::read_body;

/// Between two words of a node, in milliseconds.
const RENEW_MS: u64 = 3000;
/// Between two looks for nodes that died, in milliseconds.
const SWEEP_MS: u64 = 5000;
/// Members that are removed at once.
const STEP: usize = 500;
/// How long a question waits for a node to be there, in milliseconds.
const ASK_MS: u64 = 5000;

impl Node {
    /// Takes a new name if others may have taken this node for dead.
    pub(crate) fn rename_if_dead(&mut self) {
        if self.may_be_dead() {
            let name = format!("{:016x}", self.desk.rng.next_u64());
            self.formerly = Some(std::mem::replace(&mut self.incarnation, name));
            self.renamed = true;
        }
    }

    /// This node lives from now on.
    pub(crate) fn announce_node(&mut self) {
        self.live = None;
        self.is_rostered = false;
        self.keep_lease();
        let hello = format!("+{}", self.incarnation);
        let everybody = self.names.everybody();
        self.say(&everybody, hello.as_bytes());
        if std::mem::take(&mut self.renamed) {
            self.come_again();
        }
    }

    /// Renews the lease, and looks who else has one.
    pub(crate) fn keep_lease(&mut self) {
        let now_ms = self.desk.now_ms;
        if now_ms >= self.due.lease_ms {
            self.due.lease_ms = now_ms + RENEW_MS;
            self.leased_at_ms = now_ms.max(1);
            let lease = self.names.lease(&self.incarnation);
            self.ask(Flight::Leased, &lease, &[], b"1");
            self.ask_leases(None);
        }
        if now_ms >= self.due.sweep_ms {
            self.due.sweep_ms = now_ms + SWEEP_MS;
            let stream = self.names.stream("rosters");
            let body = format!("{{\"subjects_filter\":\"{}\"}}", self.names.roster("*"));
            self.api(Flight::Rosters, "STREAM.INFO", &stream, &body);
        }
    }

    /// Asks which nodes live, and so which of `rostered` do not.
    fn ask_leases(&mut self, rostered: Option<BTreeSet<String>>) {
        let stream = self.names.stream("leases");
        let body = format!("{{\"subjects_filter\":\"{}\"}}", self.names.lease("*"));
        self.api(Flight::Leases(rostered), "STREAM.INFO", &stream, &body);
    }

    /// The lease is renewed: whoever finds this node in the roster finds its lease too. It is
    /// written there until NATS says that it is, or nobody would look for its members.
    pub(crate) fn leased(&mut self, payload: &[u8]) {
        if !self.is_rostered && api::stored(payload).is_ok() {
            let roster = self.names.roster(&self.incarnation);
            self.ask(Flight::Rostered, &roster, &[], b"1");
        }
    }

    /// Whether the lease may have been lost, so that others took this node for dead.
    pub(crate) const fn may_be_dead(&self) -> bool {
        self.leased_at_ms > 0
            && self.desk.now_ms.saturating_sub(self.leased_at_ms) + RENEW_MS > LEASE_MS
    }

    /// Which nodes live; with `rostered`, of nodes that were known before this was asked.
    pub(crate) fn leases(&mut self, rostered: Option<&BTreeSet<String>>, payload: &[u8]) {
        let Some((subjects, _)) = api::subjects(payload) else {
            return;
        };
        let names = subjects
            .iter()
            .filter_map(|it| self.names.last("lease", it));
        let others = names.filter(|name| *name != self.incarnation);
        let live: BTreeSet<String> = others.map(str::to_owned).collect();
        // NATS may have lost all leases with its memory: the others have time to come back, too.
        let is_early = self
            .back_at_ms
            .is_some_and(|at_ms| self.desk.now_ms < at_ms + LEASE_MS);
        if let Some(rostered) = rostered.filter(|_| !is_early) {
            let dead = rostered.difference(&live);
            self.dead = dead
                .filter(|it| **it != self.incarnation)
                .cloned()
                .collect();
            let is_first = live.first().is_none_or(|first| self.incarnation < *first);
            if is_first {
                self.sweep();
            }
        }
        self.live = Some(live);
    }

    /// Which nodes may have members. One that has no lease when that is asked from now on is dead.
    /// NATS may answer out of order: an answer about leases that was asked for earlier knows
    /// nothing of a node that has come since.
    pub(crate) fn rosters(&mut self, payload: &[u8]) {
        if let Some((subjects, _)) = api::subjects(payload) {
            let names = subjects
                .iter()
                .filter_map(|it| self.names.last("roster", it));
            let rostered = names.map(str::to_owned).collect();
            self.ask_leases(Some(rostered));
        }
    }

    /// Looks for the members of nodes that have died.
    fn sweep(&mut self) {
        for incarnation in self.dead.clone() {
            let filter = self.names.member("*", &incarnation, ">");
            let body = format!("{{\"subjects_filter\":\"{filter}\"}}");
            let stream = self.names.stream("members");
            self.api(Flight::Orphans(incarnation), "STREAM.INFO", &stream, &body);
        }
    }

    /// The members of a node that has died.
    pub(crate) fn orphans(&mut self, incarnation: &str, payload: &[u8]) {
        let Some((subjects, _)) = api::subjects(payload) else {
            return;
        };
        if subjects.is_empty() {
            tracing::info!(incarnation, "the members of a node that died are removed");
            let stream = self.names.stream("rosters");
            let body = format!("{{\"filter\":\"{}\"}}", self.names.roster(incarnation));
            return self.api(Flight::Nothing, "STREAM.PURGE", &stream, &body);
        }
        let stream = self.names.stream("members");
        for subject in subjects.iter().take(STEP) {
            let name = format!("{stream}.{subject}");
            self.api(Flight::Orphan(subject.clone()), "DIRECT.GET", &name, "");
        }
        // The rest with the next look.
        self.due.sweep_ms = self.due.sweep_ms.min(self.desk.now_ms + 500);
    }

    /// One of them, or a row of this node's own of somebody who has left.
    pub(crate) fn orphan(&mut self, subject: String, message: &Message) {
        if message.status.is_some() {
            return;
        }
        let flight = match read_body(&message.payload) {
            // It has come again meanwhile.
            Some((channel, presence)) if self.lists(&channel, &presence, &subject) => return,
            Some((channel, presence)) => Flight::OrphanGone(presence, channel),
            None => Flight::Nothing,
        };
        self.remove_member(flight, &subject);
    }

    /// Whether this node has removed it, and so tells of it.
    pub(crate) fn orphan_gone(
        &mut self,
        presence: &throng_broker::Presence,
        channel: &throng_types::ChannelName,
        payload: &[u8],
    ) {
        if api::purged(payload).is_ok_and(|count| count > 0) && presence.is_announced {
            self.tell(channel, presence, Kind::Left);
        }
        self.heal(channel, presence);
    }

    // ---- questions ----

    /// Takes what shards want of other nodes.
    pub(crate) fn take_peers(&mut self) {
        while let Some((lane, wanted)) = self.desk.next_to_peers() {
            match wanted {
                ToPeers::Named(name) => {
                    if self.name.replace(name).is_none() {
                        self.hear_by_name();
                    }
                }
                ToPeers::Ask(ticket, question) => self.ask_peers(lane, ticket, &question),
                ToPeers::AskOne(ticket, node, question) => {
                    self.ask_one((lane, ticket), &node, &question);
                }
                ToPeers::Answer(to, answer) => {
                    let answer = Questions::answer(&to, &answer).filter(|_| self.link.is_some());
                    if let Some((node, mut message)) = answer {
                        message.insert(0, b'!');
                        let there = self.names.node(node);
                        self.say(&there, &message);
                    }
                }
            }
        }
        self.questions.give_up(self.link.is_some(), &mut self.desk);
        let now_ms = self.desk.now_ms;
        self.asks
            .retain(|_, (_, _, since_ms)| *since_ms + ASK_MS > now_ms);
    }

    fn ask_peers(&mut self, lane: u8, ticket: u32, question: &[u8]) {
        let live = self.live.clone().filter(|_| self.link.is_some());
        let Some(live) = live else {
            let event = PeerEvent::Answered(ticket, None);
            return self.desk.tell_shard(lane, event);
        };
        let who = (lane, ticket);
        let Some(message) = self.question(who, For::Operator, question) else {
            return;
        };
        for node in &live {
            self.send_question(who, &self.names.node(node), &message);
        }
        self.questions.expect(who, live.len(), &mut self.desk);
    }

    /// The message with a question, if there is a place for one more.
    fn question(&mut self, who: (u8, u32), whose: For, question: &[u8]) -> Option<Vec<u8>> {
        let own = &self.incarnation;
        let mut message = { &mut self.questions }.ask(who, whose, own, question, &mut self.desk)?;
        message.insert(0, b'?');
        Some(message)
    }

    /// NATS says at once if nobody is there.
    fn send_question(&mut self, (lane, ticket): (u8, u32), there: &str, message: &[u8]) {
        let number = self.next_flight;
        self.next_flight += 1;
        let reply = format!("{}.{number}", self.inbox);
        write::publish(&mut self.desk.out, there, Some(&reply), &[], message);
        self.asks.insert(number, (lane, ticket, self.desk.now_ms));
    }

    /// Asks the node of a name. While a node is upgraded, two processes have it; one answer is
    /// enough.
    fn ask_one(&mut self, who: (u8, u32), node: &str, question: &[u8]) {
        if self.link.is_none() {
            let event = PeerEvent::Answered(who.1, None);
            return self.desk.tell_shard(who.0, event);
        }
        if let Some(message) = self.question(who, For::Client, question) {
            self.send_question(who, &self.names.named(node), &message);
            self.questions.expect(who, 1, &mut self.desk);
        }
    }

    /// Listens to questions for this node alone.
    pub(crate) fn hear_by_name(&mut self) {
        if let (Some(name), Some(_)) = (&self.name, &self.link) {
            write::subscribe(&mut self.desk.out, &self.names.named(name), NAMED);
        }
    }

    /// Nobody is there to hear a question.
    pub(crate) fn nobody_there(&mut self, number: u64) {
        if let Some((lane, ticket, _)) = self.asks.remove(&number) {
            self.questions.one_less((lane, ticket), &mut self.desk);
        }
    }

    /// Takes what is for this node, or for every node.
    pub(crate) fn node_message(&mut self, message: &Message) {
        let Some((&kind, rest)) = message.payload.split_first() else {
            // To itself, as a proof.
            self.proved_at_ms = self.desk.now_ms;
            return;
        };
        match kind {
            b'?' => Questions::hear_question(&self.incarnation, rest, &mut self.desk),
            b'!' => self.questions.hear_answer(rest, &mut self.desk),
            b'c' => {
                self.desk.hear_cut(&message.payload);
            }
            b'+' => {
                if let (Some(live), Ok(name)) = (&mut self.live, std::str::from_utf8(rest))
                    && name != self.incarnation
                {
                    live.insert(name.to_owned());
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use throng_remote::{Desk, Machine as _, RemoteOptions};

    use super::*;
    use crate::link::{ANSWERS, Established, Word};

    /// A node whose connection has just been made.
    fn node() -> Node {
        let mut node = Node::new(
            Desk::without_shards(RemoteOptions::for_tests()),
            Vec::new(),
            None,
            1,
        );
        node.up(Established {
            server: 1,
            is_clustered: false,
            payload_max: 1 << 20,
        });
        node
    }

    /// The request that waits for an answer, by what the answer is for.
    fn asked(node: &Node, is_it: impl Fn(&Flight) -> bool) -> Option<u64> {
        let mut flights = node.flights.iter();
        flights.find_map(|(number, pending)| is_it(&pending.flight).then_some(*number))
    }

    fn answer(node: &mut Node, number: u64, subjects: &[&str]) {
        let counted = subjects.iter().map(|it| format!("\"{it}\":1"));
        let counted = counted.collect::<Vec<_>>().join(",");
        let payload = format!("{{\"state\":{{\"subjects\":{{{counted}}}}}}}");
        say(node, number, None, payload);
    }

    fn say(node: &mut Node, number: u64, status: Option<u16>, payload: String) {
        let message = Message {
            sid: ANSWERS,
            subject: format!("inbox.{number}").into(),
            status,
            seq: 0,
            key: None,
            payload: payload.into_bytes().into(),
        };
        node.word(Word::Message(message)).expect("an answer");
    }

    /// Asks who may have members; says that `other` may; and returns the question about leases from
    /// before, and the one that follows.
    fn roster_with(node: &mut Node, other: &str) -> (u64, u64) {
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
        let compares = |it: &Flight| matches!(it, Flight::OwnRows(_));
        let row = node.names.member("c", &node.incarnation, "u.v");
        for _ in 0..3 {
            node.compare_at_ms.get_or_insert(0);
            node.desk.now_ms = node.compare_at_ms.expect("a time");
            node.compare_rows();
            let compared = asked(&node, compares).expect("a comparison");
            answer(&mut node, compared, &[&row]);
            let orphan = |it: &Flight| matches!(it, Flight::Orphan(subject) if *subject == row);
            let asked = asked(&node, orphan).expect("a question for the row");
            say(&mut node, asked, Some(404), String::new());
            assert!(node.compare_at_ms > Some(node.desk.now_ms));
        }
        node.desk.now_ms = node.compare_at_ms.expect("a time");
        node.compare_rows();
        let compared = asked(&node, compares).expect("a comparison");
        answer(&mut node, compared, &[]);
        assert_eq!(node.compare_at_ms, None);
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
            node.desk.now_ms += RENEW_MS;
            node.keep_lease();
        }
        let leased = asked(&node, is_leased).expect("a lease");
        say(&mut node, leased, None, stored());
        assert!(asked(&node, is_rostered).is_none());
    }
}
