//! Kafka's protocol, the client's side, as far as a consumer group needs it.
//!
//! Source: Kafka's documentation, "Protocol" and "Message Format". Owns the bytes of requests,
//! answers and record batches, and who reads which partition in a group. Never: sockets, time,
//! passwords, the meaning of records.
//!
//! Why it is our own: the well-kept crate of codecs (`kafka-protocol` 0.18) has 91,000 lines for
//! all messages in all versions, and reserves memory for as many items as an answer declares, so
//! 14 bytes from outside end the process. Thirteen messages in one version each are a small part
//! of that, and each version here is one that every Kafka from 2.3 to 4 speaks.
//!
//! Invariants: nothing is reserved for what is only declared; a frame is refused by its length
//! before it arrives; a batch is unpacked record by record, so one that unpacks to far more than it
//! was costs time and no memory.

mod answer;
mod api;
mod batch;
mod crc32c;
mod frame;
mod group;
mod part;
mod place;
mod records;
mod unpack;
mod wire;
pub mod write;

pub use answer::{
    Aborted, Broker, Coordinator, Fetched, Joined, Metadata, OffsetAnswer, SaslAnswer, Synced,
    Topic, TopicPartition, read,
};
pub use api::{Api, ApiRange, ErrorCode, unsupported};
pub use batch::{Batch, BatchFault, batches};
pub use frame::{Frame, FrameFault, Frames};
pub use group::{WAY, assignment, deal, subscription, topics_of};
pub use place::Place;
pub use records::{Header, Record, RecordFault, Records};
