//! Events held back for one connection whose roles are being asked for.
//!
//! What everyone may hear does not wait, as long as nothing about the same thing waits already.
//! What is for others alone does not wait either: no answer would make it this user's. The rest
//! does. Where events carry positions, everything keeps its order.
//!
//! Rule for "full": the connection is ended, and comes back.

use std::sync::Arc;

use throng_appwrite::{FeedMessage, GUESTS};
use throng_types::Position;

/// Events held back for one connection.
const HELD_MAX: usize = 256;

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is for the connection, or not, whatever the answer.
    Passes,
    /// It waits.
    Waits,
    /// It is not the connection's, whatever the answer.
    Skips,
    /// It should wait, and there is no room.
    Full,
}

/// What waits for one connection, and what is known of its user.
pub(crate) struct Held {
    project: Box<str>,
    /// The role of the user, and how roles of the user alone begin.
    user: Box<str>,
    user_below: Box<str>,
    in_order: bool,
    /// The event at hand goes to the connection like to any other.
    pub(crate) passes: bool,
    pub(crate) events: Vec<(Arc<FeedMessage>, Position)>,
}

impl Held {
    pub(crate) fn new(project: &str, user_id: &str, in_order: bool) -> Self {
        Self {
            project: project.into(),
            user: format!("user:{user_id}").into(),
            user_below: format!("user:{user_id}/").into(),
            in_order,
            passes: false,
            events: Vec::new(),
        }
    }

    /// Looks at an event, and keeps it if it must wait.
    pub(crate) fn take(&mut self, event: &Arc<FeedMessage>, position: Position) -> Verdict {
        let verdict = self.verdict(event);
        if verdict == Verdict::Waits {
            self.events.push((event.clone(), position));
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
        let of_users = role.starts_with("user:");
        !of_users || *role == *self.user || role.starts_with(&*self.user_below) || role == GUESTS
    }

    /// Whether something waits that is about the same thing.
    fn has_more_of(&self, event: &FeedMessage) -> bool {
        let this = event.subject();
        self.events.iter().any(|(event, _)| event.subject() == this)
    }
}
