//! A played broker: what the run and its faults need of one.

use crate::net::Net;

/// Brokers of a cluster run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerKind {
    /// One Redis, with the real scripts in a real Lua.
    Redis,
    /// One NATS with JetStream, or a cluster of them.
    Nats,
}

/// Data with which a server starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// All data from before its end.
    All,
    /// Data of an older copy.
    Older,
    Nothing,
}

/// A server that nodes connect to, and its faults.
pub(super) trait Broker {
    /// The `[broker]` table of the nodes.
    fn config(&self) -> String;

    /// Messages of a channel that are kept beside its history, if what became of a publication is
    /// not known any more once so many others cover it.
    fn keeps_beside(&self) -> Option<usize>;

    /// Accepts a connection that a node has dialled.
    fn accept(&mut self, conn: usize);

    /// Number of connections of nodes.
    fn clients(&self) -> usize;

    /// Reads, carries out and answers; whether there was anything to do.
    fn act(&mut self, bytes_max: usize) -> bool;

    /// Keeps a copy of the data, as a disk or a replica does now and then.
    fn copy(&mut self);

    /// Ends a connection, behind so many bytes of what it is owed.
    fn cut(&mut self, at: usize, bytes: usize);

    /// Takes nothing until it is told otherwise.
    fn pause(&mut self, is_paused: bool);

    fn is_paused(&self) -> bool;

    fn is_down(&self) -> bool;

    /// Ends; every connection is cut. What it had read and not carried out never happens.
    fn stop(&mut self);

    /// Starts anew; gives whether anything may be missing.
    fn start(&mut self, kept: Kept) -> bool;

    /// Begins or ends a fault that only this kind of broker has.
    fn trouble(&mut self);

    /// Ends all faults but those that `start` ends.
    fn calm(&mut self);
}

/// Copies of a server's data, the newest last.
pub(crate) struct Copies<D> {
    /// Oldest first. Bound: [`COPIES_MAX`].
    copies: Vec<D>,
}

const COPIES_MAX: usize = 4;

impl<D: Clone + Default> Copies<D> {
    pub(crate) const fn new() -> Self {
        Self { copies: Vec::new() }
    }

    pub(crate) fn add(&mut self, data: &D) {
        if self.copies.len() == COPIES_MAX {
            self.copies.remove(0);
        }
        self.copies.push(data.clone());
    }

    /// Puts in place the data with which a server starts; whether anything may be missing.
    pub(crate) fn restore(&mut self, kept: Kept, data: &mut D, net: &Net) -> bool {
        match kept {
            Kept::All => return false,
            Kept::Older => {
                let at = net.below(self.copies.len().max(1));
                *data = self.copies.get(at).cloned().unwrap_or_default();
                self.copies.truncate(at + 1);
            }
            Kept::Nothing => {
                *data = D::default();
                self.copies.clear();
            }
        }
        true
    }
}
