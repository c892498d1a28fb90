//! A stream of Redis that is read by a consumer group.
//!
//! Entries are read for the group, published, and acknowledged (`XACK`). They stay in the stream
//! until its owner trims it. What was read and not acknowledged is read first after every
//! interruption.
//!
//! # Why order holds
//!
//! All nodes are one consumer of the group, and one of them reads: the holder of a lease. That is a
//! key, which is looked at in the same step in which entries are read (a script). A node that was
//! put aside until its lease ended may still publish the one batch that it had read. The next
//! holder begins with the same entries, since they are not acknowledged; each of the two offers
//! those of a channel in their order and with the same idempotency keys. So each is published once,
//! in order.
//!
//! The place of an entry is its id. Redis gives no id twice, unless a stream is deleted and its
//! producers choose ids themselves.

use std::collections::HashMap;
use std::time::Duration;

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use redis::{Connection, RedisError, Value, cmd};
use throng_redis_address::Source as Address;

use crate::event::Event;
use crate::source::{ANSWER, Fault, LOOK, Source};
use crate::url::UrlError;

/// How long a reader is believed to live without a word.
const LEASE: Duration = Duration::from_secs(10);
/// The name under which every node reads.
const CONSUMER: &str = "throng";
/// Reads for whoever holds the lease, and takes it if it is free. 0 if another one has it.
const READ: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('XREADGROUP', 'GROUP', ARGV[3], ARGV[4], 'COUNT', ARGV[5], \
'STREAMS', KEYS[2], ARGV[6])";
/// Gives the lease back.
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end";

/// A stream, and where it is.
#[derive(Clone)]
pub struct RedisOptions {
    address: Address,
    stream: String,
    group: String,
    /// Begins the places of entries.
    name: String,
}

impl std::fmt::Debug for RedisOptions {
    /// Without the address, which may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("RedisOptions");
        shown
            .field("stream", &self.stream)
            .field("group", &self.group);
        shown.finish_non_exhaustive()
    }
}

impl RedisOptions {
    /// `url` is `redis://user:password@host:port/db`, or another that [`Address`] reads.
    ///
    /// # Errors
    /// What is wrong with the URL.
    pub fn new(url: &str, feed: &str, stream: &str, group: &str) -> Result<Self, UrlError> {
        let unread = UrlError("it is not an address of Redis, as redis://host:6379/0 is one");
        Ok(Self {
            address: Address::new(url).map_err(|_| unread)?,
            stream: stream.to_owned(),
            group: group.to_owned(),
            name: format!("redis {feed}"),
        })
    }

    /// Who reads for the group says so here.
    fn lease(&self) -> String {
        format!("throng:feed:{}:{}", self.stream, self.group)
    }
}

/// A connection, and the batch that it has under way.
struct Stream {
    connection: Connection,
    options: RedisOptions,
    batch_max: usize,
    /// Tells this connection from other readers.
    token: String,
    /// Entries that were read before may not be acknowledged: they come first.
    has_unacknowledged: bool,
    /// The ids of the batch.
    batch: Vec<String>,
    /// The newest id that was read.
    last: String,
}

pub(crate) fn connect(options: &RedisOptions, batch_max: usize) -> Result<Box<dyn Source>, Fault> {
    let client = options.address.find(ANSWER, None)?;
    let mut connection = client.get_connection_with_timeout(ANSWER)?;
    connection.set_read_timeout(Some(ANSWER))?;
    connection.set_write_timeout(Some(ANSWER))?;
    let mut create = cmd("XGROUP");
    create
        .arg("CREATE")
        .arg(&options.stream)
        .arg(&options.group);
    // From the oldest entry; the stream is made if there is none.
    let made: Result<Value, RedisError> = create.arg("0").arg("MKSTREAM").query(&mut connection);
    if let Err(error) = made
        && error.code() != Some("BUSYGROUP")
    {
        return Err(error.into());
    }
    let mut token = [0; 12];
    rand::fill(&mut token).map_err(|_| Fault::new("no random bytes"))?;
    Ok(Box::new(Stream {
        connection,
        options: options.clone(),
        batch_max,
        token: STANDARD_NO_PAD.encode(token),
        has_unacknowledged: true,
        batch: Vec::new(),
        last: "$".to_owned(),
    }))
}

impl Source for Stream {
    fn take(&mut self) -> Result<Vec<Event>, Fault> {
        let found = self.read()?;
        if matches!(found, Value::Int(_)) {
            // Another node reads.
            self.has_unacknowledged = true;
            std::thread::sleep(LOOK);
            return Ok(Vec::new());
        }
        let events = self.events(&found);
        if events.is_empty() && !std::mem::take(&mut self.has_unacknowledged) {
            self.wait()?;
        }
        Ok(events)
    }

    fn done(&mut self) -> Result<(), Fault> {
        let mut acknowledge = cmd("XACK");
        acknowledge
            .arg(&self.options.stream)
            .arg(&self.options.group);
        acknowledge.arg(std::mem::take(&mut self.batch));
        Ok(acknowledge.query::<()>(&mut self.connection)?)
    }

    fn put_back(&mut self) -> Result<(), Fault> {
        self.batch.clear();
        self.has_unacknowledged = true;
        Ok(())
    }

    /// What the group has not read, and what was read and is not acknowledged. Redis does not know
    /// the former where entries were deleted in the midst.
    fn lag(&mut self) -> Result<Option<u64>, Fault> {
        let mut groups = cmd("XINFO");
        groups.arg("GROUPS").arg(&self.options.stream);
        let groups: Vec<HashMap<String, Value>> = groups.query(&mut self.connection)?;
        let ours = self.options.group.as_bytes();
        let is_ours = |group: &&HashMap<String, Value>| {
            let name = group.get("name").map(bytes);
            name == Some(ours)
        };
        let number = |group: &HashMap<String, Value>, name: &str| match group.get(name) {
            Some(Value::Int(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let group = groups.iter().find(is_ours);
        Ok(group.and_then(|group| Some(number(group, "lag")? + number(group, "pending")?)))
    }
}

impl Stream {
    fn read(&mut self) -> Result<Value, Fault> {
        let options = &self.options;
        let from = if self.has_unacknowledged { "0" } else { ">" };
        let mut read = cmd("EVAL");
        read.arg(READ)
            .arg(2)
            .arg(options.lease())
            .arg(&options.stream);
        read.arg(&self.token).arg(LEASE.as_millis() as u64);
        read.arg(&options.group).arg(CONSUMER);
        read.arg(self.batch_max).arg(from);
        Ok(read.query(&mut self.connection)?)
    }

    /// Waits for an entry. One that comes before the wait begins is found with the next look.
    fn wait(&mut self) -> Result<(), Fault> {
        let mut wait = cmd("XREAD");
        wait.arg("COUNT")
            .arg(1)
            .arg("BLOCK")
            .arg(LOOK.as_millis() as u64);
        wait.arg("STREAMS")
            .arg(&self.options.stream)
            .arg(&self.last);
        wait.query::<Value>(&mut self.connection)?;
        Ok(())
    }

    /// The entries in an answer; their ids are the batch.
    fn events(&mut self, found: &Value) -> Vec<Event> {
        let mut events = Vec::new();
        for (id, fields) in entries(found) {
            events.push(event(&self.options.name, &id, fields));
            self.last.clone_from(&id);
            self.batch.push(id);
        }
        events
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let mut release = cmd("EVAL");
        release.arg(RELEASE).arg(1).arg(self.options.lease());
        // Without it the next reader waits for the lease's end.
        let _ = release
            .arg(&self.token)
            .query::<Value>(&mut self.connection);
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        if error.is_timeout() {
            return Self::new("it does not answer");
        }
        Self(format!("it says: {error}"))
    }
}

/// Ids and fields of `[[stream, [[id, [name, value, …]], …]]]`; an entry that was trimmed away
/// has no fields.
fn entries(found: &Value) -> Vec<(String, &[Value])> {
    let streams = items(found).iter();
    let streams = streams.filter_map(|stream| items(stream).get(1));
    let entry = |entry| match items(entry) {
        [id, fields] => Some((text(id), items(fields))),
        _ => None,
    };
    streams.flat_map(items).filter_map(entry).collect()
}

fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

fn bytes(value: &Value) -> &[u8] {
    match value {
        Value::BulkString(bytes) => bytes,
        _ => &[],
    }
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(bytes(value)).into_owned()
}

/// Fields with other names are not looked at.
fn event(name: &str, id: &str, fields: &[Value]) -> Event {
    let mut event = Event {
        place: format!("{name} {id}"),
        ..Event::default()
    };
    for pair in fields.chunks_exact(2) {
        let [name, value] = pair else { continue };
        match bytes(name) {
            b"channel" => event.channel = Some(text(value)),
            b"key" => event.key = Some(text(value)),
            b"data" => event.data = Some(bytes(value).to_vec()),
            b"tags" => event.tags = Some(text(value)),
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn entries_are_events() {
        let fields = [
            "data", "1", "other", "x", "channel", "a", "key", "k", "tags", "{}",
        ];
        let fields = Value::Array(fields.map(bulk).to_vec());
        let first = Value::Array(vec![bulk("1-0"), fields]);
        let trimmed = Value::Array(vec![bulk("1-1"), Value::Nil]);
        let stream = Value::Array(vec![bulk("s"), Value::Array(vec![first, trimmed])]);
        let found = Value::Array(vec![stream]);
        let events = entries(&found).into_iter();
        let events: Vec<Event> = events.map(|(id, fields)| event("f", &id, fields)).collect();
        let whole = Event {
            place: "f 1-0".to_owned(),
            channel: Some("a".to_owned()),
            key: Some("k".to_owned()),
            data: Some(b"1".to_vec()),
            tags: Some("{}".to_owned()),
            is_too_long: false,
        };
        let empty = Event {
            place: "f 1-1".to_owned(),
            ..Event::default()
        };
        assert_eq!(events, [whole, empty]);
        assert!(entries(&Value::Nil).is_empty());
    }

    #[test]
    fn an_address_may_hold_a_password_and_is_not_shown() {
        let url = "redis://me:secret@127.0.0.1:6379/1";
        let options = RedisOptions::new(url, "f", "s", "g").unwrap();
        assert!(!format!("{options:?}").contains("secret"), "{options:?}");
        assert!(RedisOptions::new("postgres://a", "f", "s", "g").is_err());
    }
}
