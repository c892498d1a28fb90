//! A subscription that ends before the broker has replied: its connection is answered, once.

use throng_broker::{Refusal, home_of};
use throng_hub::{Answer, Command, FormKind, Format, Hub, ReplyTo};
use throng_solo::{Heard, conn, hub, name, namespaces};
use throng_types::{ChannelName, Now, ShardId};

/// Two shards, and a connection of the first that subscribes to a channel of the second.
struct Scene {
    channel: ChannelName,
    hubs: [Hub; 2],
    heard: Heard,
}

impl Scene {
    fn new() -> Self {
        let mut names = (0..).map(|n| name(&format!("c{n}")));
        let channel = names.find(|name| home_of(name, 2) == ShardId(1));
        Self {
            channel: channel.expect("one of them"),
            hubs: [0, 1].map(|shard| hub(ShardId(shard), 2, &namespaces(&[]))),
            heard: Heard::default(),
        }
    }

    fn subscribe(&mut self, token: u32) {
        let conn = conn(3);
        self.handle(Command::Subscribe {
            reply_to: ReplyTo { conn, token },
            channel: self.channel.clone(),
            format: Format::new(0, FormKind::Shared),
            since: None,
            presence: None,
        });
    }

    fn unsubscribe(&mut self, token: u32) {
        self.handle(Command::Unsubscribe {
            conn: conn(3),
            channel: self.channel.clone(),
            token: Some(token),
        });
    }

    fn handle(&mut self, command: Command) {
        self.hubs[0].handle(command, Now::default(), &mut self.heard);
    }

    /// The server ends the subscription; false if there is none.
    fn end(&mut self) -> bool {
        self.hubs[0].unsubscribe(conn(3), &self.channel, Now::default())
    }

    /// Carries all mail between the two.
    fn carry(&mut self) {
        for (from, to) in [(0, 1), (1, 0), (0, 1), (1, 0)] {
            while let Some(mail) = self.hubs[from].take_mail(ShardId(to as u8)) {
                let from = ShardId(from as u8);
                self.hubs[to].mail(from, mail, Now::default(), &mut self.heard);
            }
        }
    }

    /// Asserts the tokens of the answers, and the refusals.
    #[track_caller]
    fn assert_answers(&mut self, expected: &[(u32, Option<Refusal>)]) {
        let answers = std::mem::take(&mut self.heard.answers).into_iter();
        let answers = answers.map(|(reply_to, answer)| match answer {
            Answer::Subscribed { result, .. } => (reply_to.token, result.err()),
            Answer::Unsubscribed { result, .. } => (reply_to.token, result.err()),
            other => panic!("{other:?}"),
        });
        assert_eq!(answers.collect::<Vec<_>>(), expected);
    }

    #[track_caller]
    fn assert_subscribed(&self, is_subscribed: bool) {
        assert_eq!(
            self.hubs[0].is_subscribed(conn(3), &self.channel),
            is_subscribed
        );
        assert_eq!(self.hubs[0].has_channel(&self.channel), is_subscribed);
    }
}

const CANCELLED: Option<Refusal> = Some(Refusal::Cancelled);

/// Commands behind the subscribe of a connection that has gone are dropped: otherwise a stranger in
/// the same slot would become a member.
#[test]
fn what_waits_goes_with_its_connection() {
    let mut scene = Scene::new();
    for token in [1, 3] {
        scene.subscribe(token);
        scene.unsubscribe(token + 1);
    }
    scene.hubs[0].gone(conn(3), Now::default());
    scene.carry();
    scene.assert_answers(&[(1, CANCELLED)]);
    scene.assert_subscribed(false);
}

/// The server ends a subscription whose subscribe waits for the broker. The client's unsubscribe
/// is answered after the subscribe that it sent before.
#[test]
fn answers_keep_the_order_of_commands() {
    let mut scene = Scene::new();
    scene.subscribe(1);
    assert!(scene.end());
    scene.unsubscribe(2);
    scene.assert_answers(&[]);
    scene.carry();
    scene.assert_answers(&[(1, CANCELLED), (2, None)]);
    scene.assert_subscribed(false);
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
    scene.assert_answers(&[(1, CANCELLED), (2, None), (3, CANCELLED)]);
    scene.assert_subscribed(false);
}

#[test]
fn every_subscribe_is_answered() {
    let mut scene = Scene::new();
    scene.subscribe(1);
    assert!(scene.end());
    scene.subscribe(2);
    scene.assert_answers(&[]);
    scene.carry();
    scene.assert_answers(&[(1, CANCELLED), (2, None)]);
    scene.assert_subscribed(true);
}
