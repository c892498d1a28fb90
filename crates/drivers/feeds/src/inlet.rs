//! The way into the shards.

use std::sync::mpsc::Sender;

use throng_broker::{Draft, Refusal};

/// What became of publications, in their order.
// For the publisher alone.
pub(crate) type Results = Vec<Result<(), Refusal>>;

/// Publications for one shard, all of different channels. They are answered together.
#[derive(Debug)]
pub struct Round {
    /// What to publish.
    pub drafts: Vec<Draft>,
    /// Its number among those that are asked at once; given back with the answer.
    pub number: u32,
    /// Where the answer goes. Bound: one answer a round, and one round a shard.
    pub answer: Sender<(u32, Vec<Result<(), Refusal>>)>,
}

/// The way into all shards.
pub trait Inlet: Send + Sync {
    /// How many shards there are.
    fn shards(&self) -> u8;

    /// Hands publications to a shard, which answers once.
    ///
    /// # Errors
    /// The round, if the shard has no room at the moment, or has ended.
    fn send(&self, shard: u8, round: Round) -> Result<(), Round>;
}
