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

fn numbered(id: &str, role: &str, status: &str) -> Value {
    let mut event = event(id, role);
    event["data"]["payload"]["status"] = json!(status);
    event
}

#[test]
fn clients_hear_everything_once_and_in_order() {
    let mut old = Server::new();
    old.open(3, FILES, "");
    old.open_as(5, "ann", &[], "project=bench");
    let open = json!({"method": "equal", "attribute": "status", "values": ["open"]});
    let subscribe = json!({"type": "subscribe", "data": [
        {"subscriptionId": "all", "channels": ["files"]},
        {"subscriptionId": "open", "channels": ["files"], "queries": [open.to_string()]},
    ]});
    old.say(5, &subscribe.to_string());
    old.frames(3);
    old.frames(5);
    for (offset, id) in [(1, "A"), (2, "B")] {
        old.event(offset, &numbered(id, "any", "shut"));
    }
    old.turn();
    assert_eq!(
        (old.heard(3), old.heard(5)),
        (ids(&["A", "B"]), ids(&["A", "B"]))
    );
    let mut new = old.hand_over(Server::new());
    new.begin(9);
    let lookup = new.lookup();
    assert_eq!(
        lookup.haste,
        LookupPriority::Recheck,
        "whoever is signed in is looked up again"
    );
    // The feed of the new process had begun before the old one took the second.
    new.event(1, &numbered("B", "any", "shut"));
    new.event(2, &numbered("C", "any", "open"));
    new.event(3, &numbered("D", "user:ann", "shut"));
    new.turn();
    assert_eq!(new.heard(3), ids(&["C"]));
    let told = new.frames(5);
    let ids = |at: usize| told[at]["data"]["subscriptions"].clone();
    assert_eq!((ids(0), ids(1)), (json!(["all", "open"]), json!(["all"])));
    assert_eq!(told.len(), 2);
    // The answer is heard, and the client may still speak.
    new.answer(&lookup, user_of("ann", &["T"]));
    new.event(4, &numbered("E", "team:T", "shut"));
    new.say(5, r#"{"type":"ping"}"#);
    new.turn();
    let told = new.frames(5);
    assert_eq!(
        (&told[0]["type"], &told[1]["data"]["payload"]["$id"]),
        (&json!("pong"), &json!("E"))
    );
    new.close(3);
    new.close(5);
    assert_eq!(new.appwrite.hub.connections(), 0);
}

#[test]
fn a_right_that_went_in_between_is_gone() {
    let mut old = Server::new();
    old.open(5, &format!("{FILES}&jwt=ann"), "");
    let lookup = old.lookup();
    old.answer(&lookup, user_of("ann", &["T"]));
    let mut new = old.hand_over(Server::new());
    new.frames(5);
    new.begin(9);
    let lookup = new.lookup();
    new.answer(&lookup, user_of("ann", &[]));
    new.event(1, &event("A", "team:T"));
    new.event(2, &event("B", "user:ann"));
    new.turn();
    assert_eq!(new.heard(5), ids(&["B"]));
}

#[test]
fn whoever_waits_for_an_answer_stays() {
    let mut old = Server::new();
    old.open(3, FILES, "");
    assert!(old.saved(3).is_some());
    old.open(4, &format!("{FILES}&jwt=bob"), "");
    assert!(old.saved(4).is_none(), "it is being opened");
    let lookup = old.lookup();
    old.answer(&lookup, user_of("bob", &[]));
    assert!(old.saved(4).is_some());
    old.event(1, &change("X", "bob", "user:bob"));
    old.turn();
    assert!(
        old.saved(4).is_none(),
        "its roles are asked for, and an event waits"
    );
    let lookup = old.lookup();
    old.answer(&lookup, LookupReply::Failed);
    assert!(old.saved(4).is_none(), "the event still waits");
    assert!(old.saved(3).is_some());
}

#[test]
fn a_project_that_is_not_served_any_more_is_refused() {
    let mut old = Server::new();
    old.open(3, FILES, "");
    old.frames(3);
    let elsewhere = Server::with(|own| {
        let other = AppwriteProject {
            id: "other".into(),
            platforms: throng_appwrite::Platforms::new(&["localhost"]),
        };
        *own = AppwriteShared::new(vec![other], own.outside.clone());
    });
    let mut new = old.hand_over(elsewhere);
    new.turn();
    let told = new.frames(3);
    assert_eq!(
        (&told[0]["type"], &told[1]["close"]),
        (&json!("error"), &json!(1008))
    );
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

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
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
    assert_eq!(server.heard(5), ids(&["A"]));
    assert!(server.asked.try_recv().is_err());
    server.close(5);
}
