//! Records that a home writes so that history, positions and epochs survive the process.
//!
//! Owns: the format of records ([`Head`], frames, items), how they are read again
//! ([`Replay`]), and the rules below. Never: files, threads, the clock; `drivers/history` has them.
//!
//! The store has one log of records, in the order in which each home made them. A record is
//! appended after its publication has gone out, and no shard waits for the disk: so a crash loses
//! the newest records. A publisher may wait for its answer until the record is there
//! ([`crate::Acknowledge`]); subscribers do not. What is left of a home's records is what the home
//! was at an earlier moment.
//!
//! Which positions hold after a start
//! - Say that a stream stood at `(E, 120)` when the process died, and that the log has it up to
//!   `(E, 100)`. Clients hold every position up to 120. The server cannot know of 101 to 120.
//! - If the stream went on in the epoch `E`, its next publication would be a second `(E, 101)`:
//!   a client at `(E, 105)` would be told that it has everything and would miss something.
//!   If it began anew, a client at `(E, 90)` would lose what the log still has.
//! - So it goes on at 100 in a new epoch `E'`, and remembers that up to 100 the two are one:
//!   `(E, o)` is `(E', o)` for `o <= 100`. Positions up to there recover whole, with the log's
//!   publications and the new ones. Those beyond are of an epoch that ended: `recovered: false`.
//! - An epoch is the nonce of a process and the generation of a stream. A start gives every stream
//!   of the store another nonce at once; generations stay. So `E'` needs no memory, and "up to
//!   100" is one pair (nonce, offset) in each stream that has positions. The last
//!   [`ANCESTORS_MAX`] starts are remembered.
//! - A clean end ([`LogEntry::Closed`] is the last record, and nothing is damaged) changes none of
//!   this: the log has `(E, 120)`, so every client recovers. But the folder may be a copy, made
//!   after that end and put back after another process had gone on from it. No mark in the folder
//!   tells the two apart, so every start begins new epochs. Only a process that is handed the state
//!   of another goes on in the same ones.
//! - A process writes the head of its segment and waits for the disk before it gives a position.
//! - A stream that the log does not have is one without publications at that moment. There `(E, 0)`
//!   is `(E', 0)` if the generation is the same: any stream of the home that was forgotten since
//!   would have raised it. No other offset of `E` is known.
//!
//! Publications accepted in the last moment before a crash may be lost to clients that did not get
//! them; the rule above makes sure that no client is told wrongly that it has everything. A record
//! has the generation and offset it is about, so a hole in the log (a full queue, a full disk, a
//! damaged segment) is seen: what is kept then begins behind it.
//!
//! Copies. All that is alive is in memory. When the log has grown to more than twice of that, a new
//! segment begins, each home appends its streams once more, some in each turn, and when all have
//! done so the older segments go. No old segment is ever read but at a start. A hole is
//! mended in the same way.
//!
//! Why no crate: a store with a tree or with sorted tables (redb, fjall) earns its keep by finding
//! keys on disk, and nothing here is ever looked up on disk. What it costs would stay: redb syncs
//! once for each commit and writes each page it touches anew, which in its own benchmarks makes
//! small writes its slowest operation and removals slower by far; fjall has a journal like this one
//! and writes everything a second time into its tables, and a third in their compaction. Both want
//! a thread and a cache of tens of megabytes beside the history that is in memory already.

mod item;
mod replay;
mod segment;

use crate::Acknowledge;

pub use item::{LogEntry, UsedKey};
pub(crate) use item::{write_base, write_count, write_forgotten, write_key, write_published};
pub(crate) use replay::Loaded;
pub use replay::{Replay, Restored};
pub use segment::{
    ANCESTORS_MAX, Begins, Head, HeadFault, Lineage, SegmentRecords, copy_is_due, write_frame,
};

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
