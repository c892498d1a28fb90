//! Look-ups of users and presences to keep, as sessions and Appwrite's HTTP API exchange them, and
//! the news that a shard gets.
//!
//! Never: asks anything.

use std::fmt;
use std::sync::Arc;

use throng_types::{ConnId, Position, Save};

use crate::change::IdentityChange;
use crate::feed::FeedMessage;
use crate::identity::AppwriteIdentity;

/// A client's proof of its identity. The debug form leaves the secret out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Save)]
pub enum Credential {
    Session(Box<str>),
    Jwt(Box<str>),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Session(_) => "Session(..)",
            Self::Jwt(_) => "Jwt(..)",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Save)]
pub enum LookupPart {
    /// The account and all teams: [`LookupReply::User`].
    Everything,
    /// The account alone, in one request: [`LookupReply::Changed`].
    Account,
    /// The place in one team alone, in one request: [`LookupReply::Changed`].
    Membership {
        user_id: Box<str>,
        team: Box<str>,
        /// The membership that the event named.
        id: Box<str>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Save)]
pub enum LookupPriority {
    /// A user has changed: before all others.
    Change,
    /// A client connects and waits.
    Open,
    /// A user may have changed while no events came: takes turns with [`Self::Open`].
    Recheck,
}

#[derive(Clone, Debug)]
pub struct Lookup {
    pub conn: ConnId,
    pub token: u32,
    pub project: Box<str>,
    pub credential: Credential,
    pub part: LookupPart,
    pub haste: LookupPriority,
}

#[derive(Clone, Debug)]
pub enum LookupReply {
    User(Arc<AppwriteIdentity>),
    /// A part of a user that is known.
    Changed(IdentityChange),
    /// The credential is not good (any more).
    Nobody,
    /// A token that does not verify, most likely because its time is over; what Appwrite says.
    Expired(Box<str>),
    /// There was no answer: Appwrite is away, slow or asked too much.
    Failed,
}

/// A user's presence, to be written or deleted at Appwrite.
#[derive(Clone, Debug)]
pub struct PresenceCall {
    pub conn: ConnId,
    pub token: u32,
    pub project: Box<str>,
    /// The user, whose calls are made one after the other.
    pub user_id: Box<str>,
    pub credential: Credential,
    pub id: Box<str>,
    /// The JSON to write; without it the presence is deleted, and nobody is told.
    pub body: Option<Box<[u8]>>,
}

/// The answer to a [`PresenceCall`] that writes.
#[derive(Clone, Debug)]
pub enum PresenceReply {
    Written {
        /// The id that it has, which need not be the one that was asked for.
        id: Box<str>,
        /// The stored document, one JSON value.
        document: Box<str>,
    },
    /// Appwrite refuses to write it.
    Refused {
        /// The status, from 400 to 499.
        code: u16,
        message: Box<str>,
    },
    /// There was no answer, or none of Appwrite's own kind.
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// News for a shard from outside. Events come in one order for all shards.
#[derive(Clone, Debug)]
pub enum News {
    Event {
        event: Arc<FeedMessage>,
        position: Position,
    },
    /// Events may have been lost, and what is known of users may be wrong: counting begins anew,
    /// after this position.
    Began(Position),
    Found {
        conn: ConnId,
        token: u32,
        found: LookupReply,
    },
    /// The answer to a [`PresenceCall`].
    Presence {
        conn: ConnId,
        token: u32,
        answer: PresenceReply,
    },
}
