//! Requests of a client. Each function returns a whole frame.
//!
//! Texts are those of the configuration and of brokers; items of a topic stand side by side.

use bytes::BufMut as _;

use crate::api::Api;
use crate::place::{Place, write_places};
use crate::wire::Write;

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

fn frame(api: Api, correlation: i32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; 4];
    out.put_i16(api.key);
    out.put_i16(api.version);
    out.put_i32(correlation);
    out.text(CLIENT);
    body(&mut out);
    let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
    out[..4].copy_from_slice(&length.to_be_bytes());
    out
}

#[must_use]
pub fn api_versions(correlation: i32) -> Vec<u8> {
    frame(Api::API_VERSIONS, correlation, |_| {})
}

#[must_use]
pub fn sasl_handshake(correlation: i32, mechanism: &str) -> Vec<u8> {
    frame(Api::SASL_HANDSHAKE, correlation, |out| out.text(mechanism))
}

#[must_use]
pub fn sasl_authenticate(correlation: i32, message: &[u8]) -> Vec<u8> {
    frame(Api::SASL_AUTHENTICATE, correlation, |out| {
        out.bytes(message);
    })
}

/// Brokers, and these topics; none is made.
#[must_use]
pub fn metadata(correlation: i32, topics: &[impl AsRef<str>]) -> Vec<u8> {
    frame(Api::METADATA, correlation, |out| {
        out.count(topics.len());
        for topic in topics {
            out.text(topic.as_ref());
        }
        let makes_topics = 0;
        out.put_i8(makes_topics);
    })
}

#[must_use]
pub fn find_coordinator(correlation: i32, group: &str) -> Vec<u8> {
    frame(Api::FIND_COORDINATOR, correlation, |out| {
        out.text(group);
        let of_a_group = 0;
        out.put_i8(of_a_group);
    })
}

/// Joins a group of consumers, with a subscription and the name of one way to deal partitions.
/// Times are in milliseconds.
#[must_use]
pub fn join_group(
    correlation: i32,
    who: Who<'_>,
    session_ms: i32,
    rebalance_ms: i32,
    way: &str,
    subscription: &[u8],
) -> Vec<u8> {
    frame(Api::JOIN_GROUP, correlation, |out| {
        out.text(who.group);
        out.put_i32(session_ms);
        out.put_i32(rebalance_ms);
        out.text(who.member);
        out.no_text();
        out.text("consumer");
        out.count(1);
        out.text(way);
        out.bytes(subscription);
    })
}

/// Asks for the own partitions; the group's leader sends the assignment of every member.
#[must_use]
pub fn sync_group(correlation: i32, who: Who<'_>, assignments: &[(String, Vec<u8>)]) -> Vec<u8> {
    frame(Api::SYNC_GROUP, correlation, |out| {
        member(who, out);
        out.count(assignments.len());
        for (member, assignment) in assignments {
            out.text(member);
            out.bytes(assignment);
        }
    })
}

/// Says that a member lives.
#[must_use]
pub fn heartbeat(correlation: i32, who: Who<'_>) -> Vec<u8> {
    frame(Api::HEARTBEAT, correlation, |out| member(who, out))
}

#[must_use]
pub fn leave_group(correlation: i32, who: Who<'_>) -> Vec<u8> {
    frame(Api::LEAVE_GROUP, correlation, |out| {
        out.text(who.group);
        out.text(who.member);
    })
}

/// Says up to which offset a group has done its partitions: the next one to read.
#[must_use]
pub fn offset_commit(correlation: i32, who: Who<'_>, offsets: &[(Place, i64)]) -> Vec<u8> {
    frame(Api::OFFSET_COMMIT, correlation, |out| {
        member(who, out);
        write_places(offsets, out, |offset, out| {
            let no_epoch = -1;
            out.put_i64(*offset);
            out.put_i32(no_epoch);
            out.no_text();
        });
    })
}

/// Asks up to which offset a group has done partitions.
#[must_use]
pub fn offset_fetch(correlation: i32, group: &str, places: &[(Place, ())]) -> Vec<u8> {
    frame(Api::OFFSET_FETCH, correlation, |out| {
        out.text(group);
        write_places(places, out, |(), _| {});
    })
}

/// Asks for the newest offsets of partitions, or for the oldest ones.
#[must_use]
pub fn list_offsets(correlation: i32, newest: bool, places: &[(Place, ())]) -> Vec<u8> {
    frame(Api::LIST_OFFSETS, correlation, |out| {
        out.put_i32(NO_REPLICA);
        out.put_i8(READ_COMMITTED);
        let time = if newest { -1 } else { -2 };
        write_places(places, out, |(), out| out.put_i64(time));
    })
}

/// Asks for records from these offsets on.
#[must_use]
pub fn fetch(correlation: i32, limits: FetchLimits, offsets: &[(Place, i64)]) -> Vec<u8> {
    frame(Api::FETCH, correlation, |out| {
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
    })
}

fn member(who: Who<'_>, out: &mut Vec<u8>) {
    out.text(who.group);
    out.put_i32(who.generation);
    out.text(who.member);
    out.no_text();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_has_its_length_and_its_header() {
        let heartbeat = heartbeat(
            7,
            Who {
                group: "g",
                member: "m",
                generation: 3,
            },
        );
        let expected = b"\0\0\0\x1c\0\x0c\0\x03\0\0\0\x07\0\x06throng\
            \0\x01g\0\0\0\x03\0\x01m\xff\xff";
        assert_eq!(heartbeat, expected);
    }

    #[test]
    fn places_of_a_topic_stand_together() {
        let place = |topic: &str, partition| Place {
            topic: topic.into(),
            partition,
        };
        let places = [
            (place("a", 0), ()),
            (place("a", 2), ()),
            (place("b", 1), ()),
        ];
        let bytes = offset_fetch(1, "g", &places);
        let expected = b"\0\x01g\0\0\0\x02\0\x01a\0\0\0\x02\0\0\0\0\0\0\0\x02\
            \0\x01b\0\0\0\x01\0\0\0\x01";
        assert!(bytes.ends_with(expected), "{bytes:?}");
    }
}
