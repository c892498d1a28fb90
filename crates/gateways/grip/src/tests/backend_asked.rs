//! Exchanges with backends: flow control, ends, and notices about clients that have gone.

use throng_http1::origin::RequestRest;
use throng_metrics::Counter;
use throng_session::Gateway;

use super::world::World;
use super::*;

fn granted(world: &World) -> usize {
    world.played.0.borrow().granted
}

/// A backend may send as much again as its client has taken, and no more.
#[test]
fn a_backend_is_read_as_fast_as_its_client_takes_it() {
    let mut world = World::new();
    let conn = world.asks(1, "/a");
    world.backend(conn, 1, OriginEvent::Head(head(200, &[])));
    let send = |world: &mut World, bytes: usize| {
        world.backend(conn, 1, OriginEvent::Body(vec![b'x'; bytes]));
    };
    send(&mut world, 1000);
    assert_eq!(granted(&world), 1000);
    // More waits for the client than it may: nothing is granted until it has taken it.
    send(&mut world, 300_000);
    send(&mut world, 10_000);
    world.run();
    assert_eq!(granted(&world), 1000);
    world.told(conn);
    let (grip, floor) = &mut world.shards[1];
    grip.drained(conn);
    grip.turn(0, floor);
    assert_eq!(granted(&world), 311_000);
    world.shards[1].0.drained(conn);
    assert_eq!(granted(&world), 311_000, "once");
    world.backend(conn, 1, OriginEvent::End);
    assert_eq!(world.played.0.borrow().dropped, [(conn, 1)]);
}

/// A client that takes nothing of a long queue for five minutes is cut off, and its exchange ends.
#[test]
fn a_client_that_takes_nothing_is_cut_off() {
    let mut world = World::new();
    let [stuck, slow] = [1, 1].map(|shard| {
        let conn = world.asks(shard, "/a");
        world.backend(conn, 1, OriginEvent::Head(head(200, &[])));
        world.backend(conn, 1, OriginEvent::Body(vec![b'x'; 600_000]));
        conn
    });
    for minute in 0..6 {
        assert!(world.is_connected(stuck), "{minute}");
        world.client(slow).solo.out.truncate(500_000 - minute);
        world.pass(60_000);
    }
    assert!(!world.is_connected(stuck));
    assert_eq!(world.client(stuck).ended, Some(End::Now));
    assert!(world.is_connected(slow));
    assert_eq!(world.played.0.borrow().dropped, [(stuck, 1)]);
}

/// The exchange of a closed client ends; so does that of a request that was given up.
#[test]
fn an_exchange_ends_with_its_client() {
    let mut world = World::new();
    let gone = world.asks(0, "/a");
    world.close(gone);
    assert_eq!(world.played.0.borrow().dropped, [(gone, 1)]);
    assert!(world.shards[0].0.gone.is_empty(), "its session is not kept");
    // A body that cannot be read.
    let conn = world.connect(0, Port::Client);
    world.say(
        conn,
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n",
    );
    assert!(world.is_connected(conn));
    world.say(conn, "x\r\n");
    assert!(!world.is_connected(conn));
    assert_eq!(world.played.0.borrow().dropped, [(gone, 1), (conn, 1)]);
}

/// Pieces of a body follow its request to the backend, and then its end.
#[test]
fn a_body_in_pieces_is_passed_on() {
    let mut world = World::new();
    let conn = world.connect(0, Port::Client);
    world.say(
        conn,
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab",
    );
    let asked = world.asked();
    assert!(!matches!(asked[0].2.rest, RequestRest::Nothing));
    world.say(conn, "cd");
    assert_eq!(world.played.0.borrow().finished, 0);
    world.say(conn, "ef");
    let sent = [
        asked[0].2.body.clone(),
        world.played.0.borrow().sent.clone(),
    ]
    .concat();
    assert_eq!(sent, b"abcdef");
    assert_eq!(world.played.0.borrow().finished, 1);
}

/// Backends without room for a request count as failed; the client gets an error, and the counters
/// change.
#[test]
fn a_full_driver_fails_requests() {
    let mut world = World::new();
    world.played.0.borrow_mut().is_full = true;
    let conn = world.asks(1, "/a");
    let told = world.told(conn);
    assert!(told.starts_with("HTTP/1.1 503 "), "{told}");
    let counters = &world.shards[1].1.shared.counters;
    assert_eq!(counters.counter(Counter::GripRequests), 1);
    assert_eq!(counters.counter(Counter::GripOriginFailures), 1);
    // The next request finds room.
    world.played.0.borrow_mut().is_full = false;
    world.say(conn, "GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    world.answer(conn, 1, 200, &[], "fine");
    assert!(world.told(conn).starts_with("HTTP/1.1 200 "));
}

/// A backend is notified that its client has gone, and again until it has answered; then nothing is
/// kept.
#[test]
fn a_backend_hears_in_the_end_that_its_client_has_gone() {
    let mut world = World::new();
    let conn = world.socket(1, "");
    world.asked();
    world.close(conn);
    let token = |world: &mut World| {
        let asked = world.asked();
        let [(of, token, request)] = &asked[..] else {
            panic!("asked {} times", asked.len());
        };
        assert_eq!((*of, &*request.body), (conn, &b"DISCONNECT\r\n"[..]));
        *token
    };
    let first = token(&mut world);
    world.backend(conn, first, failed(OriginFailureKind::Unreachable));
    let mut again = None;
    for _ in 0..30 {
        world.pass(1000);
        if !world.played.0.borrow().asked.is_empty() {
            again = Some(token(&mut world));
            break;
        }
    }
    let again = again.expect("it is told again");
    assert!(world.shards[1].0.gone.contains_key(&conn));
    world.answer(conn, again, 200, &[EVENTS], "DISCONNECT\r\n");
    assert!(world.shards[1].0.gone.is_empty());
    assert!(world.played.0.borrow().dropped.contains(&(conn, again)));
}
