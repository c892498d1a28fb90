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

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use redis::{RedisError, Value};
use throng_peer::task::Net;
use throng_redis_link::{ANSWER_BYTES_MAX, RedisLink, RedisSource as Address, value};
use throng_types::SpanContext;

use crate::event::Event;
use crate::source::{ANSWER_MS, Fault, LOOK_MS, Setup, Source};
use crate::url::UrlError;

/// Time for which a reader is believed to live without a word, in milliseconds.
const LEASE_MS: u64 = 10_000;
/// Bound of giving the lease back, in milliseconds.
const LEAVE_MS: u64 = 1_000;
/// The name under which every node reads.
const CONSUMER: &str = "throng";
/// Bytes of the entries in one answer, with 64 for each text. Whole entries follow with the next
/// look.
const READ_BYTES_MAX: usize = 16 << 20;
/// Reads for the holder of the lease, and takes the lease if it is free. 0 if another one has it.
/// Entries that do not fit into an answer are left for the next look, and those that fit into none
/// have no fields but a number.
const READ: &str = "\
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local found = redis.call('XREADGROUP', 'GROUP', ARGV[3], ARGV[4], 'COUNT', ARGV[5], \
'STREAMS', KEYS[2], ARGV[6])
if not found then return found end
local most, left, fit = tonumber(ARGV[7]), tonumber(ARGV[7]), {}
for n, entry in ipairs(found[1][2]) do
  local bytes = 0
  for _, text in ipairs(entry[2] or {}) do bytes = bytes + #text + 64 end
  if bytes > most then bytes, entry[2] = 64, 1 end
  left = left - bytes
  if left < 0 then return {{found[1][1], fit, 1}} end
  fit[n] = entry
end
return {{found[1][1], fit}}";
const RELEASE: &str = "\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end";

#[derive(Clone)]
pub struct RedisFeedOptions {
    address: Address,
    stream: String,
    group: String,
    /// Begins the places of entries.
    name: String,
}

impl RedisFeedOptions {
    /// `url` is `redis://user:password@host:port/db`, or another that [`Address`] reads.
    ///
    /// # Errors
    /// [`UrlError`] with the reason.
    pub fn new(url: &str, feed: &str, stream: &str, group: &str) -> Result<Self, UrlError> {
        let unread = UrlError("it is not an address of Redis, as redis://host:6379/0 is one");
        Ok(Self {
            address: Address::new(url).map_err(|_| unread)?,
            stream: stream.to_owned(),
            group: group.to_owned(),
            name: format!("redis {feed}"),
        })
    }

    /// Key under which the node that reads for the group says so.
    fn lease(&self) -> String {
        format!("throng:feed:{}:{}", self.stream, self.group)
    }
}

/// A connection, and the batch that it has under way.
pub(crate) struct Stream {
    net: Net,
    link: RedisLink,
    options: RedisFeedOptions,
    batch_max: usize,
    /// Distinguishes this connection from other readers.
    token: String,
    /// Entries that were read before may not be acknowledged: they come first.
    has_unacknowledged: bool,
    /// Ids of the entries of the batch. Bound: `batch_max`.
    batch: Vec<String>,
    last: String,
}

pub(crate) async fn connect(options: &RedisFeedOptions, setup: Setup) -> Result<Stream, Fault> {
    let (net, mut rng) = (setup.net, setup.rng);
    let place = options.address.find(&net, ANSWER_MS, None).await?;
    let mut link = RedisLink::connect(&net, &place, ANSWER_MS, None, ANSWER_BYTES_MAX).await?;
    let (stream, group) = (options.stream.as_bytes(), options.group.as_bytes());
    // From the oldest entry; the stream is made if there is none.
    let create: [&[u8]; 6] = [b"XGROUP", b"CREATE", stream, group, b"0", b"MKSTREAM"];
    if let Err(error) = link.ask(&create).await
        && error.code() != Some("BUSYGROUP")
    {
        return Err(error.into());
    }
    Ok(Stream {
        net,
        link,
        options: options.clone(),
        batch_max: setup.batch_max,
        token: STANDARD_NO_PAD.encode(rng.bytes::<12>()),
        has_unacknowledged: true,
        batch: Vec::new(),
        last: "$".to_owned(),
    })
}

impl Source for Stream {
    async fn take(&mut self) -> Result<Vec<Event>, Fault> {
        let found = self.read().await?;
        if matches!(found, Value::Int(_)) {
            // Another node reads.
            self.has_unacknowledged = true;
            self.net.sleep(LOOK_MS).await;
            return Ok(Vec::new());
        }
        let events = self.events(&found);
        if has_more(&found) {
            self.has_unacknowledged = true;
            return Ok(events);
        }
        if events.is_empty() && !std::mem::take(&mut self.has_unacknowledged) {
            self.wait().await?;
        }
        Ok(events)
    }

    async fn done(&mut self) -> Result<(), Fault> {
        let batch = std::mem::take(&mut self.batch);
        let Self { link, options, .. } = self;
        let of = ["XACK", &options.stream, &options.group];
        let parts = of.into_iter().chain(batch.iter().map(String::as_str));
        let parts: Vec<&[u8]> = parts.map(str::as_bytes).collect();
        link.ask(&parts).await?;
        Ok(())
    }

    async fn put_back(&mut self) -> Result<(), Fault> {
        self.batch.clear();
        self.has_unacknowledged = true;
        Ok(())
    }

    /// Entries that the group has not read, and those that it has not acknowledged. Redis does not
    /// know the former where entries were deleted in the midst.
    async fn lag(&mut self) -> Result<Option<u64>, Fault> {
        let stream = self.options.stream.as_bytes();
        let groups = self.link.ask(&[b"XINFO", b"GROUPS", stream]).await?;
        let ours = self.options.group.as_bytes();
        let is_ours = |group: &&Value| field(group, b"name").map(bytes) == Some(ours);
        let number = |group, name: &[u8]| field(group, name).and_then(value::number);
        let group = items(&groups).iter().find(is_ours);
        Ok(group.and_then(|group| Some(number(group, b"lag")? + number(group, b"pending")?)))
    }

    /// Without it the next reader waits for the lease's end.
    async fn leave(mut self) {
        let lease = self.options.lease();
        let release = ["EVAL", RELEASE, "1", &lease, &self.token].map(str::as_bytes);
        let _ = self.net.timeout(LEAVE_MS, self.link.ask(&release)).await;
    }
}

impl Stream {
    async fn read(&mut self) -> Result<Value, Fault> {
        let Self { link, options, .. } = self;
        let from = if self.has_unacknowledged { "0" } else { ">" };
        let lease_ms = LEASE_MS.to_string();
        let (count, bytes) = (self.batch_max.to_string(), READ_BYTES_MAX.to_string());
        let parts = [
            "EVAL",
            READ,
            "2",
            &options.lease(),
            &options.stream,
            &self.token,
            &lease_ms,
            &options.group,
            CONSUMER,
            &count,
            from,
            &bytes,
        ];
        Ok(link.ask(&parts.map(str::as_bytes)).await?)
    }

    /// Waits for an entry. One that comes before the wait begins is found with the next look.
    async fn wait(&mut self) -> Result<(), Fault> {
        let look_ms = LOOK_MS.to_string();
        let (stream, last) = (&self.options.stream, &self.last);
        let wait = [
            "XREAD", "COUNT", "1", "BLOCK", &look_ms, "STREAMS", stream, last,
        ];
        if self.link.ask(&wait.map(str::as_bytes)).await? != Value::Nil {
            // The next read says how far we are. If it finds nothing, another node had read that
            // entry: a wait behind `last` would end at once, again and again.
            "$".clone_into(&mut self.last);
        }
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

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        match error.kind() {
            redis::ErrorKind::Io => Self(error.to_string()),
            _ => Self(format!("the server reports: {error}")),
        }
    }
}

fn has_more(found: &Value) -> bool {
    items(found).iter().any(|stream| items(stream).len() > 2)
}

/// Ids and fields of `[[stream, [[id, [name, value, …]], …]]]`; an entry that was trimmed away
/// has no fields, and one that is too long a number.
fn entries(found: &Value) -> Vec<(String, &Value)> {
    let streams = items(found).iter();
    let streams = streams.filter_map(|stream| items(stream).get(1));
    let entry = |entry| match items(entry) {
        [id, fields] => Some((text(id), fields)),
        _ => None,
    };
    streams.flat_map(items).filter_map(entry).collect()
}

fn items(value: &Value) -> &[Value] {
    value::list(value).unwrap_or_default()
}

/// A field of `[name, value, …]`.
fn field<'a>(pairs: &'a Value, name: &[u8]) -> Option<&'a Value> {
    let mut pairs = items(pairs).chunks_exact(2);
    pairs.find_map(|pair| (bytes(&pair[0]) == name).then(|| &pair[1]))
}

fn bytes(value: &Value) -> &[u8] {
    value::bytes(value).unwrap_or_default()
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(bytes(value)).into_owned()
}

/// Fields with other names are not looked at.
fn event(name: &str, id: &str, fields: &Value) -> Event {
    let mut event = Event {
        place: format!("{name} {id}"),
        is_too_long: matches!(fields, Value::Int(_)),
        ..Event::default()
    };
    for pair in items(fields).chunks_exact(2) {
        let [name, value] = pair else { continue };
        match bytes(name) {
            b"channel" => event.channel = Some(text(value)),
            b"key" => event.key = Some(text(value)),
            b"data" => event.data = Some(bytes(value).to_vec()),
            b"tags" => event.tags = Some(text(value)),
            b"traceparent" => event.trace = SpanContext::sampled(&text(value)),
            _ => {}
        }
    }
    event
}

#[cfg(test)]
mod tests {
    use throng_peer::{LinkEvent, LinkId, Want};
    use throng_play::Talk;

    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    #[test]
    fn entries_are_events() {
        let fields = [
            "data",
            "1",
            "other",
            "x",
            "channel",
            "a",
            "key",
            "k",
            "tags",
            "{}",
            "traceparent",
            "00-0000000000000000000000000000000a-000000000000000b-01",
        ];
        let fields = Value::Array(fields.map(bulk).to_vec());
        let first = Value::Array(vec![bulk("1-0"), fields]);
        let trimmed = Value::Array(vec![bulk("1-1"), Value::Nil]);
        let long = Value::Array(vec![bulk("1-2"), Value::Int(1)]);
        let of = |entries| Value::Array(vec![Value::Array(vec![bulk("s"), entries])]);
        let found = of(Value::Array(vec![first, trimmed, long]));
        let events = entries(&found).into_iter();
        let events: Vec<Event> = events.map(|(id, fields)| event("f", &id, fields)).collect();
        let whole = Event {
            place: "f 1-0".to_owned(),
            channel: Some("a".to_owned()),
            key: Some("k".to_owned()),
            data: Some(b"1".to_vec()),
            tags: Some("{}".to_owned()),
            trace: Some(SpanContext {
                trace_id: 10,
                span_id: 11,
            }),
            is_too_long: false,
        };
        let empty = Event {
            place: "f 1-1".to_owned(),
            ..Event::default()
        };
        let long = Event {
            place: "f 1-2".to_owned(),
            is_too_long: true,
            ..Event::default()
        };
        assert_eq!(events, [whole, empty, long]);
        assert!(entries(&Value::Nil).is_empty());
    }

    #[test]
    fn addresses() {
        let url = "redis://me:secret@127.0.0.1:6379/1";
        assert!(RedisFeedOptions::new(url, "f", "s", "g").is_ok());
        assert!(RedisFeedOptions::new("postgres://a", "f", "s", "g").is_err());
    }

    /// Connects, takes twice, acknowledges the first and leaves.
    fn talk() -> (Talk, Vec<Want>) {
        let options = RedisFeedOptions::new("redis://r:1/0", "f", "s", "g").expect("an address");
        Talk::start(|net| async move {
            let mut stream = match connect(&options, Setup::of_test(&net, 10)).await {
                Ok(stream) => stream,
                Err(fault) => return fault.0,
            };
            let said = async {
                let first = stream.take().await?.len();
                stream.done().await?;
                let second = stream.take().await?.len();
                Ok::<_, Fault>(format!("{first} and {second}"))
            };
            let said = said.await;
            stream.leave().await;
            said.unwrap_or_else(|fault| fault.0)
        })
    }

    /// The commands that are wanted, without those that are long.
    fn asked(wants: &[Want]) -> Vec<String> {
        let command = |want: &Want| match want {
            Want::Write(_, bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let words = text
                    .split("\r\n")
                    .skip(1)
                    .filter(|word| !word.starts_with('$'));
                let words: Vec<&str> = words.filter(|word| word.len() < 20).collect();
                words.join(" ").trim_end().to_owned()
            }
            other => format!("{other:?}"),
        };
        wants.iter().map(command).collect()
    }

    #[test]
    fn a_dialogue() {
        let (mut talk, wants) = talk();
        assert!(matches!(&wants[..], [Want::Dial(..)]), "{wants:?}");
        let group = "XGROUP CREATE s g 0 MKSTREAM";
        assert_eq!(asked(&talk.connected(1)), [group]);
        let read = |wants: &[Want], from: &str| {
            let asked = asked(wants);
            let ours = format!("10000 g throng 10 {from} 16777216");
            assert!(
                asked.len() == 1 && asked[0].starts_with("EVAL") && asked[0].ends_with(&ours),
                "{asked:?}"
            );
        };
        read(&talk.says(1, b"-BUSYGROUP it is there\r\n"), "0");
        let entry = "*2\r\n$3\r\n1-0\r\n*2\r\n$4\r\ndata\r\n$1\r\n1\r\n";
        let found = format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{entry}");
        assert_eq!(asked(&talk.says(1, found.as_bytes())), ["XACK s g 1-0"]);
        read(&talk.says(1, b":1\r\n"), "0");
        // Another node reads.
        assert_eq!(talk.says(1, b":0\r\n"), []);
        assert_eq!(talk.pass(LOOK_MS - 1), []);
        let release = asked(&talk.pass(1));
        assert!(release[0].starts_with("EVAL"), "{release:?}");
        assert_eq!(asked(&talk.says(1, b":1\r\n")), ["End(LinkId(1))"]);
        assert_eq!(talk.outcome(), "1 and 0");
    }

    #[test]
    fn a_lease_is_not_given_back_for_long() {
        let (mut talk, _) = talk();
        talk.connected(1);
        talk.says(1, b"+OK\r\n");
        talk.says(1, b"-ERR no\r\n");
        talk.pass(LEAVE_MS - 1);
        assert_eq!(asked(&talk.pass(1)), ["End(LinkId(1))"]);
        assert!(
            talk.outcome().starts_with("the server reports: "),
            "{}",
            talk.outcome()
        );
    }

    #[test]
    fn a_server_that_says_too_much_is_left() {
        for (first, again) in [
            ("$2147483648\r\n", "\0"),
            ("*99999999999\r\n", ":1\r\n"),
            ("+", "+"),
        ] {
            let (mut talk, _) = talk();
            talk.connected(1);
            talk.says(1, first.as_bytes());
            let more = again.repeat(1 << 16);
            let mut bytes = 0;
            while talk.tasks.has(LinkId(1)) {
                talk.event(1, LinkEvent::Bytes(more.as_bytes()));
                bytes += more.len();
                assert!(bytes < 64 << 20, "{first:?}");
            }
            assert!(talk.outcome().starts_with("no connection"), "{first:?}");
        }
    }
}
