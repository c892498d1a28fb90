//! The gateway on its shard: subscriptions, last items, receipts, and effects of publishers on the
//! sessions here.

use throng_hub::ReplyTo;
use throng_metrics::{Counter, Gauge};
use throng_session::{Gateway, Sender};

use super::world::{Floor, SHARDS, name_on};
use super::*;
use crate::Mail;
use crate::sequencer::LastItem;

struct Server {
    grip: Grip,
    floor: Floor,
}

impl Server {
    fn new() -> Self {
        let grip = grip();
        let floor = Floor::new(0, grip.shared());
        Self { grip, floor }
    }

    /// A client of this shard on a stream with these fields.
    fn stream(&mut self, index: u32, fields: &[(&str, &str)]) -> ConnId {
        let conn = ConnId::new(ShardId(0), index, 1);
        let mut client = Client::of(conn, self.grip.shared(), self.floor.shared.clone());
        client.solo.now = self.floor.now;
        client.says("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        client.answer(1, 200, fields, "");
        client.told();
        client.orders.clear();
        for command in client.commands.drain(..) {
            let heard = &mut throng_solo::Heard::default();
            self.floor.hub.handle(command, self.floor.now, heard);
        }
        let names: Vec<String> = { client.hub.iter() }
            .map(|name| name[6..].to_owned())
            .collect();
        names.iter().for_each(|name| client.joins(name));
        self.floor.clients.insert(conn, client);
        conn
    }

    fn order(&mut self, order: Order) {
        self.grip.order(order, &mut self.floor);
    }

    fn mail(&mut self, from: u8, mail: Mail) {
        let from = Sender::Shard(ShardId(from));
        self.grip.mail(from, mail, &mut self.floor);
    }

    /// Whether a client's backend was asked.
    fn has_asked(&mut self, conn: ConnId) -> bool {
        let client = self.floor.clients.get_mut(&conn).expect("it is there");
        let is_asking = client.is_asking();
        client.orders.clear();
        is_asking
    }

    fn mails(&mut self) -> Vec<(u8, Mail)> {
        let mails = self.floor.mails.drain(..);
        mails.map(|(to, mail)| (to.0, mail)).collect()
    }

    /// Takes the news of topics for other shards.
    fn topics(&mut self) -> Vec<(u8, bool)> {
        let mails = self.mails().into_iter();
        let topics = mails.filter_map(|(to, mail)| match mail {
            Mail::Topic { is_wanted, .. } => Some((to, is_wanted)),
            _ => None,
        });
        topics.collect()
    }
}

/// Other shards are told of the first subscriber here, and after a while that there is none.
#[test]
fn shards_tell_each_other_what_is_subscribed_to() {
    let mut server = Server::new();
    let name = name_on(0);
    let a = channel(&name);
    let subscribed = || Order::Subscribed { channel: a.clone() };
    server.order(subscribed());
    assert_eq!(server.topics(), [(1, true), (2, true)]);
    server.order(subscribed());
    assert_eq!(server.topics(), []);
    let topic = |is_wanted| Mail::Topic {
        channel: a.clone(),
        is_wanted,
    };
    server.mail(2, topic(true));
    let shards = |server: &Server| {
        server
            .grip
            .topics
            .wanted
            .get(&a)
            .map(|wanted| wanted.shards)
    };
    assert_eq!(shards(&server), Some(0b101));
    server.grip.turn(0, &mut server.floor);
    assert_eq!(server.topics(), [(1, false), (2, false)], "nobody is there");
    assert_eq!(shards(&server), Some(0b100));
    server.mail(2, topic(false));
    assert_eq!(shards(&server), None);
    // It looks every ten seconds.
    server.order(subscribed());
    server.topics();
    server.floor.now.mono = server.floor.now.mono + 9999;
    server.grip.turn(0, &mut server.floor);
    assert_eq!(server.topics(), []);
    server.floor.now.mono = server.floor.now.mono + 1;
    server.grip.turn(0, &mut server.floor);
    assert_eq!(server.topics(), [(1, false), (2, false)]);
    // While there is a subscriber, no other news is sent.
    server.stream(1, &[("Grip-Hold", "stream"), ("Grip-Channel", &name)]);
    server.order(subscribed());
    server.topics();
    server.floor.now.mono = server.floor.now.mono + 10_000;
    server.grip.turn(0, &mut server.floor);
    assert_eq!(server.topics(), []);
}

/// A client that has an older item than the last one asks its backend, on any home shard.
#[test]
fn a_stream_learns_which_item_went_out_last() {
    for home in [0, 1] {
        let mut server = Server::new();
        let name = name_on(home);
        let reliable = format!("{name}; prev-id=1");
        let fields = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", &*reliable),
            ("Grip-Link", "</next>; rel=next; timeout=60"),
        ];
        let conn = server.stream(1, &fields);
        let last = |id: &str| LastItem::Id(id.into());
        let channel = channel(&name);
        let ask = || Order::LastId {
            conn,
            channel: channel.clone(),
        };
        server.order(ask());
        let asked = server.mails();
        assert_eq!(asked.len(), usize::from(home), "another shard is asked");
        for (id, asks) in [("1", false), ("2", true)] {
            let mail = Mail::LastIs {
                conn,
                channel: channel.clone(),
                last: last(id),
            };
            server.mail(home, mail);
            assert_eq!(server.has_asked(conn), asks, "{id}");
        }
        // Another shard asks this one.
        server.mail(
            2,
            Mail::LastId {
                conn,
                channel: channel.clone(),
            },
        );
        let mails = server.mails();
        assert!(
            matches!(&mails[..], [(2, Mail::LastIs { .. })]),
            "{mails:?}"
        );
        // All are to ask.
        let conn = server.stream(2, &fields);
        server.order(Order::Recover);
        assert!(server.has_asked(conn));
        let told = server.mails();
        assert!(
            matches!(&told[..], [(1, Mail::Recover), (2, Mail::Recover)]),
            "{told:?}"
        );
    }
}

/// Nothing is known of the channel. A client that subscribed after publishers were told of the
/// channel has missed nothing; others ask in a moment.
#[test]
fn who_came_after_the_news_of_a_topic_need_not_ask() {
    for (is_before, asks_soon) in [(true, true), (false, false)] {
        let mut server = Server::new();
        let name = name_on(0);
        let channel = channel(&name);
        let reliable = format!("{name}; prev-id=1");
        let fields = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", &*reliable),
            ("Grip-Link", "</next>; rel=next; timeout=60"),
        ];
        let first = is_before.then(|| server.stream(1, &fields));
        server.order(Order::Subscribed {
            channel: channel.clone(),
        });
        let conn = first.unwrap_or_else(|| server.stream(1, &fields));
        server.order(Order::LastId { conn, channel });
        let client = &server.floor.clients[&conn];
        let is_soon = client.deadline_ms().is_some_and(|ms| ms < 2000);
        assert_eq!(is_soon, asks_soon);
    }
}

/// An item goes to its channel's home, which remembers published ones.
#[test]
fn items_go_home() {
    for home in 0..SHARDS {
        let mut server = Server::new();
        let name = name_on(home);
        let json = format!(r#"J{{"channel":"{name}","id":"7","http-stream":{{"content":"x"}}}}"#);
        let item = zmq_pull_item(&[json.into_bytes()]).expect("an item");
        let reply_to = ReplyTo {
            conn: ConnId::new(ShardId(0), 9, 9),
            token: 0,
        };
        server.order(Order::Publish {
            reply_to,
            item: Box::new(item),
            patient: false,
            counts: false,
        });
        let mails = server.mails();
        match &mails[..] {
            [] => {
                let now = server.floor.now.mono;
                let last = server.grip.items.sequencer.last_item(&channel(&name), now);
                assert_eq!((home, last), (0, LastItem::Id("7".into())));
            }
            [(to, Mail::Publish { .. })] => assert_eq!(*to, home),
            other => panic!("{other:?}"),
        }
    }
}

/// Half minutes of connected clients add up to whole ones; the rest is kept.
#[test]
fn minutes_of_clients_are_counted_whole() {
    let mut server = Server::new();
    server.grip.tick(&mut server.floor);
    let shared = server.floor.shared.clone();
    let counters = &shared.counters;
    let before = counters.counter(Counter::GripConnectionMinutes);
    counters.set(Gauge::GripConnections, 3);
    for (half_minutes, minutes) in [(1, 1), (2, 3), (3, 4)] {
        server.floor.now.mono = server.floor.now.mono + 30_000;
        server.grip.tick(&mut server.floor);
        let counted = counters.counter(Counter::GripConnectionMinutes) - before;
        assert_eq!(counted, minutes, "{half_minutes}");
    }
}

/// Counts of sessions that took a publication with a receipt are added up after the last one.
#[test]
fn a_receipt_counts_who_took_it() {
    let own = GripShared::new(options());
    let plain = publication(r#"{"channel":"a","http-stream":{"content":"x"}}"#);
    let receipt = crate::order::Receipt {
        shard: ShardId(1),
        number: 5,
    };
    let counted = |took: u32| {
        let mut publication = Publication::clone(&plain);
        publication.tags = Some(receipt.to_tags());
        // Two at a time, as fan-out has them.
        let others = [Publication::clone(&publication), Publication::clone(&plain)];
        others.iter().for_each(|other| own.took(other));
        (0..took).for_each(|_| own.took(&publication));
        own.carried(&others[0]).expect("a receipt");
        assert_eq!(own.carried(&others[1]), None);
        own.carried(&publication)
    };
    for took in [0, 1, 3] {
        assert_eq!(counted(took), Some((receipt, took.into())));
    }
}
