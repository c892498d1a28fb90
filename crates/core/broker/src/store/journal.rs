//! Interface between one home and its store.

use super::segment::Lineage;
use crate::Acknowledge;

/// Progress of a home's records towards the disk, by their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Number of the last record that the kernel has.
    pub written: u64,
    /// Number of the last record that the disk has.
    pub synced: u64,
    /// Number of the last record that the disk refused for good. Zero where publications go on
    /// without the disk: there, refused records count as written.
    pub failed: u64,
}

/// Takes the records of a home. No call waits.
pub trait Store: Send {
    /// Takes a record. If there is no room it is lost, and another copy is asked for; queue:
    /// `history store`.
    fn append(&mut self, record: &[u8]);

    /// Whether a record of so many bytes would find room.
    fn takes(&mut self, bytes: usize) -> bool;

    fn newest(&self) -> u64;

    /// Asks that all records reach this stage soon, and that the shard is woken when they have.
    fn hurry(&mut self, to: Acknowledge);

    /// Number of the last record at each stage.
    fn reached(&self) -> Reached;

    /// Whether publications that need a record are refused now, because it cannot be written.
    fn refuses(&self) -> bool;

    /// Number of the newest copy that is requested; rises.
    fn round(&self) -> u64;

    /// Whether there is room for more of a copy. If not, the shard is woken when there is.
    fn has_room(&mut self) -> bool;

    /// Notes that the copy of this number is complete.
    fn copied(&mut self, round: u64);

    /// Notes the bytes of memory that the home uses.
    fn live(&mut self, bytes: usize);

    /// Sets the epochs of this home, if they come from another process.
    fn lineage(&mut self, lineage: &Lineage);
}
