//! Messages during a lookup, forbidden messages, and the errors sent.

use super::*;

/// A ping of this many bytes.
fn ping(bytes: usize) -> String {
    let ping = r#"{"type":"ping"}"#;
    format!("{ping:bytes$}")
}

/// Messages wait behind a question up to a bound, to the last byte; each question has all of it.
#[test]
fn messages_wait_for_an_answer_and_are_all_answered() {
    let mut server = Server::new();
    server.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    for round in ["connected", "response"] {
        let lookup = server.lookup();
        for _ in 0..4 {
            server.say(0, &ping(32 << 10));
        }
        assert!(server.frames(0).is_empty());
        server.say(0, r#"{"type":"ping"}"#);
        assert_eq!(server.frames(0)[0]["data"]["code"], 1013, "one too many");
        server.answer(&lookup, user_of("ann", &[]));
        let told = server.frames(0);
        assert_eq!(told[0]["type"], round);
        assert_eq!(told[1..], vec![json!({"type": "pong"}); 4]);
        server.say(
            0,
            r#"{"type":"authentication","data":{"session":"another"}}"#,
        );
    }
    assert_eq!(server.counted(Counter::AppwriteRefusedMessages), 2);
}

/// Appwrite's form of ids: 13 digits of the time in microseconds, and 7 that make it unique.
#[test]
fn subscriptions_without_ids_get_different_ones() {
    let mut server = Server::new();
    server.open(0, FILES, "");
    let mut told = server.frames(0);
    let two = r#"{"type":"subscribe","data":[{"channels":["files"]},{"channels":["files"]}]}"#;
    for _ in 0..2 {
        server.say(0, two);
        told.extend(server.frames(0));
    }
    server.event(1, &event("A", "any"));
    server.turn();
    let heard = server.frames(0).remove(0);
    let ids = heard["data"]["subscriptions"].as_array().expect("ids");
    let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
    // 1,700,000,000 seconds.
    let is_ours = |id: &&str| id.starts_with("6553f10000000") && id.len() == 20;
    assert!(ids.iter().all(is_ours), "{ids:?}");
    let different: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!((ids.len(), different.len()), (5, 5), "{told:?}");
}

#[test]
fn only_whole_names_of_paths_are_served() {
    for (path, expected) in [
        ("/v1/realtime", "101"),
        ("/v1/realtime/", "101"),
        ("/v1/realtime/x", "101"),
        ("/v1/realtimes", "404"),
        ("/v1/real", "404"),
    ] {
        let server = Server::new();
        let solo = server.client(PEER, 0, &format!("{path}?{FILES}"), "");
        let told = String::from_utf8_lossy(&solo.out);
        assert_eq!(&told[9..12], expected, "{path}");
    }
}

#[test]
fn refusals_are_counted_by_why() {
    for (said, counter) in [
        ("{", Counter::AppwriteRefusedFormat),
        (r#"{"type":"x"}"#, Counter::AppwriteRefusedFormat),
        (
            r#"{"type":"subscribe","data":[{"channels":["a"],"queries":["x"]}]}"#,
            Counter::AppwriteRefusedQuery,
        ),
    ] {
        let mut server = Server::new();
        server.open(0, FILES, "");
        server.frames(0);
        server.say(0, said);
        assert_eq!(server.frames(0)[0]["type"], "error", "{said}");
        assert_eq!(server.counted(counter), 1, "{said}");
        let others = server.counted(Counter::AppwriteRefusedServer);
        assert_eq!(others, 0, "{said}");
    }
}
