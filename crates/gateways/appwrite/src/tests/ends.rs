//! Ends of connections, keep-alive, and counters.

use throng_session::{CloseReason, Event};
use throng_types::Disconnect;
use throng_ws::encode_pong;

use super::*;

fn opened(server: &mut Server) {
    server.open(0, FILES, "");
    assert_eq!(server.frames(0).len(), 1);
}

/// SDKs come back after every code but 1008.
#[test]
fn each_end_has_its_code_and_is_counted() {
    let because = CloseReason::Because;
    let named = |code| CloseReason::Custom {
        code,
        reason: "enough".into(),
    };
    for (why, code) in [
        (because(Disconnect::Shutdown), 1012),
        (CloseReason::Drain { reconnect_ms: 5 }, 1012),
        (because(Disconnect::Slow), 1013),
        (because(Disconnect::ServerError), 1011),
        (because(Disconnect::NoPong), 1011),
        (because(Disconnect::ForceNoReconnect), 1008),
        (because(Disconnect::ConnectionLimit), 1008),
        (named(4321), 4321),
        (named(3503), 1008),
    ] {
        let mut server = Server::new();
        opened(&mut server);
        server.run(0, |solo| solo.event(Event::Close(&why)));
        assert_eq!(server.frames(0), [json!({ "close": code })], "{why:?}");
        assert_eq!(server.floor.ended, [0]);
        assert_eq!(server.counted(why.counter()), 1, "{why:?}");
    }
}

/// After a close frame nothing changes: no message, no second end, no new deadline.
#[test]
fn after_a_close_nothing_is_said() {
    let ends: [fn(&mut Server); 2] = [
        |server| {
            let why = CloseReason::Because(Disconnect::ServerError);
            server.run(0, |solo| solo.event(Event::Close(&why)));
        },
        |server| server.run(0, |solo| solo.feed(b"\x88\x82\0\0\0\0\x03\xe8")),
    ];
    for ends in ends {
        let mut server = Server::new();
        server.open_as(0, "ann", &[], FILES);
        server.event(1, &change("A", "ann", "user:ann"));
        server.turn();
        let lookup = server.lookup();
        server.frames(0);
        ends(&mut server);
        assert_eq!(server.frames(0).len(), 1, "a close frame");
        let counted = |server: &Server| {
            let counters = &server.floor.shared.counters;
            [Disconnect::Slow, Disconnect::NoPong]
                .map(|reason| counters.counter(Counter::closed(reason)))
        };
        server.say(0, r#"{"type":"ping"}"#);
        server.say(0, "{");
        let slow = CloseReason::Because(Disconnect::Slow);
        server.run(0, |solo| solo.event(Event::Close(&slow)));
        server.floor.now.mono = Millis(1_000_000);
        server.run(0, |solo| solo.event(Event::Timeout));
        server.act(0, |session, cx| {
            session.refuse(&RealtimeError::Server, ConnectionPhase::Open, cx)
        });
        server.answer(&lookup, user_of("ann", &[]));
        let deadline = server.floor.sessions[&0].actions.deadline;
        assert_eq!(deadline, None, "who is leaving waits for nothing");
        server.act(0, |session, cx| session.changed(&Change::Unsaid, cx));
        server.begin(2);
        assert!(server.asked.try_recv().is_err(), "nothing is asked");
        assert!(server.frames(0).is_empty());
        assert_eq!(counted(&server), [0, 0]);
    }
}

/// Appwrite does not ping; where pings are configured, a client that does not answer is ended.
#[test]
fn clients_are_pinged_where_that_is_wanted() {
    let server = |pings| {
        let mut server = Server::with(|own| own.pings = pings);
        server.shared().limits.ping_interval_ms = 1000;
        server.shared().limits.pong_timeout_ms = 300;
        opened(&mut server);
        server
    };
    // The time of the next deadline, and what is said when it comes.
    let next = |server: &mut Server| {
        let due = server.floor.sessions[&0].actions.deadline.flatten();
        let at = due.expect("a deadline");
        server.floor.now.mono = at;
        server.run(0, |solo| solo.event(Event::Timeout));
        (at.0, server.floor.sent.remove(&0).unwrap_or_default())
    };
    let mut pinged = server(true);
    let (first, said) = next(&mut pinged);
    assert!((1500..=2000).contains(&first), "{first}");
    assert_eq!(said, b"\x89\x00");
    let mut pong = Vec::new();
    encode_pong(Masking::Client([1; 4]), b"", &mut pong);
    pinged.run(0, |solo| solo.feed(&pong));
    assert_eq!(next(&mut pinged), (first + 1000, b"\x89\x00".to_vec()));
    let (ended, said) = next(&mut pinged);
    assert_eq!(ended, first + 1300);
    assert_eq!(said[2..4], 1011_u16.to_be_bytes());
    assert_eq!(pinged.floor.ended, [0]);
    // Not pinged, it has no deadline and is not ended.
    let mut quiet = server(false);
    assert_eq!(quiet.floor.sessions[&0].actions.deadline, Some(None));
    quiet.floor.now.mono = Millis(1_000_000);
    quiet.run(0, |solo| solo.event(Event::Timeout));
    assert!(quiet.frames(0).is_empty() && quiet.floor.ended.is_empty());
}

/// Each refusal has a series of its own, and counts once, since the connection ends with it.
#[test]
fn every_refusal_is_counted_by_why() {
    let why = || "why".to_owned();
    for (fault, reason) in [
        (RealtimeError::UnknownProject, "project"),
        (RealtimeError::ApiDisabled, "api_disabled"),
        (RealtimeError::TooManyRequests, "too_many_requests"),
        (RealtimeError::TooManyMessages, "too_many_messages"),
        (RealtimeError::OriginEmpty, "origin"),
        (RealtimeError::UrlQuery(why()), "query"),
        (RealtimeError::Format, "format"),
        (RealtimeError::Jwt(why()), "session"),
        (RealtimeError::Unauthorized, "unauthorized"),
        (RealtimeError::Server, "server"),
        (RealtimeError::Internal(why()), "server"),
    ] {
        let mut server = Server::new();
        opened(&mut server);
        for _ in 0..2 {
            server.act(0, |session, cx| {
                session.refuse(&fault, ConnectionPhase::Open, cx)
            });
        }
        assert_eq!(server.refusals(), [format!("{reason}:1")], "{fault:?}");
    }
}
