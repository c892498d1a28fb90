//! Connections as bytes, for a process that takes over.
//!
//! A session is saved with the requests of its client; its project, roles and subscriptions come
//! out of the event hub, behind it. A connection stays while its user is being looked up, or while
//! events or messages wait for the answer.
//!
//! The new process has a feed of its own. It leaves out the events that the old one has taken (see
//! `overlap`), and looks every signed-in connection up again, as after a loss of Redis: its feed
//! begins with [`News::Began`](crate::News::Began), which the shard takes when all connections are
//! there. So rights that were revoked in the meantime are found, whatever the feeds carried.

use throng_session::WebSocket;
use throng_types::{ConnId, Save, Saved, save_fields};

use crate::connection::{Connection, State};
use crate::event_hub::EventHub;
use crate::pending::{Check, More, SetPresence, Shown, User};
use crate::projects::NONE;
use crate::shard::Appwrite;

save_fields!(Shown {
    credential,
    to_console
});
save_fields!(User { id, shown });
save_fields!(SetPresence {
    id,
    user_id,
    shown,
    token,
    written
});
save_fields!(Check {
    part,
    haste,
    unsure,
    since,
    failures
});

/// Without the project: its number means something on this shard alone.
impl Save for State {
    fn save(&self, out: &mut Vec<u8>) {
        (self.window, self.messages).save(out);
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let (window, messages) = Save::load(from)?;
        Some(Self {
            window,
            messages,
            project: NONE,
            opened: true,
        })
    }
}

impl More {
    /// Appends it; false if an answer is awaited.
    fn save(&self, out: &mut Vec<u8>) -> bool {
        self.user.save(out);
        self.token.save(out);
        self.next.save(out);
        self.next_at.save(out);
        self.recover.save(out);
        self.presence.save(out);
        self.asking.is_none() && !self.has_waiting() && self.writing == 0
    }

    fn load(from: &mut Saved<'_>) -> Option<Self> {
        let mut more = Self::default();
        more.user = Save::load(from)?;
        more.token = Save::load(from)?;
        more.next = Save::load(from)?;
        more.next_at = Save::load(from)?;
        more.recover = Save::load(from)?;
        more.presence = Save::load(from)?;
        Some(more)
    }
}

impl Connection {
    /// Appends it; false if it cannot move now.
    pub(crate) fn save(&self, out: &mut Vec<u8>) -> bool {
        self.more.is_some().save(out);
        let moves = self.more.as_ref().is_none_or(|more| more.save(out));
        self.ws.save(out) && self.ws.state.opened && moves
    }

    pub(crate) fn load(from: &mut Saved<'_>) -> Option<Self> {
        let more = match bool::load(from)? {
            true => Some(Box::new(More::load(from)?)),
            false => None,
        };
        let ws = WebSocket::load(from)?;
        Some(Self { ws, more })
    }
}

impl EventHub {
    /// Appends the hub's state of a connection; false if that cannot move now.
    fn save_conn(&self, index: u32, out: &mut Vec<u8>) -> bool {
        self.positioned.contains(&index).save(out);
        self.index.save(index, out) && !self.held.contains_key(&index) && !self.is_busy()
    }

    /// Takes a connection in that was saved. Gives its project.
    fn load_conn(&mut self, index: u32, from: &mut Saved<'_>) -> Option<Box<str>> {
        let is_positioned = bool::load(from)?;
        let project = self.index.load(index, from)?;
        self.connections += 1;
        if is_positioned {
            self.positioned.insert(index);
        }
        Some(project)
    }
}

impl Appwrite {
    pub(crate) fn save_conn(&self, conn: ConnId, out: &mut Vec<u8>) -> bool {
        self.hub.save_conn(conn.index(), out)
    }

    /// A project that is not served any more has its clients told so.
    pub(crate) fn load_conn(
        &mut self,
        conn: ConnId,
        session: &mut Connection,
        from: &mut Saved<'_>,
    ) -> Option<()> {
        let project = self.hub.load_conn(conn.index(), from)?;
        match self.shared.projects.take(&project) {
            Some(project) => session.ws.state.project = project,
            None => self.unserved.push(conn),
        }
        Some(())
    }

    pub(crate) fn give_up_conn(&mut self, conn: ConnId, session: &Connection) {
        session.let_go(&self.shared);
        self.hub.leave(conn.index());
    }
}
