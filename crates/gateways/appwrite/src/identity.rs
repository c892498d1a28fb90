//! What a client has Appwrite asked: lookups of its identity, its presence, and the effect of
//! answers.
//!
//! A change that names the new roles was carried out by the hub before the session gets it; the
//! lookup only confirms them. A change without them makes the hub hold events back until the
//! session has an answer.
//!
//! Without an answer the known roles stay, and the lookup is repeated, until
//! [`AppwriteShared::grace_ms`] is over. Then the connection ends.
//!
//! A JWT is looked up once, when its client connects, as Appwrite does it. After its expiry no
//! lookup is possible: changes that name the roles are carried out, and any other ends the
//! connection, so that the client reconnects with a new token.
//!
//! Invariants
//! - At most one question of a connection is under way. While it is who the client is, its messages
//!   wait behind it.
//! - What the hub holds back for a connection is let go by the first answer that nothing has
//!   overtaken, or the connection ends.
//!
//! Appwrite keeps the presence that a client sets: it is written with the client's own credential,
//! and deleted when the socket is gone. Appwrite has one presence of a user, for any id, so a
//! connection remembers one. [`Outside::presence`] makes the calls of one user in their order: a
//! deletion comes behind the call that it undoes, even before that has an answer.
//!
//! Rule for "full": with [`WRITING_MAX`] calls under way a message is refused.

use throng_appwrite::{
    AppwriteIdentity, CONSOLE, Change, IdentityChange, Presence, RealtimeError, Response,
    TokenClaims,
};
use throng_session::encode::ws_text;
use throng_types::{ConnId, Millis};

use crate::Cx;
use crate::connection::{Connection, own_id};
use crate::order::Order;
use crate::pending::{Asking, Check, Opening, SetPresence, Shown, User};

#[cfg(doc)]
use crate::shared::Outside;
use crate::shared::{
    AppwriteShared, Credential, Lookup, LookupPart, LookupPriority, LookupReply, PresenceCall,
    PresenceReply,
};

/// Appwrite's message for an expired token.
const OVER: &str = "Invalid token: Expired";
/// Between a question without an answer and the next: the first pause, and the longest.
const PAUSES_MS: (u64, u64) = (1_000, 10_000);

impl Connection {
    /// Looks up the client's identity at Appwrite. Nothing goes on without an answer, so it is
    /// certain to come, or the connection is refused now.
    pub(super) fn ask(&mut self, asking: Asking, shown: &Shown, cx: &mut Cx<'_>) {
        let (all, first) = (LookupPart::Everything, LookupPriority::Open);
        if !self.try_ask(asking, shown, all, first, cx) {
            self.refuse_opening(&RealtimeError::Server, cx);
        }
    }

    fn try_ask(
        &mut self,
        asking: Asking,
        shown: &Shown,
        part: LookupPart,
        haste: LookupPriority,
        cx: &Cx<'_>,
    ) -> bool {
        let appwrite = cx.own;
        let project = match shown.to_console {
            true => CONSOLE.into(),
            false => self.project_id(cx),
        };
        let more = self.more();
        more.token = more.token.wrapping_add(1);
        more.asking = Some(asking);
        let lookup = Lookup {
            conn: cx.id,
            token: more.token,
            project,
            credential: shown.credential.clone(),
            part,
            haste,
        };
        appwrite.outside.identify(lookup).is_ok()
    }

    // ---- changes of the user ----

    pub(crate) fn changed(&mut self, what: &Change, cx: &mut Cx<'_>) {
        let Some(claims) = self.claims() else {
            return;
        };
        let (part, unsure) = match what {
            Change::Document => return,
            Change::Deleted
            | Change::SessionEnded(None)
            | Change::Account { blocked: true, .. } => {
                return self.become_guest(cx);
            }
            Change::SessionEnded(Some(ended)) => match claims.session_id.as_deref() {
                Some(own) if own == ended => return self.become_guest(cx),
                Some(_) => return self.not_concerned(cx),
                None => (LookupPart::Account, true),
            },
            Change::Account { .. } => (LookupPart::Account, false),
            Change::Membership { team, id, .. } => {
                let part = LookupPart::Membership {
                    user_id: self.user_id().into(),
                    team: team.as_str().into(),
                    id: id.as_str().into(),
                };
                (part, false)
            }
            Change::Unsaid => (LookupPart::Everything, true),
        };
        self.check(part, LookupPriority::Change, unsure, &claims, cx);
    }

    /// Looks the user up again, because any change may have been missed. False for guests, or if no
    /// lookup is possible.
    pub(crate) fn recheck(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(claims) = self.claims() else {
            return false;
        };
        self.check(
            LookupPart::Everything,
            LookupPriority::Recheck,
            true,
            &claims,
            cx,
        );
        !self.is_closing()
    }

    /// Returns the claims of the user's token, empty for a session; `None` without a user.
    fn claims(&self) -> Option<TokenClaims> {
        let user = self.more.as_ref()?.user.as_ref()?;
        if self.is_closing() {
            return None;
        }
        Some(match &user.shown.credential {
            Credential::Jwt(jwt) => TokenClaims::read(jwt).unwrap_or_default(),
            Credential::Session(_) => TokenClaims::default(),
        })
    }

    fn check(
        &mut self,
        part: LookupPart,
        haste: LookupPriority,
        unsure: bool,
        claims: &TokenClaims,
        cx: &mut Cx<'_>,
    ) {
        if claims.is_over(cx.now.unix_ms) {
            if unsure {
                self.refuse_opening(&RealtimeError::Jwt(OVER.to_owned()), cx);
            }
            return;
        }
        let check = Check {
            part,
            haste,
            unsure,
            since: cx.now.mono,
            failures: 0,
        };
        self.more().check_later(check);
        self.ask_next(cx);
    }

    /// Starts the next lookup, unless it is not yet due.
    pub(super) fn ask_next(&mut self, cx: &mut Cx<'_>) {
        let Some(more) = self.more.as_mut() else {
            return;
        };
        if more.asking.is_some() || more.next_at.is_some_and(|at| at > cx.now.mono) {
            return;
        }
        more.next_at = None;
        let (Some(check), Some(user)) = (more.next.take(), &more.user) else {
            return;
        };
        let (shown, part, haste) = (user.shown.clone(), check.part.clone(), check.haste);
        if !self.try_ask(Asking::Check(check), &shown, part, haste, cx)
            && let Some(Asking::Check(check)) = self.more().asking.take()
        {
            self.unanswered(check, cx);
        }
    }

    /// Releases held-back events: the session that ended was another one of the user.
    fn not_concerned(&mut self, cx: &mut Cx<'_>) {
        let more = self.more();
        let asked = match &more.asking {
            Some(Asking::Check(check)) => Some(check),
            _ => None,
        };
        if asked
            .into_iter()
            .chain(&more.next)
            .all(|check| !check.unsure)
        {
            let user_id = self.user_id().to_owned();
            self.learn(user_id, Change::Document, cx);
        }
    }

    fn learn(&self, user_id: String, what: Change, cx: &mut Cx<'_>) {
        let change = IdentityChange { user_id, what };
        cx.order(Order::Change {
            conn: cx.id,
            change,
        });
    }

    // ---- answers ----

    pub(crate) fn found(&mut self, token: u32, found: LookupReply, cx: &mut Cx<'_>) {
        let is_closing = self.is_closing();
        let Some(more) = self.more.as_mut().filter(|more| more.token == token) else {
            return;
        };
        let Some(asking) = more.asking.take().filter(|_| !is_closing) else {
            return;
        };
        let found = match found {
            LookupReply::User(identity) if identity.blocked => LookupReply::Nobody,
            found => found,
        };
        match (asking, found) {
            (Asking::Check(check), found) => self.checked(check, found, cx),
            // Do not guess: the client comes back.
            (_, LookupReply::Failed) => self.refuse_opening(&RealtimeError::Server, cx),
            (Asking::Open(opening), found) => self.found_opening(found, *opening, cx),
            (Asking::Authentication(shown), LookupReply::User(identity)) => {
                if let Err(fault) = self.admit(&identity, cx) {
                    return self.refuse_opening(&fault, cx);
                }
                let account = &*identity.account;
                let response = Response::Authentication { account };
                ws_text(cx.out, |out| response.encode(out));
                // What was to be asked was about the old one, or is answered by this.
                let more = self.more();
                (more.next, more.next_at) = (None, None);
                self.become_user(&identity, shown, cx);
            }
            (Asking::Authentication(_), _) => {
                self.refuse_message(&RealtimeError::Session, cx);
            }
        }
        self.ask_next(cx);
        self.catch_up(cx);
        self.arm(cx);
    }

    fn found_opening(&mut self, found: LookupReply, opening: Opening, cx: &mut Cx<'_>) {
        let user = match found {
            LookupReply::User(identity) => Some(identity),
            LookupReply::Expired(why) => {
                return self.refuse_opening(&RealtimeError::Jwt(why.into()), cx);
            }
            // A bad session makes a guest, and so does a token whose session has ended.
            _ => None,
        };
        self.open(user, opening, cx);
    }

    fn checked(&mut self, check: Check, found: LookupReply, cx: &mut Cx<'_>) {
        if !matches!(found, LookupReply::Nobody)
            && let Some(next) = self.more().next.take()
        {
            // Something has changed since: one question more, about both.
            self.more().next = Some(next.with(check));
            return;
        }
        match found {
            LookupReply::User(identity) => {
                if let Some(user) = self.more().user.take() {
                    self.become_user(&identity, user.shown, cx);
                }
            }
            LookupReply::Changed(change) if change.user_id != self.user_id() => {
                let part = LookupPart::Everything;
                self.more().next = Some(Check { part, ..check });
            }
            LookupReply::Changed(change) => match change.what {
                Change::Account { blocked: true, .. } => self.become_guest(cx),
                what => self.learn(change.user_id, what, cx),
            },
            LookupReply::Nobody => self.become_guest(cx),
            LookupReply::Expired(why) if check.unsure => {
                self.refuse_opening(&RealtimeError::Jwt(why.into()), cx);
            }
            LookupReply::Expired(_) => {}
            LookupReply::Failed => self.unanswered(check, cx),
        }
    }

    /// Repeats the lookup later, or ends the connection if Appwrite has been silent for too long.
    fn unanswered(&mut self, check: Check, cx: &mut Cx<'_>) {
        if cx.now.mono.since(check.since) >= cx.own.grace_ms {
            return self.refuse_opening(&RealtimeError::Server, cx);
        }
        let pause_ms = (PAUSES_MS.0 << check.failures.min(10)).min(PAUSES_MS.1);
        // A crowd that failed at once does not come back at once.
        let spread_ms = u64::from(cx.id.index()).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
        let at = cx.now.mono + pause_ms + spread_ms;
        let more = self.more();
        more.next_at = Some(at);
        more.next = Some(Check {
            failures: check.failures + 1,
            ..check
        });
        self.arm(cx);
    }

    /// When the next question is due, if one waits for its time.
    pub(super) fn next_at(&self) -> Option<Millis> {
        self.more.as_ref().and_then(|more| more.next_at)
    }

    fn set_roles(&self, identity: &AppwriteIdentity, cx: &mut Cx<'_>) {
        cx.order(Order::SetRoles {
            conn: cx.id,
            roles: identity.roles.clone(),
            from: self.user_id().into(),
            to: identity.user_id.as_str().into(),
        });
    }

    fn become_user(&mut self, identity: &AppwriteIdentity, shown: Shown, cx: &mut Cx<'_>) {
        self.set_roles(identity, cx);
        self.more().user = Some(User {
            id: identity.user_id.as_str().into(),
            shown,
        });
    }

    fn become_guest(&mut self, cx: &mut Cx<'_>) {
        cx.shared.users.gone(cx.id);
        self.set_roles(&AppwriteIdentity::guest(), cx);
        let more = self.more();
        more.user = None;
        (more.next, more.next_at) = (None, None);
        more.asking
            .take_if(|asking| matches!(asking, Asking::Check(_)));
        self.more.take_if(|more| more.is_empty());
    }

    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        while !self.holds_messages() && !self.is_closing() {
            let Some(message) = self.more.as_mut().and_then(|more| more.next_message()) else {
                break;
            };
            self.message(&message, cx);
        }
        self.more.take_if(|more| more.is_empty());
    }
}

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
    pub(super) fn set_presence(&mut self, presence: &Presence, cx: &mut Cx<'_>) {
        let more = self.more.as_ref();
        let Some(user) = more.and_then(|more| more.user.as_ref()) else {
            return self.refuse_message(&RealtimeError::Unauthorized, cx);
        };
        // The console's users have none in the projects that they look at.
        if user.shown.to_console {
            return self.refuse_message(&RealtimeError::ApiDisabled, cx);
        }
        let (user_id, shown) = (user.id.clone(), user.shown.clone());
        let id = match &presence.id {
            Some(id) => id.as_str().into(),
            None => own_id(0, self.ws.state.messages, cx).into(),
        };
        let project = self.project_id(cx);
        let more = self.more();
        if more.writing >= WRITING_MAX {
            return self.refuse_message(&RealtimeError::TooManyMessages, cx);
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
            return self.refuse_message(&RealtimeError::Server, cx);
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
            PresenceReply::Written { document, .. } => {
                let presence = &*document;
                ws_text(cx.out, |out| Response::Presence { presence }.encode(out));
            }
            PresenceReply::Refused { code, message } => {
                let fault = RealtimeError::Presence(code, message.into());
                self.refuse_message(&fault, cx);
            }
            PresenceReply::Failed => self.refuse_message(&RealtimeError::Server, cx),
        }
        self.more.take_if(|more| more.is_empty());
    }

    pub(crate) fn delete_presence(mut self, conn: ConnId, own: &AppwriteShared) {
        let held = self.more.as_mut().and_then(|more| more.presence.take());
        if let Some(held) = held {
            held.delete(conn, own.projects.id(self.ws.state.project), own);
        }
    }
}
