//! A broker with a remote one: which channels go across the network, and which stay in memory.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Heard, Sender, channel};

use throng_broker::{
    Broker, Budget, ChannelOptions, Draft, LiveOptions, MemoryBroker, MemoryOptions, Moving,
    NamespaceOptions, Published, Receiver, Refusal, Remote, Reply, ReplyLimit, Request, Retention,
    Subscribed, Ticket,
};
use throng_types::json::payload_of;
use throng_types::{
    ChannelName, Load as _, Millis, Now, Parts, Publication, PublicationKind, Saved, ShardId,
};

const NOW: Now = Now {
    mono: Millis(0),
    unix_ms: 0,
};

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a good name")
}

fn draft(channel: &str) -> Draft {
    Draft::new(name(channel), payload_of(b"1"))
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
        namespaces: Arc::new(NamespaceOptions::new(options, named)),
        reply: ReplyLimit {
            publications_max: 100,
            members_max: 100,
            bytes_max: 1 << 20,
        },
        streams_max: 100,
    }
}

fn memory() -> MemoryBroker {
    let live = kept();
    let options = MemoryOptions {
        nonce: 1,
        hash_seed: 1,
        history: Budget::new(1 << 20, 1),
        streams_max: live.streams_max,
        reply: live.reply,
        namespaces: live.namespaces,
    };
    MemoryBroker::new(ShardId(0), 1, options)
}

/// A broker with a far side that has left these replies, and the record of its calls by channel.
fn remote(replies: Vec<Reply>, refuses: bool) -> (MemoryBroker, Heard<String>) {
    let (asked, heard) = channel();
    let far = Far {
        asked,
        replies: replies.into(),
        refuses,
    };
    (memory().with_remote(Box::new(far)), heard)
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
    // In memory no steps are sent.
    let mut alone = memory();
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
    let mut broker = memory();
    assert!(!broker.poll(&mut near));
}
