//! Who the client is: asking Appwrite, and what the answer changes.
//!
//! Invariants
//! - At most one question of a connection is under way, and its messages wait behind it.
//! - What the room holds back for a connection is let go by the first answer that nothing has
//!   overtaken, or the connection ends.

use throng_appwrite::{CONSOLE, Fault, Identity, Phase, Response};
use throng_types::ConnId;

use super::connection::Appwrite;
use super::waiting::{Asking, Opening, Shown, User};
use super::{Credential, Found, Lookup, Order};
use crate::Desk;
use crate::effects::Fx;
use crate::format::ws_text;

impl Appwrite {
    /// Asks Appwrite. Without an answer nothing goes on, so it is certain to come, or the
    /// connection is refused now.
    pub(super) fn ask(
        &mut self,
        id: ConnId,
        asking: Asking,
        shown: &Shown,
        fresh: bool,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let Some(appwrite) = desk.appwrite.as_deref() else {
            return;
        };
        let project = match shown.to_console {
            true => CONSOLE,
            false => appwrite.project_id(self.project),
        };
        let more = self.more.get_or_insert_default();
        more.token = more.token.wrapping_add(1);
        more.asking = Some(asking);
        let lookup = Lookup {
            conn: id,
            token: more.token,
            project: project.into(),
            credential: shown.credential.clone(),
            fresh,
        };
        if appwrite.outside.identify(lookup).is_err() {
            self.refuse(&Fault::Server, Phase::Open, desk, fx);
        }
    }

    /// The user's roles may have changed: the room holds events back until [`Order::SetRoles`].
    pub(crate) fn reload(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        let more = self.more();
        if more.asking.is_some() {
            more.reload = true;
            return;
        }
        match more.user.as_ref().map(|user| user.shown.clone()) {
            Some(shown) => self.ask(id, Asking::Reload, &shown, true, desk, fx),
            None => self.become_guest(id, true, fx),
        }
    }

    /// The answer to a question.
    pub(crate) fn found(
        &mut self,
        id: ConnId,
        token: u32,
        found: Found,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let Some(more) = self.more.as_mut().filter(|more| more.token == token) else {
            return;
        };
        let Some(asking) = more.asking.take().filter(|_| !self.closing) else {
            return;
        };
        let settled = !std::mem::take(&mut more.reload);
        let found = match found {
            Found::User(identity) if identity.blocked => Found::Nobody("User is blocked.".into()),
            found => found,
        };
        match (asking, found) {
            // Neither guess nor go on with roles that may be gone: the client comes back.
            (_, Found::Failed) => self.refuse(&Fault::Server, Phase::Open, desk, fx),
            (Asking::Open(opening), found) => self.found_opening(id, found, *opening, desk, fx),
            (Asking::Authentication(shown), Found::User(identity)) => {
                let account = &*identity.account;
                ws_text(fx.out, |out| {
                    Response::Authentication { account }.encode(out)
                });
                self.become_user(id, &identity, shown, settled, fx);
            }
            (Asking::Authentication(_), Found::Nobody(_)) => {
                self.refuse(&Fault::Session, Phase::Message, desk, fx);
            }
            (Asking::Reload, Found::User(identity)) => {
                if let Some(user) = self.more().user.take() {
                    self.become_user(id, &identity, user.shown, settled, fx);
                }
            }
            (Asking::Reload, Found::Nobody(_)) => self.become_guest(id, settled, fx),
        }
        if !settled {
            self.reload(id, desk, fx);
        }
        self.catch_up(id, desk, fx);
    }

    fn found_opening(
        &mut self,
        id: ConnId,
        found: Found,
        opening: Opening,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let user = match (found, &opening.shown) {
            (Found::User(identity), _) => Some(identity),
            (Found::Nobody(why), Some(shown)) if matches!(shown.credential, Credential::Jwt(_)) => {
                return self.refuse_opening(&Fault::Jwt(why.into()), desk, fx);
            }
            // A session that is no good makes a guest, without a word.
            _ => None,
        };
        self.open(id, user, opening, desk, fx);
    }

    fn become_user(
        &mut self,
        id: ConnId,
        identity: &Identity,
        shown: Shown,
        settled: bool,
        fx: &mut Fx<'_>,
    ) {
        fx.appwrite(Order::SetRoles {
            conn: id,
            roles: identity.roles.clone(),
            from: self.user_id().into(),
            to: identity.user_id.as_str().into(),
            settled,
        });
        self.more().user = Some(User {
            id: identity.user_id.as_str().into(),
            shown,
        });
    }

    fn become_guest(&mut self, id: ConnId, settled: bool, fx: &mut Fx<'_>) {
        let guest = Identity::guest();
        fx.appwrite(Order::SetRoles {
            conn: id,
            roles: guest.roles,
            from: self.user_id().into(),
            to: guest.user_id.into(),
            settled,
        });
        self.more().user = None;
    }

    /// Takes the messages that waited for an answer.
    fn catch_up(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        while !self.is_asking() && !self.closing {
            let Some(message) = self.more.as_mut().and_then(|more| more.next()) else {
                break;
            };
            self.message(id, &message, desk, fx);
        }
        self.more.take_if(|more| more.is_empty());
    }
}
