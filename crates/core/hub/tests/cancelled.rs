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

/// A channel whose home is the other shard.
fn elsewhere() -> ChannelName {
    let mut names = (0..).map(|n| ChannelName::new(&format!("c{n}")).unwrap());
    names.find(|name| home_of(name, 2) == ShardId(1)).unwrap()
}

/// Two shards, and a connection of the first that subscribes to a channel of the second.
struct Scene {
    channel: ChannelName,
    hubs: [Hub; 2],
    answers: Answers,
    conn: ConnId,
}

impl Scene {
    fn new() -> Self {
        Self {
            channel: elsewhere(),
            hubs: [0, 1].map(|shard| support::hub(shard, 2, Vec::new())),
            answers: Answers::default(),
            conn: ConnId::new(ShardId(0), 3, 1),
        }
    }

    fn subscribe(&mut self, token: u32) {
        self.handle(Command::Subscribe {
            reply_to: ReplyTo {
                conn: self.conn,
                token,
            },
            channel: self.channel.clone(),
            format: Format::new(0, FormKind::Shared),
            since: None,
            presence: None,
        });
    }

    fn unsubscribe(&mut self, token: u32) {
        self.handle(Command::Unsubscribe {
            conn: self.conn,
            channel: self.channel.clone(),
            token: Some(token),
        });
    }

    fn handle(&mut self, command: Command) {
        self.hubs[0].handle(command, Now::default(), &mut self.answers);
    }

    /// The server ends the subscription; false if there is none.
    fn end(&mut self) -> bool {
        self.hubs[0].unsubscribe(self.conn, &self.channel, Now::default())
    }

    /// Carries all mail between the two.
    fn carry(&mut self) {
        for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
            while let Some(mail) = self.hubs[from].take_mail(ShardId(to as u8)) {
                let from = ShardId(from as u8);
                self.hubs[to].mail(from, mail, Now::default(), &mut self.answers);
            }
        }
    }

    fn is_subscribed(&self) -> bool {
        self.hubs[0].is_subscribed(self.conn, &self.channel)
    }

    fn has_channel(&self) -> bool {
        self.hubs[0].has_channel(&self.channel)
    }
}

/// Commands behind the subscribe of a connection that has gone are dropped: otherwise a stranger in
/// the same slot would become a member.
#[test]
fn what_waits_goes_with_its_connection() {
    let mut scene = Scene::new();
    for token in [1, 3] {
        scene.subscribe(token);
        scene.unsubscribe(token + 1);
    }
    scene.hubs[0].gone(scene.conn, Now::default());
    scene.carry();
    assert_eq!(
        scene.answers.0.len(),
        1,
        "the first alone: {:?}",
        scene.answers.0
    );
    assert!(!scene.has_channel());
}

/// The server ends a subscription whose subscribe waits for the broker. The client's unsubscribe
/// is answered after the subscribe that it sent before.
#[test]
fn answers_keep_the_order_of_commands() {
    let mut scene = Scene::new();
    scene.subscribe(1);
    assert!(scene.end());
    scene.unsubscribe(2);
    assert!(scene.answers.0.is_empty(), "the home has not answered");
    scene.carry();
    let tokens: Vec<u32> = scene
        .answers
        .0
        .iter()
        .map(|(reply_to, _)| reply_to.token)
        .collect();
    assert_eq!(tokens, [1, 2]);
    assert!(!scene.has_channel());
}

/// A subscription that the server ends is ended with the client's earlier and waiting subscribes.
#[test]
fn the_server_ends_what_waits_too() {
    let mut scene = Scene::new();
    scene.subscribe(1);
    scene.unsubscribe(2);
    scene.subscribe(3);
    assert!(scene.end());
    assert!(!scene.end(), "twice");
    scene.carry();
    let heard: Vec<(u32, bool)> = std::mem::take(&mut scene.answers.0)
        .into_iter()
        .map(|(reply_to, answer)| match answer {
            Answer::Subscribed { result, .. } => (reply_to.token, result.is_ok()),
            Answer::Unsubscribed { result, .. } => (reply_to.token, result.is_ok()),
            _ => panic!("an answer of another kind"),
        })
        .collect();
    assert_eq!(heard, [(1, false), (2, true), (3, false)]);
    assert!(!scene.is_subscribed());
    assert!(!scene.has_channel());
}

#[test]
fn every_subscribe_is_answered() {
    let mut scene = Scene::new();
    scene.subscribe(1);
    assert!(scene.end());
    scene.subscribe(2);
    assert!(scene.answers.0.is_empty(), "the home has not answered");
    scene.carry();
    let heard: Vec<(u32, Option<Refusal>)> = std::mem::take(&mut scene.answers.0)
        .into_iter()
        .map(|(reply_to, answer)| match answer {
            Answer::Subscribed { result, .. } => (reply_to.token, result.err()),
            _ => panic!("an answer of another kind"),
        })
        .collect();
    assert_eq!(heard, [(1, Some(Refusal::Cancelled)), (2, None)]);
    assert!(scene.is_subscribed());
}
