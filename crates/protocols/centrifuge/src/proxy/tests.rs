use throng_types::PayloadKind;

use super::{ProxyAnswer, ProxyCall, ProxyRefusal, ProxyRequest};
use crate::Codec;

fn body(call: ProxyCall<'_>, is_binary: bool) -> String {
    let request = ProxyRequest {
        client: "c1",
        transport: "websocket",
        protocol: Codec::Json,
        user: Some("42"),
        meta: Some("{\"n\":1}"),
        is_binary,
        call,
    };
    let mut out = Vec::new();
    request.encode(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn questions_have_the_fields_of_the_schema() {
    let head = r#"{"client":"c1","transport":"websocket","protocol":"json","encoding":"#;
    let channels = ["a", "b\""];
    let connect = ProxyCall::Connect {
        data: Some(b"{}"),
        name: "js",
        version: "",
        channels: &channels,
    };
    for (call, is_binary, rest) in [
        (
            connect,
            false,
            r#""json","user":"42","data":{},"name":"js","channels":["a","b\""],"meta":{"n":1}}"#,
        ),
        (
            ProxyCall::Refresh,
            false,
            r#""json","user":"42","meta":{"n":1}}"#,
        ),
        (
            ProxyCall::Rpc {
                method: "m",
                data: b"[1]",
            },
            true,
            r#""binary","user":"42","method":"m","b64data":"WzFd","meta":{"n":1}}"#,
        ),
        (
            ProxyCall::Publish {
                channel: "c",
                data: b"no json",
            },
            false,
            r#""json","user":"42","channel":"c","data":"no json","meta":{"n":1}}"#,
        ),
        (
            ProxyCall::Subscribe {
                channel: "c",
                token: "t",
                data: None,
            },
            false,
            r#""json","user":"42","channel":"c","token":"t","meta":{"n":1}}"#,
        ),
        (
            ProxyCall::SubRefresh { channel: "c" },
            false,
            r#""json","user":"42","channel":"c","meta":{"n":1}}"#,
        ),
    ] {
        assert_eq!(body(call, is_binary), format!("{head}{rest}"));
    }
}

#[test]
fn answers_are_results_or_refusals() {
    let parse = |json: &str| ProxyAnswer::parse(json.as_bytes());
    let result = parse(
        r#"{"result":{"user":"7","data":{"a":1},"expired":true,"tags":{"t":"1"},"new":[]},"x":1}"#,
    );
    let result = result.unwrap().unwrap();
    assert_eq!((&*result.user, result.expired), ("7", true));
    let data = result.data.unwrap();
    assert_eq!(
        (&*data.bytes, data.kind),
        (&b"{\"a\":1}"[..], PayloadKind::Json)
    );
    assert_eq!(result.tags.as_deref(), Some("{\"t\":\"1\"}"));
    let binary = parse(r#"{"result":{"b64data":"AP8="}}"#).unwrap().unwrap();
    assert_eq!(binary.data.unwrap().kind, PayloadKind::Binary);
    for nothing in ["{}", "{\"result\":null}"] {
        assert_eq!(parse(nothing), Some(Ok(ProxyAnswer::default())));
    }
    let error = ProxyRefusal::error(1000, "no", true).unwrap();
    assert_eq!(
        parse(r#"{"error":{"code":1000,"message":"no","temporary":true},"result":{}}"#),
        Some(Err(error))
    );
    let end = ProxyRefusal::disconnect(4500, "out").unwrap();
    assert_eq!(
        parse(r#"{"disconnect":{"code":4500,"reason":"out"},"error":{"code":1000}}"#),
        Some(Err(end))
    );
    for wrong in [
        "",
        "[]",
        "{\"result\":[]}",
        r#"{"error":{"code":100}}"#,
        r#"{"error":{}}"#,
        r#"{"disconnect":{"code":3000}}"#,
        r#"{"disconnect":{"code":5000}}"#,
        r#"{"result":{"b64data":"!"}}"#,
    ] {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}
