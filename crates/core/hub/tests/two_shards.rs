//! Plays the dialogues in `two_shards.txt`: a channel at home on the first of two shards, its
//! subscriptions on both, and the members that come with them.
//!
//! Steps of the connection in slot `N` of shard `S`, whose commands have tokens that count up from
//! 1 in a story: `S.N comes` is a subscribe with a member, and `S.N comes and listens` asks for
//! news of others; `S.N subscribes` is one without; `S.N unsubscribes`; `S.N is ended` by the
//! server; `S.N goes`; `S.N is told WORDS` is the news that it got since the last time; `S.N is
//! in`, or `is out`; `S.N finds COUNT` or `REFUSAL` when it asks, as a subscriber, who is there.
//!
//! `settle` carries all mail, and fans out: until then only a connection's own shard knows of its
//! commands. `answers TOKEN good | TOKEN REFUSAL ..` are those of both shards since the last time;
//! `present S.N ..` is what both shards list, and `members COUNT` what the home keeps.

use std::sync::Arc;

use throng_broker::{Announced, ChannelMember, ChannelOptions, PresenceOptions, Present, Refusal};
use throng_dialogue::{AssertingStage, check_list, number, play_asserting};
use throng_hub::{Answer, Command, FormKind, Format, Hub, ReplyTo};
use throng_solo::{Heard, fan_out, hub, name_at, namespaces};
use throng_types::{ChannelName, ConnId, Now, PublicationKind, Publisher, ShardId};

const NOW: Now = Now::new(1000, 0);

#[test]
fn two_shards_have_their_dialogues() {
    play_asserting("two_shards.txt", include_str!("two_shards.txt"), Scene::new);
}

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
    announced: Announced,
    next_token: u32,
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
            announced: Announced::Connections,
            next_token: 0,
        }
    }

    fn conn(shard: usize, index: u32) -> ConnId {
        ConnId::new(ShardId(shard as u8), index, 1)
    }

    fn handle(&mut self, shard: usize, command: Command) {
        self.hubs[shard].handle(command, NOW, &mut self.heard[shard]);
    }

    /// Subscribes a connection, with a member or without; nothing has happened yet but on its own
    /// shard.
    fn subscribe(&mut self, shard: usize, index: u32, with_member: bool, with_news: bool) {
        self.next_token += 1;
        let format = Format::new(1, FormKind::Shared);
        let who = Arc::new(Publisher {
            client: format!("{shard}.{index}").into(),
            ..Publisher::default()
        });
        let member = ChannelMember {
            who,
            is_listed: true,
            announced: self.announced,
        };
        let command = Command::Subscribe {
            reply_to: ReplyTo::new(Self::conn(shard, index), self.next_token),
            channel: self.channel.clone(),
            format: match with_news {
                true => format.with_news(),
                false => format,
            },
            since: None,
            presence: with_member.then_some(member),
        };
        self.handle(shard, command);
    }

    fn ask(&mut self, shard: usize, index: u32, with_news: bool) {
        self.subscribe(shard, index, true, with_news);
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            for (from, to) in [(0, 1), (1, 0)] {
                while let Some(mail) = self.hubs[from].broker.take_mail(ShardId(to as u8)) {
                    let from = ShardId(from as u8);
                    self.hubs[to].mail(from, mail, NOW, &mut self.heard[to]);
                }
            }
            for (hub, heard) in self.hubs.iter_mut().zip(&mut self.heard) {
                fan_out(hub, 100, NOW, heard);
            }
        }
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
        self.handle(shard, command);
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

    /// Checks the members that both shards list.
    #[track_caller]
    fn assert_present(&mut self, expected: &str) {
        for shard in [0, 1] {
            let result = self.present(shard, 99, false);
            let members = result.expect("a list").members.expect("everybody");
            let clients: Vec<&str> = members.iter().map(|who| &*who.client).collect();
            check_list(&clients, expected, " ");
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

impl AssertingStage for Scene {
    fn step(&mut self, step: &str) {
        let (first, rest) = step.split_once(' ').unwrap_or((step, ""));
        if let Some((shard, index)) = first.split_once('.') {
            return self.client(number(shard), number(index), rest);
        }
        match first {
            "settle" => self.settle(),
            "answers" => {
                let all = self
                    .heard
                    .iter_mut()
                    .flat_map(|heard| heard.answers.drain(..));
                let all = all.map(|(reply_to, answer)| {
                    let refusal = match answer {
                        Answer::Subscribed { result, .. } => result.err(),
                        Answer::Unsubscribed { result, .. } => result.err(),
                        other => panic!("{other:?}"),
                    };
                    let told =
                        refusal.map_or_else(|| "good".into(), |refusal| format!("{refusal:?}"));
                    format!("{} {told}", reply_to.token)
                });
                check_list(&all.collect::<Vec<_>>(), rest, " | ");
            }
            "present" => self.assert_present(rest),
            "members" => check_list(&[self.hubs[0].stats().home.members], rest, " "),
            _ => panic!("no step"),
        }
    }
}

impl Scene {
    fn client(&mut self, shard: usize, index: u32, step: &str) {
        let (conn, channel) = (Self::conn(shard, index), self.channel.clone());
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        match verb {
            "comes" => self.ask(shard, index, rest == "and listens"),
            "subscribes" => self.subscribe(shard, index, false, false),
            "unsubscribes" => {
                self.next_token += 1;
                let token = Some(self.next_token);
                let command = Command::Unsubscribe {
                    conn,
                    channel,
                    token,
                };
                self.handle(shard, command);
            }
            "goes" => self.hubs[shard].gone(conn, NOW),
            "finds" => {
                let told = match self.present(shard, index, true) {
                    Ok(present) => present.members.expect("everybody").len().to_string(),
                    Err(Answer::NotSubscribed { what, .. }) => format!("no {what}"),
                    Err(other) => panic!("{other:?}"),
                };
                assert_eq!(told, rest);
            }
            "is" if rest == "ended" => {
                let hub = &mut self.hubs[shard];
                assert!(hub.unsubscribe(conn, &channel, NOW));
                assert!(!hub.unsubscribe(conn, &channel, NOW), "twice");
            }
            "is" if rest.starts_with("told ") => {
                let told = self.told(shard, index);
                let told = [told].into_iter().filter(|told| !told.is_empty());
                check_list(&told.collect::<Vec<_>>(), &rest["told ".len()..], "");
            }
            "is" => {
                let is_in = self.hubs[shard].is_subscribed(conn, &channel);
                assert_eq!(self.hubs[shard].has_channel(&channel), is_in);
                assert_eq!(if is_in { "in" } else { "out" }, rest);
            }
            _ => panic!("no step of a connection"),
        }
    }
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
    scene.announced = Announced::Nothing;
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
    scene.assert_present("nothing");
    assert_eq!(scene.hubs[0].stats().home.members, 0);
}
