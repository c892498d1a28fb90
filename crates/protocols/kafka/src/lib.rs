//! Kafka's protocol, the client's side, as far as a consumer group needs it.
//!
//! Source: Kafka's documentation, "Protocol" and "Message Format". Owns the bytes of requests,
//! answers and record batches, and who reads which partition in a group. Never: sockets, time,
//! passwords, the meaning of records.
//!
//! Why it is our own: `kafka-protocol`, whose messages are made from Kafka's schemas, reserves
//! memory for as many items as an answer declares. An answer of 8 bytes about brokers, or one of
//! 14 to a fetch, makes version 0.18.0 ask for 206 GB, which ends the process; no bound on the
//! length of an answer helps, and its arrays have no other. It unpacks a batch whole, however
//! large that is. It has 91,226 lines and ten packages; thirteen messages in one version each are
//! a small part of them, and each version here is one that every Kafka from 2.3 to 4 speaks.
//!
//! Invariants: nothing is reserved for what is only declared, and a list of an answer has a bound;
//! a frame is refused by its length before it arrives; a batch is unpacked record by record, so one
//! that unpacks to far more than it was costs time and no memory.

mod api;
mod batch;
mod frame;
mod group;
mod records;
pub mod request;
mod response;
mod unpack;
mod wire;

pub use api::{Api, ApiRange, ErrorCode, unsupported};
pub use batch::{BatchFault, RecordBatch, batches};
pub use frame::{FrameFault, FrameSplitter};
pub use group::{WAY, assignment, deal, subscription, topics_of};
pub use records::{Header, Record, RecordFault, Records};
pub use request::{ReadBody, Request};
pub use response::{
    Aborted, BrokerNode, Coordinator, Fetched, Joined, Metadata, OffsetAnswer, PartitionLeader,
    SaslAnswer, Synced, Topic,
};
pub use wire::TopicPartition;
