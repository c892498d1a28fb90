//! The data of a played Redis, and the commands on it: those that the project's driver uses.
//!
//! Commands answer what Redis 7 answers. Each scripted call comes here too, from real Lua.

use std::collections::{BTreeMap, BTreeSet};

use super::resp::Reply;
use crate::net::Net;

/// An entry's id: its two numbers.
type Id = (u64, u64);
/// Fields and values of an entry.
type Fields = Vec<Vec<u8>>;

/// A value of a key.
#[derive(Clone)]
enum Value {
    /// Nobody reads one back.
    Text,
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    Stream(Stream),
}

#[derive(Clone, Default)]
struct Stream {
    entries: BTreeMap<Id, Fields>,
    last: Id,
}

/// Writes that Redis takes none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refuses {
    Nothing,
    /// Redis is full: whatever may need memory is refused.
    Memory,
    /// Redis has too few replicas: all writes are refused.
    Replicas,
}

/// Keys and their values; a copy is what a disk or a replica has.
#[derive(Clone, Default)]
pub(crate) struct Data {
    keys: BTreeMap<Vec<u8>, (Value, Option<u64>)>,
}

impl Data {
    /// Another program deletes the oldest of a stream, or all that is known of it; whether there
    /// was anything.
    pub(crate) fn meddle(&mut self, net: &Net) -> bool {
        let is_of_stream = |value: &Value| match value {
            Value::Stream(_) => true,
            Value::Hash(hash) => hash.contains_key(&b"g"[..]),
            _ => false,
        };
        let of_streams = self
            .keys
            .iter()
            .filter(|(_, (value, _))| is_of_stream(value));
        let of_streams: Vec<Vec<u8>> = of_streams.map(|(key, _)| key.clone()).collect();
        if of_streams.is_empty() {
            return false;
        }
        let key = &of_streams[net.below(of_streams.len())];
        match self.keys.get_mut(key) {
            Some((Value::Stream(Stream { entries, .. }), _)) if net.percent(50) => {
                let count = net.between(1, 3).min(entries.len());
                (0..count).for_each(|_| drop(entries.pop_first()));
            }
            _ => drop(self.keys.remove(key)),
        }
        true
    }
}

/// A command that runs, and the time.
pub(crate) struct Call<'a> {
    pub(crate) data: &'a mut Data,
    /// Redis's own clock, in milliseconds.
    pub(crate) now_ms: u64,
    pub(crate) refuses: Refuses,
    /// A write of the same script was taken: Redis refuses none behind it.
    pub(crate) has_written: &'a mut bool,
}

const WRONG_TYPE: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";

/// Acts on the value of a key, if it is of one type; each begins empty.
macro_rules! with_each {
    ($($name:ident: $kind:ident($type:ty);)+) => {
        $(fn $name(&mut self, key: &[u8], act: impl FnOnce(&mut $type) -> Reply) -> Reply {
            self.with(key, Value::$kind(Default::default()), |value| match value {
                Value::$kind(value) => act(value),
                _ => Reply::Error(WRONG_TYPE.to_owned()),
            })
        })+
    };
}

impl Call<'_> {
    /// Carries a command out; `None` if it is none of those on data.
    pub(crate) fn run(&mut self, name: &str, args: &[Vec<u8>]) -> Option<Reply> {
        let needs_memory = matches!(
            name,
            "HSET" | "HSETNX" | "HINCRBY" | "SADD" | "SET" | "XADD"
        );
        let writes = needs_memory || matches!(name, "DEL" | "HDEL" | "SREM" | "XDEL" | "PEXPIRE");
        let is_refused = match self.refuses {
            Refuses::Nothing => None,
            Refuses::Memory => {
                needs_memory.then_some("OOM command not allowed when used memory > 'maxmemory'.")
            }
            Refuses::Replicas => writes.then_some("NOREPLICAS Not enough good replicas to write."),
        };
        if let Some(why) = is_refused.filter(|_| !*self.has_written) {
            return Some(Reply::Error(why.to_owned()));
        }
        let reply = self.on_data(name, args)?;
        *self.has_written |= writes;
        Some(reply)
    }

    fn on_data(&mut self, name: &str, args: &[Vec<u8>]) -> Option<Reply> {
        let key = args.first().cloned().unwrap_or_default();
        let more = args.get(1..).unwrap_or_default();
        Some(match name {
            "TIME" => Reply::Array(vec![
                Reply::text(self.now_ms / 1000),
                Reply::text(self.now_ms % 1000 * 1000),
            ]),
            "EXISTS" => Reply::Int(i64::from(self.value(&key).is_some())),
            "DEL" => {
                let gone = args.iter().filter(|key| self.remove(key)).count();
                Reply::Int(gone as i64)
            }
            "PEXPIRE" => {
                let at = self.now_ms + number(more.first());
                let is_there = self.value(&key).is_some();
                if let Some((_, until)) = self.data.keys.get_mut(&key) {
                    *until = Some(at);
                }
                Reply::Int(i64::from(is_there))
            }
            "SET" => self.set(key, more),
            "HGET" => self.with_hash(&key, |hash| Reply::bulk(hash.get(&more[0]))),
            "HMGET" => self.with_hash(&key, |hash| {
                Reply::Array(more.iter().map(|it| Reply::bulk(hash.get(it))).collect())
            }),
            "HLEN" => self.with_hash(&key, |hash| Reply::Int(hash.len() as i64)),
            "HVALS" => self.with_hash(&key, |hash| Reply::bulks(hash.values())),
            "HGETALL" => self.with_hash(&key, |hash| {
                Reply::bulks(hash.iter().flat_map(|(name, value)| [name, value]))
            }),
            "HSET" => self.with_hash(&key, |hash| {
                let mut new = 0;
                for pair in more.chunks_exact(2) {
                    new += i64::from(hash.insert(pair[0].clone(), pair[1].clone()).is_none());
                }
                Reply::Int(new)
            }),
            "HSETNX" => self.with_hash(&key, |hash| {
                let is_new = !hash.contains_key(&more[0]);
                hash.entry(more[0].clone())
                    .or_insert_with(|| more[1].clone());
                Reply::Int(i64::from(is_new))
            }),
            "HDEL" => self.with_hash(&key, |hash| {
                Reply::Int(more.iter().filter(|it| hash.remove(*it).is_some()).count() as i64)
            }),
            "HINCRBY" => self.with_hash(&key, |hash| {
                let before = hash.get(&more[0]).map_or(0, |it| signed(it));
                let now = before + signed(&more[1]);
                hash.insert(more[0].clone(), now.to_string().into_bytes());
                Reply::Int(now)
            }),
            "SADD" => self.with_set(&key, |set| {
                Reply::Int(more.iter().filter(|it| set.insert((*it).clone())).count() as i64)
            }),
            "SREM" => self.with_set(&key, |set| {
                Reply::Int(more.iter().filter(|it| set.remove(*it)).count() as i64)
            }),
            "SMEMBERS" => self.with_set(&key, |set| {
                Reply::Set(set.iter().map(|it| Reply::bulk(Some(it))).collect())
            }),
            "SRANDMEMBER" => self.with_set(&key, |set| {
                Reply::bulks(set.iter().take(number(more.first()) as usize))
            }),
            "XADD" => self.add(&key, more),
            "XDEL" => self.with_stream(&key, |stream| {
                let gone = more.iter().map(|it| stream.entries.remove(&id(it, 0)));
                Reply::Int(gone.flatten().count() as i64)
            }),
            "XRANGE" => self.range(&key, &more[0], &more[1], more.get(3), false),
            "XREVRANGE" => self.range(&key, &more[1], &more[0], more.get(3), true),
            _ => return None,
        })
    }

    /// The value of a key that has not expired.
    fn value(&mut self, key: &[u8]) -> Option<&mut Value> {
        let has_expired = { self.data.keys.get(key) }
            .is_some_and(|(_, until)| until.is_some_and(|until| until <= self.now_ms));
        if has_expired {
            self.data.keys.remove(key);
        }
        self.data.keys.get_mut(key).map(|(value, _)| value)
    }

    fn remove(&mut self, key: &[u8]) -> bool {
        self.value(key).is_some() && self.data.keys.remove(key).is_some()
    }

    /// Acts on the value of a key, which begins as `new` and goes if nothing is left in it.
    fn with(&mut self, key: &[u8], new: Value, act: impl FnOnce(&mut Value) -> Reply) -> Reply {
        if self.value(key).is_none() {
            self.data.keys.insert(key.to_vec(), (new, None));
        }
        let reply = self.value(key).map_or(Reply::Nil, act);
        let is_empty = match self.value(key) {
            Some(Value::Hash(hash)) => hash.is_empty(),
            Some(Value::Set(set)) => set.is_empty(),
            Some(Value::Stream(stream)) => stream.last == (0, 0),
            _ => false,
        };
        if is_empty {
            self.data.keys.remove(key);
        }
        reply
    }

    with_each! {
        with_hash: Hash(BTreeMap<Vec<u8>, Vec<u8>>);
        with_set: Set(BTreeSet<Vec<u8>>);
        with_stream: Stream(Stream);
    }

    /// `SET key value [NX] [PX ms]`.
    fn set(&mut self, key: Vec<u8>, more: &[Vec<u8>]) -> Reply {
        let has = |word: &[u8]| more.iter().position(|it| it == word);
        if has(b"NX").is_some() && self.value(&key).is_some() {
            return Reply::Nil;
        }
        let until = has(b"PX").map(|at| self.now_ms + number(more.get(at + 1)));
        self.data.keys.insert(key, (Value::Text, until));
        Reply::Simple("OK")
    }

    /// `XADD key MAXLEN n id field value …`.
    fn add(&mut self, key: &[u8], more: &[Vec<u8>]) -> Reply {
        let most = number(more.get(1)) as usize;
        let new = id(&more[2], 0);
        self.with_stream(key, |Stream { entries, last }| {
            if new <= *last {
                let why = "ERR The ID specified in XADD is equal or smaller than the target \
                           stream top item";
                return Reply::Error(why.to_owned());
            }
            *last = new;
            entries.insert(new, more[3..].to_vec());
            while entries.len() > most {
                entries.pop_first();
            }
            Reply::Bulk(more[2].clone())
        })
    }

    fn range(
        &mut self,
        key: &[u8],
        from: &[u8],
        to: &[u8],
        count: Option<&Vec<u8>>,
        is_reversed: bool,
    ) -> Reply {
        let bound = |text: &[u8], missing: u64| match text.strip_prefix(b"(") {
            Some(text) => (id(text, missing), false),
            None if text == b"-" => ((0, 0), true),
            None if text == b"+" => ((u64::MAX, u64::MAX), true),
            None => (id(text, missing), true),
        };
        let (from, with_from) = bound(from, 0);
        let (to, with_to) = bound(to, u64::MAX);
        let most = count.map_or(usize::MAX, |count| number(Some(count)) as usize);
        self.with_stream(key, |Stream { entries, .. }| {
            let is_in = |(id, _): &(&Id, &Fields)| {
                (from < **id || with_from && from == **id) && (**id < to || with_to && **id == to)
            };
            let mut found: Vec<Reply> = { entries.iter().filter(is_in) }
                .map(|((a, b), fields)| {
                    let id = Reply::text(format!("{a}-{b}"));
                    Reply::Array(vec![id, Reply::bulks(fields.iter())])
                })
                .collect();
            if is_reversed {
                found.reverse();
            }
            found.truncate(most);
            Reply::Array(found)
        })
    }
}

pub(crate) fn number(text: Option<&Vec<u8>>) -> u64 {
    text.map_or(0, |text| signed(text).max(0) as u64)
}

fn signed(text: &[u8]) -> i64 {
    let text = String::from_utf8_lossy(text);
    text.parse()
        .unwrap_or_else(|_| panic!("not a number: {text}"))
}

/// Reads an id, which may lack its second number.
pub(crate) fn id(text: &[u8], missing: u64) -> Id {
    let text = String::from_utf8_lossy(text);
    match text.split_once('-') {
        Some((a, b)) => (signed(a.as_bytes()) as u64, signed(b.as_bytes()) as u64),
        None => (signed(text.as_bytes()) as u64, missing),
    }
}
