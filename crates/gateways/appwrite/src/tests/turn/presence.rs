//! Presence of a user: permission, calls to Appwrite, and deletion.

use crate::{Credential, PresenceCall, PresenceReply};

use super::*;

impl Server {
    fn set(&mut self, index: u32, id: &str, status: &str) {
        let data = json!({"status": status, "presenceId": id});
        let message = json!({"type": "presence", "data": data});
        self.say(index, &message.to_string());
    }

    /// The next call that Appwrite gets.
    fn called(&self) -> Option<PresenceCall> {
        let mut call = None;
        let world = &self.floor.hall.world;
        world.change(|doings| call = doings.presences.pop_front());
        call
    }

    #[track_caller]
    fn put(&self) -> PresenceCall {
        let call = self.called().expect("a call");
        assert!(call.body.is_some(), "{call:?}");
        call
    }

    /// Takes the only call, which must be a deletion: its id and token.
    #[track_caller]
    fn deleted(&self) -> (String, Credential) {
        let call = self.called().expect("a call");
        assert!(call.body.is_none(), "{call:?}");
        assert!(self.called().is_none());
        (call.id.into(), call.credential)
    }

    fn tell(&mut self, call: &PresenceCall, answer: PresenceReply) {
        self.news(News::Presence {
            conn: call.conn,
            token: call.token,
            answer,
        });
        self.turn();
    }

    fn write(&mut self, call: &PresenceCall, id: &str) {
        let document = json!({"$id": id}).to_string().into();
        let id = id.into();
        self.tell(call, PresenceReply::Written { id, document });
    }

    fn refuse(&mut self, call: &PresenceCall) {
        let (code, message) = (401, "no".into());
        self.tell(call, PresenceReply::Refused { code, message });
    }
}

fn jwt(user: &str) -> Credential {
    Credential::Jwt(user.into())
}

fn told(id: &str) -> Value {
    json!({"type": "response", "data": {"to": "presence", "presence": {"$id": id}}})
}

fn error(code: u16, message: &str) -> Value {
    json!({"type": "error", "data": {"code": code, "message": message}})
}

#[test]
fn a_presence_is_set_with_the_clients_own_credential() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    server.set(0, "p", "online");
    let call = server.put();
    assert_eq!((call.conn, &*call.id), (conn(0), "p"));
    assert_eq!((&*call.project, &*call.user_id), ("bench", "ann"));
    assert_eq!(call.credential, jwt("ann"));
    let body: Value = serde_json::from_slice(&call.body.clone().unwrap()).unwrap();
    // A day from now.
    let until = "2023-11-15T22:13:20.000+00:00";
    assert_eq!(body, json!({"status": "online", "expiresAt": until}));
    assert!(server.frames(0).is_empty());
    server.write(&call, "p");
    assert_eq!(server.frames(0), [told("p")]);
    server.close(0);
    assert_eq!(server.deleted(), ("p".to_owned(), jwt("ann")));
}

/// Refusals of Appwrite are passed on as they are, and the connection stays.
#[test]
fn refusals_are_told() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    server.set(0, "p", "online");
    let call = server.put();
    server.refuse(&call);
    assert_eq!(server.frames(0), [error(401, "no")]);
    server.set(0, "p", "online");
    let call = server.put();
    server.tell(&call, PresenceReply::Failed);
    assert_eq!(server.frames(0), [error(500, "Error: Server Error")]);
    let full = |server: &Server, is_full| {
        let world = &server.floor.hall.world;
        world.change(|doings| doings.is_full = is_full);
    };
    full(&server, true);
    server.set(0, "p", "online");
    assert_eq!(server.frames(0), [error(500, "Error: Server Error")]);
    full(&server, false);
    assert_eq!(server.counted(Counter::AppwriteRefusedPresence), 1);
    server.open(1, FILES);
    server.frames(1);
    server.set(1, "p", "online");
    assert_eq!(server.frames(1), [error(401, "User must be authorized")]);
    for wrong in ["", "..", "a/b", "_a", "é", &"x".repeat(37)] {
        server.set(0, wrong, "online");
        assert_eq!(server.frames(0)[0]["data"]["code"], 1003, "{wrong}");
    }
    assert!(server.called().is_none());
}

/// Nothing is there to be deleted where Appwrite has refused.
#[test]
fn what_was_refused_is_not_deleted() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    server.set(0, "p", "online");
    let call = server.put();
    server.refuse(&call);
    server.close(0);
    assert!(server.called().is_none());
    server.frames(0);
    // Without an answer nobody knows, and an earlier one is there.
    for answer in [None, Some(false), Some(true)] {
        server.open_as(0, "ann", FILES);
        server.set(0, "p", "online");
        let call = server.put();
        match answer {
            None => {}
            Some(false) => server.tell(&call, PresenceReply::Failed),
            Some(true) => {
                server.write(&call, "p");
                server.set(0, "p", "away");
                let call = server.put();
                server.refuse(&call);
            }
        }
        server.close(0);
        assert_eq!(server.deleted().0, "p", "{answer:?}");
        // An answer after the end is ignored.
        server.frames(0);
        server.write(&call, "p");
        assert!(server.frames(0).is_empty());
    }
}

/// Appwrite keeps one presence of a user, under the id that it had first.
#[test]
fn the_id_is_the_one_that_appwrite_says() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    let message = r#"{"type":"presence","data":{"status":"here"}}"#;
    server.say(0, message);
    let call = server.put();
    assert_eq!(call.id.len(), 20, "{}", call.id);
    server.write(&call, "first");
    assert_eq!(server.frames(0), [told("first")]);
    server.set(0, "second", "away");
    assert_eq!(&*server.put().id, "second");
    server.close(0);
    assert_eq!(server.deleted().0, "first");
}

#[test]
fn calls_of_one_connection_are_bounded() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    let calls: Vec<PresenceCall> = (0..8)
        .map(|_| {
            server.set(0, "p", "online");
            server.put()
        })
        .collect();
    server.set(0, "p", "online");
    assert_eq!(server.frames(0), [error(1013, "Too many messages.")]);
    assert!(server.called().is_none());
    server.write(&calls[0], "p");
    server.set(0, "p", "online");
    server.put();
}

/// A second user on a connection deletes the first one's presence when it sets its own.
#[test]
fn another_user_has_another_presence() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    server.set(0, "p", "online");
    let call = server.put();
    server.write(&call, "p");
    let authentication = r#"{"type":"authentication","data":{"session":"bob"}}"#;
    server.say(0, authentication);
    let lookup = server.asked();
    server.answer(&lookup, user_of("bob", &[]));
    server.frames(0);
    server.set(0, "q", "online");
    let call = server.put();
    assert_eq!(call.credential, Credential::Session("bob".into()));
    assert_eq!(server.deleted(), ("p".to_owned(), jwt("ann")));
    server.close(0);
    assert_eq!(server.deleted().0, "q");
}

/// A process that takes over deletes presences of the old one.
#[test]
fn a_presence_moves_with_its_connection() {
    let mut server = Server::new();
    server.open_as(0, "ann", FILES);
    server.set(0, "p", "online");
    let call = server.put();
    assert!(server.saved(0).is_none(), "the answer is awaited");
    server.write(&call, "p");
    server.frames(0);
    let mut new = server.hand_over(Server::new());
    new.close(0);
    assert_eq!(new.deleted(), ("p".to_owned(), jwt("ann")));
}
