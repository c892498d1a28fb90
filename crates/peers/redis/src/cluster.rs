//! Redis Cluster: which part of the channels lies on which server.
//!
//! Channels are shared among [`PARTITIONS`] parts by their names, as among several Redis. Each part
//! has one hash tag in all of its names, so that all of it is in one slot, on one primary: scripts
//! stay whole, and one connection still is the one road of commands, answers and deliveries
//! (sharded publish and subscribe). A part is one peer, and the slot names its server, as
//! Sentinels name one. Which server that is comes from `CLUSTER SLOTS` before each connection;
//! a connection ends when its server no longer has the slot.
//!
//! Owns: the addresses of servers that may be asked. Never: a connection that lasts.

#![expect(
    clippy::disallowed_types,
    reason = "a node is made on one thread and works on another"
)]

use std::path::Path;
use std::sync::{Arc, Mutex};

use redis::{RedisError, Value};
use throng_peer::task::Net;
use throng_redis_link::{ANSWER_BYTES_MAX, Place, RedisLink, Servers, value};
use throng_types::lock;

use crate::answer::reason;

/// Number of parts among which channels are shared. All names depend on it. Twelve lie evenly on 1,
/// 2, 3, 4, 6 and 12 primaries.
pub(crate) const PARTITIONS: u32 = 12;
/// Slots of a cluster, by its specification.
const SLOTS: u32 = 16_384;
/// Addresses that are remembered besides those of the configuration.
const LEARNED_MAX: usize = 64;
/// Beginning of an address of a cluster, and of those of its servers.
const SCHEMES: [(&str, &str); 2] = [
    ("redis+cluster://", "redis://"),
    ("rediss+cluster://", "rediss://"),
];

/// Host and port of a server.
type Address = (String, u16);

pub(crate) fn is_cluster(url: &str) -> bool {
    SCHEMES.iter().any(|(begins, _)| url.starts_with(begins))
}

/// The URLs of its parts: that of the cluster, and the number of the part.
pub(crate) fn parts(url: &str) -> impl Iterator<Item = String> {
    let url = url.trim_end_matches('/');
    (0..PARTITIONS).map(move |part| format!("{url}/{part}"))
}

#[derive(Clone)]
pub(crate) struct Part {
    /// Credentials of all servers, at no address.
    there: Place,
    seeds: Vec<Address>,
    /// Servers that the cluster has named. Bound: [`LEARNED_MAX`].
    learned: Arc<Mutex<Vec<Address>>>,
    slot: u32,
    /// Hash tag of all names of this part.
    pub(crate) tag: String,
}

impl Part {
    /// Reads what [`parts`] gives; `None` if it is not of that form.
    pub(crate) fn new(url: &str) -> Option<Self> {
        let Servers {
            scheme,
            credentials,
            hosts,
            path,
        } = Servers::read(url, &SCHEMES)?;
        let part: u32 = path.parse().ok().filter(|part| *part < PARTITIONS)?;
        let address = |host: &str| {
            let place = Place::new(&format!("redis://{host}")).ok()?;
            Some((place.host, place.port))
        };
        let seeds: Option<Vec<Address>> = hosts.split(',').map(address).collect();
        let tag = tag(part);
        Some(Self {
            there: Place::new(&format!("{scheme}{credentials}host:1/0")).ok()?,
            seeds: seeds?,
            learned: Arc::default(),
            slot: slot(tag.as_bytes()),
            tag,
        })
    }

    /// Finds the server that has the part. All that are known are asked in turn, each within
    /// `timeout_ms`, until one of them names it.
    pub(crate) async fn find(
        &self,
        net: &Net,
        timeout_ms: u64,
        authorities: Option<&Path>,
    ) -> Result<Place, String> {
        let mut why = "no server of the cluster is known".to_owned();
        for (host, port) in self.known() {
            let asked = self.there.at(host, port);
            match ask(net, &asked, timeout_ms, authorities).await {
                Ok(slots) => {
                    let (owner, all) = owner(&slots, self.slot, &asked.host);
                    self.learn(all);
                    if let Some((host, port)) = owner {
                        return Ok(self.there.at(host, port));
                    }
                    why = format!("no server of the cluster has the slot {}", self.slot);
                }
                Err(error) => why = reason(error),
            }
        }
        Err(format!("no server of the cluster names another: {why}"))
    }

    fn learn(&self, addresses: Vec<Address>) {
        let mut learned = lock(&self.learned);
        *learned = addresses;
        learned.truncate(LEARNED_MAX);
        // Another one is asked first next time: one may be wrong for long.
        let turn = learned.len().min(1);
        learned.rotate_left(turn);
    }

    /// Those that the cluster named, in turns, and those of the configuration.
    fn known(&self) -> Vec<Address> {
        let mut learned = lock(&self.learned);
        if !learned.is_empty() {
            learned.rotate_left(1);
        }
        let mut known = learned.clone();
        known.extend(
            { self.seeds.iter() }
                .filter(|seed| !learned.contains(seed))
                .cloned(),
        );
        known
    }
}

async fn ask(
    net: &Net,
    place: &Place,
    timeout_ms: u64,
    authorities: Option<&Path>,
) -> Result<Value, RedisError> {
    let link = RedisLink::connect(net, place, timeout_ms, authorities, ANSWER_BYTES_MAX);
    link.await?.ask(&[b"CLUSTER", b"SLOTS"]).await
}

/// The primary that has a slot, and all servers; where one has no name, it is where the answer came
/// from.
fn owner(slots: &Value, slot: u32, asked: &str) -> (Option<Address>, Vec<Address>) {
    let (mut owner, mut all) = (None, Vec::new());
    for range in value::list(slots).unwrap_or_default() {
        let Some([from, to, servers @ ..]) = value::list(range) else {
            continue;
        };
        let is_here = match (value::number(from), value::number(to)) {
            (Some(from), Some(to)) => (from..=to).contains(&u64::from(slot)),
            _ => false,
        };
        for (at, server) in servers.iter().enumerate() {
            let Some([host, port, ..]) = value::list(server) else {
                continue;
            };
            let host = value::text(host).filter(|host| !host.is_empty() && *host != "?");
            let host = host.unwrap_or(asked).to_owned();
            let port = value::number(port).and_then(|port| u16::try_from(port).ok());
            let Some(port) = port else { continue };
            let address = (host, port);
            if is_here && at == 0 {
                owner = Some(address.clone());
            }
            if !all.contains(&address) {
                all.push(address);
            }
        }
    }
    (owner, all)
}

/// The tag of a part: the first number whose slot is in the part's share of all slots, which is how
/// clusters give them to their servers to begin with.
fn tag(part: u32) -> String {
    let share = part * SLOTS / PARTITIONS..(part + 1) * SLOTS / PARTITIONS;
    let mut tags = (0_u32..).map(|number| number.to_string());
    let tag = tags.find(|tag| share.contains(&slot(tag.as_bytes())));
    tag.unwrap_or_default()
}

/// The slot of a hash tag (Redis Cluster specification, "Key distribution model"): its CRC-16 by
/// the polynomial 0x1021.
fn slot(tag: &[u8]) -> u32 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let next = crc << 1;
            if crc & 0x8000 == 0 {
                next
            } else {
                next ^ 0x1021
            }
        })
    });
    u32::from(crc) % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The checksum that the specification states for this text.
        assert_eq!(slot(b"123456789"), 0x31c3);
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn parts_lie_evenly_on_servers() {
        for servers in [1, 2, 3, 4, 6, 12] {
            let mut counts = vec![0; servers as usize];
            for part in 0..PARTITIONS {
                let slot = slot(tag(part).as_bytes());
                // As redis-cli deals them out.
                let server = (0..servers).rfind(|it| slot >= (it * SLOTS).div_ceil(servers));
                counts[server.unwrap() as usize] += 1;
            }
            let fair = PARTITIONS / servers;
            assert!(counts.iter().all(|count| *count == fair), "{counts:?}");
        }
    }

    #[test]
    fn a_url_gives_its_parts() {
        let url = "rediss+cluster://ann:p%40ss@a:1,b,[::1]:3";
        let urls: Vec<String> = parts(url).collect();
        assert_eq!(urls.len(), PARTITIONS as usize);
        let part = Part::new(&urls[3]).expect("a part");
        let seed = |host: &str, port| (host.to_owned(), port);
        let seeds = [seed("a", 1), seed("b", 6379), seed("::1", 3)];
        assert_eq!(part.seeds, seeds);
        assert_eq!(part.known(), seeds);
        for wrong in ["redis://a/1", "redis+cluster://a", "redis+cluster://a/3/0"] {
            assert!(Part::new(wrong).is_none(), "{wrong}");
        }
        assert!(Part::new(&format!("redis+cluster://a/{PARTITIONS}")).is_none());
    }

    #[test]
    fn the_primary_of_a_slot_is_the_first_of_its_range() {
        let text = |text: &str| Value::BulkString(text.into());
        let server = |host: &str, port| Value::Array(vec![text(host), Value::Int(port)]);
        let range = |from, to, servers: Vec<Value>| {
            Value::Array([vec![Value::Int(from), Value::Int(to)], servers].concat())
        };
        let slots = Value::Array(vec![
            range(0, 9, vec![server("a", 1), server("b", 2)]),
            range(10, 10, vec![server("", 3)]),
            Value::Nil,
        ]);
        let (first, all) = owner(&slots, 9, "c");
        assert_eq!(first, Some(("a".to_owned(), 1)));
        assert_eq!(all.len(), 3);
        assert_eq!(owner(&slots, 10, "c").0, Some(("c".to_owned(), 3)));
        assert_eq!(owner(&slots, 11, "c").0, None);
        assert_eq!(owner(&Value::Nil, 0, "c"), (None, Vec::new()));
    }
}
