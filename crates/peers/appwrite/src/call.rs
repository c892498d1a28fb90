//! The words between the rest of the server and the peer.

use throng_appwrite::{FeedMessage, Lookup, News, PresenceCall};

/// Called once, when the subscriber stands still.
pub type Stood = Box<dyn FnOnce() + Send>;

/// A call of the rest of the server.
pub enum Call {
    /// Begins: sends the first position to the shards, and connects.
    Begin,
    /// Looks a user up; [`News::Found`] follows, even if the answer is known already.
    LookUp(Lookup),
    /// Writes or deletes a presence; [`News::Presence`] follows one that writes.
    Presence(PresenceCall),
    /// Hands an event of the server API to every shard. [`crate::Offers`] counts it.
    Offer(FeedMessage),
    /// Stands still once everything is handed on that was published so far, or at once if nothing
    /// is heard; [`Reply::Stands`] follows, unless [`Call::GoOn`] comes first.
    StandStill(Stood),
    /// Reads events again after [`Call::StandStill`].
    GoOn,
}

/// An answer to the rest of the server.
pub enum Reply {
    /// News for the shard with this number.
    News(usize, News),
    /// The subscriber stands still, and all shards have what it heard.
    Stands(Stood),
}
