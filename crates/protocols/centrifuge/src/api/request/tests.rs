//! Bodies as backends and their libraries send them.

use proptest::prelude::*;
use throng_types::cases;

use super::*;
use crate::api::Kind;

/// Method of a call that was read, or the error in its place.
fn method(request: &Result<ApiRequest<'_>, CallError>) -> String {
    match request {
        Ok(request) => format!("{:?}", request.method()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn bodies_that_do_not_fit_are_refused_with_the_field() {
    for (call, expected) in cases(include_str!("refused.txt")) {
        let (method, body) = call.split_once(' ').expect("METHOD BODY");
        let error = match method {
            "batch" => parse_batch(body.as_bytes()).expect_err(call),
            "api" => parse_legacy(body.as_bytes()).expect_err(call),
            method => {
                let method = Method::from_name(method).expect("a method");
                parse(method, body.as_bytes()).expect_err(call)
            }
        };
        assert_eq!(error.to_string(), expected, "{call}");
    }
    let errors = [
        parse(Method::Info, b"").unwrap_err(),
        parse_batch(b"\n").unwrap_err(),
        parse_legacy(b" ").unwrap_err(),
    ];
    let empty = |error: &MalformedBody| error.to_string() == "the body is empty";
    assert!(errors.iter().all(empty), "{errors:?}");
}

/// The table says of each field what its reader takes, in every call.
#[test]
fn fields_take_what_their_table_says() {
    const VALUES: [&str; 18] = [
        "null",
        "true",
        "\"true\"",
        "-1",
        "0",
        "1.0",
        "1.5",
        "2147483648",
        "4294967296",
        "9223372036854775808",
        "18446744073709551616",
        "\"\"",
        "[]",
        "[\"a\",null]",
        "[1]",
        "{}",
        "{\"a\":\"b\"}",
        "{\"a\":1}",
    ];
    for method in Method::ALL {
        for field in ApiRequest::fields(method) {
            for value in VALUES {
                let body = format!("{{\"{}\":{value}}}", field.name);
                let is_read = parse(method, body.as_bytes()).is_ok();
                let misfit = misfit(ApiRequest::fields(method), &body);
                assert_eq!(is_read, misfit.is_none(), "{method:?} {body} {misfit:?}");
            }
            assert_eq!(field.doc.is_empty(), matches!(field.kind, Kind::Ignored));
        }
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
fn messages_are_read_as_json_is() {
    for (call, message) in cases(include_str!("alike.txt")) {
        let (name, body) = call.split_once(' ').expect("METHOD BODY");
        let method = Method::from_name(name).expect("a method");
        let message = unescaped(message);
        let read = parse_message(method, &message).expect("a message");
        let json = parse(method, body.as_bytes()).expect("a call");
        assert_eq!(format!("{read:?}"), format!("{json:?}"), "{call}");
        for cut in 1..message.len() {
            // Bytes that are cut are no message, or a shorter one.
            let _ = parse_message(method, &message[..cut]);
        }
        let command = [
            &[method.number() as u8 * 8 + 2, message.len() as u8][..],
            &message,
        ]
        .concat();
        let batch = [
            &b"\x10\x01\x0a\x00\x0a"[..],
            &[command.len() as u8],
            &command,
        ]
        .concat();
        // Numbers above 15 have a byte more.
        if method.number() < 16 && command.len() < 128 {
            let batch = parse_batch_message(&batch).expect("a batch");
            assert!(batch.parallel);
            let read: Vec<_> = batch.commands.iter().map(self::method).collect();
            assert_eq!(read, ["not found", &format!("{method:?}")]);
        }
    }
    assert!(
        parse_message(Method::Publish, b"\x08\x01").is_err(),
        "a number for a text"
    );
    assert!(
        parse_batch_message(b"\x0a\x02\x22\x01").is_err(),
        "a cut command"
    );
}

#[test]
fn calls_of_grpc_have_names() {
    let info = Method::from_rpc_name("Info");
    let stats = Method::from_rpc_name("PresenceStats");
    assert_eq!(info.zip(stats), Some((Method::Info, Method::PresenceStats)));
    assert_eq!(Method::from_rpc_name("RPC"), Some(Method::Rpc));
    assert_eq!(Method::from_rpc_name("info"), None);
}

/// The bytes of a text in which hexadecimal digits stand for some.
fn unescaped(text: &str) -> Vec<u8> {
    let mut parts = text.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(hex, 16).expect("hexadecimal"));
        bytes.extend(rest.as_bytes());
    }
    bytes
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
            r#"{"commands":[{"publish":{"channel":"a","data":1}},{"publsh":{}},{"info":{}},{},"#,
            r#"{"info":{},"publish":{"channel":"a"}},{"publish":null,"rpc":{}},{"info":{},"#,
            r#""id":1}],"parallel":true}"#,
        )
        .as_bytes(),
    )
    .unwrap();
    assert!(batch.parallel);
    let methods: Vec<String> = batch.commands.iter().map(method).collect();
    let expected = [
        "Publish",
        "bad request: unknown field `publsh`: did you mean `publish`?",
        "Info",
        "not found",
        "bad request: `info` and `publish` are two commands",
        "Rpc",
    ];
    assert_eq!(methods[..6], expected);
    let unknown = "bad request: unknown field `id`: the fields are publish, broadcast, ";
    assert!(methods[6].starts_with(unknown), "{methods:?}");
    assert!(parse_batch(b"{}").unwrap().commands.is_empty());
    assert!(parse_batch(br#"{"commands":[{"publish":{"channel":1}}]}"#).is_err());
}

#[test]
fn the_older_endpoint_takes_one_command_or_several() {
    let body = br#"{"method":"publish","params":{"channel":"a","data":1}}
        {"id":2,"method":"HISTORY","params":{"channel":"a"}}{"method":"nothing"}{"params":{}}
        {"id":4,"method":"publish","params":{"channel":4}} {"method":"info"}"#;
    let requests = parse_legacy(body).unwrap();
    let read = requests.iter().map(|it| match &it.request {
        Ok(request) => format!("{} {:?}", it.id, request.method()),
        Err(error) => format!("{} {error}", it.id),
    });
    let expected = [
        "0 Publish",
        "2 History",
        "0 not found",
        "0 bad request: `method` is missing",
        "4 bad request: `channel` wants a string",
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
