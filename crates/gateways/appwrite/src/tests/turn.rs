//! The gateway's turns: how much each does, and connections that lag.

mod moved;

use super::*;

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
