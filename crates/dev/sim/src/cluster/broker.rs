//! A played broker: what the run and its faults need of one.

use crate::net::Net;

/// Brokers of a cluster run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerKind {
    /// One Redis, with the real scripts in a real Lua.
    Redis,
    /// One NATS with JetStream, or a cluster of them.
    Nats,
    /// None: one node, whose channels are its own.
    Memory,
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

/// A server that nodes connect to, and its faults; what is not said is that of none.
pub(crate) trait Broker {
    /// The `[broker]` table of the nodes.
    fn config(&self) -> String;

    /// Messages of a channel that are kept beside its history, given whether it has one, if what
    /// became of a publication is not known any more once so many others cover it.
    fn keeps_beside(&self, _keeps: bool) -> Option<usize> {
        None
    }

    /// Whether readers of a channel have everything as soon as all rest, without waiting for a look
    /// at its stream; given whether it keeps a history.
    fn is_prompt(&self, _keeps: bool) -> bool {
        true
    }

    /// Accepts a connection that a node has dialled.
    fn accept(&mut self, conn: usize) {
        panic!("nobody dials {conn}");
    }

    /// Connections of nodes that have not ended.
    fn clients(&self) -> Vec<usize> {
        Vec::new()
    }

    /// Reads, carries out and answers; whether there was anything to do. Connections that nodes
    /// have ended go to `left`.
    fn act(&mut self, _bytes_max: usize, _left: &mut Vec<usize>) -> bool {
        false
    }

    /// Keeps a copy of the data, as a disk or a replica does now and then.
    fn copy(&mut self) {}

    /// Ends a connection, behind so many bytes of what it is owed.
    fn cut(&mut self, _conn: usize, _bytes: usize) {}

    /// Starts anew, when all connections are cut; gives whether anything may be missing. What it
    /// had read and not carried out never happens.
    fn start(&mut self, _kept: Kept) -> bool {
        true
    }

    /// Begins or ends a fault that only this kind of broker has. If another process or line goes on
    /// with the data, or another program has changed it, gives whether anything may be missing.
    fn trouble(&mut self) -> Option<bool> {
        None
    }

    /// Whether it has a fault that `trouble` began.
    fn is_ill(&self) -> bool {
        false
    }

    /// Ends such a fault.
    fn heal(&mut self) {}

    /// Has no more faults of its own accord.
    fn calm(&mut self) {}
}

/// No broker beside the node: nobody connects to it, and it has no faults.
pub(super) struct Alone;

impl Broker for Alone {
    fn config(&self) -> String {
        "kind = \"memory\"\n".to_owned()
    }
}

/// Copies of a server's data, the newest last.
#[derive(Default)]
pub(crate) struct Copies<D> {
    /// Oldest first. Bound: [`COPIES_MAX`].
    copies: Vec<D>,
}

const COPIES_MAX: usize = 4;

impl<D: Clone + Default> Copies<D> {
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
