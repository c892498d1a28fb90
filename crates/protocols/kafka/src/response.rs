//! Responses of brokers, as [`crate::request`] reads them.

use std::sync::Arc;

use bytes::Bytes;

use crate::api::ErrorCode;
use crate::wire::TopicPartition;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerNode {
    pub id: i32,
    pub host: String,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionLeader {
    pub partition: i32,
    /// Id of the broker that leads it; -1 for none.
    pub leader: i32,
}

/// Topic with its partitions, as metadata lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    pub error: ErrorCode,
    pub name: Arc<str>,
    pub partitions: Vec<PartitionLeader>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// All brokers that live.
    pub brokers: Vec<BrokerNode>,
    pub topics: Vec<Topic>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coordinator {
    pub error: ErrorCode,
    pub broker: BrokerNode,
}

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
    pub place: TopicPartition,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    pub place: TopicPartition,
    pub error: ErrorCode,
    /// The offset behind the last record that may be read.
    pub end: i64,
    /// Transactions among the records that were taken back.
    pub aborted: Vec<Aborted>,
    /// Bytes that [`crate::batches`] reads.
    pub records: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaslAnswer {
    pub error: ErrorCode,
    pub why: Option<String>,
    /// The mechanisms that the broker offers, to a handshake.
    pub mechanisms: Vec<String>,
    pub message: Vec<u8>,
}
