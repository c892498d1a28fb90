//! The gateway's turns: how much each does, and connections that lag or go.

mod moved;

use super::*;
use crate::Credential;

/// Events keep their order, however few frames a turn allows; and a turn reports whether more
/// waits.
#[test]
fn a_turn_makes_so_many_frames_and_no_more() {
    let mut server = Server::new();
    for index in 0..3 {
        server.open(index, FILES, "");
        server.frames(index);
    }
    server.event(1, &event("A", "any"));
    server.event(2, &event("B", "any"));
    let mut heard = vec![Vec::new(); 3];
    for (frames_max, more, total) in [(2, true, 2), (2, true, 4), (5, false, 6), (5, false, 6)] {
        let told = server.appwrite.turn(frames_max, &mut server.floor);
        assert_eq!(told, more, "after {total} frames");
        for index in 0..3 {
            heard[index as usize].extend(server.heard(index));
        }
        assert_eq!(heard.iter().map(Vec::len).sum::<usize>(), total);
    }
    assert_eq!(heard, vec![["A", "B"]; 3]);
    assert_eq!(server.counted(Counter::AppwriteMatches), 6);
}

/// Large events of one turn must not look like a queue that is never emptied.
#[test]
fn a_turn_takes_a_quarter_of_a_queue() {
    let mut server = Server::new();
    server.open(0, FILES, "");
    server.frames(0);
    let mut large = event("A", "any");
    large["data"]["payload"]["text"] = json!("x".repeat(60_000));
    for offset in 1..=9 {
        server.event(offset, &large);
    }
    assert!(server.appwrite.turn(1000, &mut server.floor));
    assert_eq!(
        server.heard(0).len(),
        5,
        "a quarter, and what goes beyond it"
    );
    assert!(!server.appwrite.turn(1000, &mut server.floor));
    assert_eq!(server.heard(0).len(), 4);
}

/// Frames that fit to the last byte are sent; a connection without room for them ends, once.
#[test]
fn a_client_that_lags_is_told_to_come_back() {
    let mut server = Server::new();
    for index in 0..3 {
        server.open(index, FILES, "");
        server.frames(index);
    }
    server.event(1, &event("A", "any"));
    server.turn();
    let bytes = server.floor.sent[&0].len();
    (0..3).for_each(|index| assert_eq!(server.heard(index), ["A"]));
    server.floor.queued.insert(1, QUEUE_BYTES_MAX - bytes);
    server.floor.queued.insert(2, QUEUE_BYTES_MAX - bytes + 1);
    server.event(2, &event("B", "any"));
    server.event(3, &event("C", "any"));
    server.turn();
    assert_eq!(server.heard(0), ["B", "C"]);
    assert_eq!(server.heard(1), ["B", "C"]);
    assert_eq!(server.frames(2), [json!({ "close": 1013 })]);
    assert_eq!(server.counted(Counter::DroppedClose), 1);
}

/// A connection that closes between two turns gets nothing, and neither does the slot's next
/// connection.
#[test]
fn who_goes_lets_go_of_everything() {
    let mut server = Server::new();
    server.open(0, "project=console&channels[]=files", "");
    for index in [1, 2] {
        server.open(index, FILES, "");
        server.frames(index);
    }
    server.appwrite.tick(&mut server.floor);
    let gauge = Gauge::AppwriteConnections;
    assert_eq!(server.floor.shared.counters.gauge(gauge), 3);
    server.event(1, &event("A", "any"));
    assert!(server.appwrite.turn(0, &mut server.floor));
    server.close(1);
    server.turn();
    assert_eq!((server.heard(1).len(), server.heard(2).len()), (0, 1));
    server.appwrite.tick(&mut server.floor);
    assert_eq!(server.floor.shared.counters.gauge(gauge), 2);
}

/// A project that only `*` allows is remembered while it has connections.
#[test]
fn the_last_client_of_a_project_takes_its_number_along() {
    let mut server = Server::with(|own| {
        let any = AppwriteProject {
            id: "*".into(),
            platforms: throng_appwrite::Platforms::new(&["*"]),
        };
        *own = AppwriteShared::new(vec![any], own.outside.clone());
    });
    for index in [0, 1] {
        server.open(index, "project=x&channels[]=files", "");
        assert_eq!(server.frames(index)[0]["type"], "connected");
    }
    // The configuration has two: this one and the console.
    let own = server.floor.own.clone();
    for (index, id) in [(0, "x"), (1, "")] {
        server.close(index);
        assert_eq!(&*own.projects.id(2), id);
    }
}

/// Every five seconds, for guests of the console.
#[test]
fn the_channel_tests_has_an_event_every_five_seconds() {
    let mut server = Server::new();
    server.open(0, "project=console&channels[]=tests", "");
    server.frames(0);
    let mut heard = Vec::new();
    for at_ms in [0, 1000, 4999, 5000, 5001, 9999, 10_000] {
        server.floor.now.mono = Millis(1000 + at_ms);
        server.appwrite.tick(&mut server.floor);
        server.turn();
        if !server.frames(0).is_empty() {
            heard.push(at_ms);
        }
    }
    assert_eq!(heard, [0, 5000, 10_000]);
}

#[test]
fn recoveries_are_counted() {
    let mut server = Server::new();
    server.open(0, FILES, "");
    for offset in 1..=2 {
        server.event(offset, &event("A", "any"));
    }
    server.turn();
    for (index, since) in [(1, "1-0"), (2, "1-2"), (3, "7-0"), (4, "")] {
        server.open(index, &format!("{FILES}&recover={since}"), "");
    }
    assert_eq!(server.counted(Counter::RecoveredComplete), 2);
    assert_eq!(server.counted(Counter::RecoveredFailed), 1);
}

/// The first connection gets the event of the channel `tests` at once, however long none was there;
/// and it does not come between an event and its frames.
#[test]
fn the_event_of_the_channel_tests_waits_for_somebody_and_for_its_turn() {
    let mut server = Server::new();
    server.appwrite.tick(&mut server.floor);
    server.open(0, "project=console&channels[]=tests", "");
    server.open(1, FILES, "");
    (0..2).for_each(|index| drop(server.frames(index)));
    server.event(1, &event("A", "any"));
    assert!(server.appwrite.turn(0, &mut server.floor));
    server.appwrite.tick(&mut server.floor);
    server.turn();
    assert_eq!(server.heard(1), ["A"]);
    assert!(server.frames(0).is_empty());
    server.appwrite.tick(&mut server.floor);
    server.turn();
    let told = server.frames(0).remove(0);
    assert_eq!(
        told["data"]["payload"]["response"],
        "WS:/v1/realtime:passed"
    );
    assert!(server.frames(1).is_empty());
}

#[test]
fn a_presence_is_set_with_the_clients_own_credential() {
    let mut server = Server::new();
    server.open_as(0, "ann", &[], FILES);
    server.frames(0);
    server.say(
        0,
        r#"{"type":"presence","data":{"status":"online","presenceId":"p"}}"#,
    );
    let mut call = None;
    { &server.world }.change(|doings| call = doings.presences.pop_front());
    let call = call.expect("a call");
    assert_eq!((call.conn, &*call.id), (conn(0), "p"));
    assert_eq!((&*call.project, &*call.user_id), ("bench", "ann"));
    assert_eq!(call.credential, Credential::Session("ann".into()));
    let body: Value = serde_json::from_slice(&call.body.expect("a body")).expect("JSON");
    // A day from now.
    let until = "2023-11-15T22:13:20.000+00:00";
    assert_eq!(body, json!({"status": "online", "expiresAt": until}));
}

#[test]
fn what_was_missed_is_bounded_by_age() {
    let mut server = Server::new();
    for offset in 1..=3 {
        server.floor.now.mono = Millis(24_000 * offset);
        server.event(offset, &event("A", "any"));
        server.turn();
    }
    let recovered = |server: &mut Server, since: &str| {
        server.open(0, &format!("{FILES}&recover={since}"), "");
        let frames = server.frames(0);
        server.close(0);
        assert_eq!(frames[1]["data"]["position"], "1-3");
        (frames[1]["data"]["recovered"] == true, frames.len() - 2)
    };
    assert_eq!(recovered(&mut server, "1-0"), (true, 3));
    assert_eq!(recovered(&mut server, "1-3"), (true, 0));
    for nowhere in ["1-4", "2-3", "", "1", "-", "1-x"] {
        assert_eq!(recovered(&mut server, nowhere), (false, 0), "{nowhere}");
    }
    server.floor.now.mono = Millis(115_000);
    server.appwrite.tick(&mut server.floor);
    assert_eq!(recovered(&mut server, "1-1"), (false, 0));
    assert_eq!(recovered(&mut server, "1-2"), (true, 1));
}
