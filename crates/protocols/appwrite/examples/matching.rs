//! Measures how long an event looks for its receivers among a million connections, and the memory
//! of the index.
//!
//! Appwrite's own table counts users spread over ten channels with one subscription for each; its
//! largest entry is 1,000,000 connections with 10,000,000 subscriptions, 1,121 ms an event. Here
//! the same size comes in several forms, each with ten receivers, and a broadcast to everybody.
//!
//! ```text
//! cargo run --release -p throng-appwrite --example matching [CONNECTIONS [FORM]]
//! ```
//!
//! With a form's number only that one runs, and what the kernel counts as its memory is comparable
//! with what the index says it keeps.
#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the clock and its arguments"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use throng_appwrite::{
    EncodedEvent, FeedMessage, Index, Layout, Matches, MessageLimits, QueryFilter, RealtimeError,
    Subscription, subscription_id,
};

const SUBSCRIPTIONS: u32 = 10;
const RECEIVERS: u32 = 10;

fn main() {
    let numbers: Vec<u32> = std::env::args()
        .skip(1)
        .map(|text| text.parse().expect("numbers as arguments"))
        .collect();
    let connections = numbers.first().copied().unwrap_or(1_000_000);
    let only = numbers.get(1).copied();
    let arguments: Vec<String> = numbers.iter().map(|n| format!(" {n}")).collect();
    println!(
        "command: cargo run --release -p throng-appwrite --example matching{}",
        arguments.concat()
    );
    println!("{connections} connections, each with {SUBSCRIPTIONS} subscriptions (guests: one)");
    println!("times of one event: find its receivers; encode it and write all receivers' ids\n");
    println!(
        "   {:<42} {:>9} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "form", "receivers", "median", "p99", "encode", "B/conn", "build"
    );
    for (number, (name, form)) in (1..).zip(FORMS) {
        if only.is_none_or(|only| only == number) {
            print!("{number}  ");
            measure(name, form, connections, only.is_some());
        }
    }
}

const FORMS: [(&str, Form); 5] = [
    ("10 channels of all, event to 10 users", shared_channels),
    ("10 channels of all, event to a team of 10", teams),
    ("10 documents each, 16 channels, role any", documents),
    ("10 rooms each by query equal, role users", rooms),
    ("guests on files, role any", guests),
];

/// Fills an index and gives the events to match.
type Form = fn(&mut Index, u32) -> Vec<FeedMessage>;

fn measure(name: &str, form: Form, connections: u32, alone: bool) {
    let rss_before = rss_bytes();
    let mut index = Index::new(0x7412_0ff5);
    let started = Instant::now();
    let events = form(&mut index, connections);
    let build = started.elapsed();
    let rss = rss_bytes().saturating_sub(rss_before);
    let bytes = index.stats().bytes;

    let mut matches = Matches::default();
    let mut times: Vec<Duration> = Vec::new();
    let rounds = if events.len() == 1 { 50 } else { 1 };
    for event in events.iter().cycle().take(events.len() * rounds) {
        let started = Instant::now();
        index.matches(event, &mut matches);
        times.push(started.elapsed());
    }
    let receivers = matches.receivers.len();
    let last = events.last().expect("an event");
    let started = Instant::now();
    let encoded = EncodedEvent::new(last, Layout::IdsFirst);
    let mut own = Vec::new();
    for receiver in &matches.receivers {
        own.clear();
        index.write_ids(&matches, receiver, &mut own);
        black_box((&encoded, &own));
    }
    let splice = started.elapsed();
    times.sort_unstable();
    println!(
        "{name:<42} {receivers:>9} {:>9} {:>9} {:>9} {:>7} {:>9}",
        text(times[times.len() / 2]),
        text(times[times.len() * 99 / 100]),
        text(splice),
        bytes / connections as usize,
        text(build),
    );
    if alone {
        println!(
            "\nresident memory grew by {} B/conn",
            rss / u64::from(connections)
        );
    }
}

/// Signed-in users with four roles, all on the same ten channels.
fn shared_channels(index: &mut Index, connections: u32) -> Vec<FeedMessage> {
    users(index, connections, |_, n| {
        (format!("channel.{n}"), QueryFilter::ALL)
    });
    events(connections, |first| {
        let roles = receivers(first, connections).map(|user| format!("user:{user}"));
        event(
            roles.collect(),
            vec!["channel.3".to_owned(), "channel.7".to_owned()],
            "{}",
        )
    })
}

/// Fills the index with teams; the event goes to one of them.
fn teams(index: &mut Index, connections: u32) -> Vec<FeedMessage> {
    users(index, connections, |_, n| {
        (format!("channel.{n}"), QueryFilter::ALL)
    });
    events(connections, |first| {
        let team = format!("team:{}", first / RECEIVERS);
        event(vec![team], vec!["channel.3".to_owned()], "{}")
    })
}

/// Each document has ten subscribers, and every event names sixteen channels, as Appwrite's do.
fn documents(index: &mut Index, connections: u32) -> Vec<FeedMessage> {
    users(index, connections, |user, n| {
        let document = (user / RECEIVERS) * SUBSCRIPTIONS + n;
        (
            format!("databases.main.tables.notes.rows.{document}"),
            QueryFilter::ALL,
        )
    });
    events(connections, |first| {
        let document = (first / RECEIVERS) * SUBSCRIPTIONS + 3;
        let mut channels = vec![format!("databases.main.tables.notes.rows.{document}")];
        for n in 1..16 {
            channels.push(format!(
                "tablesdb.main.tables.notes.rows.{document}.form{n}"
            ));
        }
        event(vec!["any".to_owned()], channels, "{}")
    })
}

/// Everybody is on one channel and asks for ten rooms of ten users by query.
fn rooms(index: &mut Index, connections: u32) -> Vec<FeedMessage> {
    let limits = MessageLimits::default();
    users(index, connections, |user, n| {
        let room = (user / RECEIVERS) * SUBSCRIPTIONS + n;
        let query = format!(r#"{{"method":"equal","attribute":"room","values":["r{room}"]}}"#);
        let filter =
            QueryFilter::parse(&[query], &limits, RealtimeError::MessageQuery).expect("a query");
        ("databases.main.tables.messages.rows".to_owned(), filter)
    });
    events(connections, |first| {
        let room = (first / RECEIVERS) * SUBSCRIPTIONS + 3;
        let channel = "databases.main.tables.messages.rows".to_owned();
        let payload = format!(r#"{{"$id":"m","room":"r{room}","text":"hello","likes":3}}"#);
        event(vec!["users".to_owned()], vec![channel], &payload)
    })
}

/// Appwrite's benchmark: guests with one channel, here with an event for everyone.
fn guests(index: &mut Index, connections: u32) -> Vec<FeedMessage> {
    let channels = ["files".to_owned()];
    for connection in 0..connections {
        index
            .insert(connection, "console", &["guests"])
            .expect("a new key");
        let id = subscription_id(u64::from(connection), connection);
        let subscription = Subscription {
            id: &id,
            channels: &channels,
            filter: &QueryFilter::ALL,
        };
        index
            .subscribe(connection, &[subscription])
            .expect("a known key");
    }
    let message = concat!(
        r#"{"project":"console","roles":["any"],"data":{"events":["e"],"#,
        r#""channels":["files"],"timestamp":"t","payload":{}}}"#,
    );
    vec![FeedMessage::parse(message.as_bytes(), 1 << 20).expect("a message")]
}

fn users(
    index: &mut Index,
    connections: u32,
    subscription: impl Fn(u32, u32) -> (String, QueryFilter),
) {
    for user in 0..connections {
        let roles = [
            format!("user:{user}"),
            "users".to_owned(),
            format!("user:{user}/verified"),
            "users/verified".to_owned(),
            format!("team:{}", user / RECEIVERS),
        ];
        index.insert(user, "bench", &roles).expect("a new key");
        let owned: Vec<(String, [String; 1], QueryFilter)> = (0..SUBSCRIPTIONS)
            .map(|n| {
                let (channel, filter) = subscription(user, n);
                (subscription_id(u64::from(user), n), [channel], filter)
            })
            .collect();
        let subscriptions: Vec<Subscription<'_>> = owned
            .iter()
            .map(|(id, channels, filter)| Subscription {
                id,
                channels,
                filter,
            })
            .collect();
        index.subscribe(user, &subscriptions).expect("a known key");
    }
}

/// A thousand events, each for another ten users.
fn events(connections: u32, make: impl Fn(u32) -> FeedMessage) -> Vec<FeedMessage> {
    let groups = (connections / RECEIVERS).max(1);
    (0..1000_u32)
        .map(|n| make(n.wrapping_mul(2_654_435_761) % groups * RECEIVERS))
        .collect()
}

fn receivers(first: u32, connections: u32) -> impl Iterator<Item = u32> {
    (0..RECEIVERS).map(move |n| (first + n * 99_991) % connections)
}

fn event(roles: Vec<String>, channels: Vec<String>, payload: &str) -> FeedMessage {
    let data = format!(
        r#"{{"events":["e"],"channels":{channels:?},"timestamp":"t","payload":{payload}}}"#
    );
    let message = format!(r#"{{"project":"bench","roles":{roles:?},"data":{data}}}"#);
    FeedMessage::parse(message.as_bytes(), 1 << 20).expect("a message")
}

fn text(duration: Duration) -> String {
    let micros = duration.as_secs_f64() * 1e6;
    if micros < 1000.0 {
        format!("{micros:.1} us")
    } else if micros < 1e6 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

/// Resident bytes of this process as the kernel tells; 0 where it does not.
fn rss_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok());
    pages.unwrap_or(0) * 4096
}
