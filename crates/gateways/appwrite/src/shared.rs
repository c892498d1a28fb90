//! What Appwrite sessions share, and what they ask of the world outside their shard.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use throng_appwrite::{CONSOLE, FeedMessage, Identity, Limits, Platforms, Rates, RefusalStyle};
use throng_types::{ConnId, Now, Position};

/// A project whose clients may connect.
#[derive(Clone, Debug)]
pub struct AppwriteProject {
    /// Its id.
    pub id: Box<str>,
    /// Which pages and apps may.
    pub platforms: Platforms,
}

/// What is configured, and the way out of the shard. Each shard has its own; what is in it is the
/// same for all.
#[derive(Clone)]
pub struct AppwriteShared {
    projects: Vec<AppwriteProject>,
    /// What one client may send.
    pub limits: Limits,
    /// How often it may; the rate of openings is [`Outside::admit`]'s to keep.
    pub rates: Rates,
    /// How refusals look.
    pub style: RefusalStyle,
    /// Whether there is somebody to ask who a client is. If not, everybody is a guest.
    pub identifies: bool,
    /// The world outside the shard.
    pub outside: Arc<dyn Outside>,
}

impl AppwriteShared {
    /// Options with these projects; the console is always one of them and needs no platform.
    #[must_use]
    pub fn new(mut projects: Vec<AppwriteProject>, outside: Arc<dyn Outside>) -> Self {
        if projects.iter().all(|project| &*project.id != CONSOLE) {
            projects.push(AppwriteProject {
                id: CONSOLE.into(),
                platforms: Platforms::default(),
            });
        }
        Self {
            projects,
            limits: Limits::default(),
            rates: Rates::default(),
            style: RefusalStyle::default(),
            identifies: false,
            outside,
        }
    }

    /// A project and its number, by which sessions remember it.
    pub(crate) fn find(&self, id: &str) -> Option<(u16, &AppwriteProject)> {
        let found = self
            .projects
            .iter()
            .position(|project| &*project.id == id)?;
        Some((u16::try_from(found).ok()?, self.projects.get(found)?))
    }

    /// The id of the project with a number.
    pub(crate) fn project_id(&self, number: u16) -> &str {
        let project = self.projects.get(usize::from(number));
        project.map_or("", |project| &project.id)
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
    /// Something has changed: an answer from before this question is of no use.
    pub fresh: bool,
}

/// The answer to a [`Lookup`].
#[derive(Clone, Debug)]
pub enum Found {
    /// A user.
    User(Arc<Identity>),
    /// The credential is not good (any more); what Appwrite said of it.
    Nobody(Box<str>),
    /// There was no answer: Appwrite is away, slow or asked too much.
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
    /// Events may have been lost: counting begins anew, after this position.
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
}

/// The queue of [`News`] for one shard.
pub trait Inbox {
    /// The oldest, if there is any.
    fn next(&mut self) -> Option<News>;
}
