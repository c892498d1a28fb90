//! Effects of changed roles in the event hub.
//!
//! Owns nothing of its own: these are the parts of [`EventHub`] that connections' roles, and the
//! events that wait for them, go through.

use std::sync::Arc;

use throng_appwrite::{
    ConnectionPhase, FeedMessage, GUESTS, IdentityChange, RealtimeError, Rebind, RoleChange,
};
use throng_types::{ConnId, Position};

use crate::event_hub::EventHub;
use crate::held::{Held, Verdict, Waiting};
use crate::order::Connections;

impl EventHub {
    /// Applies a change of a user: gives the user's connections their new roles, or holds events
    /// back for them until those are known.
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

    /// Gives a connection the roles that a change names; false if it names none.
    pub(crate) fn apply(&mut self, index: u32, change: &IdentityChange) -> bool {
        let user_id = &change.user_id;
        match change.what.outcome(user_id, &self.index.roles(index)) {
            RoleChange::Same => true,
            RoleChange::Roles(roles) => {
                self.index.set_roles(index, &roles, None);
                true
            }
            RoleChange::Guest => {
                self.set_roles(index, &[GUESTS], user_id, "");
                true
            }
            RoleChange::Unknown => false,
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

    /// Checks an event for all connections that wait for their roles; `change` is its change of an
    /// account.
    pub(crate) fn hold(
        &mut self,
        event: &Arc<FeedMessage>,
        position: Position,
        change: Option<&IdentityChange>,
        connections: &mut impl Connections,
    ) {
        let ends = change.filter(|change| change.what.ends_rights());
        let (mut too_many, mut ending) = (Vec::new(), Vec::new());
        for (&index, held) in &mut self.held {
            match held.take(event, position) {
                Verdict::Full => too_many.push(index),
                Verdict::Waits if ends.is_some_and(|ends| held.is_of(&ends.user_id)) => {
                    ending.push(index);
                }
                _ => {}
            }
        }
        // Matched now: when its turn comes, there are no rights any more to match it with.
        for index in ending {
            let ids = self.ids_of(index, event);
            let held = self.held.get_mut(&index);
            if let Some(last) = held.and_then(|held| held.events.last_mut()) {
                last.ids = ids;
            }
        }
        for index in too_many {
            // Without its roles it gets nothing more, whether or not it closes at once.
            self.index.set_roles::<&str>(index, &[], None);
            self.held.remove(&index);
            if let Some(conn) = connections.id(index) {
                connections.refuse(conn, &RealtimeError::Server, ConnectionPhase::Open);
            }
        }
    }

    /// Sets the roles, and matches held-back events with them.
    pub(crate) fn settle(&mut self, conn: ConnId, connections: &mut impl Connections) {
        self.rechecks.done(conn.index());
        if let Some(held) = self.held.remove(&conn.index()) {
            for Waiting {
                event,
                position,
                ids,
            } in held.events
            {
                match ids {
                    Some(ids) => self.tell_as(conn, &event, position, &ids, connections),
                    None => self.tell(conn, &event, position, connections),
                }
            }
        }
    }
}
