//! Who the client is: asking Appwrite, and what the answer changes.
//!
//! Invariants
//! - At most one question of a connection is under way, and its messages wait behind it.
//! - What the hub holds back for a connection is let go by the first answer that nothing has
//!   overtaken, or the connection ends.

use throng_appwrite::{CONSOLE, Fault, Identity, Phase, Response};
use throng_session::encode::ws_text;

use crate::connection::Connection;
use crate::context::Cx;
use crate::order::Order;
use crate::pending::{Asking, Opening, Shown, User};
use crate::shared::{Credential, Found, Lookup};

impl Connection {
    /// Asks Appwrite. Without an answer nothing goes on, so it is certain to come, or the
    /// connection is refused now.
    pub(super) fn ask(&mut self, asking: Asking, shown: &Shown, fresh: bool, cx: &mut Cx<'_>) {
        let appwrite = cx.own;
        let project = match shown.to_console {
            true => CONSOLE,
            false => appwrite.project_id(self.project()),
        };
        let more = self.more.get_or_insert_default();
        more.token = more.token.wrapping_add(1);
        more.asking = Some(asking);
        let lookup = Lookup {
            conn: cx.id,
            token: more.token,
            project: project.into(),
            credential: shown.credential.clone(),
            fresh,
        };
        if appwrite.outside.identify(lookup).is_err() {
            self.refuse(&Fault::Server, Phase::Open, cx);
        }
    }

    /// The user's roles may have changed: the hub holds events back until [`Order::SetRoles`].
    pub(crate) fn reload(&mut self, cx: &mut Cx<'_>) {
        if self.is_closing() {
            return;
        }
        let more = self.more();
        if more.asking.is_some() {
            more.reload = true;
            return;
        }
        match more.user.as_ref().map(|user| user.shown.clone()) {
            Some(shown) => self.ask(Asking::Reload, &shown, true, cx),
            None => self.become_guest(true, cx),
        }
    }

    /// The answer to a question.
    pub(crate) fn found(&mut self, token: u32, found: Found, cx: &mut Cx<'_>) {
        let is_closing = self.is_closing();
        let Some(more) = self.more.as_mut().filter(|more| more.token == token) else {
            return;
        };
        let Some(asking) = more.asking.take().filter(|_| !is_closing) else {
            return;
        };
        let settled = !std::mem::take(&mut more.reload);
        let found = match found {
            Found::User(identity) if identity.blocked => Found::Nobody("User is blocked.".into()),
            found => found,
        };
        match (asking, found) {
            // Neither guess nor go on with roles that may be gone: the client comes back.
            (_, Found::Failed) => self.refuse(&Fault::Server, Phase::Open, cx),
            (Asking::Open(opening), found) => self.found_opening(found, *opening, cx),
            (Asking::Authentication(shown), Found::User(identity)) => {
                let account = &*identity.account;
                ws_text(cx.out, |out| {
                    Response::Authentication { account }.encode(out)
                });
                self.become_user(&identity, shown, settled, cx);
            }
            (Asking::Authentication(_), Found::Nobody(_)) => {
                self.refuse(&Fault::Session, Phase::Message, cx);
            }
            (Asking::Reload, Found::User(identity)) => {
                if let Some(user) = self.more().user.take() {
                    self.become_user(&identity, user.shown, settled, cx);
                }
            }
            (Asking::Reload, Found::Nobody(_)) => self.become_guest(settled, cx),
        }
        if !settled {
            self.reload(cx);
        }
        self.catch_up(cx);
    }

    fn found_opening(&mut self, found: Found, opening: Opening, cx: &mut Cx<'_>) {
        let user = match (found, &opening.shown) {
            (Found::User(identity), _) => Some(identity),
            (Found::Nobody(why), Some(shown)) if matches!(shown.credential, Credential::Jwt(_)) => {
                return self.refuse_opening(&Fault::Jwt(why.into()), cx);
            }
            // A session that is no good makes a guest, without a word.
            _ => None,
        };
        self.open(user, opening, cx);
    }

    fn become_user(&mut self, identity: &Identity, shown: Shown, settled: bool, cx: &mut Cx<'_>) {
        cx.order(Order::SetRoles {
            conn: cx.id,
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

    fn become_guest(&mut self, settled: bool, cx: &mut Cx<'_>) {
        let guest = Identity::guest();
        cx.order(Order::SetRoles {
            conn: cx.id,
            roles: guest.roles,
            from: self.user_id().into(),
            to: guest.user_id.into(),
            settled,
        });
        self.more().user = None;
    }

    /// Takes the messages that waited for an answer.
    fn catch_up(&mut self, cx: &mut Cx<'_>) {
        while !self.is_asking() && !self.is_closing() {
            let Some(message) = self.more.as_mut().and_then(|more| more.next()) else {
                break;
            };
            self.message(&message, cx);
        }
        self.more.take_if(|more| more.is_empty());
    }
}
