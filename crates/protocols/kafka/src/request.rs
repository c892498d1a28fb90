//! Requests of a client, each with the way in which its response is read.
//!
//! Texts are those of the configuration and of brokers; items of a topic stand side by side.

use bytes::{BufMut as _, Bytes};

use crate::api::{Api, ApiRange, ErrorCode};
use crate::response::{
    Aborted, BrokerNode, Coordinator, Fetched, Joined, Metadata, OffsetAnswer, PartitionLeader,
    SaslAnswer, Synced, Topic,
};
use crate::wire::{Reader, TopicPartition, Write, read_places, write_places};

/// Client id, which brokers use in logs and quotas.
const CLIENT: &str = "throng";
/// Replica id of a consumer, which is no replica.
const NO_REPLICA: i32 = -1;
/// Only what is committed, of transactions.
const READ_COMMITTED: i8 = 1;

/// Member of a group in whose name a request is sent.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    pub group: &'a str,
    /// The member's id, as the coordinator gave it; empty before.
    pub member: &'a str,
    /// The generation in which the member has its partitions.
    pub generation: i32,
}

/// Bounds of a fetch: bytes, and the time that the broker may wait for them.
#[derive(Clone, Copy, Debug)]
pub struct FetchLimits {
    /// The longest wait for a first byte, in milliseconds.
    pub wait_ms: i32,
    /// Bytes of all partitions together; a first batch that is longer comes whole.
    pub bytes_max: i32,
    /// Bytes of each partition.
    pub partition_bytes_max: i32,
}

/// Reads the body of a response; `None` if it is not what it should be.
pub type ReadBody<T> = fn(&[u8]) -> Option<T>;

/// A request whose response is a `T`.
pub struct Request<T> {
    api: Api,
    body: Vec<u8>,
    pub read: ReadBody<T>,
}

impl<T> Request<T> {
    fn new(api: Api, write: impl FnOnce(&mut Vec<u8>), read: ReadBody<T>) -> Self {
        let mut body = Vec::new();
        write(&mut body);
        Self { api, body, read }
    }

    /// Returns the whole frame; `correlation` comes back with the response.
    #[must_use]
    pub fn frame(&self, correlation: i32) -> Vec<u8> {
        let mut out = vec![0; 4];
        out.put_i16(self.api.key);
        out.put_i16(self.api.version);
        out.put_i32(correlation);
        out.text(CLIENT);
        out.extend_from_slice(&self.body);
        let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
        out[..4].copy_from_slice(&length.to_be_bytes());
        out
    }
}

fn error(body: &mut Reader<'_>) -> Option<ErrorCode> {
    body.i16().map(ErrorCode)
}

/// Begins to read a response behind the broker's throttle time, which the broker enforces itself.
fn behind_throttle(body: &[u8]) -> Option<Reader<'_>> {
    let mut body = Reader(body);
    body.i32()?;
    Some(body)
}

fn broker(body: &mut Reader<'_>) -> Option<BrokerNode> {
    Some(BrokerNode {
        id: body.i32()?,
        host: body.text()?,
        // A coordinator that is none has the port -1.
        port: u16::try_from(body.i32()?).unwrap_or_default(),
    })
}

fn member(who: Who<'_>, out: &mut Vec<u8>) {
    out.text(who.group);
    out.put_i32(who.generation);
    out.text(who.member);
    out.no_text();
}

#[must_use]
pub fn api_versions() -> Request<(ErrorCode, Vec<ApiRange>)> {
    Request::new(
        Api::API_VERSIONS,
        |_| {},
        |body| {
            let mut body = Reader(body);
            let error = error(&mut body)?;
            let ranges = body.list(|body| {
                Some(ApiRange {
                    key: body.i16()?,
                    first: body.i16()?,
                    last: body.i16()?,
                })
            })?;
            Some((error, ranges))
        },
    )
}

#[must_use]
pub fn sasl_handshake(mechanism: &str) -> Request<SaslAnswer> {
    Request::new(
        Api::SASL_HANDSHAKE,
        |out| out.text(mechanism),
        |body| {
            let mut body = Reader(body);
            Some(SaslAnswer {
                error: error(&mut body)?,
                why: None,
                mechanisms: body.list(Reader::text)?,
                message: Vec::new(),
            })
        },
    )
}

#[must_use]
pub fn sasl_authenticate(message: &[u8]) -> Request<SaslAnswer> {
    Request::new(
        Api::SASL_AUTHENTICATE,
        |out| out.bytes(message),
        |body| {
            let mut body = Reader(body);
            Some(SaslAnswer {
                error: error(&mut body)?,
                why: body.nullable_text()?,
                mechanisms: Vec::new(),
                message: body.bytes()?.to_vec(),
            })
        },
    )
}

/// Asks for brokers, and for these topics; none is made.
#[must_use]
pub fn metadata(topics: &[impl AsRef<str>]) -> Request<Metadata> {
    Request::new(
        Api::METADATA,
        |out| {
            out.texts(topics);
            let makes_topics = 0;
            out.put_i8(makes_topics);
        },
        |body| {
            let mut body = behind_throttle(body)?;
            let brokers = body.list(|body| {
                let broker = broker(body)?;
                let _rack = body.nullable_text()?;
                Some(broker)
            })?;
            let _cluster = body.nullable_text()?;
            let _controller = body.i32()?;
            let topics = body.list(topic)?;
            Some(Metadata { brokers, topics })
        },
    )
}

fn topic(body: &mut Reader<'_>) -> Option<Topic> {
    let error = error(body)?;
    let name = body.text()?.into();
    let _is_internal = body.i8()?;
    let partitions = body.list(|body| {
        let _error = body.i16()?;
        let partition = body.i32()?;
        let leader = body.i32()?;
        let _replicas = body.list(Reader::i32)?;
        let _in_sync = body.list(Reader::i32)?;
        Some(PartitionLeader { partition, leader })
    })?;
    Some(Topic {
        error,
        name,
        partitions,
    })
}

#[must_use]
pub fn find_coordinator(group: &str) -> Request<Coordinator> {
    Request::new(
        Api::FIND_COORDINATOR,
        |out| {
            out.text(group);
            let of_a_group = 0;
            out.put_i8(of_a_group);
        },
        |body| {
            let mut body = behind_throttle(body)?;
            let error = error(&mut body)?;
            let _why = body.nullable_text()?;
            let broker = broker(&mut body)?;
            Some(Coordinator { error, broker })
        },
    )
}

/// Joins a group of consumers, with a subscription and the name of one way to deal partitions.
/// Times are in milliseconds.
#[must_use]
pub fn join_group(
    who: Who<'_>,
    session_ms: i32,
    rebalance_ms: i32,
    way: &str,
    subscription: &[u8],
) -> Request<Joined> {
    Request::new(
        Api::JOIN_GROUP,
        |out| {
            out.text(who.group);
            out.put_i32(session_ms);
            out.put_i32(rebalance_ms);
            out.text(who.member);
            out.no_text();
            out.text("consumer");
            out.count(1);
            out.text(way);
            out.bytes(subscription);
        },
        |body| {
            let mut body = behind_throttle(body)?;
            let error = error(&mut body)?;
            let generation = body.i32()?;
            let _way = body.nullable_text()?;
            Some(Joined {
                error,
                generation,
                leader: body.text()?,
                member: body.text()?,
                members: body.list(|body| {
                    let id = body.text()?;
                    let _instance = body.nullable_text()?;
                    Some((id, body.bytes()?.to_vec()))
                })?,
            })
        },
    )
}

/// Asks for the own partitions; the group's leader sends the assignment of every member.
#[must_use]
pub fn sync_group(who: Who<'_>, assignments: &[(String, Vec<u8>)]) -> Request<Synced> {
    Request::new(
        Api::SYNC_GROUP,
        |out| {
            member(who, out);
            out.count(assignments.len());
            for (member, assignment) in assignments {
                out.text(member);
                out.bytes(assignment);
            }
        },
        |body| {
            let mut body = behind_throttle(body)?;
            Some(Synced {
                error: error(&mut body)?,
                assignment: body.bytes()?.to_vec(),
            })
        },
    )
}

/// Says that a member lives.
#[must_use]
pub fn heartbeat(who: Who<'_>) -> Request<ErrorCode> {
    let read = |body: &[u8]| error(&mut behind_throttle(body)?);
    Request::new(Api::HEARTBEAT, |out| member(who, out), read)
}

/// Leaves a group; nothing follows the answer.
#[must_use]
pub fn leave_group(who: Who<'_>) -> Request<()> {
    Request::new(
        Api::LEAVE_GROUP,
        |out| {
            out.text(who.group);
            out.text(who.member);
        },
        |_| Some(()),
    )
}

/// Says up to which offset a group has done its partitions: the next one to read. The response is
/// the first error of all partitions.
#[must_use]
pub fn offset_commit(who: Who<'_>, offsets: &[(TopicPartition, i64)]) -> Request<ErrorCode> {
    Request::new(
        Api::OFFSET_COMMIT,
        |out| {
            member(who, out);
            write_places(offsets, out, |offset, out| {
                let no_epoch = -1;
                out.put_i64(*offset);
                out.put_i32(no_epoch);
                out.no_text();
            });
        },
        |body| {
            let errors = read_places(&mut behind_throttle(body)?, |_, body| error(body))?;
            let wrong = errors.into_iter().find(|error| *error != ErrorCode::NONE);
            Some(wrong.unwrap_or(ErrorCode::NONE))
        },
    )
}

/// Asks up to which offset a group has done partitions.
#[must_use]
pub fn offset_fetch(
    group: &str,
    places: &[(TopicPartition, ())],
) -> Request<(ErrorCode, Vec<OffsetAnswer>)> {
    Request::new(
        Api::OFFSET_FETCH,
        |out| {
            out.text(group);
            write_places(places, out, |(), _| {});
        },
        |body| {
            let mut body = behind_throttle(body)?;
            let offsets = read_places(&mut body, |place, body| {
                let offset = body.i64()?;
                let _epoch = body.i32()?;
                let _note = body.nullable_text()?;
                let error = error(body)?;
                Some(OffsetAnswer {
                    place,
                    error,
                    offset,
                })
            })?;
            Some((error(&mut body)?, offsets))
        },
    )
}

/// Asks for the newest offsets of partitions, or for the oldest ones.
#[must_use]
pub fn list_offsets(newest: bool, places: &[(TopicPartition, ())]) -> Request<Vec<OffsetAnswer>> {
    Request::new(
        Api::LIST_OFFSETS,
        |out| {
            out.put_i32(NO_REPLICA);
            out.put_i8(READ_COMMITTED);
            let time = if newest { -1 } else { -2 };
            write_places(places, out, |(), out| out.put_i64(time));
        },
        |body| {
            read_places(&mut behind_throttle(body)?, |place, body| {
                let error = error(body)?;
                let _time = body.i64()?;
                let offset = body.i64()?;
                Some(OffsetAnswer {
                    place,
                    error,
                    offset,
                })
            })
        },
    )
}

/// Asks for records from these offsets on.
#[must_use]
pub fn fetch(
    limits: FetchLimits,
    offsets: &[(TopicPartition, i64)],
) -> Request<(ErrorCode, Vec<Fetched>)> {
    Request::new(
        Api::FETCH,
        |out| {
            out.put_i32(NO_REPLICA);
            out.put_i32(limits.wait_ms);
            let bytes_min = 1;
            out.put_i32(bytes_min);
            out.put_i32(limits.bytes_max);
            out.put_i8(READ_COMMITTED);
            // No session: each request says everything.
            let (session, epoch) = (0, -1);
            out.put_i32(session);
            out.put_i32(epoch);
            write_places(offsets, out, |offset, out| {
                let (no_epoch, no_start) = (-1, -1);
                out.put_i32(no_epoch);
                out.put_i64(*offset);
                out.put_i64(no_start);
                out.put_i32(limits.partition_bytes_max);
            });
            let forgotten = 0;
            out.count(forgotten);
        },
        |body| {
            let mut body = behind_throttle(body)?;
            let whole = error(&mut body)?;
            let _session = body.i32()?;
            Some((whole, read_places(&mut body, fetched)?))
        },
    )
}

fn fetched(place: TopicPartition, body: &mut Reader<'_>) -> Option<Fetched> {
    let error = error(body)?;
    let _high_watermark = body.i64()?;
    let end = body.i64()?;
    let _start = body.i64()?;
    let aborted = body.list(|body| {
        Some(Aborted {
            producer: body.i64()?,
            first_offset: body.i64()?,
        })
    })?;
    let records = Bytes::copy_from_slice(body.bytes()?);
    Some(Fetched {
        place,
        error,
        end,
        aborted,
        records,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [(TopicPartition, i64); 0] = [];
    const WHO: Who<'_> = Who {
        group: "g",
        member: "m",
        generation: 3,
    };

    fn fetch_read(body: &[u8]) -> Option<(ErrorCode, Vec<Fetched>)> {
        let limits = FetchLimits {
            wait_ms: 1,
            bytes_max: 1,
            partition_bytes_max: 1,
        };
        (fetch(limits, &NONE).read)(body)
    }

    fn metadata_read(body: &[u8]) -> Option<Metadata> {
        (metadata(&["t"]).read)(body)
    }

    /// Items are declared, and there are none.
    const HUGE: &[u8] = b"\x7f\xff\xff\xff";

    #[test]
    fn an_answer_that_ends_early_is_none() {
        let whole = [
            &b"\0\0\0\0\0\0\0\0\0\x05"[..],
            b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x02\0\0",
            b"\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\0",
            b"\0\0\0\x01\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\x02ab",
        ]
        .concat();
        let (error, fetched) = fetch_read(&whole).unwrap();
        assert_eq!(error, ErrorCode::NONE);
        let [fetched] = fetched.as_slice() else {
            panic!("{fetched:?}");
        };
        assert_eq!(fetched.place.to_string(), "t-2");
        assert_eq!((fetched.end, &*fetched.records), (8, &b"ab"[..]));
        let aborted = Aborted {
            producer: 3,
            first_offset: 4,
        };
        assert_eq!(fetched.aborted, [aborted]);
        for end in 0..whole.len() {
            assert_eq!(fetch_read(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn many_small_items_take_no_more_memory_than_they_may() {
        let topic = [0; 9];
        let most = crate::wire::LIST_BYTES_MAX / size_of::<Topic>();
        let read = |count: usize| {
            let head = [&[0; 14][..], &(count as u32).to_be_bytes()].concat();
            let found = metadata_read(&[head, topic.repeat(count)].concat());
            found.map(|found| found.topics.len())
        };
        assert_eq!(read(most), Some(most));
        assert_eq!(read(most + 1), None);
    }

    #[test]
    fn what_is_only_declared_takes_no_memory() {
        let with = |head: &[u8]| [head, HUGE].concat();
        assert_eq!(fetch_read(&with(b"\0\0\0\0\0\0\0\0\0\0")), None);
        assert_eq!(metadata_read(&with(b"\0\0\0\0")), None);
        assert_eq!((api_versions().read)(&with(b"\0\0")), None);
        assert_eq!((offset_commit(WHO, &NONE).read)(&with(b"\0\0\0\0")), None);
    }

    #[test]
    fn a_frame_has_its_length_and_its_header() {
        let expected = b"\0\0\0\x1c\0\x0c\0\x03\0\0\0\x07\0\x06throng\
            \0\x01g\0\0\0\x03\0\x01m\xff\xff";
        assert_eq!(heartbeat(WHO).frame(7), expected);
    }

    #[test]
    fn places_of_a_topic_stand_together() {
        let place = |topic: &str, partition| TopicPartition {
            topic: topic.into(),
            partition,
        };
        let places = [
            (place("a", 0), ()),
            (place("a", 2), ()),
            (place("b", 1), ()),
        ];
        let bytes = offset_fetch("g", &places).frame(1);
        let expected = b"\0\x01g\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x02\
            \0\x01b\0\0\0\x01\0\0\0\x01";
        assert!(bytes.ends_with(expected), "{bytes:?}");
    }
}
