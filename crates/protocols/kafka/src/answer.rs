//! Responses of brokers.

use std::sync::Arc;

use bytes::Bytes;

use crate::api::{ApiRange, ErrorCode};
use crate::place::{Place, read_places};
use crate::wire::Reader;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    pub id: i32,
    pub host: String,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicPartition {
    pub partition: i32,
    /// Id of the broker that leads it; -1 for none.
    pub leader: i32,
}

/// Topic with its partitions, as metadata lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub error: ErrorCode,
    pub name: Arc<str>,
    pub partitions: Vec<TopicPartition>,
}

/// Brokers, and the topics that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// All brokers that live.
    pub brokers: Vec<Broker>,
    pub topics: Vec<Topic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinator {
    pub error: ErrorCode,
    pub broker: Broker,
}

/// A group that was joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub error: ErrorCode,
    /// Generation of this assignment.
    pub generation: i32,
    /// Id of the leader, which assigns partitions.
    pub leader: String,
    /// Id that the coordinator gave this member.
    pub member: String,
    /// Members and their subscriptions; only for the leader, which assigns.
    pub members: Vec<(String, Vec<u8>)>,
}

/// Partitions that the leader assigned to this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Synced {
    pub error: ErrorCode,
    /// Bytes that [`crate::assignment`] reads.
    pub assignment: Vec<u8>,
}

/// An offset of a partition; -1 if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetAnswer {
    pub place: Place,
    pub error: ErrorCode,
    pub offset: i64,
}

/// A transaction that was taken back: a producer's records from an offset on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aborted {
    pub producer: i64,
    /// The first of its records.
    pub first_offset: i64,
}

/// Records and offsets fetched from one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub place: Place,
    pub error: ErrorCode,
    /// The offset behind the last record that may be read.
    pub end: i64,
    /// Transactions among the records that were taken back.
    pub aborted: Vec<Aborted>,
    /// Bytes that [`crate::batches`] reads.
    pub records: Bytes,
}

/// An answer about SASL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaslAnswer {
    pub error: ErrorCode,
    pub why: Option<String>,
    /// The mechanisms that the broker offers, to a handshake.
    pub mechanisms: Vec<String>,
    /// SASL bytes from the broker.
    pub message: Vec<u8>,
}

/// Reads answers to the functions of the same names in [`crate::write`]; `None` if a body is not
/// what it should be.
pub mod read {
    use super::{
        Aborted, ApiRange, Broker, Bytes, Coordinator, ErrorCode, Fetched, Joined, Metadata,
        OffsetAnswer, Reader, SaslAnswer, Synced, Topic, TopicPartition, read_places,
    };

    fn error(body: &mut Reader<'_>) -> Option<ErrorCode> {
        body.i16().map(ErrorCode)
    }

    /// Reads the broker's throttle time in milliseconds. The broker enforces it itself.
    fn throttle(body: &mut Reader<'_>) -> Option<i32> {
        body.i32()
    }

    fn broker(body: &mut Reader<'_>) -> Option<Broker> {
        Some(Broker {
            id: body.i32()?,
            host: body.text()?,
            // A coordinator that is none has the port -1.
            port: u16::try_from(body.i32()?).unwrap_or_default(),
        })
    }

    /// Kinds of requests, to [`crate::write::api_versions`].
    #[must_use]
    pub fn api_versions(body: &[u8]) -> Option<(ErrorCode, Vec<ApiRange>)> {
        let body = &mut Reader(body);
        let error = error(body)?;
        let ranges = body.list(|body| {
            Some(ApiRange {
                key: body.i16()?,
                first: body.i16()?,
                last: body.i16()?,
            })
        })?;
        Some((error, ranges))
    }

    #[must_use]
    pub fn sasl_handshake(body: &[u8]) -> Option<SaslAnswer> {
        let body = &mut Reader(body);
        Some(SaslAnswer {
            error: error(body)?,
            why: None,
            mechanisms: body.list(Reader::text)?,
            message: Vec::new(),
        })
    }

    #[must_use]
    pub fn sasl_authenticate(body: &[u8]) -> Option<SaslAnswer> {
        let body = &mut Reader(body);
        Some(SaslAnswer {
            error: error(body)?,
            why: body.nullable_text()?,
            mechanisms: Vec::new(),
            message: body.bytes()?.to_vec(),
        })
    }

    #[must_use]
    pub fn metadata(body: &[u8]) -> Option<Metadata> {
        let body = &mut Reader(body);
        throttle(body)?;
        let brokers = body.list(|body| {
            let broker = broker(body)?;
            let _rack = body.nullable_text()?;
            Some(broker)
        })?;
        let _cluster = body.nullable_text()?;
        let _controller = body.i32()?;
        let topics = body.list(|body| {
            let error = error(body)?;
            let name = body.text()?.into();
            let _is_internal = body.i8()?;
            let partitions = body.list(|body| {
                let _error = body.i16()?;
                let partition = body.i32()?;
                let leader = body.i32()?;
                let _replicas = body.list(Reader::i32)?;
                let _in_sync = body.list(Reader::i32)?;
                Some(TopicPartition { partition, leader })
            })?;
            Some(Topic {
                error,
                name,
                partitions,
            })
        })?;
        Some(Metadata { brokers, topics })
    }

    #[must_use]
    pub fn find_coordinator(body: &[u8]) -> Option<Coordinator> {
        let body = &mut Reader(body);
        throttle(body)?;
        let error = error(body)?;
        let _why = body.nullable_text()?;
        let broker = broker(body)?;
        Some(Coordinator { error, broker })
    }

    #[must_use]
    pub fn join_group(body: &[u8]) -> Option<Joined> {
        let body = &mut Reader(body);
        throttle(body)?;
        let error = error(body)?;
        let generation = body.i32()?;
        let _way = body.nullable_text()?;
        let leader = body.text()?;
        let member = body.text()?;
        let members = body.list(|body| {
            let id = body.text()?;
            let _instance = body.nullable_text()?;
            Some((id, body.bytes()?.to_vec()))
        })?;
        Some(Joined {
            error,
            generation,
            leader,
            member,
            members,
        })
    }

    #[must_use]
    pub fn sync_group(body: &[u8]) -> Option<Synced> {
        let body = &mut Reader(body);
        throttle(body)?;
        Some(Synced {
            error: error(body)?,
            assignment: body.bytes()?.to_vec(),
        })
    }

    #[must_use]
    pub fn heartbeat(body: &[u8]) -> Option<ErrorCode> {
        let body = &mut Reader(body);
        throttle(body)?;
        error(body)
    }

    /// Reads the response to [`crate::write::offset_commit`]: the first error of all partitions.
    #[must_use]
    pub fn offset_commit(body: &[u8]) -> Option<ErrorCode> {
        let body = &mut Reader(body);
        throttle(body)?;
        let errors = read_places(body, |_, body| error(body))?;
        let wrong = errors.into_iter().find(|error| *error != ErrorCode::NONE);
        Some(wrong.unwrap_or(ErrorCode::NONE))
    }

    #[must_use]
    pub fn offset_fetch(body: &[u8]) -> Option<(ErrorCode, Vec<OffsetAnswer>)> {
        let body = &mut Reader(body);
        throttle(body)?;
        let offsets = read_places(body, |place, body| {
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
        Some((error(body)?, offsets))
    }

    #[must_use]
    pub fn list_offsets(body: &[u8]) -> Option<Vec<OffsetAnswer>> {
        let body = &mut Reader(body);
        throttle(body)?;
        read_places(body, |place, body| {
            let error = error(body)?;
            let _time = body.i64()?;
            let offset = body.i64()?;
            Some(OffsetAnswer {
                place,
                error,
                offset,
            })
        })
    }

    #[must_use]
    pub fn fetch(body: &[u8]) -> Option<(ErrorCode, Vec<Fetched>)> {
        let body = &mut Reader(body);
        throttle(body)?;
        let whole = error(body)?;
        let _session = body.i32()?;
        let fetched = read_places(body, |place, body| {
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
        })?;
        Some((whole, fetched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let (error, fetched) = read::fetch(&whole).unwrap();
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
            assert_eq!(read::fetch(&whole[..end]), None, "{end}");
        }
    }

    #[test]
    fn many_small_items_take_no_more_memory_than_they_may() {
        let topic = [0; 9];
        let most = crate::wire::LIST_BYTES_MAX / size_of::<Topic>();
        let read = |count: usize| {
            let head = [&[0; 14][..], &(count as u32).to_be_bytes()].concat();
            let found = read::metadata(&[head, topic.repeat(count)].concat());
            found.map(|found| found.topics.len())
        };
        assert_eq!(read(most), Some(most));
        assert_eq!(read(most + 1), None);
    }

    #[test]
    fn what_is_only_declared_takes_no_memory() {
        let with = |head: &[u8]| [head, HUGE].concat();
        assert_eq!(read::fetch(&with(b"\0\0\0\0\0\0\0\0\0\0")), None);
        assert_eq!(read::metadata(&with(b"\0\0\0\0")), None);
        assert_eq!(read::api_versions(&with(b"\0\0")), None);
        assert_eq!(read::offset_commit(&with(b"\0\0\0\0")), None);
    }
}
