use proptest::prelude::*;
use serde_json::json;

use super::json_patch::{PatchError, apply_patch};
use super::*;
use crate::instruct::{Instruct, ResponseHead};
use crate::tnet;
use crate::value::Value;
use throng_types::cases;

#[track_caller]
fn one(item: &str) -> Item {
    let body = format!("{{\"items\": [{item}]}}");
    let mut items = items_of_json(body.as_bytes()).unwrap();
    assert_eq!(items.len(), 1);
    items.remove(0)
}

/// An item as `items.txt` has it.
fn describe(item: &Item) -> String {
    let id = |name: &str, id: &Option<String>| id.as_ref().map(|id| format!("{name} {id}"));
    let mut out = vec![item.channel.to_string()];
    out.extend(id("id", &item.id));
    out.extend(id("prev-id", &item.prev_id));
    out.extend(item.no_seq.then(|| "no-seq".to_owned()));
    let meta = item.meta.iter();
    out.extend(meta.map(|(name, value)| format!("meta {name}={value}")));
    out.extend(item.http_response.as_ref().map(|form| format!("{form:?}")));
    out.extend(item.http_stream.as_ref().map(|form| format!("{form:?}")));
    out.extend(item.ws_message.as_ref().map(|form| format!("{form:?}")));
    let told = out.join(" / ");
    // Lists of bytes as texts.
    let mut parts = told.split('[');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let list = part.split_once(']').and_then(|(list, rest)| {
            let bytes: Result<Vec<u8>, _> = list.split(", ").map(str::parse).collect();
            Some((bytes.ok()?, rest))
        });
        match list {
            Some((bytes, rest)) => text.extend([&bytes.escape_ascii().to_string(), rest]),
            None => text.extend(["[", part]),
        }
    }
    text
}

#[test]
fn what_clients_send_by_http() {
    for (item, expected) in cases(include_str!("items.txt")) {
        assert_eq!(describe(&one(item)), expected, "{item}");
    }
}

#[test]
fn actions_and_kinds() {
    for (format, expect) in cases(include_str!("formats.txt")) {
        let item = one(&format!("{{\"channel\": \"a\", {format}}}"));
        let found = [
            item.ws_message.map(|format| format!("{format:?}")),
            item.http_stream.map(|format| format!("{format:?}")),
            item.http_response.map(|format| format!("{format:?}")),
        ];
        let found: Vec<String> = found.into_iter().flatten().collect();
        assert_eq!(found, [expect], "{format}");
    }
}

#[test]
fn refused_bodies() {
    let refused = |body: &str| items_of_json(body.as_bytes()).unwrap_err().to_string();
    for (body, expect) in [
        ("", "the body is not JSON"),
        ("[]", "the body is not a JSON object"),
        ("{}", "the body has no list of items"),
        (r#"{"items": {}}"#, "items must be a list"),
        (
            r#"{"items": [{"channel": "a", "http-stream": {"content": ""}}, {}]}"#,
            "in item 1 of 2: item: channel is missing",
        ),
    ] {
        assert_eq!(refused(body), expect);
    }
    assert_eq!(items_of_json(br#"{"items": []}"#), Ok(vec![]));
    for (item, expect) in cases(include_str!("refused.txt")) {
        assert_eq!(refused(&format!("{{\"items\": [{item}]}}")), expect);
    }
}

#[test]
fn zeromq_forms() {
    // What pubcontrol 3.5.0 pushes, packed by tnetstring3 0.4.0.
    let wire = b"89:7:channel,4:test,7:formats,35:11:http-stream,16:7:content,3:hi\n,}}7:prev-id,\
                 1:1,2:id,1:2,}";
    let item = zmq_pull_item(&[wire]).unwrap();
    assert_eq!(
        (item.id.as_deref(), item.prev_id.as_deref()),
        (Some("2"), Some("1"))
    );
    // In another order; then the same without `formats`.
    let wire = b"66:7:formats,35:11:http-stream,16:7:content,3:hi\n,}}7:channel,4:test,}";
    let expect = one(r#"{"channel": "test", "http-stream": {"content": "hi\n"}}"#);
    assert_eq!(zmq_pull_item(&[wire]), Ok(expect.clone()));
    assert_eq!(
        zmq_pull_item(&[[b"T", &wire[..]].concat()]),
        Ok(expect.clone())
    );
    let json = br#"J{"channel": "test", "http-stream": {"content": "hi\n"}}"#;
    assert_eq!(zmq_pull_item(&[json]), Ok(expect.clone()));
    // The SUB form: the channel is the first part.
    let wire = b"35:11:http-stream,16:7:content,3:hi\n,}}";
    assert_eq!(zmq_sub_item(&[&b"test"[..], wire]), Ok(expect));
    // In tnetstrings bytes are bytes, not base64.
    let wire = b"T54:7:channel,1:a,10:ws-message,22:11:content-bin,4:\x00AA=,}}";
    let Ok(item) = zmq_pull_item(&[wire]) else {
        panic!("{:?}", zmq_pull_item(&[wire]))
    };
    assert_eq!(
        item.ws_message,
        Some(WsMessageItem::Send {
            kind: WsKind::Binary,
            content: b"\0AA=".to_vec(),
            content_filters: None
        })
    );
    assert_eq!(
        zmq_pull_item(&[b"a", b"b"]),
        Err(ItemError::Parts {
            found: 2,
            expected: 1
        })
    );
    assert_eq!(
        zmq_sub_item(&[b"a"]),
        Err(ItemError::Parts {
            found: 1,
            expected: 2
        })
    );
    assert_eq!(zmq_pull_item(&[b"J"]), Err(ItemError::Json));
    assert!(matches!(
        zmq_pull_item(&[b""]),
        Err(ItemError::Tnetstring(_))
    ));
    for cut in 0..json.len() {
        assert!(zmq_pull_item(&[&json[..cut]]).is_err());
    }
}

#[test]
fn a_held_response_lends_its_headers() {
    let head = ResponseHead {
        code: 200,
        reason: "OK",
        headers: &[
            ("Content-Type", b"application/json"),
            ("X-A", b"1"),
            ("X-C", b"3"),
            ("Content-Length", b"2"),
            ("Grip-Hold", b"response"),
        ],
    };
    let held = Instruct::from_response(head, b"", 20).unwrap().reply;
    let item = one(
        r#"{"channel": "a", "http-response": {"code": 202, "body": "x",
            "headers": [["x-a", "2"], ["X-A", "3"], ["Grip-Expose-Headers", "x-c"]]}}"#,
    );
    let Some(HttpResponseItem::Send(item)) = item.http_response else {
        panic!()
    };
    let (reply, body) = item.compose(&held, b"{}");
    assert_eq!((reply.code, reply.reason), (202, None));
    let headers = [
        ("Content-Type", "application/json"),
        ("x-a", "2"),
        ("X-A", "3"),
    ];
    assert_eq!(
        reply.headers,
        headers.map(|(name, value)| Header::new(name, value))
    );
    assert_eq!((reply.body, &*body), (None, &b"x"[..]));
}

#[test]
fn patches() {
    let patch = |held: &str, operations: &str| {
        let operations: Vec<serde_json::Value> = serde_json::from_str(operations).unwrap();
        String::from_utf8(patch_body(held.as_bytes(), &operations)).unwrap()
    };
    let held = "{\"a\": [1, 2], \"b/c\": {\"d\": true}}\n";
    for (operations, expect) in cases(include_str!("patches.txt")) {
        let expect = match expect {
            "unchanged" => held.to_owned(),
            body => format!("{body}\n"),
        };
        assert_eq!(patch(held, operations), expect, "{operations}");
    }
    assert_eq!(patch("no json", "[]"), "no json");
}

proptest! {
    #[test]
    fn nothing_panics(
        value in crate::value::tests::any_value(),
        field in "(channel|formats|http-stream|ws-message|http-response|meta)",
    ) {
        let channel = ("channel".into(), Value::Text("a".into()));
        let value = Value::Object(vec![channel, (field, value)]);
        let mut wire = Vec::new();
        tnet::encode(&value, &mut wire);
        let _ = zmq_pull_item(&[wire]);
    }
}

/// Each `copy` of the whole into itself doubles it, and each into a member makes it a level deeper.
#[test]
fn patches_do_not_grow_without_bound() {
    let copy = |path: &str| json!({"op": "copy", "from": "/", "path": path});
    for (operation, count) in [(copy("/-"), 100), (copy("/0"), 20_000)] {
        let operations = vec![operation; count];
        let held = b"[[1],2]";
        assert_eq!(patch_body(held, &operations), held);
    }
    let mut document = json!([1]);
    let fault = apply_patch(&mut document, &vec![copy("/-"); 100]);
    assert!(matches!(fault, Err((_, PatchError::TooLarge))), "{fault:?}");
    let fault = apply_patch(&mut json!([1]), &vec![copy("/0"); 200]);
    assert_eq!(fault, Err((127, PatchError::TooDeep)));
    // Long paths instead of copies.
    let add = |levels: usize| json!({"op": "add", "path": "/0".repeat(levels), "value": [0]});
    let operations: Vec<_> = (1..=200).map(add).collect();
    let fault = apply_patch(&mut json!([1]), &operations);
    assert_eq!(fault, Err((127, PatchError::TooDeep)));
}

/// A value of another type is refused for each field of the page's tables, so each is read.
#[test]
fn the_page_has_the_fields_that_are_read() {
    let page = include_str!("../../../../../docs/api-compatible.md");
    let (_, page) = page.split_once("\n## GRIP: `POST /publish/`").unwrap();
    let (page, _) = page.split_once("\n## ").unwrap();
    let mut place = "item";
    let mut places = Vec::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
        let (name, rest) = row.split_once('`').unwrap();
        if row.ends_with("| type | default | meaning |") {
            place = name;
            places.push(place);
            continue;
        }
        let is_number = rest.starts_with(" | number");
        let wrong = if is_number { r#""x""# } else { "1" };
        let needed = match (place, name) {
            (_, "body-patch") => "",
            ("ws-message", "code" | "reason") => r#","action":"close""#,
            ("item", "channel") => r#","http-stream":{"content":""}"#,
            ("item", _) => r#","channel":"a","http-stream":{"content":""}"#,
            (_, "content" | "body") => "",
            _ => r#","content":"","body":"""#,
        };
        let object = format!(r#"{{"{name}":{wrong}{needed}}}"#);
        let item = match place {
            "item" => object,
            format => format!(r#"{{"channel":"a","{format}":{object}}}"#),
        };
        let refused = items_of_json(format!(r#"{{"items":[{item}]}}"#).as_bytes());
        let text = refused.expect_err(&item).to_string();
        let is_named = text.contains(&format!(" {name} ")) && text.starts_with(place);
        assert!(is_named, "{item}: {text}");
    }
    assert_eq!(places, ["http-stream", "http-response", "ws-message"]);
}
