//! Publications from where events already are.
//!
//! A feed takes batches of events from its source, has the broker take them, and only then tells
//! the source that they are done. Owns: one task a feed, its links to the source. Never:
//! history, positions, or who gets a publication.
//!
//! # Why nothing is lost, and nothing doubled
//!
//! An event is done at its source after the broker has accepted its publication, so it is not lost
//! however either end, or this process, dies. What is not done comes again, with the same
//! idempotency key, since that is made of the event's own place in its source: the broker answers
//! such a publication like the first and delivers nothing. It remembers keys for some minutes; an
//! event that comes again later than that is delivered twice.
//!
//! One that can never be published, such as one whose channel no namespace has, is left out: it
//! counts as done, and is counted and logged.
//!
//! # Why order holds
//!
//! A feed has one batch under way, and of each channel one publication at a time: a later one is
//! not offered before the earlier one is taken. A source gives events of a channel to one node at a
//! time; each module says how.

mod event;
mod feed;
mod inlet;
mod kafka;
mod nats;
mod peer;
mod postgres;
mod publisher;
mod redis;
mod scram;
mod source;
#[cfg(test)]
mod tests;
mod url;

pub use feed::{Feed, FeedOptions, FeedStatus, SourceOptions};
pub use inlet::{Call, FeedOrder, PublishResults, Reply, Round, RoundId};
pub use kafka::{KafkaFeedOptions, KafkaTopics};
pub use nats::{NatsFeedOptions, NatsStream};
pub use peer::FeedsPeer;
pub use postgres::PostgresFeedOptions;
pub use redis::RedisFeedOptions;
pub use source::ReadFile;
pub use url::UrlError;
