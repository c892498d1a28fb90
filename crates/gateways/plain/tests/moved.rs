//! Sessions moved to another process keep the state of clients and publishers.

use throng_broker::Recovery;
use throng_gateway_plain::{Plain, Session};
use throng_session::{CloseReason, Event, Gateway as _, Port};
use throng_solo::{Solo, WEBSOCKET, publication};
use throng_types::{End, Load as _, Millis, Save as _, check_saved};

fn opens(port: Port, target: &str, fields: &str) -> Solo<Plain> {
    let mut solo = Solo::at(port, throng_solo::shared());
    solo.get(target, fields);
    solo.out.clear();
    solo
}

/// The session goes to another process, if it can.
fn moves(solo: &mut Solo<Plain>) -> bool {
    let session = solo.session().expect("a session");
    let moves = Plain::moves(session);
    if moves {
        check_saved(session);
        *session = Session::load_whole(&session.saved()).expect("what was saved");
    }
    moves
}

/// Listeners move once their subscriptions are answered, and go on in their own form.
#[test]
fn listeners_go_on_listening() {
    for (target, fields, dropped) in [
        ("/ws?channel=a", WEBSOCKET, "dropped=5"),
        (
            "/sse?channel=a",
            "",
            "event: dropped\ndata: {\"dropped\":5}",
        ),
        ("/stream?channel=a", "", "{\"dropped\":5}"),
    ] {
        let mut solo = opens(Port::Client, target, fields);
        assert!(!moves(&mut solo), "{target}");
        solo.subscribed("a", Ok(Recovery::NotAsked));
        solo.told();
        let before = { solo.session() }.map(|session| Plain::class(session).transport);
        assert!(moves(&mut solo), "{target}");
        let after = { solo.session() }.map(|session| Plain::class(session).transport);
        assert_eq!(before, after, "{target}");
        solo.event(Event::Drained { dropped: 5 });
        let heard = solo.told();
        assert!(heard.contains(dropped), "{target}: {heard}");
        // The next sign of life keeps its time.
        solo.now.mono = Millis(60_000);
        solo.event(Event::Timeout);
        assert_ne!(solo.told(), "", "{target}");
        // One that ends is not another process's business.
        let drain = CloseReason::Drain { reconnect_ms: 1 };
        solo.event(Event::Close(&drain));
        assert_eq!(solo.actions.end, Some(End::Flush));
        assert!(!moves(&mut solo), "{target}");
    }
}

/// A listener to several channels still knows its place in all of them.
#[test]
fn a_place_in_several_channels_moves() {
    let after = |moves_on: bool| {
        let mut solo = opens(Port::Client, "/sse?channel=a&channel=b", "");
        solo.subscribed("a", Ok(Recovery::NotAsked));
        solo.subscribed("b", Ok(Recovery::NotAsked));
        solo.told();
        if moves_on {
            assert!(moves(&mut solo));
        }
        let publication = publication("b", 4, "1");
        let mut out = Vec::new();
        Plain::encode_personal(solo.session().expect("a session"), &publication, &mut out);
        String::from_utf8(out).expect("text")
    };
    let told = after(true);
    assert_eq!(told, after(false));
    // Both channels stand in the id: one at 3, the other one at 4.
    assert!(told.contains(".7.3") && told.contains(".7.4"), "{told}");
}

/// A publisher stays while it waits for an answer; then its numbers go on where they were.
#[test]
fn a_publisher_goes_on_counting() {
    let mut solo = opens(Port::Api, "/pub", WEBSOCKET);
    let message = b"\x81\x83\0\0\0\0a\n1";
    assert!(moves(&mut solo));
    for number in 1..4 {
        solo.feed(message);
        let tokens: Vec<u32> = solo.published().iter().map(|(token, _)| *token).collect();
        assert_eq!(tokens, [number]);
        assert!(!moves(&mut solo), "its message is without an answer");
        solo.answer(number, Ok(None));
        assert!(solo.told().ends_with(&format!("{{\"ack\":{number}}}")));
        assert!(moves(&mut solo));
    }
    let is_client = { solo.session() }.map(|session| Plain::class(session).is_client);
    assert_eq!(is_client, Some(false));
}
