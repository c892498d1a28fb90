//! Statistics as Pushpin publishes them, for readers by ZeroMQ.
//!
//! Each shard keeps a [`Book`] of its clients and sends its news to the first shard, whose
//! [`Collector`] adds them up and makes packets. The packets go to every shard with readers.
//! Without the socket nothing of this is there.

mod book;
mod collector;
mod lap;
mod news;
mod options;
mod part;
mod reader;
mod totals;

pub(crate) use book::{Book, NewClient};
pub(crate) use collector::Collector;
pub(crate) use news::News;
pub(crate) use news::transports;
pub use options::StatsOptions;
pub(crate) use part::{Statistics, StatsMail};
pub(crate) use reader::StatsReader;
