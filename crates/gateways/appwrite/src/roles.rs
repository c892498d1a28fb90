//! What the event hub does when roles change.
//!
//! Owns nothing of its own: these are the parts of [`EventHub`] that connections' roles, and the
//! events that wait for them, go through.

use std::sync::Arc;

use throng_appwrite::{Fault, FeedMessage, GUESTS, IdentityChange, Outcome, Phase, Rebind};
use throng_types::{ConnId, Position};

use crate::event_hub::EventHub;
use crate::held::{Held, Verdict};
use crate::order::Connections;

impl EventHub {
    /// A user is not what it was: gives the user's connections their roles of now, or holds events
    /// back for them until they are known.
    pub(crate) fn change(
        &mut self,
        project: &str,
        change: &IdentityChange,
        connections: &mut impl Connections,
    ) {
        let mut theirs = Vec::new();
        self.index
            .with_role(project, &format!("user:{}", change.user_id), &mut theirs);
        for index in theirs {
            let Some(conn) = connections.id(index) else {
                continue;
            };
            if !self.apply(index, change) {
                let is_positioned = self.positioned.contains(&index);
                self.held
                    .entry(index)
                    .or_insert_with(|| Held::new(project, &change.user_id, is_positioned));
            }
            if let Some(held) = self.held.get_mut(&index) {
                held.learn(&change.what);
            }
            connections.changed(conn, &change.what);
        }
    }

    /// Gives a connection the roles that a change leads to; false if it does not say.
    pub(crate) fn apply(&mut self, index: u32, change: &IdentityChange) -> bool {
        let user_id = &change.user_id;
        match change.what.outcome(user_id, &self.index.roles(index)) {
            Outcome::Same => true,
            Outcome::Roles(roles) => {
                self.index.set_roles(index, &roles, None);
                true
            }
            Outcome::Guest => {
                self.set_roles(index, &[GUESTS], user_id, "");
                true
            }
            Outcome::Unknown => false,
        }
    }

    pub(crate) fn set_roles<S: AsRef<str>>(
        &mut self,
        index: u32,
        roles: &[S],
        from: &str,
        to: &str,
    ) {
        self.index
            .set_roles(index, roles, Some(Rebind { from, to }));
    }

    pub(crate) fn hold(
        &mut self,
        event: &Arc<FeedMessage>,
        position: Position,
        connections: &mut impl Connections,
    ) {
        let mut too_many = Vec::new();
        for (&index, held) in &mut self.held {
            if held.take(event, position) == Verdict::Full {
                too_many.push(index);
            }
        }
        for index in too_many {
            // Without its roles it hears nothing more, whether or not it closes at once.
            self.index.set_roles::<&str>(index, &[], None);
            self.held.remove(&index);
            if let Some(conn) = connections.id(index) {
                connections.refuse(conn, &Fault::Server, Phase::Open);
            }
        }
    }

    /// The roles are known: matches what was held back with them.
    pub(crate) fn settle(&mut self, conn: ConnId, connections: &mut impl Connections) {
        self.rechecks.done(conn.index());
        if let Some(held) = self.held.remove(&conn.index()) {
            for (event, position) in held.events {
                self.tell(conn, &event, position, connections);
            }
        }
    }
}
