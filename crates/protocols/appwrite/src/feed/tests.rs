//! The feed of 2021 and of today, malformed messages, and frames made of parts.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const BYTES_MAX: usize = 1 << 20;

fn parse(message: &str) -> Result<FeedMessage, FeedError> {
    FeedMessage::parse(message.as_bytes(), BYTES_MAX)
}

/// The message of 1.9 as PHP writes it.
const FILE: &str = concat!(
    r#"{"project":"bench","roles":["any","user:U"],"permissionsChanged":false,"#,
    r#""userId":null,"data":{"events":["buckets.B.files.F.create","#,
    r#""buckets.*.files.*.create"],"channels":["files","buckets.B.files","#,
    r#""buckets.B.files.F"],"timestamp":"2026-08-21T12:42:57.123+00:00","#,
    r#""payload":{"$id":"F","name":"\u00e9\/x","size":12,"$permissions":[]}}}"#,
);

#[test]
fn what_changes_permissions_is_true_to_php() {
    for (value, is_true) in [
        ("true", true),
        ("false", false),
        ("null", false),
        ("1", true),
        ("0", false),
        ("\"1\"", true),
        ("\"0\"", false),
        ("[]", false),
        ("{}", false),
        ("[0]", true),
    ] {
        let changed = format!("\"permissionsChanged\":{value}");
        let event = parse(&FILE.replace("\"permissionsChanged\":false", &changed)).unwrap();
        assert_eq!(event.permissions_changed, is_true, "{value}");
    }
}

/// The feed's thread reads a message once and every shard looks at it.
#[test]
fn messages_are_shared_among_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&parse(FILE).unwrap());
}

#[test]
fn todays_message() {
    let event = parse(FILE).unwrap();
    assert_eq!(&*event.project, "bench");
    assert!(event.for_everyone());
    assert_eq!(event.channels.len(), 3);
    assert_eq!((event.permissions_changed, &event.user_id), (false, &None));
    assert_eq!(event.attributes()["size"], 12);
    assert_eq!(event.names()[0], "buckets.B.files.F.create");
    assert_eq!(event.identity_change(), None);
}

#[test]
fn the_message_of_2021() {
    let event = parse(concat!(
        r#"{"project":"bench","roles":["*","role:member","user:U"],"#,
        r#""permissionsChanged":false,"userId":"","#,
        r#""data":{"event":"storage.files.create","channels":["files"],"#,
        r#""timestamp":1632000000,"payload":{"$id":"F"}}}"#,
    ))
    .unwrap();
    assert_eq!(
        event.roles,
        ["any".into(), "users".into(), "user:U".into()] as [Box<str>; 3]
    );
    assert_eq!(
        String::from_utf8(event.encode_tail()).unwrap(),
        concat!(
            r#"],"event":"storage.files.create","channels":["files"],"#,
            r#""timestamp":1632000000,"payload":{"$id":"F"}}}"#,
        )
    );
}

#[test]
fn refusals() {
    let empty = FILE.replace(r#"["any","user:U"]"#, "[]");
    for (message, error) in [
        ("", FeedError::Malformed),
        ("null", FeedError::Malformed),
        ("{}", FeedError::Missing("project")),
        (
            r#"{"project":7,"roles":[],"data":[]}"#,
            FeedError::Malformed,
        ),
        (r#"{"project":"a"}"#, FeedError::Missing("roles")),
        (r#"{"project":"a","roles":[]}"#, FeedError::Missing("data")),
        (
            r#"{"project":"a","roles":[],"data":{"payload":1}}"#,
            FeedError::Missing("data.channels"),
        ),
        (
            &FILE.replace("\"payload\"", "\"paylod\""),
            FeedError::Missing("data.payload"),
        ),
        (&FILE[..FILE.len() - 1], FeedError::Malformed),
        (
            &FILE.replace("\"events\"", "\"names\""),
            FeedError::Missing("data.events"),
        ),
        (&FILE.replace("\"bench\"", "\"\""), FeedError::Empty),
        (&empty, FeedError::Empty),
    ] {
        assert_eq!(parse(message).unwrap_err(), error, "{message}");
    }
    assert_eq!(
        FeedMessage::parse(FILE.as_bytes(), FILE.len() - 1).unwrap_err(),
        FeedError::TooLong
    );
    for payload in ["[]", "7", "null", "\"x\""] {
        let event = parse(&FILE.replace(
            r#"{"$id":"F","name":"\u00e9\/x","size":12,"$permissions":[]}"#,
            payload,
        ))
        .unwrap();
        assert!(event.attributes().is_empty(), "{payload}");
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn splicing_equals_encoding_the_whole(
        payload in json_value(),
        channels in proptest::collection::vec(any::<String>(), 1..4),
        names in proptest::collection::vec(any::<String>(), 0..4),
        ids in proptest::collection::vec(any::<String>(), 0..4),
    ) {
        let data = json!({
            "events": names, "channels": channels, "timestamp": "t", "payload": payload
        });
        let message = json!({"project": "p", "roles": ["any"], "data": data});
        let event = parse(&message.to_string()).unwrap();
        let mut expect = data;
        expect["subscriptions"] = json!(ids);
        let expect = json!({"type": "event", "data": expect});
        let mut frame = EVENT_HEAD.to_vec();
        let mut list = Vec::new();
        append_strs(&ids, &mut list);
        frame.extend_from_slice(&list[1..list.len() - 1]);
        frame.extend(event.encode_tail());
        prop_assert_eq!(serde_json::from_slice::<Value>(&frame).unwrap(), expect);
    }

    #[test]
    fn malformed_messages_never_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..60),
        cut in 0..400_usize,
        noise in any::<u8>(),
        value in json_value(),
    ) {
        let _ = FeedMessage::parse(&bytes, BYTES_MAX);
        let mut mutated = FILE.as_bytes().to_vec();
        let at = cut % mutated.len();
        mutated[at] = noise;
        for message in [&mutated[..], &FILE.as_bytes()[..at], value.to_string().as_bytes()] {
            if let Ok(event) = FeedMessage::parse(message, BYTES_MAX) {
                let _ = (event.identity_change(), event.attributes());
                let _ = event.encode_tail();
            }
        }
    }
}
