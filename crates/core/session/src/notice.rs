//! Notices for the operator's log: refusals, and calls that changed something.
//!
//! Sessions record notices, and the server writes them. Owns the waiting notices, and the number of
//! dropped ones. Never: writes; keeps a token, a key, or a query, which may hold one.
//!
//! Rule for "full": refusals beyond [`PER_S_MAX`] a second are counted and not kept; so is anything
//! beyond [`WAITING_MAX`].

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;

use throng_auth::{Caller, KeyRights};
use throng_types::{ConnId, Now};

/// Refusals that are kept in a second, and at once.
const PER_S_MAX: u64 = 20;
const WAITING_MAX: usize = 256;
/// Bytes of each text of a notice; clients may choose them.
const TEXT_BYTES_MAX: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// A client's request was refused.
    Refused,
    Changed,
    Published,
}

/// Log record of a refusal or a change: connection, user, reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    pub conn: ConnId,
    /// The client's address, as far as the session knew it.
    pub address: Option<IpAddr>,
    /// User of the connection, or that a change is about; empty if unknown.
    pub user: Box<str>,
    /// Public id of the only connection that a change is about; empty if it is about all of a user.
    pub client: Box<str>,
    /// Action that was requested: `subscribe`, `publish`, `request`.
    pub what: &'static str,
    /// Object of the action: a channel, or a path without its query.
    pub object: Box<str>,
    /// Reason of a refusal; empty for a change.
    pub why: Box<str>,
    /// Name of the key of the server API, empty if it has none.
    pub key: Box<str>,
}

/// One per shard, owned by its thread.
#[derive(Default)]
pub struct Notices {
    /// Records for the log, in order. Bound: [`WAITING_MAX`].
    waiting: RefCell<Vec<Notice>>,
    suppressed: Cell<u64>,
    /// The second that is being counted, and the refusals that were kept in it.
    window: Cell<(u64, u64)>,
    conn: Cell<Option<(ConnId, Now)>>,
    address: Cell<Option<IpAddr>>,
    /// Caller of the server API with a named key, as of the last request of this connection.
    caller: RefCell<Option<(ConnId, Caller)>>,
    wants_published: Cell<bool>,
}

impl Notices {
    /// Creates an empty collection. Publications of the server API are recorded only on request.
    pub fn new(wants_published: bool) -> Self {
        Self {
            wants_published: Cell::new(wants_published),
            ..Self::default()
        }
    }

    /// Whether publications of the server API are noted from now on.
    pub fn want_published(&self, wants: bool) {
        self.wants_published.set(wants);
    }

    /// Sets the connection that later notices belong to.
    pub fn begin(&self, conn: ConnId, now: Now) {
        self.conn.set(Some((conn, now)));
        self.address.set(None);
    }

    /// Its client has this address.
    pub fn comes_from(&self, address: IpAddr) {
        self.address.set(Some(address));
    }

    /// Sets the caller of the server API that the request, or what follows from it, is from.
    pub fn called_by(&self, caller: &Caller) {
        let named = caller.as_ref().and_then(|_| self.conn.get());
        let mut known = self.caller.borrow_mut();
        if named.is_some() || known.is_some() {
            *known = named.map(|(conn, _)| (conn, caller.clone()));
        }
    }

    /// Names the caller of publications that come without a key of the server API.
    pub fn signed_by(&self, name: impl Display) {
        if self.wants_published.get() {
            self.called_by(&Some(Arc::new(KeyRights {
                name: name.to_string().into(),
                roles: Vec::new(),
                prefixes: Vec::new(),
            })));
        }
    }

    /// The caller of the request that is being served.
    pub fn caller(&self) -> Caller {
        let (conn, _) = self.conn.get()?;
        let known = self.caller.borrow();
        { known.as_ref() }.and_then(|(of, caller)| (*of == conn).then(|| caller.clone())?)
    }

    /// Records a refusal. The reason is formatted only if the notice is kept.
    pub fn refused(&self, what: &'static str, object: &str, user: &str, why: impl Display) {
        self.note(NoticeKind::Refused, what, [object, user, ""], &why);
    }

    /// Records a change, of a user and a connection if it is about one.
    pub fn changed(&self, what: &'static str, object: &str, [user, client]: [&str; 2]) {
        self.note(NoticeKind::Changed, what, [object, user, client], &"");
    }

    pub fn published(&self, what: &'static str, channel: &str) {
        if self.wants_published.get() {
            self.note(NoticeKind::Published, what, [channel, "", ""], &"");
        }
    }

    fn note(&self, kind: NoticeKind, what: &'static str, of: [&str; 3], why: &dyn Display) {
        let Some((conn, now)) = self.conn.get() else {
            return;
        };
        if kind == NoticeKind::Refused && !self.has_room(now) || self.is_full() {
            return self.suppressed.set(self.suppressed.get() + 1);
        }
        let why = why.to_string();
        let [object, user, client, why] = [of[0], of[1], of[2], &why]
            .map(|text| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].into());
        self.waiting.borrow_mut().push(Notice {
            kind,
            conn,
            address: self.address.get(),
            user,
            client,
            what,
            object,
            why,
            key: self
                .caller()
                .map_or_else(Box::default, |key| key.name.clone()),
        });
    }

    fn is_full(&self) -> bool {
        self.waiting.borrow().len() >= WAITING_MAX
    }

    /// Counts a refusal; false if there were enough in this second.
    fn has_room(&self, now: Now) -> bool {
        let second = now.mono.0 / 1000;
        let (window, kept) = self.window.get();
        let kept = if window == second { kept } else { 0 };
        self.window.set((second, (kept + 1).min(PER_S_MAX)));
        kept < PER_S_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    #[must_use]
    pub fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut self.waiting.borrow_mut())
    }

    /// Returns the number of notices dropped since the last call.
    pub fn take_suppressed(&self) -> u64 {
        self.suppressed.take()
    }
}

#[cfg(test)]
mod tests {
    use throng_types::ShardId;

    use super::*;

    fn at(ms: u64) -> Now {
        Now::new(ms, 0)
    }

    #[test]
    fn a_flood_of_refusals_is_sampled_and_counted() {
        let notices = Notices::default();
        let conn = ConnId::new(ShardId(0), 7, 1);
        for (ms, kept) in [(0, 20), (999, 0), (1_000, 20), (60_000, 20)] {
            notices.begin(conn, at(ms));
            // Handshakes that failed are some of them.
            for what in ["subscribe", "tls"].repeat(500) {
                notices.refused(what, "news", "jo", "no permission");
            }
            let taken = notices.take();
            assert_eq!(taken.len(), kept, "{ms}");
            assert_eq!(notices.take_suppressed(), 1_000 - kept as u64, "{ms}");
            // Changes are recorded all the same.
            notices.changed("disconnect", "", ["jo", ""]);
            assert_eq!(notices.take().len(), 1);
        }
    }

    #[test]
    fn a_notice_says_who_what_and_why() {
        let notices = Notices::default();
        let conn = ConnId::new(ShardId(0), 7, 1);
        // Without a current connection there is nothing to record.
        notices.refused("subscribe", "news", "jo", "no permission");
        assert!(notices.is_empty());
        notices.begin(conn, at(0));
        notices.comes_from([192, 0, 2, 1].into());
        notices.refused("subscribe", &"é".repeat(1_000), "jo", "no permission");
        let [notice] = notices.take().try_into().unwrap();
        assert_eq!(notice.object.len(), TEXT_BYTES_MAX);
        assert_eq!(notice.address, Some([192, 0, 2, 1].into()));
        assert_eq!(
            (notice.conn, notice.what, &*notice.user),
            (conn, "subscribe", "jo")
        );
        // The next connection is another one.
        notices.begin(conn, at(0));
        notices.refused("publish", "news", "", "no permission");
        assert_eq!(notices.take()[0].address, None);
    }

    #[test]
    fn publications_are_noted_where_they_are_wanted() {
        for wants_published in [false, true] {
            let notices = Notices::new(wants_published);
            notices.begin(ConnId::new(ShardId(0), 7, 1), at(0));
            notices.published("publish", "news");
            assert_eq!(!notices.is_empty(), wants_published);
            for _ in 0..10_000 {
                notices.changed("disconnect", "", ["jo", ""]);
            }
            assert_eq!(notices.take().len(), WAITING_MAX);
        }
    }
}
