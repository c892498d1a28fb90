//! The end of a store that one home writes to.

use super::segment::Lineage;
use crate::Acknowledge;

/// How far the records of a home have got, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Everything up to here is with the kernel.
    pub written: u64,
    /// Everything up to here is on the disk.
    pub synced: u64,
    /// Up to here nothing more gets further, because the disk refused it. Zero where publications
    /// go on without the disk: there, what it refuses counts as written.
    pub failed: u64,
}

/// Takes what a home writes down. No call waits.
pub trait Store: Send {
    /// Takes a record. If there is no room it is lost, and another copy is asked for; queue:
    /// `history store`.
    fn append(&mut self, record: &[u8]);

    /// Whether a record of so many bytes would find room.
    fn takes(&mut self, bytes: usize) -> bool;

    /// Number of the newest record.
    fn newest(&self) -> u64;

    /// Wants all records to get so far soon, and the shard to be woken when they have.
    fn hurry(&mut self, to: Acknowledge);

    /// Number of the last record at each stage.
    fn reached(&self) -> Reached;

    /// Whether publications that would have to be written down are to be refused now, because they
    /// cannot be.
    fn refuses(&self) -> bool;

    /// The number of the newest copy that is wanted; rises.
    fn round(&self) -> u64;

    /// Whether there is room for more of a copy. If not, the shard is woken when there is.
    fn has_room(&mut self) -> bool;

    /// The copy of this number is complete.
    fn copied(&mut self, round: u64);

    /// How many bytes of memory are alive.
    fn live(&mut self, bytes: usize);

    /// What the epochs of this home are, if another process said so.
    fn lineage(&mut self, lineage: &Lineage);
}
