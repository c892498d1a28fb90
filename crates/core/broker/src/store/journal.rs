//! The end of a store that one home writes to.

use super::segment::Lineage;

/// Takes what a home writes down. No call waits.
pub trait Store: Send {
    /// Takes a record. If there is no room it is lost, and another copy is asked for; queue:
    /// `history store`.
    fn append(&mut self, record: &[u8]);

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
