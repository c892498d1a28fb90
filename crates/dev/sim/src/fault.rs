//! The faults that a run may meet, and how often it did.

/// One kind of fault. Each must come up over an ordinary run of the simulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fault {
    /// A client's bytes arrive in pieces.
    SplitInput,
    /// The kernel takes fewer bytes than it has room for.
    ShortWrite,
    /// A write finds no room.
    NoRoom,
    /// Readiness is reported later than it came.
    LateEvent,
    /// Readiness is reported for nothing, or for an index that is not in use.
    SpuriousEvent,
    /// A wait is interrupted.
    Interrupted,
    /// A client resets its connection.
    Reset,
    /// A client leaves with bytes to read.
    Left,
    /// A client shuts its sending side and goes on reading.
    HalfClose,
    /// A client does not read for a while.
    SlowReader,
    /// A mailbox between two shards has no room.
    MailboxFull,
    /// The room in a mailbox is seen later than its reader made it.
    StaleRoom,
    /// A shard learns late that it was woken.
    LateWake,
    /// Accepting finds no descriptor.
    NoDescriptor,
    /// A connection was aborted before it was accepted.
    AcceptAborted,
    /// A shard's turn begins long after it should have.
    LateTurn,
    /// The wall clock leaps.
    ClockLeap,
    /// The server begins to drain.
    Drain,
    /// A GRIP backend fails, before its answer or within it.
    BackendFailed,
    /// A change is never published, or its event is lost.
    PublicationLost,
    /// Appwrite's events begin anew: some may be lost.
    FeedBroken,
    /// A look-up of an Appwrite user fails.
    LookupFailed,
    /// A user changes while it is looked up.
    LookupOvertaken,
    /// The server hands over to another process.
    HandOver,
    /// The successor declines after it has received everything.
    SuccessorRefused,
    /// The successor ends during the hand-over.
    SuccessorDied,
    /// The successor answers after its deadline.
    SuccessorLate,
    /// The state sent to the successor is damaged.
    SuccessorDamaged,
    /// The shards do not come to rest in time.
    NoRest,
}

impl Fault {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 29] = [
        Self::SplitInput,
        Self::ShortWrite,
        Self::NoRoom,
        Self::LateEvent,
        Self::SpuriousEvent,
        Self::Interrupted,
        Self::Reset,
        Self::Left,
        Self::HalfClose,
        Self::SlowReader,
        Self::MailboxFull,
        Self::StaleRoom,
        Self::LateWake,
        Self::NoDescriptor,
        Self::AcceptAborted,
        Self::LateTurn,
        Self::ClockLeap,
        Self::Drain,
        Self::BackendFailed,
        Self::PublicationLost,
        Self::FeedBroken,
        Self::LookupFailed,
        Self::LookupOvertaken,
        Self::HandOver,
        Self::SuccessorRefused,
        Self::SuccessorDied,
        Self::SuccessorLate,
        Self::SuccessorDamaged,
        Self::NoRest,
    ];

    /// Whether only runs with hand-overs meet it.
    #[must_use]
    pub const fn is_of_hand_overs(self) -> bool {
        self as usize >= Self::HandOver as usize
    }
}

/// Number of times that each kind of fault came up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hits([u64; Fault::ALL.len()]);

impl Hits {
    /// Counts one fault of that kind.
    pub(crate) const fn count(&mut self, fault: Fault) {
        self.0[fault as usize] += 1;
    }

    /// Returns how often a kind came up.
    #[must_use]
    pub const fn of(&self, fault: Fault) -> u64 {
        self.0[fault as usize]
    }

    /// Adds those of another run.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
