//! What Appwrite sessions share, and what they ask of the world outside their shard.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use throng_appwrite::{
    CONSOLE, FeedMessage, Identity, IdentityChange, Limits, Platforms, Rates, RefusalStyle,
};
use throng_types::{ConnId, Now, Position};

use crate::projects::{AppwriteProject, Projects};

/// What is configured, and the way out of the shard. Each shard has its own; what is in it is the
/// same for all.
#[derive(Clone)]
pub struct AppwriteShared {
    projects: Projects,
    /// What one client may send.
    pub limits: Limits,
    /// How often it may; the rate of openings is [`Outside::admit`]'s to keep.
    pub rates: Rates,
    /// How refusals look.
    pub style: RefusalStyle,
    /// Whether there is somebody to ask who a client is. If not, everybody is a guest.
    pub identifies: bool,
    /// How long roles that are known stay while Appwrite does not answer, in milliseconds.
    pub grace_ms: u64,
    /// Whether clients are pinged, which Appwrite does not do.
    pub pings: bool,
    /// The world outside the shard.
    pub outside: Arc<dyn Outside>,
}

impl AppwriteShared {
    /// Options with these projects; the console is always one of them, for pages of this machine
    /// and of the server's own host if nothing else is said.
    #[must_use]
    pub fn new(mut projects: Vec<AppwriteProject>, outside: Arc<dyn Outside>) -> Self {
        if projects.iter().all(|project| &*project.id != CONSOLE) {
            projects.push(AppwriteProject {
                id: CONSOLE.into(),
                platforms: Platforms::new(&["localhost"]),
            });
        }
        Self {
            projects: Projects::new(projects),
            limits: Limits::default(),
            rates: Rates::default(),
            style: RefusalStyle::default(),
            identifies: false,
            grace_ms: 120_000,
            pings: false,
            outside,
        }
    }

    /// The platforms of a project, if it is served.
    pub(crate) fn platforms(&self, id: &str) -> Option<&Platforms> {
        self.projects.platforms(id)
    }

    /// Lets a session remember a project by a number, which it gives back in the end. `None` if
    /// the project is not served, or too many are remembered.
    pub(crate) fn take_project(&self, id: &str) -> Option<u16> {
        self.projects.take(id)
    }

    /// Takes a number back.
    pub(crate) fn give_project(&self, number: u16) {
        self.projects.give(number);
    }

    /// The id of the project with a number.
    pub(crate) fn project_id(&self, number: u16) -> Box<str> {
        self.projects.id(number)
    }
}

/// What a client shows to prove who it is. Its debug form tells nothing of it.
#[derive(Clone, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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

/// What sessions need done outside their shard. Calls return at once.
pub trait Outside: Send + Sync {
    /// Whether this address may open one more connection now.
    fn admit(&self, address: IpAddr, now: Now) -> bool;

    /// Asks who somebody is; [`News::Found`] follows for certain unless it is refused.
    ///
    /// # Errors
    /// [`Refused`] if too many questions wait.
    fn identify(&self, lookup: Lookup) -> Result<(), Refused>;

    /// Has a presence written or deleted, behind earlier calls for the same user;
    /// [`News::Presence`] follows a call that writes for certain unless it is refused.
    ///
    /// # Errors
    /// [`Refused`] if too many calls wait.
    fn presence(&self, call: PresenceCall) -> Result<(), Refused>;

    /// Hands an event to all shards.
    ///
    /// # Errors
    /// [`Refused`] if too many events wait.
    fn publish(&self, event: FeedMessage) -> Result<(), Refused>;
}

/// What a shard is told from outside, in one order for all shards as far as events go.
#[derive(Clone, Debug)]
pub enum News {
    /// Something happened in a project.
    Event {
        /// The event.
        event: Arc<FeedMessage>,
        /// Its place among all events.
        position: Position,
    },
    /// Events may have been lost, and what is known of users may be wrong: counting begins anew,
    /// after this position.
    Began(Position),
    /// The answer to a [`Lookup`].
    Found {
        /// Who asked.
        conn: ConnId,
        /// What the question carried.
        token: u32,
        /// Who it is.
        found: Found,
    },
    /// The answer to a [`PresenceCall`].
    Presence {
        /// Who asked.
        conn: ConnId,
        /// What the call carried.
        token: u32,
        /// What became of it.
        answer: PresenceAnswer,
    },
}

/// The queue of [`News`] for one shard.
pub trait Inbox {
    /// The oldest, if there is any.
    fn next(&mut self) -> Option<News>;
}
