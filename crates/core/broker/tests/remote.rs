//! A broker with a remote one: which channels go across the network, and which stay in memory.

use std::sync::Arc;
use std::sync::mpsc::{Receiver as Heard, Sender, channel};

use throng_broker::{
    Broker, ChannelOptions, Draft, LiveOptions, MemoryOptions, Moving, NamespaceOptions, Outcome,
    Receiver, Refusal, Remote, Reply, Request, Retention, Ticket,
};
use throng_types::json::payload_of;
use throng_types::{ChannelName, Load as _, Millis, Now, Parts, Publication, Saved, ShardId};

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

fn delivery(channel: &str) -> Arc<Publication> {
    Publication::new(name(channel), None, draft(channel).payload).shared()
}

fn subscribe(ticket: u32, channel: &str) -> Request {
    Request::Subscribe {
        ticket: Ticket(ticket),
        channel: name(channel),
        since: None,
        presence: None,
    }
}

/// The far side: records its requests, and holds what the test has left.
struct Far {
    asked: Sender<String>,
    left: Vec<Arc<Publication>>,
    refuses: bool,
}

impl Remote for Far {
    fn request(&mut self, request: Request) -> Option<Reply> {
        let _ = self.asked.send(request.channel().as_str().to_owned());
        self.refuses
            .then(|| request.refused(Refusal::Unavailable))
            .flatten()
    }

    fn publish(&mut self, _: Ticket, draft: Draft) -> Result<(), (Refusal, Draft)> {
        let _ = self.asked.send(draft.channel.as_str().to_owned());
        if self.refuses {
            Err((Refusal::Busy, draft))
        } else {
            Ok(())
        }
    }

    fn poll(&mut self, hub: &mut dyn Receiver) -> bool {
        self.left.drain(..).for_each(|it| hub.deliver(it));
        self.refuses
    }

    fn renew(&mut self, options: &LiveOptions) {
        let _ = self.asked.send(format!("renewed {}", options.streams_max));
    }

    fn hand_over(&mut self, moving: Moving) {
        let _ = self.asked.send(format!("{moving:?}"));
    }

    fn stop_at(&mut self, _: Option<u64>) {}

    fn has_stopped(&self) -> bool {
        self.left.is_empty()
    }
}

/// A hub that notes what reaches it.
#[derive(Default)]
struct Near(Vec<String>);

impl Receiver for Near {
    fn has_room(&self, _: &ChannelName, bytes: usize) -> bool {
        assert!(bytes > size_of::<Publication>());
        true
    }

    fn reply(&mut self, reply: Reply) {
        let ticket = reply.ticket.0;
        self.0.push(match reply.outcome {
            Outcome::Subscribed(result) => format!("{ticket} subscribed {}", result.is_ok()),
            Outcome::Published(result) => {
                format!("{ticket} published {:?}", result.map(|it| it.shards))
            }
            other => format!("{ticket} {other:?}"),
        });
    }

    fn deliver(&mut self, publication: Arc<Publication>) {
        self.0.push(format!("delivery in {}", publication.channel));
    }

    fn broken(&mut self, channel: &ChannelName) {
        self.0.push(format!("{channel} is broken"));
    }
}

impl Near {
    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0)
    }
}

fn memory() -> Broker {
    Broker::new(ShardId(0), 1, options())
}

fn options() -> MemoryOptions {
    let options = ChannelOptions {
        retention: Retention {
            publications_max: 5,
            ttl_ms: 1000,
        },
        ..ChannelOptions::default()
    };
    let named = vec![("throng".into(), options)];
    MemoryOptions::for_tests(1, Arc::new(NamespaceOptions::new(options, named)))
}

/// A broker with a far side that has left these deliveries, and the record of its calls by channel.
fn remote(left: Vec<Arc<Publication>>, refuses: bool) -> (Broker, Heard<String>) {
    let (asked, heard) = channel();
    let far = Far {
        asked,
        left,
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
    let mut near = Near::default();
    broker.request(subscribe(1, "a"), NOW, &mut near);
    broker.request(subscribe(2, "throng:state"), NOW, &mut near);
    broker.request(subscribe(3, "throngs:state"), NOW, &mut near);
    assert_eq!(asked(&far), ["a", "throngs:state"]);
    assert_eq!(near.take(), ["2 subscribed true"]);
    assert_eq!(broker.interest(&name("a")), u64::MAX, "nobody knows");
    assert_eq!(broker.interest(&name("throng:state")), 1);
    assert_eq!(broker.interest(&name("throng:other")), 0);
    assert!(broker.publish_elsewhere(Ticket(9), draft("a")).is_ok());
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
    broker.renew(&options().live, NOW);
    assert_eq!(asked(&far), ["renewed 100"]);
}

/// In a hand-over between processes, the far side keeps its channels and gets the steps; channels
/// here move.
#[test]
fn a_far_side_hears_of_its_own_channels_where_a_process_takes_over() {
    let (mut broker, far) = remote(Vec::new(), false);
    let mut near = Near::default();
    broker.request(subscribe(1, "throng:state"), NOW, &mut near);
    let draft = draft("throng:state");
    assert!(broker.publish_here(draft, NOW, &mut near).is_ok());
    assert!(broker.is_elsewhere(&name("a")) && !broker.is_elsewhere(&name("throng:state")));
    assert!(broker.has_stopped());
    assert!(asked(&far).is_empty());
    let mut bytes = Vec::new();
    let mut send = |piece: &[u8]| bytes.extend_from_slice(piece);
    let mut parts = Parts::new(&mut send);
    let stats = broker.stats();
    broker.give_up(&mut parts);
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
    let alone = memory();
    assert!(alone.has_stopped() && !alone.is_elsewhere(&name("a")));
}

#[test]
fn what_the_far_side_refuses_is_told() {
    let (mut broker, _far) = remote(Vec::new(), true);
    let mut near = Near::default();
    broker.request(subscribe(1, "a"), NOW, &mut near);
    assert_eq!(near.take(), ["1 subscribed false"]);
    let refused = broker.publish_elsewhere(Ticket(9), draft("a"));
    let (refusal, draft) = refused.expect_err("it is full");
    assert_eq!((refusal, draft.channel), (Refusal::Busy, name("a")));
    // These have no replies.
    let channel = name("a");
    broker.request(Request::Leave { channel }, NOW, &mut near);
    assert!(near.take().is_empty());
}

#[test]
fn what_the_far_side_has_left_is_handed_on() {
    let left = [delivery("a"), delivery("b")];
    let (mut broker, _far) = remote(left.into(), false);
    let mut near = Near::default();
    assert!(!broker.poll(&mut near));
    assert_eq!(near.take(), ["delivery in a", "delivery in b"]);
    let (mut broker, _far) = remote(Vec::new(), true);
    assert!(broker.poll(&mut near), "more waits there");
    // In memory there are no deliveries from elsewhere.
    assert!(!memory().poll(&mut near));
}
