//! A member that comes with a subscription is present until the subscription ends, on any shard.

use std::sync::Arc;

use throng_broker::{ChannelMember, ChannelOptions, PresenceOptions, Present, Refusal};
use throng_hub::{Answer, Command, FormKind, Format, Hub, ReplyTo};
use throng_solo::{Heard, fan_out, hub, name_at, namespaces};
use throng_types::{ChannelName, ConnId, Now, PublicationKind, Publisher, ShardId};

const NOW: Now = Now::new(1000, 0);

/// Writes who comes and goes.
fn sink() -> Heard {
    Heard::encoding(|publication, _, out| {
        let who = publication.publisher.as_ref().map_or("", |who| &who.client);
        let word = match publication.told {
            PublicationKind::Data => "data",
            PublicationKind::Joined => "joined",
            PublicationKind::Left => "left",
        };
        out.extend_from_slice(format!("{word} {who};").as_bytes());
    })
}

struct Scene {
    hubs: [Hub; 2],
    heard: [Heard; 2],
    channel: ChannelName,
    /// Whether comings and goings are announced.
    is_announced: bool,
}

impl Scene {
    /// Two shards; the channel is at home on the first.
    fn new() -> Self {
        let seen = ChannelOptions {
            presence: PresenceOptions {
                is_listed: true,
                is_announced: true,
                ..PresenceOptions::default()
            },
            ..ChannelOptions::default()
        };
        let namespaces = namespaces(&[("seen", seen)]);
        Self {
            hubs: [0, 1].map(|shard| hub(ShardId(shard), 2, &namespaces)),
            heard: [sink(), sink()],
            channel: name_at(ShardId(0), "seen:"),
            is_announced: true,
        }
    }

    fn conn(shard: usize, index: u32) -> ConnId {
        ConnId::new(ShardId(shard as u8), index, 1)
    }

    /// Subscribes a connection; nothing has happened yet but on its own shard.
    fn ask(&mut self, shard: usize, index: u32, with_news: bool) {
        let format = Format::new(1, FormKind::Shared);
        let who = Arc::new(Publisher {
            client: format!("{shard}.{index}").into(),
            ..Publisher::default()
        });
        let command = Command::Subscribe {
            reply_to: ReplyTo::new(Self::conn(shard, index), 1),
            channel: self.channel.clone(),
            format: if with_news {
                format.with_news()
            } else {
                format
            },
            since: None,
            presence: Some(ChannelMember {
                who,
                is_listed: true,
                is_announced: self.is_announced,
            }),
        };
        self.hubs[shard].handle(command, NOW, &mut self.heard[shard]);
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            for (from, to) in [(0, 1), (1, 0)] {
                while let Some(mail) = self.hubs[from].take_mail(ShardId(to as u8)) {
                    let from = ShardId(from as u8);
                    self.hubs[to].mail(from, mail, NOW, &mut self.heard[to]);
                }
            }
            for (hub, heard) in self.hubs.iter_mut().zip(&mut self.heard) {
                fan_out(hub, 100, NOW, heard);
            }
        }
    }

    fn gone(&mut self, shard: usize, index: u32) {
        self.hubs[shard].gone(Self::conn(shard, index), NOW);
        self.settle();
    }

    /// The answer to a connection that asks for the members.
    fn present(
        &mut self,
        shard: usize,
        index: u32,
        only_subscribed: bool,
    ) -> Result<Present, Answer> {
        self.ask_present(shard, index, true, only_subscribed)
    }

    fn ask_present(
        &mut self,
        shard: usize,
        index: u32,
        with_members: bool,
        only_subscribed: bool,
    ) -> Result<Present, Answer> {
        let command = Command::Present {
            reply_to: ReplyTo::new(Self::conn(shard, index), 9),
            channel: self.channel.clone(),
            with_members,
            only_subscribed,
        };
        self.hubs[shard].handle(command, NOW, &mut self.heard[shard]);
        self.settle();
        match self.heard[shard].answers.pop() {
            Some((told, answer)) if told.conn.index() == index => match answer {
                Answer::Present {
                    result: Ok(present),
                } => Ok(present),
                answer => Err(answer),
            },
            other => panic!("{other:?}"),
        }
    }

    /// Asserts the members, as both shards list them.
    #[track_caller]
    fn assert_present(&mut self, expected: &[&str]) {
        for shard in [0, 1] {
            let result = self.present(shard, 99, false);
            let members = result.expect("a list").members.expect("everybody");
            let clients: Vec<&str> = members.iter().map(|who| &*who.client).collect();
            assert_eq!(clients, expected, "asked on shard {shard}");
        }
    }

    /// Deliveries to a connection since the last call.
    fn told(&mut self, shard: usize, index: u32) -> String {
        let heard = &mut self.heard[shard].deliveries;
        let theirs = heard.extract_if(.., |it| it.index == index);
        let frames = theirs.flat_map(|it| it.frames.expect("shared bytes"));
        frames.collect()
    }
}

#[test]
fn a_member_is_listed_from_its_subscribe_until_it_has_gone() {
    let mut scene = Scene::new();
    for (shard, index) in [(0, 1), (1, 1), (1, 2)] {
        scene.ask(shard, index, false);
        scene.settle();
    }
    scene.assert_present(&["0.1", "1.1", "1.2"]);
    scene.gone(1, 1);
    scene.assert_present(&["0.1", "1.2"]);
    let channel = scene.channel.clone();
    assert!(scene.hubs[1].unsubscribe(Scene::conn(1, 2), &channel, NOW));
    scene.settle();
    scene.assert_present(&["0.1"]);
    scene.gone(0, 1);
    scene.assert_present(&[]);
    assert_eq!(scene.hubs[0].stats().home.members, 0);
}

#[test]
fn a_question_for_subscribers_is_answered_to_them_alone() {
    let mut scene = Scene::new();
    scene.ask(1, 1, false);
    scene.settle();
    let told = scene.present(1, 1, true).expect("it subscribes");
    assert_eq!(told.members.expect("everybody").len(), 1);
    let refused = scene.present(1, 2, true);
    assert!(matches!(
        refused,
        Err(Answer::NotSubscribed {
            what: "presence",
            ..
        })
    ));
}

/// A connection that ends while its subscribe is on its way leaves no member behind, and one that
/// subscribes again at once is present.
#[test]
fn who_left_before_the_reply_is_not_there() {
    let mut scene = Scene::new();
    scene.ask(1, 1, false);
    scene.gone(1, 1);
    scene.assert_present(&[]);
    scene.ask(1, 2, false);
    let channel = scene.channel.clone();
    assert!(scene.hubs[1].unsubscribe(Scene::conn(1, 2), &channel, NOW));
    scene.ask(1, 2, false);
    scene.settle();
    scene.assert_present(&["1.2"]);
}

#[test]
fn those_who_want_to_hear_of_others_do() {
    let mut scene = Scene::new();
    for (shard, index, with_news) in [(0, 1, true), (1, 1, true), (1, 2, false), (0, 2, false)] {
        scene.ask(shard, index, with_news);
        scene.settle();
    }
    assert_eq!(
        scene.told(0, 1),
        "joined 0.1;joined 1.1;joined 1.2;joined 0.2;"
    );
    assert_eq!(scene.told(1, 1), "joined 1.1;joined 1.2;joined 0.2;");
    for (shard, index) in [(0, 2), (1, 2)] {
        // Both are visited, and there is nothing for them.
        assert_eq!(scene.told(shard, index), "");
    }
    scene.gone(1, 2);
    scene.gone(0, 2);
    assert_eq!(scene.told(0, 1), "left 1.2;left 0.2;");
    assert_eq!(scene.told(1, 1), "left 1.2;left 0.2;");
}

/// A crowd that comes at once is listed whole; of its comings no more is told than there is room
/// for, and the rest is counted.
#[test]
fn a_storm_of_comings_is_bounded() {
    let mut scene = Scene::new();
    scene.ask(0, 1, true);
    scene.settle();
    for index in 2..2002 {
        scene.ask(0, index, false);
    }
    assert_eq!(scene.hubs[0].stats().home.members, 2001);
    assert_eq!(scene.hubs[0].stats().news_dropped, 2000 - 1024);
    scene.settle();
    assert_eq!(scene.told(0, 1).matches("joined").count(), 1 + 1024);
}

/// As many as a large event has: they are counted, a list of them is refused rather than written,
/// and nothing of them stays when they have gone.
#[test]
fn a_hundred_thousand_are_counted_and_not_listed() {
    const OF_EACH: u32 = 50_000;
    let mut scene = Scene::new();
    scene.is_announced = false;
    for index in 0..OF_EACH {
        for shard in [0, 1] {
            scene.ask(shard, index, false);
        }
        if index % 1000 == 999 {
            scene.settle();
        }
    }
    for shard in [0, 1] {
        let heard = scene.heard[shard].answers.drain(..);
        let good = |(_, answer)| matches!(answer, Answer::Subscribed { result: Ok(_), .. });
        assert_eq!(heard.map(good).filter(|good| *good).count() as u32, OF_EACH);
        let counted = scene.ask_present(shard, 0, false, false).expect("numbers");
        assert_eq!(counted.clients, 2 * OF_EACH);
        assert!(counted.members.is_none());
        let refused = scene.present(shard, 0, false);
        let too_long = Err(Refusal::TooLong);
        assert!(matches!(refused, Err(Answer::Present { result }) if result == too_long));
    }
    for index in 0..OF_EACH {
        for shard in [0, 1] {
            scene.hubs[shard].gone(Scene::conn(shard, index), NOW);
        }
        if index % 1000 == 999 {
            scene.settle();
        }
    }
    scene.assert_present(&[]);
    assert_eq!(scene.hubs[0].stats().home.members, 0);
}
