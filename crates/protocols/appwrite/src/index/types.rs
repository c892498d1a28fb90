//! What goes into the index and what it says of itself.

use crate::{Fault, Filter};

/// Why the index refuses a change. The caller's fault, except for `TooMany`, which is a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The key is taken.
    #[error("the connection is already in the index")]
    Known,
    /// There is no such key.
    #[error("the connection is not in the index")]
    Unknown,
    /// An id is longer than the index keeps (254 bytes).
    #[error("the subscription id is too long")]
    IdTooLong,
    /// The connection would have more than 4096 subscriptions, or more than 16,384 channels in
    /// them.
    #[error("the connection has too many subscriptions")]
    TooMany,
}

impl From<IndexError> for Fault {
    /// What the client is told. Only the limits are its own doing.
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::TooMany => Self::Field("items", "Too many subscriptions.".into()),
            IndexError::IdTooLong => {
                Self::Field("items", "subscriptionId is not a valid id.".into())
            }
            IndexError::Known | IndexError::Unknown => Self::Server,
        }
    }
}

/// A subscription to make or to change.
#[derive(Clone, Copy, Debug)]
pub struct Subscription<'s> {
    /// Its id on this connection.
    pub id: &'s str,
    /// Channels under the connection's identity.
    pub channels: &'s [String],
    /// Its queries.
    pub filter: &'s Filter,
}

/// Whose account channels become whose, when a connection's user changes.
#[derive(Clone, Copy, Debug)]
pub struct Rebind<'r> {
    /// The user until now, empty for a guest.
    pub from: &'r str,
    /// The user from now on.
    pub to: &'r str,
}

/// Counts for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexStats {
    /// Connections in the index.
    pub connections: usize,
    /// Projects with at least one connection.
    pub projects: usize,
    /// Distinct combinations of roles, channels and queries.
    pub profiles: usize,
    /// Distinct channels, counted in each project.
    pub channels: usize,
    /// Distinct roles, counted in each project.
    pub roles: usize,
    /// What all of it keeps on the heap, in bytes, by the sizes and capacities of its parts.
    pub bytes: usize,
}
