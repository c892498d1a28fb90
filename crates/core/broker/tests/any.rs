//! The broker of a server: which channels go across the network, and which stay in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Heard, Sender, channel};

use throng_broker::{
    Acknowledge, AnyBroker, Broker, BrokerStats, Budget, ChannelOptions, Draft, HistoryQuery,
    LiveOptions, Mail, MemoryBroker, MemoryOptions, Moving, Namespaces, Published, Receiver,
    Refusal, Remote, Reply, ReplyLimit, Request, Retention, Subscribed, Ticket, home_of,
};
use throng_types::{
    ChannelName, Load as _, Millis, Now, Parts, Payload, PayloadKind, Publication, PublicationKind,
    Saved, ShardId,
};

const NOW: Now = Now {
    mono: Millis(0),
    unix_ms: 0,
};

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a good name")
}

fn draft(channel: &str) -> Draft {
    Draft {
        channel: name(channel),
        payload: Payload {
            bytes: b"1".as_slice().into(),
            kind: PayloadKind::Json,
        },
        publisher: None,
        tags: None,
        skip_history: false,
        idempotency_key: None,
        version: None,
        acknowledge: Acknowledge::Memory,
    }
}

fn delivery(channel: &str) -> Reply {
    Reply::Delivery(Arc::new(Publication {
        channel: name(channel),
        told: PublicationKind::Data,
        position: None,
        payload: draft(channel).payload,
        publisher: None,
        tags: None,
        time_unix_ms: 0,
    }))
}

fn subscribe(ticket: u32, channel: &str) -> Request {
    Request::Subscribe {
        ticket: Ticket(ticket),
        channel: name(channel),
        since: None,
        presence: None,
    }
}

/// The far side: records its requests, and holds the replies that the test has left.
struct Far {
    asked: Sender<String>,
    replies: VecDeque<Reply>,
    refuses: bool,
}

impl Remote for Far {
    fn request(&mut self, request: Request) -> Option<Reply> {
        let _ = self.asked.send(request.channel().as_str().to_owned());
        self.refuses
            .then(|| request.refused(Refusal::Unavailable))
            .flatten()
    }

    fn publish(&mut self, draft: Draft) -> Result<(), (Refusal, Draft)> {
        let _ = self.asked.send(draft.channel.as_str().to_owned());
        if self.refuses {
            Err((Refusal::Busy, draft))
        } else {
            Ok(())
        }
    }

    fn peek(&mut self) -> Option<&Reply> {
        self.replies.front()
    }

    fn next(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    fn renew(&mut self, options: &LiveOptions) {
        let _ = self.asked.send(format!("renewed {}", options.streams_max));
    }

    fn hand_over(&mut self, moving: Moving) {
        let _ = self.asked.send(format!("{moving:?}"));
    }

    fn stop_at(&mut self, cut: Option<u64>) {
        let _ = self.asked.send(format!("stop at {cut:?}"));
    }

    fn has_stopped(&self) -> bool {
        self.replies.is_empty()
    }

    fn leave_deliveries(&mut self) {
        self.replies.clear();
    }
}

/// A hub with room for so many deliveries.
#[derive(Default)]
struct Near {
    room: Rc<RefCell<usize>>,
    heard: Vec<String>,
}

impl Receiver for Near {
    fn has_room(&self, _: &ChannelName, bytes: usize) -> bool {
        assert!(bytes > size_of::<Publication>());
        *self.room.borrow() > 0
    }

    fn reply(&mut self, reply: Reply) {
        self.heard.push(match reply {
            Reply::Delivery(publication) => {
                let mut room = self.room.borrow_mut();
                *room = room.saturating_sub(1);
                format!("delivery in {}", publication.channel)
            }
            Reply::Broken(channel) => format!("{channel} is broken"),
            Reply::Subscribed { ticket, result } => {
                format!("{} subscribed {}", ticket.0, result.is_ok())
            }
            Reply::Published { ticket, result } => {
                format!("{} published {:?}", ticket.0, result.map(|it| it.shards))
            }
            other => format!("{other:?}"),
        });
    }
}

impl Near {
    fn with_room(room: usize) -> Self {
        let room = Rc::new(RefCell::new(room));
        let heard = Vec::new();
        Self { room, heard }
    }

    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.heard)
    }
}

fn kept() -> LiveOptions {
    let options = ChannelOptions {
        retention: Retention {
            publications_max: 5,
            ttl_ms: 1000,
        },
        ..ChannelOptions::default()
    };
    let named = vec![("throng".into(), options)];
    LiveOptions {
        namespaces: Arc::new(Namespaces::new(options, named)),
        reply: ReplyLimit {
            publications_max: 100,
            members_max: 100,
            bytes_max: 1 << 20,
        },
        streams_max: 100,
    }
}

fn memory(shard: u8, shards: u8) -> MemoryBroker {
    let live = kept();
    let options = MemoryOptions {
        nonce: 1,
        hash_seed: 1,
        history: Budget::new(1 << 20, shards),
        streams_max: live.streams_max,
        reply: live.reply,
        namespaces: live.namespaces,
    };
    MemoryBroker::new(ShardId(shard), shards, options)
}

/// A broker with a far side that has left these replies, and the record of its calls by channel.
fn remote(replies: Vec<Reply>, refuses: bool) -> (AnyBroker, Heard<String>) {
    let (asked, heard) = channel();
    let far = Far {
        asked,
        replies: replies.into(),
        refuses,
    };
    (AnyBroker::new(memory(0, 1), Some(Box::new(far))), heard)
}

fn asked(heard: &Heard<String>) -> Vec<String> {
    heard.try_iter().collect()
}

/// Channels of a node itself stay on it, with any broker.
#[test]
fn channels_of_the_server_itself_stay_in_memory() {
    let (mut broker, far) = remote(Vec::new(), false);
    let mut near = Near::with_room(9);
    broker.request(subscribe(1, "a"), NOW, &mut near);
    broker.request(subscribe(2, "throng:state"), NOW, &mut near);
    broker.request(subscribe(3, "throngs:state"), NOW, &mut near);
    assert_eq!(asked(&far), ["a", "throngs:state"]);
    assert_eq!(near.take(), ["2 subscribed true"]);
    assert_eq!(broker.interest(&name("a")), u64::MAX, "nobody knows");
    assert_eq!(broker.interest(&name("throng:state")), 1);
    assert_eq!(broker.interest(&name("throng:other")), 0);
    let nowhere = Published {
        position: None,
        shards: None,
    };
    assert_eq!(
        broker.publish_here(draft("a"), NOW, &mut near).ok(),
        Some(nowhere)
    );
    let here = broker.publish_here(draft("throng:state"), NOW, &mut near);
    assert_eq!(here.ok().and_then(|it| it.shards), Some(1));
    assert_eq!(asked(&far), ["a"]);
    assert_eq!(near.take(), ["delivery in throng:state"]);
    // Many at once go each where it belongs.
    let drafts = ["a", "throng:state", "b"].map(draft);
    let drafts = (4..).map(Ticket).zip(drafts).collect();
    broker.publish_all(drafts, NOW, &mut near);
    assert_eq!(asked(&far), ["a", "b"]);
    let told = near.take();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told.contains(&"5 published Ok(Some(1))".to_owned()),
        "{told:?}"
    );
    // Both get new options.
    broker.renew(&kept(), NOW);
    assert_eq!(asked(&far), ["renewed 100"]);
}

/// In a hand-over between processes, the far side keeps its channels and gets the steps; channels
/// here move.
#[test]
fn a_far_side_hears_of_its_own_channels_where_a_process_takes_over() {
    let (mut broker, far) = remote(Vec::new(), false);
    let mut near = Near::with_room(9);
    broker.request(subscribe(1, "throng:state"), NOW, &mut near);
    let draft = draft("throng:state");
    assert!(broker.publish_here(draft, NOW, &mut near).is_ok());
    assert!(broker.is_elsewhere(&name("a")) && !broker.is_elsewhere(&name("throng:state")));
    broker.stop_at(Some(7));
    assert!(broker.has_stopped());
    assert_eq!(asked(&far), ["stop at Some(7)"]);
    let mut bytes = Vec::new();
    let mut send = |piece: &[u8]| bytes.extend_from_slice(piece);
    let mut parts = Parts::new(&mut send);
    let stats = broker.stats();
    assert!(broker.give_up(&mut parts));
    parts.end();
    let (mut next, far) = remote(vec![delivery("a")], false);
    let mut from = Saved::new(&bytes);
    while let Some(kind) = u8::load(&mut from) {
        next.load(kind, &mut from).expect("a good item");
    }
    assert_eq!(next.stats(), stats);
    assert_eq!(next.interest(&name("throng:state")), 1);
    for channel in ["a", "throng:state"] {
        next.hand_over(Moving::Expect(name(channel)));
    }
    next.hand_over(Moving::Resumed);
    assert_eq!(asked(&far).len(), 2, "nobody else has the server's own");
    assert!(!next.has_stopped());
    next.leave_deliveries();
    assert!(next.has_stopped());
    // In memory no steps are sent.
    let mut alone = AnyBroker::from(memory(0, 1));
    alone.stop_at(Some(7));
    assert!(alone.has_stopped() && !alone.is_elsewhere(&name("a")));
}

#[test]
fn what_the_far_side_refuses_is_told() {
    let (mut broker, _far) = remote(Vec::new(), true);
    let mut near = Near::with_room(9);
    broker.request(subscribe(1, "a"), NOW, &mut near);
    assert_eq!(near.take(), ["1 subscribed false"]);
    let refused = broker.publish_here(draft("a"), NOW, &mut near);
    let (refusal, draft) = refused.expect_err("it is full");
    assert_eq!((refusal, draft.channel), (Refusal::Busy, name("a")));
    // These have no replies.
    let channel = name("a");
    broker.request(Request::Leave { channel }, NOW, &mut near);
    assert!(near.take().is_empty());
}

/// A delivery waits for room, and what is behind it keeps its place; other replies need none.
#[test]
fn replies_are_taken_in_their_order_while_there_is_room() {
    let subscribed = |ticket| Reply::Subscribed {
        ticket: Ticket(ticket),
        result: Ok(Subscribed {
            position: None,
            recovery: throng_broker::Recovery::NotAsked,
        }),
    };
    let left = vec![
        subscribed(1),
        delivery("a"),
        Reply::Broken(name("b")),
        delivery("b"),
        subscribed(2),
    ];
    let (mut broker, _far) = remote(left, false);
    let mut near = Near::with_room(0);
    assert!(broker.poll(&mut near), "more waits");
    assert_eq!(near.take(), ["1 subscribed true"]);
    assert!(broker.poll(&mut near));
    assert!(near.take().is_empty());
    *near.room.borrow_mut() = 1;
    assert!(broker.poll(&mut near));
    assert_eq!(near.take(), ["delivery in a", "b is broken"]);
    *near.room.borrow_mut() = 2;
    assert!(!broker.poll(&mut near));
    assert_eq!(near.take(), ["delivery in b", "2 subscribed true"]);
    assert!(!broker.poll(&mut near));
    // In memory there are no deliveries from elsewhere.
    let mut broker = AnyBroker::from(memory(0, 1));
    assert!(!broker.poll(&mut near));
}

/// Without a far side it is the broker in memory, between shards too.
#[test]
fn without_a_far_side_everything_is_in_memory() {
    let mut names = (0..).map(|n| format!("c{n}"));
    let away = names.find(|text| home_of(&name(text), 2) == ShardId(1));
    let away = away.expect("one of them");
    let mut parts = [0, 1].map(|shard| AnyBroker::from(memory(shard, 2)));
    let mut near = [Near::with_room(9), Near::with_room(9)];
    parts[0].request(subscribe(1, &away), NOW, &mut near[0]);
    let drafts = vec![(Ticket(2), draft(&away)), (Ticket(3), draft(&away))];
    parts[0].publish_all(drafts, NOW, &mut near[0]);
    assert!(!parts[0].has_mail(ShardId(0)));
    for (from, to) in [(0, 1), (1, 0)] {
        let (sender, receiver) = (ShardId(from as u8), ShardId(to as u8));
        assert!(parts[from].has_mail(receiver));
        let mail = std::iter::from_fn(|| parts[from].take_mail(receiver));
        for mail in mail.collect::<Vec<Mail>>() {
            parts[to].mail(sender, mail, NOW, &mut near[to]);
        }
        assert!(!parts[from].has_mail(receiver));
    }
    let told = near[0].take();
    let deliveries = { told.iter() }.filter(|told| told.starts_with("delivery"));
    assert_eq!((deliveries.count(), told.len()), (2, 5), "{told:?}");
    assert_eq!(parts[1].interest(&name(&away)), 1);
    let streams = |broker: &AnyBroker| -> BrokerStats { broker.stats() };
    assert_eq!(streams(&parts[1]).history_publications, 2);
    assert_eq!(streams(&parts[0]), BrokerStats::default());
    // It moves, and goes on where it was.
    let mut bytes = Vec::new();
    let mut send = |piece: &[u8]| bytes.extend_from_slice(piece);
    let mut saved = Parts::new(&mut send);
    let stats = parts[1].stats();
    assert!(parts[1].give_up(&mut saved));
    saved.end();
    let mut moved = AnyBroker::from(memory(1, 2));
    let mut from = Saved::new(&bytes);
    while let Some(kind) = u8::load(&mut from) {
        moved.load(kind, &mut from).expect("a good item");
    }
    assert!(
        moved.load(99, &mut Saved::new(&[])).is_none(),
        "no such item"
    );
    assert_eq!(moved.stats(), stats);
    // With time, what is kept goes; as much at once as it is told.
    assert!(!moved.write_down(NOW));
    let later = Now {
        mono: Millis(1000),
        unix_ms: 1000,
    };
    assert!(
        moved.tick(later, 0, &mut near[1]),
        "more is due than nothing"
    );
    assert!(!moved.tick(later, 100, &mut near[1]));
    assert_eq!(moved.stats().history_publications, 0);
    // The new options take effect.
    let live = LiveOptions {
        namespaces: Arc::new(Namespaces::default()),
        ..kept()
    };
    moved.renew(&live, later);
    let query = HistoryQuery {
        limit: None,
        since: None,
        reverse: false,
    };
    let request = Request::History {
        ticket: Ticket(7),
        channel: name(&away),
        query,
    };
    moved.request(request, later, &mut near[1]);
    assert!(near[1].take()[0].contains("NotAvailable"));
}

/// A broker with the default methods has nothing to do.
#[test]
fn a_broker_may_leave_much_out() {
    struct Least(Vec<Ticket>);

    impl Broker for Least {
        type Mail = ();

        fn request(&mut self, request: Request, _: Now, _: &mut impl Receiver) {
            if let Request::Publish { ticket, .. } = request {
                self.0.push(ticket);
            }
        }

        fn mail(&mut self, _: ShardId, (): (), _: Now, _: &mut impl Receiver) {}

        fn interest(&self, _: &ChannelName) -> u64 {
            0
        }

        fn publish_here(
            &mut self,
            draft: Draft,
            _: Now,
            _: &mut impl Receiver,
        ) -> Result<Published, (Refusal, Draft)> {
            Err((Refusal::Busy, draft))
        }

        fn take_mail(&mut self, _: ShardId) -> Option<()> {
            None
        }

        fn has_mail(&self, _: ShardId) -> bool {
            false
        }

        fn tick(&mut self, _: Now, _: usize, _: &mut impl Receiver) -> bool {
            false
        }

        fn stats(&self) -> BrokerStats {
            BrokerStats::default()
        }
    }

    let mut least = Least(Vec::new());
    let mut near = Near::default();
    let drafts = vec![(Ticket(3), draft("a")), (Ticket(4), draft("b"))];
    least.publish_all(drafts, NOW, &mut near);
    assert_eq!(least.0, [Ticket(3), Ticket(4)], "one after the other");
    assert!(!least.poll(&mut near) && !least.write_down(NOW));
    let mut send = |_: &[u8]| panic!("it cannot move");
    assert!(!least.give_up(&mut Parts::new(&mut send)));
    assert!(least.load(0, &mut Saved::new(&[])).is_none());
}

/// A draft costs what its publication will.
#[test]
fn a_draft_costs_what_its_publication_does() {
    let publisher = throng_types::Publisher {
        client: "client".into(),
        user: "user".into(),
        ..Default::default()
    };
    for (tags, publisher) in [
        (None, None),
        (Some("{\"a\":1}"), None),
        (Some("{\"a\":1}"), Some(Box::new(publisher))),
    ] {
        let draft = Draft {
            tags: tags.map(Into::into),
            publisher: publisher.clone(),
            ..draft("a")
        };
        let cost = draft.cost_bytes();
        let publication = Publication {
            channel: draft.channel,
            told: PublicationKind::Data,
            position: None,
            payload: draft.payload,
            publisher,
            tags: draft.tags,
            time_unix_ms: 0,
        };
        assert_eq!(cost, publication.cost_bytes());
    }
}
