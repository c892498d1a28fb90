//! A subscription that ends before the broker has replied: its connection is answered, once.

mod support;

use throng_broker::{Refusal, home_of};
use throng_hub::{Answer, Batch, Command, FormKind, Format, Hub, ReplyTo, Sink};
use throng_types::{ChannelName, ConnId, Now, Publication, ShardId};

#[derive(Default)]
struct Answers(Vec<(ReplyTo, Answer)>);

impl Sink for Answers {
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        self.0.push((reply_to, answer));
    }

    fn encode(&mut self, _: Format, _: &Publication, _: &mut Vec<u8>) {}

    fn deliver(&mut self, _: u32, _: &Batch<'_>) {}
}

/// Carries all mail between the two.
fn carry(hubs: &mut [Hub; 2], answers: &mut Answers) {
    for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
        while let Some(mail) = hubs[from].take_mail(ShardId(to as u8)) {
            hubs[to].mail(ShardId(from as u8), mail, Now::default(), answers);
        }
    }
}

fn subscribe(conn: ConnId, token: u32, channel: &ChannelName) -> Command {
    Command::Subscribe {
        reply_to: ReplyTo { conn, token },
        channel: channel.clone(),
        format: Format::new(0, FormKind::Shared),
        since: None,
        presence: None,
    }
}

fn unsubscribe(conn: ConnId, token: u32, channel: &ChannelName) -> Command {
    Command::Unsubscribe {
        conn,
        channel: channel.clone(),
        token: Some(token),
    }
}

fn two_hubs() -> [Hub; 2] {
    [0, 1].map(|shard| support::hub(shard, 2, Vec::new()))
}

/// A channel whose home is the other shard.
fn elsewhere() -> ChannelName {
    let mut names = (0..).map(|n| ChannelName::new(&format!("c{n}")).unwrap());
    names.find(|name| home_of(name, 2) == ShardId(1)).unwrap()
}

/// What waits behind the subscribe of a connection that has gone never happens: it would make a
/// stranger of the same slot a member.
#[test]
fn what_waits_goes_with_its_connection() {
    let channel = elsewhere();
    let mut hubs = two_hubs();
    let mut answers = Answers::default();
    let conn = ConnId::new(ShardId(0), 3, 1);
    for token in [1, 3] {
        let after = token + 1;
        for command in [
            subscribe(conn, token, &channel),
            unsubscribe(conn, after, &channel),
        ] {
            hubs[0].handle(command, Now::default(), &mut answers);
        }
    }
    hubs[0].gone(conn, Now::default());
    carry(&mut hubs, &mut answers);
    assert_eq!(answers.0.len(), 1, "the first alone: {:?}", answers.0);
    assert!(!hubs[0].has_channel(&channel));
}

/// The server ends a subscription whose subscribe waits for the broker. The client's unsubscribe
/// is answered after the subscribe that it sent before.
#[test]
fn answers_keep_the_order_of_commands() {
    let channel = elsewhere();
    let mut hubs = two_hubs();
    let mut answers = Answers::default();
    let conn = ConnId::new(ShardId(0), 3, 1);
    hubs[0].handle(subscribe(conn, 1, &channel), Now::default(), &mut answers);
    assert!(hubs[0].unsubscribe(conn, &channel, Now::default()));
    hubs[0].handle(unsubscribe(conn, 2, &channel), Now::default(), &mut answers);
    assert!(answers.0.is_empty(), "the home has not answered");
    carry(&mut hubs, &mut answers);
    let tokens: Vec<u32> = answers
        .0
        .iter()
        .map(|(reply_to, _)| reply_to.token)
        .collect();
    assert_eq!(tokens, [1, 2]);
    assert!(!hubs[0].has_channel(&channel));
}

/// What the server ends is ended, also what the client asked for before and what waits.
#[test]
fn the_server_ends_what_waits_too() {
    let channel = elsewhere();
    let mut hubs = two_hubs();
    let mut answers = Answers::default();
    let conn = ConnId::new(ShardId(0), 3, 1);
    for command in [
        subscribe(conn, 1, &channel),
        unsubscribe(conn, 2, &channel),
        subscribe(conn, 3, &channel),
    ] {
        hubs[0].handle(command, Now::default(), &mut answers);
    }
    assert!(hubs[0].unsubscribe(conn, &channel, Now::default()));
    assert!(
        !hubs[0].unsubscribe(conn, &channel, Now::default()),
        "twice"
    );
    carry(&mut hubs, &mut answers);
    let heard: Vec<(u32, bool)> = { answers.0 }
        .into_iter()
        .map(|(reply_to, answer)| match answer {
            Answer::Subscribed { result, .. } => (reply_to.token, result.is_ok()),
            Answer::Unsubscribed { result, .. } => (reply_to.token, result.is_ok()),
            _ => panic!("an answer of another kind"),
        })
        .collect();
    assert_eq!(heard, [(1, false), (2, true), (3, false)]);
    assert!(!hubs[0].is_subscribed(conn, &channel));
    assert!(!hubs[0].has_channel(&channel));
}

#[test]
fn every_subscribe_is_answered() {
    let channel = elsewhere();
    let mut hubs = two_hubs();
    let mut answers = Answers::default();
    let conn = ConnId::new(ShardId(0), 3, 1);
    hubs[0].handle(subscribe(conn, 1, &channel), Now::default(), &mut answers);
    assert!(hubs[0].unsubscribe(conn, &channel, Now::default()));
    hubs[0].handle(subscribe(conn, 2, &channel), Now::default(), &mut answers);
    assert!(answers.0.is_empty(), "the home has not answered");
    carry(&mut hubs, &mut answers);
    let heard: Vec<(u32, Option<Refusal>)> = { answers.0 }
        .into_iter()
        .map(|(reply_to, answer)| match answer {
            Answer::Subscribed { result, .. } => (reply_to.token, result.err()),
            _ => panic!("an answer of another kind"),
        })
        .collect();
    assert_eq!(heard, [(1, Some(Refusal::Cancelled)), (2, None)]);
    assert!(hubs[0].is_subscribed(conn, &channel));
}
