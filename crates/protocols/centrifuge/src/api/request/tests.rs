//! Bodies as backends and their libraries send them.

use proptest::prelude::*;
use throng_types::PayloadKind;

use super::*;
use crate::Since;
use crate::api::{PublishRequest, ServerApiError};

#[track_caller]
fn publish(body: &str) -> PublishRequest<'_> {
    match parse(Method::Publish, body.as_bytes()).unwrap() {
        ApiRequest::Publish(request) => request,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_payload(body: &str, expected: Result<(&[u8], PayloadKind), ServerApiError>) {
    let payload = publish(body).payload();
    let found = payload
        .as_ref()
        .map(|payload| (&*payload.bytes, payload.kind));
    assert_eq!(found, expected.as_ref().copied(), "{body}");
}

#[test]
fn what_a_subscribe_sets_aside_is_read() {
    for (more, expected) in [
        ("", (None, "", "")),
        (r#","info":{},"data":{}"#, (None, "", "")),
        (
            r#","override":{"presence":{"value":true}}"#,
            (Some(r#"{"presence":{"value":true}}"#), "", ""),
        ),
        (r#","b64data":"AP8=""#, (None, "", "AP8=")),
        (r#","b64info":"AP8=""#, (None, "AP8=", "")),
    ] {
        let body = format!(r#"{{"user":"42","channel":"c"{more}}}"#);
        let Ok(ApiRequest::Subscribe(request)) = parse(Method::Subscribe, body.as_bytes()) else {
            panic!("{body}");
        };
        let overrides = request.overrides.map(|json| json.get());
        let found = (overrides, &*request.b64info, &*request.b64data);
        assert_eq!(found, expected, "{body}");
    }
}

#[test]
fn publish_is_read() {
    let request = publish(
        r#"{"channel":"chat","data":{"text": "hello"},"skip_history":true,"tags":{"a":"b"},
            "idempotency_key":"k1","delta":true,"version":7,"version_epoch":"e","unknown":[]}"#,
    );
    assert_eq!(
        (&*request.channel, request.tags.0),
        ("chat", Some(r#"{"a":"b"}"#))
    );
    assert_eq!(
        (&*request.idempotency_key, &*request.version_epoch),
        ("k1", "e")
    );
    assert!(request.skip_history && request.delta && request.version == 7);
    let request = publish(r#"{"channel":null,"tags":null,"b64data":null,"version":null}"#);
    assert_eq!(
        (&*request.channel, request.tags.0, request.version),
        ("", None, 0)
    );
    assert_eq!(publish(r#"{"tags":{}}"#).tags.0, None);
}

#[test]
fn data_comes_as_json_or_base64() {
    check_payload(
        r#"{"data":{"text": "hello"}}"#,
        Ok((br#"{"text": "hello"}"#, PayloadKind::Json)),
    );
    check_payload(r#"{"data":null}"#, Ok((b"null", PayloadKind::Json)));
    check_payload(r#"{"data":"text"}"#, Ok((br#""text""#, PayloadKind::Json)));
    check_payload(
        r#"{"b64data":"AP8="}"#,
        Ok((&[0, 255], PayloadKind::Binary)),
    );
    check_payload(r#"{"b64data":"aGk="}"#, Ok((b"hi", PayloadKind::Text)));
    check_payload(
        r#"{"b64data":"e30=","data":1}"#,
        Ok((b"{}", PayloadKind::Json)),
    );
    check_payload(r#"{"b64data":"","data":1}"#, Ok((b"1", PayloadKind::Json)));
    for body in ["{}", r#"{"b64data":"?"}"#, r#"{"b64data":"AP8"}"#] {
        check_payload(body, Err(ServerApiError::BadRequest));
    }
}

#[test]
fn the_other_methods_are_read() {
    let body = br#"{"channels":["a","\u00e9"],"data":1}"#;
    let Ok(ApiRequest::Broadcast(broadcast)) = parse(Method::Broadcast, body) else {
        panic!()
    };
    assert_eq!(broadcast.channels, ["a", "é"]);
    assert_eq!(&*broadcast.payload().unwrap().bytes, b"1");

    let body = br#"{"user":"42","channel":"c","client":"x","session":"s"}"#;
    let Ok(ApiRequest::Unsubscribe(unsubscribe)) = parse(Method::Unsubscribe, body) else {
        panic!()
    };
    assert_eq!((&*unsubscribe.user, &*unsubscribe.channel), ("42", "c"));
    assert_eq!((&*unsubscribe.client, &*unsubscribe.session), ("x", "s"));

    let body = br#"{"user":"42","whitelist":["c1"],"disconnect":{"code":4500,"reason":"banned"}}"#;
    let Ok(ApiRequest::Disconnect(disconnect)) = parse(Method::Disconnect, body) else {
        panic!()
    };
    assert_eq!((&*disconnect.user, &*disconnect.whitelist[0]), ("42", "c1"));
    let custom = disconnect.disconnect.unwrap();
    assert_eq!((custom.code, &*custom.reason), (4500, "banned"));

    let body = br#"{"channel":"c","limit":2,"since":{"offset":3,"epoch":"2f"},"reverse":true}"#;
    let Ok(ApiRequest::History(history)) = parse(Method::History, body) else {
        panic!()
    };
    assert_eq!(
        (&*history.channel, history.limit, history.reverse),
        ("c", 2, true)
    );
    let since = Since {
        offset: 3,
        epoch: "2f".into(),
    };
    assert_eq!(history.since, Some(since));

    let body = br#"{"pattern":"chat:*"}"#;
    let Ok(ApiRequest::Channels(channels)) = parse(Method::Channels, body) else {
        panic!()
    };
    assert_eq!(&*channels.pattern, "chat:*");
}

#[test]
fn every_method_has_a_name_and_takes_an_empty_object() {
    for method in Method::ALL {
        assert_eq!(Method::from_name(method.name()), Some(method));
        assert_eq!(parse(method, b"{}").unwrap().method(), method);
        for wrong in ["", "{", "{}x", "\u{1}"] {
            assert!(
                parse(method, wrong.as_bytes()).is_err(),
                "{method:?} {wrong}"
            );
        }
    }
    assert_eq!(Method::from_name("unheard_of"), None);
}

#[test]
fn fields_of_the_wrong_type_are_refused() {
    for body in [
        r#"{"channel":1}"#,
        r#"{"tags":[]}"#,
        r#"{"tags":{"a":1}}"#,
        r#"{"tags":{"a":null}}"#,
        r#"{"tags":"a"}"#,
        r#"{"version":-1}"#,
        r#"{"skip_history":"yes"}"#,
        "7",
    ] {
        assert!(parse(Method::Publish, body.as_bytes()).is_err(), "{body}");
    }
    assert!(parse(Method::Broadcast, br#"{"channels":"a"}"#).is_err());
    assert!(parse(Method::Publish, b"{\"channel\":\"\xff\"}").is_err());
}

#[test]
fn batches_are_read_in_order() {
    let batch = parse_batch(
        concat!(
            r#"{"commands":[{"publish":{"channel":"a","data":{}}},{"unheard_of":{}},"#,
            r#"{"info":{}},{}],"parallel":true}"#,
        )
        .as_bytes(),
    )
    .unwrap();
    assert!(batch.parallel);
    let methods: Vec<_> = batch
        .commands
        .iter()
        .map(|command| {
            command
                .as_ref()
                .map(ApiRequest::method)
                .map_err(|error| *error)
        })
        .collect();
    let unknown = Err(ServerApiError::NotFound);
    assert_eq!(
        methods,
        [Ok(Method::Publish), unknown, Ok(Method::Info), unknown]
    );
    assert!(parse_batch(b"{}").unwrap().commands.is_empty());
    assert!(parse_batch(br#"{"commands":[{"publish":{"channel":1}}]}"#).is_err());
}

#[test]
fn the_older_endpoint_takes_one_command_or_several() {
    let body = br#"{"method":"publish","params":{"channel":"a","data":1}}
        {"id":2,"method":"HISTORY","params":{"channel":"a"}}{"method":"nothing"}
        {"id":4,"method":"publish","params":{"channel":4}} {"method":"info"}"#;
    let requests = parse_legacy(body).unwrap();
    let read: Vec<_> = requests
        .iter()
        .map(|legacy| {
            (
                legacy.id,
                legacy
                    .request
                    .as_ref()
                    .map(ApiRequest::method)
                    .map_err(|error| *error),
            )
        })
        .collect();
    assert_eq!(
        read,
        [
            (0, Ok(Method::Publish)),
            (2, Ok(Method::History)),
            (0, Err(ServerApiError::NotFound)),
            (4, Err(ServerApiError::BadRequest)),
            (0, Ok(Method::Info)),
        ]
    );
    for body in ["", " ", "{", "{}x", "7"] {
        assert!(parse_legacy(body.as_bytes()).is_err(), "{body}");
    }
}

proptest! {
    #[test]
    fn no_body_panics(
        body: Vec<u8>,
        text in concat!(
            r#"\{("(channel|data|tags|commands|params)":"#,
            r#"[\[{"]?[0-9a-z]{0,3}[\]}",]{0,2}){0,4}\}?"#,
        ),
    ) {
        for body in [&*body, text.as_bytes()] {
            for method in Method::ALL {
                let _ = parse(method, body);
            }
            let _ = parse_batch(body);
            let _ = parse_legacy(body);
        }
    }
}
