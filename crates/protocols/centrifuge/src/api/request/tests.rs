//! Bodies as backends and their libraries send them.

use proptest::prelude::*;
use throng_types::cases;

use super::*;
use crate::api::ServerApiError;

/// Method of a call that was read, or the error in its place.
fn method(request: &Result<ApiRequest<'_>, ServerApiError>) -> String {
    match request {
        Ok(request) => format!("{:?}", request.method()),
        Err(error) => format!("{error:?}"),
    }
}

#[test]
fn calls_are_read() {
    for (call, expected) in cases(include_str!("read.txt")) {
        let (method, body) = call.split_once(' ').expect("METHOD BODY");
        let method = Method::from_name(method).expect("a method");
        let read = parse(method, body.as_bytes()).expect("a call");
        assert_eq!(format!("{read:?}"), expected, "{call}");
    }
}

#[test]
fn data_comes_as_json_or_base64() {
    for (body, expected) in cases(include_str!("data.txt")) {
        let Ok(ApiRequest::Publish(request)) = parse(Method::Publish, body.as_bytes()) else {
            panic!("{body}");
        };
        let read = match request.payload() {
            Ok(payload) => [format!("{:?} ", payload.kind).as_bytes(), &payload.bytes].concat(),
            Err(error) => format!("{error:?}").into_bytes(),
        };
        let read = read.escape_ascii().to_string().replace("\\\"", "\"");
        assert_eq!(read, expected, "{body}");
    }
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
    let methods: Vec<String> = batch.commands.iter().map(method).collect();
    assert_eq!(methods, ["Publish", "NotFound", "Info", "NotFound"]);
    assert!(parse_batch(b"{}").unwrap().commands.is_empty());
    assert!(parse_batch(br#"{"commands":[{"publish":{"channel":1}}]}"#).is_err());
}

#[test]
fn the_older_endpoint_takes_one_command_or_several() {
    let body = br#"{"method":"publish","params":{"channel":"a","data":1}}
        {"id":2,"method":"HISTORY","params":{"channel":"a"}}{"method":"nothing"}
        {"id":4,"method":"publish","params":{"channel":4}} {"method":"info"}"#;
    let requests = parse_legacy(body).unwrap();
    let read = requests
        .iter()
        .map(|it| format!("{} {}", it.id, method(&it.request)));
    let expected = [
        "0 Publish",
        "2 History",
        "0 NotFound",
        "4 BadRequest",
        "0 Info",
    ];
    assert_eq!(read.collect::<Vec<_>>(), expected);
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
