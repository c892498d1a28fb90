//! Reloads of `[proxy]`, and of keys that are gone: what holds at once, what is refused, and that
//! it is all or nothing.

use std::net::SocketAddr;

use serde_json::{Value, json};
use throng_testkit::{Response, Server, Setup, Signal, Wire, request, until};

use crate::asked::{Asked, backend};
use crate::support::{SECRET, token};

const KEY: &str = "the-key-of-the-server-api";

/// Answers with the path by which it was asked.
fn echo(path: &str, _: &Value) -> (u16, Value) {
    (200, json!({ "result": { "data": path } }))
}

fn count(asked: &Asked) -> usize {
    asked.lock().expect("no test panicked").len()
}

fn config(proxy: &str, more: &str) -> String {
    format!("[auth]\nanonymous = true\napi_keys = [\"{KEY}\"]\n{more}\n{proxy}\n")
}

fn start(text: &str) -> Server {
    Setup::new(text).shards(2).api_key(KEY).start()
}

/// A client of Centrifugo's protocol.
struct Client {
    wire: Wire,
    last: u32,
}

impl Client {
    fn new(to: SocketAddr) -> Self {
        let mut client = Self {
            wire: Wire::websocket(to, "/connection/websocket"),
            last: 0,
        };
        client.say("connect", &json!({}));
        client
    }

    /// Sends a command, and gives the end of its reply.
    #[track_caller]
    fn say(&mut self, command: &str, what: &Value) -> String {
        self.last += 1;
        let text = format!("{{\"id\":{},\"{command}\":{what}}}", self.last);
        self.wire.say(&text);
        self.wire.through(&format!("\"id\":{}", self.last));
        self.wire.through("}}")
    }

    #[track_caller]
    fn rpc(&mut self) -> String {
        self.say("rpc", &json!({ "method": "m", "data": 1 }))
    }
}

#[test]
fn other_backends_are_asked_at_once_and_by_those_who_were_there() {
    let ((first, asked_first), (second, asked_second)) = (backend(echo), backend(echo));
    let proxy = |to: SocketAddr, path: &str| format!("[proxy]\nrpc = \"http://{to}/{path}\"\n");
    let before = config(&proxy(first, "one"), "");
    let server = start(&before);
    let mut clients: Vec<Client> = (0..4).map(|_| Client::new(server.clients())).collect();
    for client in &mut clients {
        assert!(client.rpc().contains("\"/one\""));
    }
    let after = config(&proxy(second, "two"), "");
    let told = server.reload(&after);
    assert_eq!(
        (told.0, &told.1["changed"]),
        (200, &json!(["proxy.rpc"])),
        "{told:?}"
    );
    assert_eq!(told.1["needs_restart"], json!([]));
    for client in &mut clients {
        assert!(client.rpc().contains("\"/two\""));
    }
    assert_eq!((count(&asked_first), count(&asked_second)), (4, 4));
    // A mistake in the section, one in what needs the section, and one elsewhere: nothing of the
    // rest holds either.
    let new = "[[namespace]]\nname = \"new\"\n";
    for (wrong, expected) in [
        (config("[proxy]\nrpc = \"ftp://a\"\n", new), "proxy.rpc: "),
        (
            config(&format!("{}timeout = \"1ms\"\n", proxy(first, "one")), new),
            "proxy.timeout: ",
        ),
        (
            config(
                &proxy(first, "one"),
                &format!("{new}subscribe_proxy_enabled = true\n"),
            ),
            "it needs proxy.subscribe",
        ),
        (
            config(
                &proxy(first, "one"),
                &format!("{new}subscribe_proxy_name = \"x\"\n"),
            ),
            "no [[proxy.backend]] has the name",
        ),
        (
            config(
                &proxy(first, "one"),
                &format!("{new}[log]\nlevel = \"loud\"\n"),
            ),
            "log.level: ",
        ),
    ] {
        let (status, told) = server.reload(&wrong);
        let told = told["problems"].to_string();
        assert!(
            status == 422 && told.contains(expected),
            "{status} {expected}: {told}"
        );
        assert!(clients[0].rpc().contains("\"/two\""), "{expected}");
        assert_eq!(server.ask("POST", "/pub?channel=new:1", "1").status, 404);
    }
    assert_eq!(count(&asked_first), 4);
    // What needs a restart waits, and the rest holds.
    let bounded = format!("{}requests_max = 7\n", proxy(first, "three"));
    let (status, told) = server.reload(&config(&bounded, ""));
    assert_eq!(
        (status, &told["needs_restart"]),
        (200, &json!(["proxy.requests_max"]))
    );
    for client in &mut clients {
        assert!(client.rpc().contains("\"/three\""));
    }
    // The section goes, and comes back by a signal.
    assert_eq!(server.reload(&config("", "")).0, 200);
    for client in &mut clients {
        let told = client.rpc();
        assert!(told.contains("\"code\":108"), "{told}");
    }
    server.configure(&before);
    server.signal(Signal::HUP);
    until("the backend", || clients[0].rpc().contains("\"/one\""));
    for client in &mut clients {
        assert!(client.rpc().contains("\"/one\""));
    }
    server.stop();
}

/// Backends are known to channels by their places: those must not be mixed up when one goes.
#[test]
fn channels_keep_their_backends_when_others_go() {
    let ((first, asked_first), (second, asked_second)) = (backend(echo), backend(echo));
    let named = |name: &str, to: SocketAddr| {
        format!("[[proxy.backend]]\nname = \"{name}\"\nendpoint = \"http://{to}/{name}\"\n")
    };
    let channels = "[[namespace]]\nname = \"room\"\nsubscribe_proxy_enabled = true\n\
                    subscribe_proxy_name = \"second\"\n";
    let both = format!(
        "[proxy]\n{}{}",
        named("first", first),
        named("second", second)
    );
    let server = start(&config(&both, channels));
    let mut client = Client::new(server.clients());
    client.say("subscribe", &json!({ "channel": "room:1" }));
    assert_eq!((count(&asked_first), count(&asked_second)), (0, 1));
    // It becomes the first of all.
    let alone = format!("[proxy]\n{}", named("second", second));
    assert_eq!(server.reload(&config(&alone, channels)).0, 200);
    client.say("subscribe", &json!({ "channel": "room:2" }));
    assert_eq!((count(&asked_first), count(&asked_second)), (0, 2));
    // Channels cannot do without it.
    let other = format!("[proxy]\n{}", named("first", first));
    let (status, told) = server.reload(&config(&other, channels));
    assert_eq!(status, 422, "{told}");
    client.say("subscribe", &json!({ "channel": "room:3" }));
    assert_eq!((count(&asked_first), count(&asked_second)), (0, 3));
    server.stop();
}

#[test]
fn a_removed_key_opens_nothing_any_more() {
    let with = |keys: &str, secret: &str| {
        format!(
            "[auth]\napi_keys = [{keys}]\n{secret}\nanonymous = false\n[channel]\n\
             subscribe = true\n[stream]\nkeepalive_interval = \"0s\"\n"
        )
    };
    let secret = format!("hmac_secret = \"{SECRET}\"");
    let both = with(
        "\"the-first-of-the-keys\", \"the-second-of-the-keys\"",
        &secret,
    );
    let server = Setup::new(&both).shards(2).start();
    let call = |key: &str, target: &str| -> Response {
        request(
            server.api_address(),
            "POST",
            target,
            &[("X-API-Key", key)],
            "{}",
        )
    };
    let (first, second) = ("the-first-of-the-keys", "the-second-of-the-keys");
    // A connection that stays, with the key in each request.
    let mut kept = Wire::connect(server.api_address());
    let publish = format!(
        "POST /pub?channel=a HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {first}\r\n\
         Content-Length: 1\r\n\r\n1"
    );
    kept.send(&publish);
    assert_eq!(kept.response("POST").status, 200);
    // The reload itself is asked for with the key that goes.
    server.configure(&with(&format!("\"{second}\""), &secret));
    let answer = call(first, "/api/reload");
    assert_eq!(answer.status, 200, "{answer:?}");
    // It names what changed and no key.
    assert!(answer.body.contains("auth.api_keys") && !answer.body.contains("-of-the-keys"));
    for target in ["/pub?channel=a", "/api/info", "/api/reload"] {
        // On both shards.
        for _ in 0..4 {
            assert_eq!(call(first, target).status, 401, "{target}");
            assert_eq!(call(second, target).status, 200, "{target}");
        }
    }
    kept.send(&publish);
    assert_eq!(kept.response("POST").status, 401);
    // A reload is asked for with a key, by a POST, at the API port.
    let reload = |to, method, headers| request(to, method, "/api/reload", headers, "");
    let key = &[("X-API-Key", second)][..];
    assert_eq!(reload(server.api_address(), "POST", &[]).status, 401);
    assert_eq!(reload(server.clients(), "POST", key).status, 404);
    let get = reload(server.api_address(), "GET", key);
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    // The clients' key goes: no client comes in, and connected ones stay.
    let ann = token("ann", 600);
    let listen = || {
        let mut wire = server.get(&format!("/stream?channel=a&token={ann}"));
        let status = wire.head().status;
        (wire, status)
    };
    let (mut stream, status) = listen();
    assert_eq!(status, 200);
    server.configure(&with(&format!("\"{second}\""), ""));
    assert_eq!(call(second, "/api/reload").status, 200);
    for _ in 0..4 {
        assert_eq!(listen().1, 401);
    }
    assert_eq!(call(second, "/pub?channel=a").status, 200);
    stream.through("{}");
    server.stop();
}
