//! Requests of a hub to its broker, and its handling of replies: the broker is the test's own.

use std::collections::VecDeque;
use std::sync::Arc;

use throng_broker::{
    Broker, BrokerStats, ChannelOptions, Draft, HistoryPage, HistoryQuery, LiveOptions,
    NamespaceOptions, Overflow, Published, Receiver, Recovery, Refusal, Reply, ReplyLimit, Request,
    Subscribed, Ticket,
};
use throng_hub::{Answer, Command, FormKind, Format, Hub, HubOptions, ReplyTo};
use throng_solo::{Heard, conn, draft, fan_out, name, position, subscribe};
use throng_types::{ChannelName, Now, Position, Publication, ShardId};

const NOW: Now = Now::new(0, 0);

/// Connections from here on encode for themselves.
const PERSONAL_FROM: u32 = 50;

/// Keeps requests; the mail that it gets are the replies that it gives.
#[derive(Default)]
struct Script {
    requests: VecDeque<Request>,
    /// Replies left by a driver.
    left: VecDeque<Reply>,
    /// Number of calls that replace the options.
    renewed: u64,
}

impl Broker for Script {
    type Mail = Reply;

    fn request(&mut self, request: Request, _: Now, _: &mut impl Receiver) {
        self.requests.push_back(request);
    }

    fn mail(&mut self, _: ShardId, mail: Reply, _: Now, hub: &mut impl Receiver) {
        hub.reply(mail);
    }

    fn take_mail(&mut self, _: ShardId) -> Option<Reply> {
        // So that the test can see requests, each as its refusal.
        let request = self.requests.pop_front()?;
        let channel = request.channel().clone();
        Some(
            request
                .refused(Refusal::Busy)
                .unwrap_or_else(|| Reply::Delivery(publication(channel.as_str(), 0, 0))),
        )
    }

    fn poll(&mut self, hub: &mut impl Receiver) -> bool {
        if let Some(reply) = self.left.pop_front() {
            hub.reply(reply);
        }
        !self.left.is_empty()
    }

    fn interest(&self, _: &ChannelName) -> u64 {
        6
    }

    fn renew(&mut self, options: &LiveOptions, _: Now) {
        assert_eq!(options.streams_max, 5);
        self.renewed += 1;
    }

    fn publish_here(
        &mut self,
        draft: Draft,
        _: Now,
        _: &mut impl Receiver,
    ) -> Result<Published, (Refusal, Draft)> {
        Err((Refusal::Unavailable, draft))
    }

    fn has_mail(&self, _: ShardId) -> bool {
        !self.requests.is_empty()
    }

    fn tick(&mut self, _: Now, budget: usize, hub: &mut impl Receiver) -> bool {
        hub.reply(Reply::Delivery(publication("a", 9, 1)));
        budget == 0
    }

    fn stats(&self) -> BrokerStats {
        BrokerStats {
            streams: 7,
            history_publications: self.renewed as usize,
            ..BrokerStats::default()
        }
    }
}

fn publication(channel: &str, offset: u64, bytes: usize) -> Arc<Publication> {
    throng_solo::publication(channel, offset, &"x".repeat(bytes))
}

/// A hub with a broker that the test controls.
struct Scene {
    hub: Hub<Script>,
    heard: Heard,
    next_token: u32,
}

impl Scene {
    fn new() -> Self {
        Self::with(Script::default())
    }

    fn with(script: Script) -> Self {
        let options = HubOptions {
            subscriptions_max: 2,
            hash_seed: 1,
            namespaces: Arc::new(NamespaceOptions::new(
                ChannelOptions {
                    overflow: Overflow::DropOldest,
                    ..ChannelOptions::default()
                },
                Vec::new(),
            )),
        };
        Self {
            hub: Hub::new(options, script),
            heard: Heard::default(),
            next_token: 0,
        }
    }

    fn subscribe_since(&mut self, index: u32, channel: &str, since: Option<Position>) {
        self.next_token += 1;
        let kind = match index {
            PERSONAL_FROM.. => FormKind::Personal,
            _ => FormKind::Shared,
        };
        let who = (conn(index), self.next_token);
        let command = subscribe(who, channel, Format::new(3, kind), since);
        self.hub.handle(command, NOW, &mut self.heard);
    }

    fn subscribe(&mut self, index: u32, channel: &str) {
        self.subscribe_since(index, channel, None);
    }

    fn unsubscribe(&mut self, index: u32, channel: &str) -> bool {
        self.hub.unsubscribe(conn(index), &name(channel), NOW)
    }

    /// The tickets of the subscribes that were asked for, and the channels that were left.
    fn asked(&mut self) -> Vec<Result<Ticket, ChannelName>> {
        std::iter::from_fn(|| self.hub.take_mail(ShardId(0)))
            .map(|request| match request {
                Reply::Subscribed { ticket, .. }
                | Reply::Published { ticket, .. }
                | Reply::History { ticket, .. }
                | Reply::Present { ticket, .. } => Ok(ticket),
                Reply::Delivery(left) => Err(left.channel.clone()),
                Reply::Broken(channel) => panic!("{channel} is no request"),
            })
            .collect()
    }

    fn reply(&mut self, reply: Reply) {
        self.hub.mail(ShardId(0), reply, NOW, &mut self.heard);
    }

    fn accept(&mut self, offset: u64) {
        let asked = self.asked();
        let [Ok(ticket)] = asked[..] else {
            panic!("{asked:?}");
        };
        self.subscribed(ticket, Ok(offset));
    }

    fn subscribed(&mut self, ticket: Ticket, result: Result<u64, Refusal>) {
        let result = result.map(|offset| Subscribed {
            position: Some(position(offset)),
            recovery: Recovery::NotAsked,
        });
        self.reply(Reply::Subscribed { ticket, result });
    }

    fn publish(&mut self, channel: &str, offset: u64, bytes: usize) {
        self.reply(Reply::Delivery(publication(channel, offset, bytes)));
    }

    fn fan_out(&mut self, visits: usize) -> bool {
        self.hub.fan_out(visits, NOW, &mut self.heard)
    }

    fn fan_out_all(&mut self, visits: usize) {
        fan_out(&mut self.hub, visits, NOW, &mut self.heard);
    }

    #[track_caller]
    fn answers(&mut self, expected: &[(u32, &str)]) {
        let heard = std::mem::take(&mut self.heard.answers).into_iter();
        let heard = heard.map(|(reply_to, answer)| (reply_to.token, told(answer)));
        let heard: Vec<(u32, String)> = heard.collect();
        let heard: Vec<(u32, &str)> = heard.iter().map(|(at, told)| (*at, &**told)).collect();
        assert_eq!(heard, expected);
    }

    /// Takes the deliveries: the slot, the offsets, and whether they gather.
    fn deliveries(&mut self) -> Vec<(u32, Vec<u64>, bool)> {
        let all = self.heard.deliveries.drain(..).map(|it| {
            assert_eq!(it.frames.is_none(), it.index >= PERSONAL_FROM);
            let data = |it: &Arc<Publication>| String::from_utf8_lossy(&it.payload.bytes).into();
            let data: Vec<String> = it.publications.iter().map(data).collect();
            assert!(it.frames.is_none_or(|frames| frames == data));
            let offset = |it: &Arc<Publication>| it.position.map_or(0, |position| position.offset);
            (
                it.index,
                it.publications.iter().map(offset).collect(),
                it.gather,
            )
        });
        all.collect()
    }

    /// Takes the connections that have to subscribe to `a` again, by their slots.
    fn lost(&mut self) -> Vec<u32> {
        let lost = self.heard.lost.drain(..).map(|(conn, channel)| {
            assert_eq!(channel, name("a"));
            conn.index()
        });
        let mut lost: Vec<u32> = lost.collect();
        lost.sort_unstable();
        lost
    }

    /// Takes the offsets of publications with tags that all members have.
    fn carried(&mut self) -> Vec<u64> {
        let carried = self.heard.carried.drain(..);
        carried
            .filter_map(|(publication, _)| Some(publication.position?.offset))
            .collect()
    }
}

fn told(answer: Answer) -> String {
    match answer {
        Answer::Subscribed { channel, result } => match result {
            Ok(result) => format!("{channel} at {:?}", result.position.map(|it| it.offset)),
            Err(refusal) => format!("{channel} {refusal:?}"),
        },
        Answer::Unsubscribed { channel, result } => format!("{channel} left {result:?}"),
        Answer::Published { result } => format!("published {result:?}"),
        Answer::History { result } => format!("history {:?}", result.map(|it| it.position)),
        Answer::NotSubscribed { what, channel } => format!("{what} of {channel} is refused"),
        Answer::Present { result } => format!("present {:?}", result.map(|it| it.clients)),
    }
}

/// The first connection asks for all of `a`.
fn history(token: u32, only_subscribed: bool) -> Command {
    Command::History {
        reply_to: ReplyTo::new(conn(1), token),
        channel: name("a"),
        query: HistoryQuery {
            limit: None,
            since: None,
            reverse: false,
        },
        only_subscribed,
    }
}

#[test]
fn only_the_first_subscriber_asks() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    assert!(scene.hub.has_channel(&name("a")));
    assert!(scene.hub.is_subscribed(conn(1), &name("a")));
    scene.answers(&[]);
    scene.accept(4);
    scene.answers(&[(1, "a at Some(4)")]);
    scene.subscribe(2, "a");
    scene.answers(&[(2, "a at Some(4)")]);
    scene.publish("a", 5, 1);
    scene.subscribe(3, "a");
    scene.answers(&[(3, "a at Some(5)")]);
    assert_eq!(scene.asked(), []);
    // Two are members, and one joins behind the publications under way.
    assert_eq!(scene.hub.member_count(&name("a")), 2);
    assert_eq!(scene.hub.member_count(&name("b")), 0);
    // A client that may have missed something asks the broker.
    scene.subscribe_since(4, "a", Some(position(2)));
    scene.accept(5);
    scene.answers(&[(4, "a at Some(5)")]);
    let channels: Vec<_> = scene
        .hub
        .channels()
        .map(|(name, n)| (name.clone(), n))
        .collect();
    assert_eq!(channels, [(name("a"), 4)]);
    assert!(!scene.fan_out(100));
    let mut served: Vec<u32> = scene.deliveries().iter().map(|(at, ..)| *at).collect();
    served.sort_unstable();
    assert_eq!(served, [1, 2]);
    assert_eq!(scene.hub.stats().home.streams, 7);
    assert_eq!(
        (scene.hub.stats().channels, scene.hub.stats().subscriptions),
        (1, 4)
    );
    assert_eq!(scene.hub.subscription_count(conn(1)), 1);
    assert_eq!(
        scene.hub.channels_of(conn(1)).collect::<Vec<_>>(),
        [&name("a")]
    );
}

/// All members subscribe again, also those that joined behind publications under way; connections
/// that wait for the broker do not.
#[test]
fn subscribers_of_a_broken_channel_are_told() {
    let mut scene = Scene::new();
    for (index, channel) in [(1, "a"), (2, "b")] {
        scene.subscribe(index, channel);
        scene.accept(4);
    }
    scene.subscribe(3, "a");
    scene.publish("a", 5, 1);
    scene.subscribe(4, "a");
    scene.reply(Reply::Broken(name("a")));
    scene.reply(Reply::Broken(name("unknown")));
    assert_eq!(scene.lost(), [1, 3, 4]);
    assert_eq!(scene.asked(), [Err(name("a"))]);
    scene.fan_out_all(100);
    assert_eq!(scene.deliveries(), []);
    // It starts again with the broker's reply.
    scene.heard.answers.clear();
    scene.subscribe(1, "a");
    scene.reply(Reply::Broken(name("a")));
    assert!(scene.lost().is_empty());
    scene.accept(9);
    let token = scene.next_token;
    scene.answers(&[(token, "a at Some(9)")]);
    scene.publish("b", 5, 1);
    scene.fan_out_all(100);
    assert_eq!(scene.deliveries(), [(2, vec![5], false)]);
}

#[test]
fn the_last_one_to_go_leaves() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    scene.accept(0);
    scene.subscribe(2, "a");
    assert!(scene.unsubscribe(1, "a"));
    assert!(!scene.unsubscribe(1, "a"), "it has none");
    assert!(!scene.unsubscribe(1, "b"), "nobody has one");
    assert_eq!(scene.asked(), []);
    scene.hub.gone(conn(2), NOW);
    assert_eq!(scene.asked(), [Err(name("a"))]);
    assert!(!scene.hub.has_channel(&name("a")));
    // Also if it had only joined, or publications were on their way.
    scene.subscribe(1, "a");
    scene.accept(0);
    scene.publish("a", 1, 1);
    scene.subscribe(2, "a");
    scene.unsubscribe(1, "a");
    assert_eq!(scene.asked(), []);
    scene.unsubscribe(2, "a");
    assert_eq!(scene.asked(), [Err(name("a"))]);
    assert!(!scene.fan_out(10));
    assert_eq!(scene.deliveries(), []);
}

#[test]
fn a_refused_subscribe_leaves_nothing() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    let asked = scene.asked();
    scene.subscribed(asked[0].clone().unwrap(), Err(Refusal::Busy));
    scene.answers(&[(1, "a Busy")]);
    assert_eq!(scene.asked(), [], "nothing took effect, so nothing is left");
    assert!(!scene.hub.has_channel(&name("a")));
    assert_eq!(scene.hub.stats().subscriptions, 0);
    // One of two is refused.
    scene.subscribe(1, "a");
    scene.subscribe(2, "a");
    let asked = scene.asked();
    scene.subscribed(asked[0].clone().unwrap(), Err(Refusal::Busy));
    assert!(scene.hub.has_channel(&name("a")));
    scene.subscribed(asked[1].clone().unwrap(), Ok(3));
    scene.answers(&[(2, "a Busy"), (3, "a at Some(3)")]);
    assert_eq!(scene.hub.stats().subscriptions, 1);
}

#[test]
fn who_unsubscribes_before_the_reply_is_answered_and_is_no_member() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    scene.unsubscribe(1, "a");
    let asked = scene.asked();
    assert_eq!(asked.len(), 1, "it does not leave before the reply");
    scene.subscribed(asked[0].clone().unwrap(), Ok(1));
    scene.answers(&[(1, "a Cancelled")]);
    assert_eq!(scene.asked(), [Err(name("a"))]);
    scene.publish("a", 2, 1);
    scene.fan_out(10);
    assert_eq!(scene.deliveries(), []);
    // The second subscribe of one connection waits for the refusal of the first.
    scene.subscribe(1, "a");
    scene.unsubscribe(1, "a");
    scene.subscribe(1, "a");
    let asked = scene.asked();
    assert_eq!(asked.len(), 1);
    scene.subscribed(asked[0].clone().unwrap(), Ok(2));
    scene.answers(&[(2, "a Cancelled")]);
    let asked = scene.asked();
    assert_eq!(asked[0], Err(name("a")), "it leaves, and comes back");
    scene.subscribed(asked[1].clone().unwrap(), Ok(2));
    scene.answers(&[(3, "a at Some(2)")]);
    assert_eq!(scene.asked(), []);
}

#[test]
fn what_is_wrong_is_not_asked() {
    let mut scene = Scene::new();
    scene.subscribe(1, "unknown:a");
    scene.subscribe(1, "a");
    scene.subscribe(1, "a");
    scene.subscribe(1, "b");
    scene.subscribe(1, "c");
    scene.answers(&[(1, "unknown:a UnknownChannel"), (5, "c ChannelLimit")]);
    let asked = scene.asked();
    let [Ok(first), Ok(_)] = asked[..] else {
        panic!("{asked:?}");
    };
    // The second one's turn comes when the first is answered.
    scene.subscribed(first, Ok(0));
    scene.answers(&[(2, "a at Some(0)"), (3, "a AlreadySubscribed")]);
    scene.subscribe(1 << 23, "a");
    scene.answers(&[(6, "a Busy")]);
    scene.subscribe((1 << 23) - 1, "a");
    scene.answers(&[(7, "a at Some(0)")]);
}

#[test]
fn replies_find_who_asked() {
    let mut scene = Scene::new();
    scene.hub.handle(history(1, false), NOW, &mut scene.heard);
    let publish = Command::Publish {
        reply_to: ReplyTo::new(conn(1), 2),
        draft: draft("a", "x"),
    };
    scene.hub.handle(publish, NOW, &mut scene.heard);
    assert!(scene.hub.has_mail(ShardId(0)));
    let asked = scene.asked();
    assert!(!scene.hub.has_mail(ShardId(0)));
    let [Ok(history), Ok(publish)] = asked[..] else {
        panic!("{asked:?}");
    };
    let result = Ok(Published {
        position: None,
        shards: Some(3),
    });
    scene.reply(Reply::Published {
        ticket: publish,
        result,
    });
    let result = Ok(HistoryPage::default());
    scene.reply(Reply::History {
        ticket: history,
        result,
    });
    scene.answers(&[(2, "published Ok(None)"), (1, "history Ok(None)")]);
}

#[test]
fn the_past_may_be_for_subscribers_alone() {
    let mut scene = Scene::new();
    scene.hub.handle(history(1, true), NOW, &mut scene.heard);
    scene.answers(&[(1, "history of a is refused")]);
    assert!(!scene.hub.has_mail(ShardId(0)), "nobody is asked");
    assert!(!scene.hub.is_subscribed(conn(1), &name("a")));
    scene.subscribe(1, "a");
    scene.accept(0);
    assert!(scene.hub.is_subscribed(conn(1), &name("a")));
    scene.hub.handle(history(2, true), NOW, &mut scene.heard);
    assert_eq!(scene.asked().len(), 1);
}

#[test]
fn time_may_bring_publications() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    scene.accept(8);
    assert!(!scene.hub.expire(NOW, 1, &mut scene.heard));
    assert!(scene.hub.expire(NOW, 0, &mut scene.heard));
    scene.fan_out(10);
    assert_eq!(scene.deliveries(), [(1, vec![9, 9], false)]);
}

/// Replies left by a driver are taken like others, and commands that waited for them go on.
#[test]
fn what_a_driver_has_left_is_taken() {
    // The first subscribe has the first ticket.
    let mut first = Scene::new();
    first.subscribe(1, "a");
    let ticket = first.asked().remove(0).expect("a subscribe");
    let result = Ok(Subscribed {
        position: Some(position(4)),
        recovery: Recovery::NotAsked,
    });
    let left = [
        Reply::Subscribed { ticket, result },
        Reply::Delivery(publication("a", 5, 1)),
    ];
    let mut scene = Scene::with(Script {
        left: left.into(),
        ..Script::default()
    });
    for _ in 0..2 {
        scene.subscribe(1, "a");
    }
    assert_eq!(scene.asked().len(), 1, "the second one waits for the first");
    assert!(scene.hub.poll(NOW, &mut scene.heard), "more is left");
    scene.answers(&[(1, "a at Some(4)"), (2, "a AlreadySubscribed")]);
    assert!(!scene.hub.poll(NOW, &mut scene.heard));
    scene.fan_out_all(9);
    assert_eq!(scene.deliveries(), [(1, vec![5], false)]);
    // The hub passes this through to the broker.
    assert_eq!(scene.hub.interest(&name("a")), 6);
}

/// Many publications are asked for together, and answered each with the token after the last one's.
#[test]
fn publications_of_one_command_have_tokens_in_a_row() {
    let mut scene = Scene::new();
    let reply_to = ReplyTo::new(conn(1), u32::MAX);
    let drafts = ["a", "b", "c"].map(|channel| draft(channel, "x")).into();
    let command = Command::PublishAll { reply_to, drafts };
    scene.hub.handle(command, NOW, &mut scene.heard);
    let tickets = scene.asked();
    assert_eq!(tickets.len(), 3);
    for ticket in tickets.into_iter().rev().flatten() {
        let result = Err(Refusal::Busy);
        scene.reply(Reply::Published { ticket, result });
    }
    let refused = "published Err(Busy)";
    scene.answers(&[(1, refused), (0, refused), (u32::MAX, refused)]);
}

/// Other options hold for what is asked from now on, in the hub and in its broker.
#[test]
fn other_options_hold_from_now_on() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    scene.subscribe(1, "new:a");
    scene.answers(&[(2, "new:a UnknownChannel")]);
    let named = vec![("new".into(), ChannelOptions::default())];
    let options = LiveOptions {
        namespaces: Arc::new(NamespaceOptions::new(ChannelOptions::default(), named)),
        reply: ReplyLimit {
            publications_max: 1,
            members_max: 1,
            bytes_max: 1,
        },
        streams_max: 5,
    };
    scene.hub.renew(3, &options, NOW);
    assert_eq!(scene.hub.stats().home.history_publications, 1);
    for channel in ["new:a", "b", "c"] {
        scene.subscribe(1, channel);
    }
    scene.answers(&[(5, "c ChannelLimit")]);
    assert_eq!(scene.asked().len(), 3);
}

#[test]
fn who_may_get_more_in_this_turn_gathers() {
    let mut scene = Scene::new();
    for (index, channel) in [(1, "a"), (1, "b"), (2, "b")] {
        scene.subscribe(index, channel);
        if scene.hub.has_mail(ShardId(0)) {
            scene.accept(0);
        }
    }
    scene.publish("a", 1, 1);
    scene.fan_out(10);
    assert_eq!(
        scene.deliveries(),
        [(1, vec![1], false)],
        "one channel only"
    );
    scene.publish("b", 1, 1);
    scene.publish("a", 2, 1);
    scene.fan_out(10);
    let expected = [(1, vec![1], true), (2, vec![1], false), (1, vec![2], false)];
    assert_eq!(scene.deliveries(), expected);
}

#[test]
fn a_visit_carries_only_so_much() {
    let mut scene = Scene::new();
    scene.subscribe(1, "a");
    scene.accept(0);
    for offset in 1..=600 {
        scene.publish("a", offset, 1);
    }
    scene.fan_out_all(1);
    let counts = |scene: &mut Scene| -> Vec<usize> {
        scene
            .deliveries()
            .iter()
            .map(|(_, it, _)| it.len())
            .collect()
    };
    assert_eq!(counts(&mut scene), [256, 256, 88]);
    for offset in 601..=605 {
        scene.publish("a", offset, 100 << 10);
    }
    scene.publish("a", 606, 300 << 10);
    scene.fan_out_all(1);
    assert_eq!(counts(&mut scene), [2, 2, 1, 1]);
}

#[test]
fn a_turn_makes_only_so_many_visits() {
    let mut scene = Scene::new();
    for index in 0..5 {
        scene.subscribe(index, "a");
        if index == 0 {
            scene.accept(0);
        }
    }
    scene.publish("a", 1, 1);
    assert!(scene.fan_out(2));
    assert_eq!(scene.deliveries().len(), 2);
    assert!(scene.fan_out(2));
    assert_eq!(scene.deliveries().len(), 2);
    assert!(scene.hub.wants_mail());
    scene.fan_out(2);
    assert_eq!(scene.deliveries().len(), 1);
    assert!(!scene.fan_out(2));
}

#[test]
fn a_publication_is_encoded_once_however_many_get_it() {
    let mut scene = Scene::new();
    for index in [0, 1, 2, 3, PERSONAL_FROM] {
        scene.subscribe(index, "a");
        if index == 0 {
            scene.accept(0);
        }
    }
    for offset in 1..=600 {
        scene.publish("a", offset, 1);
    }
    scene.fan_out_all(3);
    assert_eq!(std::mem::take(&mut scene.heard.encoded), 600);
    // Some of these fill a visit alone, some to the byte, some not.
    let sizes = [200, 56, 1, 255, 300, 128, 128, 128, 10];
    for (offset, size) in (601..).zip(sizes) {
        scene.publish("a", offset, size << 10);
    }
    scene.fan_out_all(3);
    assert_eq!(scene.heard.encoded, sizes.len());
    // A connection that joins meanwhile gets only later publications.
    scene.deliveries();
    scene.publish("a", 700, 1);
    scene.subscribe(4, "a");
    scene.fan_out(2);
    scene.publish("a", 701, 1);
    scene.fan_out_all(2);
    let all = scene.deliveries();
    let of = |index: u32| -> Vec<u64> {
        let theirs = all.iter().filter(|(at, ..)| *at == index);
        theirs.flat_map(|(_, offsets, _)| offsets.clone()).collect()
    };
    assert_eq!(
        (of(4), of(0), of(3)),
        (vec![701], vec![700, 701], vec![700, 701])
    );
}

#[test]
fn what_nobody_here_waits_for_is_with_everybody_at_once() {
    let mut scene = Scene::new();
    let publish = |scene: &mut Scene, channel: &str, offset: u64| {
        let mut publication = publication(channel, offset, 1);
        Arc::make_mut(&mut publication).tags = (offset % 2 == 1).then(|| "{}".into());
        scene.reply(Reply::Delivery(publication));
    };
    // Late ones of a channel that was left, or before the reply to the first subscribe.
    publish(&mut scene, "a", 1);
    publish(&mut scene, "a", 2);
    scene.subscribe(1, "b");
    publish(&mut scene, "b", 3);
    assert!(!scene.fan_out(1));
    assert_eq!(scene.carried(), [1, 3]);
    scene.accept(3);
    publish(&mut scene, "b", 4);
    publish(&mut scene, "b", 5);
    scene.fan_out_all(1);
    assert_eq!(scene.carried(), [5]);
    assert_eq!(scene.deliveries(), [(1, vec![4, 5], false)]);
}
