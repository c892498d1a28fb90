//! One home: bounds and books that the suite of brokers cannot see. What a home does for clients is
//! told there.

mod bounds;
#[expect(
    clippy::disallowed_types,
    reason = "a store and the test look at the same tape"
)]
mod durable;
mod moved;

use throng_types::json::payload_of;

use super::*;
use crate::{ChannelOptions, HistoryQuery, LiveOptions};

const SHARD: ShardId = ShardId(0);

impl Home {
    fn publish(&mut self, draft: Draft, now: Now) -> Accepted {
        let (retention, interest) = (
            self.retention(&draft.channel),
            self.interest(&draft.channel),
        );
        self.accept(draft, retention, interest, now)
    }

    /// The texts that a channel keeps, or those of a page of it.
    fn texts(&mut self, channel: &str, query: HistoryQuery, ms: u64) -> Vec<String> {
        let page = self.history(&name(channel), query, at(ms)).unwrap();
        texts(&page.publications)
    }
}

fn at(ms: u64) -> Now {
    Now {
        mono: Millis(ms),
        unix_ms: 1_700_000_000_000 + ms,
    }
}

/// Bytes that one tiny publication of a channel with a short name costs, with its stream.
const TINY_BYTES: usize = size_of::<Publication>() + STREAM_BYTES + 7;

fn options(size: u32, ttl_ms: u64, history_bytes_max: usize) -> MemoryOptions {
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: size,
            ttl_ms,
        },
        recovery: true,
        ..ChannelOptions::default()
    };
    let namespaces = NamespaceOptions::new(ChannelOptions::default(), vec![("kept".into(), kept)]);
    let mut options = MemoryOptions::for_tests(1, Arc::new(namespaces));
    options.history = Budget::new(history_bytes_max, 1);
    options.live.streams_max = 1000;
    options.live.reply.publications_max = 1000;
    options
}

fn home(size: u32, ttl_ms: u64, history_bytes_max: usize) -> Home {
    Home::new(options(size, ttl_ms, history_bytes_max))
}

impl Home {
    /// Checks the invariants at the module's head.
    fn check(&self) {
        let (mut bytes, mut kept) = (self.keys.bytes(), 0);
        for (channel, stream) in self.streams.iter() {
            let key = self.streams.key(channel).unwrap();
            let at = (stream.due, key);
            let is_idle = stream.kept() == 0 && stream.interest == 0;
            assert_eq!(self.expiring.contains(&at), stream.kept() > 0, "{channel}");
            assert_eq!(self.idle.contains(&at), is_idle, "{channel}");
            kept += stream.kept();
            bytes += stream.cost_bytes();
            if stream.kept() > 0 {
                bytes += STREAM_BYTES + channel.as_str().len();
            }
        }
        assert!(self.expiring.len() + self.idle.len() <= self.streams.len());
        assert_eq!(
            (self.history_publications, self.share.used()),
            (kept, bytes)
        );
    }
}

fn name(name: &str) -> ChannelName {
    ChannelName::new(name).unwrap()
}

fn draft(channel: &str, data: &str) -> Draft {
    Draft::new(name(channel), payload_of(data.as_bytes()))
}

fn keyed(channel: &str, key: &str) -> Draft {
    Draft {
        idempotency_key: Some(key.into()),
        ..draft(channel, key)
    }
}

fn versioned(number: u64, channel: &str, data: &str) -> Draft {
    let epoch = "".into();
    Draft {
        version: Some(Box::new(Version { number, epoch })),
        ..draft(channel, data)
    }
}

fn publish(home: &mut Home, channel: &str, data: &str, ms: u64) -> Position {
    home.publish(draft(channel, data), at(ms)).position.unwrap()
}

fn texts(publications: &[Arc<Publication>]) -> Vec<String> {
    publications
        .iter()
        .map(|publication| String::from_utf8(publication.payload.bytes.to_vec()).unwrap())
        .collect()
}

#[test]
fn homes_are_spread_and_stable() {
    let homes: Vec<_> = (0..100)
        .map(|n| home_of(&name(&format!("c{n}")), 4))
        .collect();
    for shard in 0..4 {
        assert!(homes.iter().filter(|home| home.0 == shard).count() > 10);
    }
    assert_eq!(home_of(&name("c1"), 1), ShardId(0));
}

fn live(size: u32) -> LiveOptions {
    options(size, 10_000, 1 << 20).live
}
