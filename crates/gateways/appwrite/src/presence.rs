//! A user's presence, as a client sets it over its socket. Appwrite keeps it: it is written with
//! the client's own credential, and deleted when the socket is gone.
//!
//! Appwrite has one presence of a user, for any id, so a connection remembers one.
//! [`Outside::presence`] makes the calls of one user in their order: a deletion comes behind the
//! call that it undoes, even before that has an answer.
//!
//! Rule for "full": with [`WRITING_MAX`] calls under way a message is refused.

use throng_appwrite::{ConnectionPhase, Presence, RealtimeError, Response};
use throng_session::encode::ws_text;
use throng_types::ConnId;

use crate::connection::{Connection, own_id};
use crate::context::Cx;
use crate::pending::SetPresence;
#[cfg(doc)]
use crate::shared::Outside;
use crate::shared::{AppwriteShared, PresenceCall, PresenceReply};

/// Messages of one connection that Appwrite has not answered.
const WRITING_MAX: u8 = 8;
/// Milliseconds until a presence expires that nobody deletes. Appwrite's own socket says 30 days,
/// the most that its API takes, and less of it the longer a worker there has run.
const STAYS_MS: u64 = 24 * 60 * 60 * 1000;

impl SetPresence {
    fn delete(self, conn: ConnId, project: Box<str>, own: &AppwriteShared) {
        // A refusal is counted where it is made; the presence then ends by itself.
        let _ = own.outside.presence(PresenceCall {
            conn,
            token: self.token,
            project,
            user_id: self.user_id,
            credential: self.shown.credential,
            id: self.id,
            body: None,
        });
    }
}

impl Connection {
    /// Has the user's presence written.
    pub(super) fn set_presence(&mut self, presence: &Presence, cx: &mut Cx<'_>) {
        let more = self.more.as_ref();
        let Some(user) = more.and_then(|more| more.user.as_ref()) else {
            return self.refuse(&RealtimeError::Unauthorized, ConnectionPhase::Message, cx);
        };
        // The console's users have none in the projects that they look at.
        if user.shown.to_console {
            return self.refuse(&RealtimeError::ApiDisabled, ConnectionPhase::Message, cx);
        }
        let (user_id, shown) = (user.id.clone(), user.shown.clone());
        let id = match &presence.id {
            Some(id) => id.as_str().into(),
            None => own_id(0, self.ws.state.messages, cx).into(),
        };
        let project = self.project_id(cx);
        let more = self.more();
        if more.writing >= WRITING_MAX {
            return self.refuse(
                &RealtimeError::TooManyMessages,
                ConnectionPhase::Message,
                cx,
            );
        }
        let token = more.presence.as_ref().map_or(0, |held| held.token) + 1;
        let call = PresenceCall {
            conn: cx.id,
            token,
            project: project.clone(),
            user_id: user_id.clone(),
            credential: shown.credential.clone(),
            id,
            body: Some(presence.body(cx.now.unix_ms + STAYS_MS).into()),
        };
        let mut held = SetPresence {
            id: call.id.clone(),
            user_id,
            shown,
            token,
            written: false,
        };
        if cx.own.outside.presence(call).is_err() {
            return self.refuse(&RealtimeError::Server, ConnectionPhase::Message, cx);
        }
        more.writing += 1;
        match more.presence.take() {
            Some(before) if before.user_id != held.user_id => {
                before.delete(cx.id, project, cx.own);
            }
            Some(before) if before.written => (held.id, held.written) = (before.id, true),
            _ => {}
        }
        more.presence = Some(held);
    }

    /// Appwrite has answered a call.
    pub(crate) fn presence_answered(&mut self, token: u32, answer: PresenceReply, cx: &mut Cx<'_>) {
        let Some(more) = self.more.as_mut() else {
            return;
        };
        more.writing = more.writing.saturating_sub(1);
        let latest = more.presence.as_mut().filter(|held| held.token == token);
        match (latest, &answer) {
            (Some(held), PresenceReply::Written { id, .. }) => {
                (held.id, held.written) = (id.clone(), true);
            }
            (Some(held), PresenceReply::Refused { .. }) if !held.written && more.writing == 0 => {
                more.presence = None;
            }
            _ => {}
        }
        if self.is_closing() {
            return;
        }
        match answer {
            PresenceReply::Written { document, .. } => ws_text(cx.out, |out| {
                Response::Presence {
                    presence: &document,
                }
                .encode(out);
            }),
            PresenceReply::Refused { code, message } => {
                let fault = RealtimeError::Presence(code, message.into());
                self.refuse(&fault, ConnectionPhase::Message, cx);
            }
            PresenceReply::Failed => {
                self.refuse(&RealtimeError::Server, ConnectionPhase::Message, cx)
            }
        }
        self.more.take_if(|more| more.is_empty());
    }

    /// Deletes the presence when the socket is gone.
    pub(crate) fn delete_presence(mut self, conn: ConnId, own: &AppwriteShared) {
        let held = self.more.as_mut().and_then(|more| more.presence.take());
        if let Some(held) = held {
            held.delete(conn, own.project_id(self.ws.state.project), own);
        }
    }
}
