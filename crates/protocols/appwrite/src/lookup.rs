//! The words between sessions and Appwrite's HTTP API: look-ups of users, and presences to keep.
//!
//! Never: asks anything.

use std::fmt;
use std::sync::Arc;

use throng_types::{ConnId, Save, Saved, save_choice};

use crate::change::IdentityChange;
use crate::identity::Identity;

/// What a client shows to prove who it is. Its debug form tells nothing of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Credential {
    /// The value of a session cookie.
    Session(Box<str>),
    /// A JSON Web Token.
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

/// How much of a user is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The account and all teams: [`Found::User`].
    Everything,
    /// The account alone, in one request: [`Found::Changed`].
    Account,
    /// The place in one team alone, in one request: [`Found::Changed`].
    Membership {
        /// The user.
        user_id: Box<str>,
        /// The team.
        team: Box<str>,
        /// The membership that the event named.
        id: Box<str>,
    },
}

/// Which questions go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Haste {
    /// Something has changed: first.
    Change,
    /// Somebody wants to come in.
    Open,
    /// Something may have changed while nobody could hear of it.
    Recheck,
}

/// Who is this?
#[derive(Clone, Debug)]
pub struct Lookup {
    /// Whom to tell.
    pub conn: ConnId,
    /// Given back with the answer.
    pub token: u32,
    /// The project that the credential is for.
    pub project: Box<str>,
    /// What the client shows.
    pub credential: Credential,
    /// How much is asked for.
    pub part: Part,
    /// When it is asked.
    pub haste: Haste,
}

/// The answer to a [`Lookup`].
#[derive(Clone, Debug)]
pub enum Found {
    /// A user.
    User(Arc<Identity>),
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
    /// The connection that sets it.
    pub conn: ConnId,
    /// Given back with the answer.
    pub token: u32,
    /// The project that the credential is for.
    pub project: Box<str>,
    /// The user, whose calls are made one after the other.
    pub user_id: Box<str>,
    /// The client's own credential.
    pub credential: Credential,
    /// The presence's id.
    pub id: Box<str>,
    /// The JSON to write; without it the presence is deleted, and nobody is told.
    pub body: Option<Box<[u8]>>,
}

/// The answer to a [`PresenceCall`] that writes.
#[derive(Clone, Debug)]
pub enum PresenceAnswer {
    /// It is written.
    Written {
        /// The id that it has, which need not be the one that was asked for.
        id: Box<str>,
        /// The stored document, one JSON value.
        document: Box<str>,
    },
    /// Appwrite says no.
    Refused {
        /// Its code, from 400 to 499.
        code: u16,
        /// Its text.
        message: Box<str>,
    },
    /// There was no answer, or none of Appwrite's own kind.
    Failed,
}

/// Not now: a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

impl Save for Credential {
    fn save(&self, out: &mut Vec<u8>) {
        let (kind, text) = match self {
            Self::Session(text) => (0_u8, text),
            Self::Jwt(text) => (1, text),
        };
        kind.save(out);
        text.save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            0 => Save::load(from).map(Self::Session),
            1 => Save::load(from).map(Self::Jwt),
            _ => None,
        }
    }
}

impl Save for Part {
    fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Everything => out.push(0),
            Self::Account => out.push(1),
            Self::Membership { user_id, team, id } => {
                out.push(2);
                (user_id.clone(), (team.clone(), id.clone())).save(out);
            }
        }
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        match u8::load(from)? {
            0 => Some(Self::Everything),
            1 => Some(Self::Account),
            2 => {
                let (user_id, (team, id)) = Save::load(from)?;
                Some(Self::Membership { user_id, team, id })
            }
            _ => None,
        }
    }
}

save_choice!(Haste {
    0: Change,
    1: Open,
    2: Recheck
});
