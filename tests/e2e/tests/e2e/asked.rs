//! Backends that are asked on behalf of SDKs: identities, rights, and calls.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};
use throng_testkit::{Sdk, Setup, Wire, escaped, post};

use crate::support::{emulated, sdks, url};

/// Requests of a backend: the path, and the body with the field `X-Said` of the request in it.
pub(crate) type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// A backend that answers by these rules, and what it was asked.
pub(crate) fn backend(answer: fn(&str, &Value) -> (u16, Value)) -> (SocketAddr, Asked) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let asked = Asked::default();
    let heard = asked.clone();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heard = heard.clone();
            thread::spawn(move || serve(stream, answer, &heard));
        }
    });
    (address, asked)
}

/// Answers the requests of one connection until it ends.
fn serve(stream: TcpStream, answer: fn(&str, &Value) -> (u16, Value), heard: &Asked) {
    let Ok(mut writer) = stream.try_clone() else {
        return;
    };
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length, mut said) = (String::new(), 0, String::new());
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        loop {
            let mut field = String::new();
            if reader.read_line(&mut field).unwrap_or(0) == 0 {
                return;
            }
            let field = field.trim_end().to_ascii_lowercase();
            if let Some(value) = field.strip_prefix("x-said:") {
                value.trim().clone_into(&mut said);
            }
            if let Some(value) = field.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if field.is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let mut body: Value = serde_json::from_slice(&body).expect("questions are JSON");
        body["x-said"] = said.into();
        let (status, answer) = answer(&path, &body);
        heard.lock().expect("no test panicked").push((path, body));
        let answer = answer.to_string();
        let length = answer.len();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n");
        if writer.write_all((head + &answer).as_bytes()).is_err() {
            return;
        }
    }
}

fn answer(path: &str, asked: &Value) -> (u16, Value) {
    let result = |result: Value| (200, json!({ "result": result }));
    match path {
        "/connect" => result(json!({ "user": "ann", "data": { "hello": "ann" } })),
        "/subscribe" if asked["channel"] == "room:closed" => (
            200,
            json!({
                "error": { "code": 450, "message": "closed" },
            }),
        ),
        "/subscribe" => result(json!({})),
        "/publish" => result(json!({ "data": { "by": asked["user"], "was": asked["data"] } })),
        "/rpc" if asked["method"] == "missing" => (404, json!({})),
        "/rpc" => result(json!({ "data": { "method": asked["method"], "got": asked["data"] } })),
        _ => (500, json!({})),
    }
}

#[test]
fn a_backend_decides_for_sdks() {
    let (address, asked) = backend(answer);
    let config = format!(
        "[auth]\nanonymous = false\napi_keys = [\"a key that is long enough for everybody\"]\n\
         [proxy]\nconnect = \"http://{address}/connect\"\n\
         subscribe = \"http://{address}/subscribe\"\npublish = \"http://{address}/publish\"\n\
         rpc = \"http://{address}/rpc\"\nstatus_codes = [\"404 error 1404 no such method\"]\n\
         [[namespace]]\nname = \"room\"\nsubscribe_proxy_enabled = true\n\
         publish_proxy_enabled = true\n"
    );
    let server = Setup::new(&config)
        .api_key("a key that is long enough for everybody")
        .shards(3)
        .start();
    for (name, start) in sdks().into_iter().chain(emulated()) {
        let mut client = start();
        let told = client.connect(&url(server.clients()));
        if !name.contains("python") {
            assert_eq!(told["data"], json!({ "hello": "ann" }), "{name}");
        }
        let channel = format!("room:{name}");
        client.subscribe(&channel);
        client.result(
            "publish",
            &json!({ "channel": channel, "data": { "n": 1 } }),
        );
        let heard = client.publications(&channel, 1);
        assert_eq!(heard, [json!({ "by": "ann", "was": { "n": 1 } })], "{name}");
        client.cannot_subscribe("room:closed", 450);
        let call = json!({ "method": "sum", "data": [1, 2] });
        let called = client.result("rpc", &call);
        assert_eq!(
            called["data"],
            json!({ "method": "sum", "got": [1, 2] }),
            "{name}"
        );
        let missing = json!({ "method": "missing", "data": [] });
        assert_eq!(client.failure("rpc", &missing), 1404, "{name}");
    }
    let asked = asked.lock().expect("no test panicked");
    let connects = asked.iter().filter(|(path, _)| path == "/connect");
    assert_eq!(connects.count(), 7);
    server.stop();
}

fn known(path: &str, asked: &Value) -> (u16, Value) {
    match path {
        "/connect" if asked["data"] == "stranger" => {
            (200, json!({ "error": { "code": 1000, "message": "no" } }))
        }
        "/connect" => (
            200,
            json!({ "result": {
                "user": "ann", "data": asked["transport"], "channels": ["news:a"],
            } }),
        ),
        _ => (200, json!({ "result": { "data": asked["x-said"] } })),
    }
}

#[test]
fn a_backend_lets_listeners_in_and_others_have_names() {
    let (address, asked) = backend(known);
    let (second, asked_second) = backend(known);
    let config = format!(
        "[auth]\nanonymous = false\napi_keys = [\"a key that is long enough for everybody\"]\n\
         [proxy]\nconnect = \"http://{address}/connect\"\nemulated_headers = [\"X-Said\"]\n\
         [[proxy.backend]]\nname = \"second\"\nendpoint = \"http://{second}/second\"\n\
         emulated_headers = [\"X-Said\"]\nrpc_namespaces = [\"far\"]\n\
         [[namespace]]\nname = \"news\"\nsubscribe_proxy_enabled = true\n\
         subscribe_proxy_name = \"second\"\n"
    );
    let server = Setup::new(&config)
        .api_key("a key that is long enough for everybody")
        .shards(3)
        .start();
    let listen = |path: &str, connect: &Value| {
        let mut wire = Wire::connect(server.clients());
        let connect = connect.to_string();
        let target = format!("/connection/{path}");
        match path {
            "uni_sse" => wire.ask(&format!("{target}?cf_connect={}", escaped(&connect)), ""),
            _ => wire.send(&post(&target, &connect)),
        }
        assert_eq!(wire.head().status, 200, "{path}");
        wire
    };
    let said = json!({ "x-said": "so" });
    for path in ["uni_sse", "uni_http_stream"] {
        let mut wire = listen(path, &json!({ "headers": said }));
        let hello = wire.through("news:a");
        assert!(hello.contains(&format!("\"data\":\"{path}\"")), "{hello}");
        server.publish("news:a", &json!({ "to": path }).to_string());
        wire.through(&format!("{{\"to\":\"{path}\"}}"));
        let mut wire = listen(path, &json!({ "data": "stranger" }));
        let told = wire.through("3004");
        assert!(told.contains("disconnect"), "{told}");
    }
    let heard = asked.lock().expect("no test panicked").clone();
    let by_path = |transport: &str| {
        let all = heard
            .iter()
            .filter(|(_, asked)| asked["transport"] == transport);
        all.map(|(_, asked)| asked["x-said"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(by_path("uni_sse"), [json!("so"), json!("")]);
    assert_eq!(by_path("uni_http_stream"), [json!("so"), json!("")]);
    // An SDK that sends fields in its `connect`.
    for start in [Sdk::javascript, Sdk::javascript_protobuf] {
        let mut client = start();
        let mut order = url(server.clients());
        order["headers"] = json!({ "x-said": "sdk" });
        client.connect(&order);
        client.subscribe("news:b");
        let call = json!({ "method": "far:away", "data": 1 });
        assert_eq!(client.result("rpc", &call)["data"], "sdk");
    }
    let asked = asked_second.lock().expect("no test panicked");
    assert!(
        asked
            .iter()
            .all(|(path, it)| path == "/second" && it["x-said"] == "sdk")
    );
    assert_eq!(asked.len(), 4);
    server.stop();
}
