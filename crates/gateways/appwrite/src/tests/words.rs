//! Messages during a lookup, forbidden messages, and the errors sent.

use super::identity::account;
use super::*;

/// A ping of this many bytes.
fn ping(bytes: usize) -> String {
    let ping = r#"{"type":"ping"}"#;
    format!("{ping:bytes$}")
}

/// Messages wait behind a question up to a bound, to the last byte; each question has all of it.
#[test]
fn messages_wait_for_an_answer_and_are_all_answered() {
    let mut shard = Shard::new();
    shard.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    for round in ["connected", "response"] {
        let lookup = shard.lookup();
        for _ in 0..4 {
            shard.say(0, &ping(32 << 10));
        }
        assert!(shard.frames(0).is_empty());
        shard.say(0, r#"{"type":"ping"}"#);
        assert_eq!(shard.frames(0)[0]["data"]["code"], 1013, "one too many");
        shard.answer(&lookup, user_of("ann", &[]));
        let told = shard.frames(0);
        assert_eq!(told[0]["type"], round);
        assert_eq!(told[1..], vec![json!({"type": "pong"}); 4]);
        shard.say(
            0,
            r#"{"type":"authentication","data":{"session":"another"}}"#,
        );
    }
    assert_eq!(
        shard
            .shared
            .counters
            .counter(Counter::AppwriteRefusedMessages),
        2
    );
}

/// Appwrite's form of ids: 13 digits of the time in microseconds, and 7 that make it unique.
#[test]
fn subscriptions_without_ids_get_different_ones() {
    let mut shard = Shard::new();
    shard.open(0, FILES, "");
    let mut told = shard.frames(0);
    let two = r#"{"type":"subscribe","data":[{"channels":["files"]},{"channels":["files"]}]}"#;
    for _ in 0..2 {
        shard.say(0, two);
        told.extend(shard.frames(0));
    }
    shard.event(1, &event("A", "any"));
    let heard = shard.frames(0).remove(0);
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
        let shard = Shard::new();
        let solo = shard.client(PEER, 0, &format!("{path}?{FILES}"), "");
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
        let mut shard = Shard::new();
        shard.open(0, FILES, "");
        shard.frames(0);
        shard.say(0, said);
        assert_eq!(shard.frames(0)[0]["type"], "error", "{said}");
        assert_eq!(shard.shared.counters.counter(counter), 1, "{said}");
        let others = shard
            .shared
            .counters
            .counter(Counter::AppwriteRefusedServer);
        assert_eq!(others, 0, "{said}");
    }
}

/// A blocked user may connect, as a guest.
#[test]
fn a_blocked_user_is_a_guest() {
    let mut shard = Shard::new();
    shard.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    let lookup = shard.lookup();
    let body = json!({"$id": "ann", "status": false, "emailVerification": true}).to_string();
    let identity = AppwriteIdentity::from_account(body.as_bytes(), &[]).expect("an account");
    shard.answer(&lookup, LookupReply::User(Arc::new(identity)));
    let connected = shard.frames(0).remove(0);
    assert_eq!(connected["data"]["user"], Value::Null, "{connected}");
    shard.event(1, &event("A", "user:ann"));
    shard.event(2, &event("B", "guests"));
    assert_eq!(shard.heard(0), ["B"]);
}

/// The end of another session of the user releases events held back for it, and nothing that waits
/// for another answer.
#[test]
fn another_session_ends_while_roles_are_asked_for() {
    let ended = account("ann", "sessions.other.delete", json!({}));
    let mut shard = Shard::new();
    shard.open_with_token(0);
    shard.event(1, &change("A", "ann", "team:S"));
    let lookup = shard.lookup();
    shard.event(2, &ended);
    assert!(shard.frames(0).is_empty());
    shard.answer(&lookup, user_of("ann", &["S"]));
    assert_eq!(shard.heard(0), ["A"]);
    // Where the change has told all, the question only makes sure.
    let now = json!({"$id": "ann", "status": true, "emailVerification": true, "labels": ["vip"]});
    shard.event(3, &account("ann", "update.labels", now));
    shard.lookup();
    shard.event(4, &ended);
    shard.event(5, &event("B", "user:ann"));
    assert_eq!(shard.heard(0), ["B"]);
}
