//! Each message as SDKs send it, each refusal with its text, and noise.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse(frame: &str) -> Result<ClientMessage, Fault> {
    ClientMessage::parse(frame.as_bytes(), &Limits::default())
}

#[track_caller]
fn refused(frame: &str, code: u16, text: &str) {
    let fault = parse(frame).unwrap_err();
    assert_eq!(
        (fault.code(), fault.to_string().as_str()),
        (code, text),
        "{frame}"
    );
}

#[test]
fn ping() {
    assert_eq!(parse(r#"{"type":"ping"}"#), Ok(ClientMessage::Ping));
    assert_eq!(
        parse(r#" {"data":null, "type":"ping"}"#),
        Ok(ClientMessage::Ping)
    );
    assert!(ClientMessage::Ping.works_without_project());
}

#[test]
fn authentication_as_every_sdk_sends_it() {
    let message = parse(r#"{"type":"authentication","data":{"session":"eyJpZCI6IlUifQ=="}}"#);
    assert_eq!(
        message,
        Ok(ClientMessage::Authentication {
            session: "eyJpZCI6IlUifQ==".to_owned()
        })
    );
    let missing = "Payload is not valid. Session is required";
    refused(r#"{"type":"authentication"}"#, 1003, missing);
    refused(r#"{"type":"authentication","data":{}}"#, 1003, missing);
    refused(r#"{"type":"authentication","data":"x"}"#, 1003, missing);
    let rule =
        "session: Value must be a valid string and at least 1 chars and no longer than 2048 chars";
    refused(
        r#"{"type":"authentication","data":{"session":""}}"#,
        1003,
        rule,
    );
    refused(
        r#"{"type":"authentication","data":{"session":null}}"#,
        1003,
        rule,
    );
    let long = json!({"type": "authentication", "data": {"session": "x".repeat(2049)}});
    refused(&long.to_string(), 1003, rule);
}

#[test]
fn subscribe_as_25_0_sends_it() {
    let message = parse(concat!(
        r#"{"type":"subscribe","data":[{"subscriptionId":"66f1c0ffee0123456789","#,
        r#""channels":["files","account"],"queries":[]},{"subscriptionId":"b","#,
        r#""channels":["files"],"queries":["{\"method\":\"equal\","#,
        r#"\"attribute\":\"a\",\"values\":[1]}"]}]}"#,
    ));
    let Ok(ClientMessage::Subscribe(items)) = message else {
        panic!("{message:?}");
    };
    assert_eq!(items.len(), 2);
    assert_eq!(items[0].id.as_deref(), Some("66f1c0ffee0123456789"));
    assert_eq!(items[0].channels, ["files", "account"]);
    assert!(items[0].filter.is_all());
    assert!(!items[1].filter.is_all());
    assert_eq!(
        parse(r#"{"type":"subscribe","data":[]}"#),
        Ok(ClientMessage::Subscribe(Vec::new()))
    );
    let minimal = parse(r#"{"type":"subscribe","data":[{"channels":{}}]}"#);
    let Ok(ClientMessage::Subscribe(items)) = minimal else {
        panic!("{minimal:?}");
    };
    assert_eq!((&items[0].id, items[0].channels.len()), (&None, 0));
}

#[test]
fn subscribe_refusals() {
    let item = |item: &str, text: &str| {
        let frame = format!(r#"{{"type":"subscribe","data":[{item}]}}"#);
        refused(&frame, 1003, &format!("items: {text}"));
    };
    refused(
        r#"{"type":"subscribe"}"#,
        1003,
        "Payload is not valid. Items is required",
    );
    refused(
        r#"{"type":"subscribe","data":{"channels":["a"]}}"#,
        1003,
        "items: Payload is not valid.",
    );
    item("7", "Each subscribe payload must be an object.");
    item("[]", "channels is not present in payload.");
    item(r#"{"channels":"a"}"#, "channels is not a valid array.");
    item(
        r#"{"channels":{"0":"a"}}"#,
        "channels is not a valid array.",
    );
    item(
        r#"{"channels":["a",1]}"#,
        "channels must contain only strings.",
    );
    item(
        r#"{"channels":["a"],"queries":"q"}"#,
        "queries is not a valid array.",
    );
    for id in [
        r#""""#,
        "7",
        "null",
        r#""_a""#,
        r#""a b""#,
        r#""0123456789012345678901234567890123456""#,
    ] {
        item(
            &format!(r#"{{"subscriptionId":{id},"channels":["a"]}}"#),
            "subscriptionId is not a valid id.",
        );
    }
    refused(
        r#"{"type":"subscribe","data":[{"channels":["a"],"queries":["{"]}]}"#,
        1003,
        "Invalid query: Invalid query: Syntax error",
    );
    let many = json!({"type": "subscribe", "data": [{"channels": vec!["a"; 300]}]});
    refused(&many.to_string(), 1003, "items: Too many channels.");
    let many = json!({"type": "subscribe", "data": vec![json!({"channels": ["a"]}); 1100]});
    refused(&many.to_string(), 1003, "items: Too many subscriptions.");
    let long = json!({"type": "subscribe", "data": [{"channels": ["x".repeat(600)]}]});
    refused(
        &long.to_string(),
        1003,
        "items: A channel's name is too long.",
    );
}

#[test]
fn unsubscribe_is_all_or_nothing() {
    assert_eq!(
        parse(r#"{"type":"unsubscribe","data":[{"subscriptionId":"a"},{"subscriptionId":"b"}]}"#),
        Ok(ClientMessage::Unsubscribe(vec![
            "a".to_owned(),
            "b".to_owned()
        ]))
    );
    refused(
        r#"{"type":"unsubscribe","data":[{"subscriptionId":"a"},{"subscriptionId":""}]}"#,
        1003,
        "items: Each unsubscribe payload must include a non-empty subscriptionId.",
    );
    refused(
        r#"{"type":"unsubscribe","data":null}"#,
        1003,
        "Payload is not valid. Items is required",
    );
}

#[test]
fn presence_as_25_2_sends_it() {
    let message = parse(concat!(
        r#"{"type":"presence","data":{"status":"online","presenceId":"p1","#,
        r#""permissions":["read(\"any\")"],"metadata":{"x":1}}}"#,
    ));
    let Ok(ClientMessage::Presence(presence)) = message else {
        panic!("{message:?}");
    };
    assert_eq!(
        (presence.status.as_str(), presence.id.as_deref()),
        ("online", Some("p1"))
    );
    assert_eq!(
        presence.permissions.as_deref(),
        Some(&[r#"read("any")"#.to_owned()][..])
    );
    assert_eq!(
        String::from_utf8(presence.body(0)).unwrap(),
        concat!(
            r#"{"expiresAt":"1970-01-01T00:00:00.000+00:00","metadata":{"x":1},"#,
            r#""permissions":["read(\"any\")"],"status":"online"}"#,
        )
    );
    assert_eq!(presence.metadata.unwrap()["x"], 1);
    let minimal = parse(r#"{"type":"presence","data":{"status":"away"}}"#);
    assert!(matches!(minimal, Ok(ClientMessage::Presence(p)) if p.id.is_none()));
    refused(
        r#"{"type":"presence","data":{}}"#,
        1003,
        "Payload is not valid. Status is required",
    );
    refused(
        r#"{"type":"presence","data":{"status":"a","metadata":7}}"#,
        1003,
        "metadata: Value must be a valid JSON object",
    );
}

#[test]
fn formats_and_types() {
    for frame in ["", "{", "null", "7", "[]", "{}", r#"{"x":1}"#, "\u{0}"] {
        refused(frame, 1003, "Message format is not valid.");
    }
    for frame in [
        r#"{"data":1}"#,
        r#"{"type":"nope"}"#,
        r#"{"type":7}"#,
        r#"{"type":null,"data":[]}"#,
    ] {
        refused(frame, 1003, "Message type is not valid.");
    }
    let long = format!(r#"{{"type":"ping","x":"{}"}}"#, "x".repeat(64_000));
    refused(&long, 1003, "Message format is not valid.");
}

#[test]
fn every_prefix_of_a_message_is_refused_or_parsed() {
    let whole =
        r#"{"type":"subscribe","data":[{"subscriptionId":"é","channels":["a"]}]}"#.as_bytes();
    for end in 0..whole.len() {
        assert_eq!(
            ClientMessage::parse(&whole[..end], &Limits::default()),
            Err(Fault::Format)
        );
    }
}

proptest! {
    #[test]
    fn nothing_panics(
        bytes in proptest::collection::vec(any::<u8>(), 0..80),
        kind in "ping|authentication|subscribe|unsubscribe|presence",
        data in "[\\[\\]{}:,\"a-z0-9]{0,40}",
    ) {
        let _ = ClientMessage::parse(&bytes, &Limits::default());
        let _ = parse(&format!(r#"{{"type":"{kind}","data":{data}}}"#));
    }
}
