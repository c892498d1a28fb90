//! Events held back for one connection whose roles are being looked up.
//!
//! Events for everyone do not wait, as long as no event about the same subject waits already.
//! Events for other users alone do not wait either: no answer would make them this user's. The rest
//! does. Where events carry positions, everything keeps its order.
//!
//! Invariant: an answer gives the teams of now, and nothing of the time before the last change that
//! was announced of a team. Events that only that team may see, and that wait from before, are
//! dropped; and a user who left it, as announced, gets nothing of it until another change is
//! announced. A change without details may be of any team.
//!
//! An event that ends rights of the user is matched when it arrives, with the rights of before, and
//! sent in its turn.
//!
//! Rule for "full": the connection is ended, and its client reconnects.

use std::mem;
use std::sync::Arc;

use throng_appwrite::{Change, FeedMessage, GUESTS, USERS};
use throng_types::Position;

/// Events held back for one connection.
const HELD_MAX: usize = 256;
/// Teams that are known to be left. Of more than these, events wait.
const LEFT_MAX: usize = 256;

/// Decision about an event for a connection whose roles are being looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The event does not depend on the answer, and takes its usual way.
    Passes,
    /// The event is kept until the answer.
    Waits,
    /// The event is never for this connection, whatever the answer.
    Skips,
    /// The event should wait, and there is no room.
    Full,
}

/// Events that wait for one connection's roles, and the teams that its user has left.
pub(crate) struct Held {
    project: Box<str>,
    /// The role of the user, and how roles of the user alone begin.
    user: Box<str>,
    user_below: Box<str>,
    /// The roles of teams that the user has left since. Bound: [`LEFT_MAX`].
    left: Vec<Box<str>>,
    in_order: bool,
    /// The event at hand goes to the connection like to any other.
    pub(crate) passes: bool,
    /// Oldest first. Bound: [`HELD_MAX`].
    pub(crate) events: Vec<Waiting>,
}

pub(crate) struct Waiting {
    pub(crate) event: Arc<FeedMessage>,
    pub(crate) position: Position,
    /// The ids for its frame, if it was matched already.
    pub(crate) ids: Option<Vec<u8>>,
}

impl Held {
    pub(crate) fn new(project: &str, user_id: &str, in_order: bool) -> Self {
        Self {
            project: project.into(),
            user: format!("user:{user_id}").into(),
            user_below: format!("user:{user_id}/").into(),
            left: Vec::new(),
            in_order,
            passes: false,
            events: Vec::new(),
        }
    }

    /// Whether the connection is this user's.
    pub(crate) fn is_of(&self, user_id: &str) -> bool {
        self.user.strip_prefix("user:") == Some(user_id)
    }

    pub(crate) fn learn(&mut self, what: &Change) {
        match what {
            Change::Membership { team, roles, .. } => {
                let role = format!("team:{team}");
                self.left.retain(|left| **left != *role);
                self.keep_events_of(|held, one| team_of(one) != role && held.may_have(one));
                if roles.is_none() && self.left.len() < LEFT_MAX {
                    self.left.push(role.into());
                }
            }
            Change::Unsaid => {
                self.left.clear();
                self.keep_events_of(|held, role| *role == *held.user || role == USERS);
            }
            _ => {}
        }
    }

    /// Keeps events that are for everyone, are matched already, or have a role that the coming
    /// answer can be believed about.
    fn keep_events_of(&mut self, is_certain: impl Fn(&Self, &str) -> bool) {
        let mut events = mem::take(&mut self.events);
        events.retain(|Waiting { event, ids, .. }| {
            let mut roles = event.roles.iter();
            ids.is_some() || event.for_everyone() || roles.any(|role| is_certain(self, role))
        });
        self.events = events;
    }

    pub(crate) fn take(&mut self, event: &Arc<FeedMessage>, position: Position) -> Verdict {
        let verdict = self.verdict(event);
        if verdict == Verdict::Waits {
            self.events.push(Waiting {
                event: event.clone(),
                position,
                ids: None,
            });
        }
        self.passes = verdict == Verdict::Passes;
        verdict
    }

    fn verdict(&self, event: &FeedMessage) -> Verdict {
        if self.project != event.project {
            return Verdict::Skips;
        }
        let for_everyone = event.for_everyone();
        if for_everyone && (self.events.is_empty() || !self.in_order && !self.has_more_of(event)) {
            return Verdict::Passes;
        }
        if !for_everyone && !event.roles.iter().any(|role| self.may_have(role)) {
            return Verdict::Skips;
        }
        match self.events.len() < HELD_MAX {
            true => Verdict::Waits,
            false => Verdict::Full,
        }
    }

    /// Whether an answer could give the connection this role.
    fn may_have(&self, role: &str) -> bool {
        if self.left.iter().any(|left| **left == *team_of(role)) {
            return false;
        }
        let of_users = role.starts_with("user:");
        !of_users || *role == *self.user || role.starts_with(&*self.user_below) || role == GUESTS
    }

    /// Whether an event about the same subject waits.
    fn has_more_of(&self, event: &FeedMessage) -> bool {
        let this = event.subject();
        self.events
            .iter()
            .any(|waiting| waiting.event.subject() == this)
    }
}

/// Returns a role without its part behind the slash: `team:T` of `team:T/owner`.
fn team_of(role: &str) -> &str {
    role.split_once('/').map_or(role, |(team, _)| team)
}
