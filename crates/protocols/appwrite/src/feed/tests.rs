//! The feed of 2021 and of today, malformed messages, and frames spliced from shared halves.

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
    let mut frame = Vec::new();
    let mut ids = Vec::new();
    write_ids(["s"], &mut ids);
    EncodedEvent::new(&event, Layout::IdsLast).splice(&ids, &mut frame);
    assert_eq!(
        String::from_utf8(frame).unwrap(),
        concat!(
            r#"{"type":"event","data":{"event":"storage.files.create","#,
            r#""channels":["files"],"timestamp":1632000000,"payload":{"$id":"F"},"#,
            r#""subscriptions":["s"]}}"#,
        )
    );
}

#[test]
fn refusals() {
    let empty = FILE.replace(r#"["any","user:U"]"#, "[]");
    for (message, error) in [
        ("", FeedError::Malformed),
        ("null", FeedError::Malformed),
        ("{}", FeedError::Malformed),
        (&FILE[..FILE.len() - 1], FeedError::Malformed),
        (
            &FILE.replace("\"events\"", "\"names\""),
            FeedError::Malformed,
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

#[test]
fn both_layouts_are_one_frame() {
    let event = parse(FILE).unwrap();
    let mut ids = Vec::new();
    write_ids(["6511f2a30b1c2abcdef0", "b"], &mut ids);
    let frames = [Layout::IdsLast, Layout::IdsFirst].map(|layout| {
        let encoded = EncodedEvent::new(&event, layout);
        let mut frame = b"kept".to_vec();
        encoded.splice(&ids, &mut frame);
        assert_eq!(frame.len() - 4, encoded.frame_bytes(ids.len()));
        serde_json::from_slice::<Value>(&frame[4..]).unwrap()
    });
    assert_eq!(frames[0], frames[1]);
    let source: Value = serde_json::from_str(FILE).unwrap();
    for field in ["events", "channels", "timestamp", "payload"] {
        assert_eq!(frames[0]["data"][field], source["data"][field]);
    }
    assert_eq!(
        frames[0]["data"]["subscriptions"],
        json!(["6511f2a30b1c2abcdef0", "b"])
    );
    assert_eq!(frames[0]["type"], "event");
    let short = EncodedEvent::new(&event, Layout::IdsFirst);
    assert_eq!(
        &*short.head,
        br#"{"type":"event","data":{"subscriptions":["#
    );
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
        for layout in [Layout::IdsLast, Layout::IdsFirst] {
            let (mut own, mut frame) = (Vec::new(), Vec::new());
            write_ids(&ids, &mut own);
            EncodedEvent::new(&event, layout).splice(&own, &mut frame);
            prop_assert_eq!(&serde_json::from_slice::<Value>(&frame).unwrap(), &expect);
        }
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
                let _ = EncodedEvent::new(&event, Layout::IdsFirst);
            }
        }
    }
}
