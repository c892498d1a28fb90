//! Connections moved to another process keep their state; no event comes twice, and no revoked
//! right stays.

use throng_types::{Load as _, Save as _, Saved};

use super::*;

impl Server {
    /// A connection as bytes, if it can move.
    pub(in crate::tests) fn saved(&mut self, index: u32) -> Option<Vec<u8>> {
        let solo = self.floor.sessions.get_mut(&index);
        let session = solo.and_then(Solo::session).expect("a session");
        let mut out = Vec::new();
        if !Appwrite::moves(session) {
            return None;
        }
        session.save(&mut out);
        let moves = self.appwrite.save_kept(conn(index), session, &mut out);
        moves.then_some(out)
    }

    fn load(&mut self, index: u32, from: &mut Saved<'_>) -> Option<Connection> {
        let mut session = Connection::load(from)?;
        self.appwrite
            .load_kept(conn(index), &mut session, from)
            .map(|()| session)
    }

    /// Takes every connection out, and gives them to another one; all of them can move.
    pub(in crate::tests) fn hand_over(mut self, mut new: Self) -> Self {
        let all: Vec<u32> = self.floor.sessions.keys().copied().collect();
        for index in all {
            let bytes = self.saved(index).expect("it can move");
            let taken = self.floor.sessions.remove(&index);
            let mut solo = taken.expect("a session");
            let session = solo.act(|session, cx| std::mem::replace(session, Connection::new(cx)));
            self.appwrite.give_up(conn(index), session.expect("one"));
            for cut in 0..bytes.len() {
                let part = new.load(index, &mut Saved::new(&bytes[..cut]));
                assert!(part.is_none(), "{cut} of {} bytes", bytes.len());
            }
            let mut from = Saved::new(&bytes);
            let session = new.load(index, &mut from).expect("what was saved");
            assert!(from.is_empty());
            solo.own = new.floor.own.clone();
            solo.shared = new.floor.shared.clone();
            solo.act(|own, _| *own = session);
            new.floor.sessions.insert(index, solo);
            assert_eq!(new.saved(index), Some(bytes), "and again");
        }
        assert_eq!(self.appwrite.hub.connections(), 0);
        let mut rest = Vec::new();
        self.appwrite.save_rest(&mut rest);
        assert!(new.appwrite.load_rest(&mut Saved::new(&rest)).is_some());
        new.floor.now = self.floor.now;
        new
    }
}

#[test]
fn damaged_bytes_do_no_harm() {
    let mut old = Server::new();
    old.open_as(5, "ann", &[], FILES);
    let bytes = old.saved(5).expect("it can move");
    let mut new = Server::new();
    for at in 0..bytes.len() {
        for wrong in [0, 1, 2, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            if let Some(session) = new.load(5, &mut Saved::new(&bytes)) {
                new.appwrite.give_up(conn(5), session);
            }
            new.appwrite.unserved.clear();
        }
    }
    assert_eq!(new.appwrite.hub.connections(), 0);
    assert!(
        new.appwrite
            .load_rest(&mut Saved::new(&[1, 0, 0, 0]))
            .is_none()
    );
}

/// The hand-over is aborted: removed connections come back, and no lookup is made.
#[test]
fn a_connection_comes_back_to_where_it_was() {
    let mut server = Server::new();
    server.open_as(5, "ann", &[], FILES);
    server.frames(5);
    let bytes = server.saved(5).expect("it can move");
    let taken = server.floor.sessions.remove(&5);
    let mut solo = taken.expect("a session");
    let session = solo.act(|session, cx| std::mem::replace(session, Connection::new(cx)));
    server.appwrite.give_up(conn(5), session.expect("one"));
    assert_eq!(server.appwrite.hub.connections(), 0);
    let session = server.load(5, &mut Saved::new(&bytes)).expect("it is ours");
    solo.act(|own, _| *own = session);
    server.floor.sessions.insert(5, solo);
    server.event(1, &event("A", "user:ann"));
    server.turn();
    assert_eq!(server.heard(5), ["A"]);
    assert!(server.asked.try_recv().is_err());
    server.close(5);
}
