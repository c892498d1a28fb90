//! What few clients have moves with them to a new process: filters, and what backends know of
//! them. Clients who wait for a backend stay.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::{Value, json};
use throng_testkit::{HANDSHAKE, Installed, Setup, Signal, Wire, escaped, until};

use crate::asked::backend;
use crate::support::{emulated, sdks, url};
use crate::upgrade::connected;

#[test]
fn a_filter_still_lets_some_pass_after_an_upgrade() {
    let installed = Installed::default();
    let config = "[channel]\nhistory_size = 100\nhistory_ttl = \"5m\"\nrecovery = true\n\
                  allow_tags_filter = true\n";
    let server = Setup::new(config)
        .binary(&installed.path())
        .shards(2)
        .start();
    let filter = json!({ "op": "or", "nodes": [
        { "key": "kind", "cmp": "neq", "val": "b" },
        { "op": "and", "nodes": [
            { "key": "size", "cmp": "gt", "val": "9.5" },
            { "key": "name", "cmp": "in", "vals": ["x", "y"] },
        ] },
    ] });
    let javascript = sdks().into_iter().filter(|(name, _)| name.contains("js"));
    let mut clients: Vec<_> = { javascript.chain(emulated()) }
        .map(|(name, start)| {
            let mut client = start();
            client.connect(&url(server.clients()));
            let order = json!({ "channel": "quotes", "filter": filter });
            client.order("subscribe", &order);
            client.event("subscribed", &json!({ "channel": "quotes" }));
            client.forget("connecting");
            (name, client)
        })
        .collect();
    server.upgrade_well();
    server.upgrade_well();
    let publish = |number: u32, tags: Value| {
        let call = json!({ "channel": "quotes", "data": number, "tags": tags });
        server.call("publish", &call);
    };
    publish(1, json!({ "kind": "b", "size": "12" }));
    publish(2, json!({ "kind": "b", "size": "12", "name": "y" }));
    publish(3, json!({ "kind": "b", "size": "9.4", "name": "y" }));
    publish(4, json!({ "kind": "a" }));
    for (name, client) in &mut clients {
        let heard = client.publications("quotes", 2);
        assert_eq!(heard, [json!(2), json!(4)], "{name}");
        assert_eq!(client.left("publication"), 0, "{name}");
        assert_eq!(client.left("connecting"), 0, "{name} had to come back");
    }
}

fn answer(path: &str, asked: &Value) -> (u16, Value) {
    let result = |result: Value| (200, json!({ "result": result }));
    match path {
        "/connect" => result(json!({
            "user": "ann", "meta": { "seen": "by backends" }, "channels": ["news"],
        })),
        _ => result(json!({
            "data": { "user": asked["user"], "meta": asked["meta"], "said": asked["x-said"] },
        })),
    }
}

#[test]
fn what_backends_know_of_clients_moves_with_them() {
    let (address, asked) = backend(answer);
    let key = "a key that is long enough for everybody";
    let config = format!(
        "[auth]\nanonymous = false\napi_keys = [\"{key}\"]\n\
         [proxy]\nconnect = \"http://{address}/connect\"\nrpc = \"http://{address}/rpc\"\n\
         emulated_headers = [\"X-Said\"]\ninclude_connection_meta = true\n"
    );
    let installed = Installed::default();
    let server = Setup::new(&config)
        .binary(&installed.path())
        .api_key(key)
        .shards(2)
        .start();
    let mut clients = connected(&server);
    let said = json!({ "headers": { "X-Said": "hello" } });
    let mut socket = server.websocket("/connection/websocket");
    socket.say(&json!({ "id": 1, "connect": said }).to_string());
    socket.through("\"connect\":");
    let said = escaped(&said.to_string());
    let mut listener = server.stream(&format!("/connection/uni_sse?cf_connect={said}"));
    listener.through("\"news\"");
    server.upgrade_well();
    server.upgrade_well();
    let rpc = json!({ "id": 2, "rpc": { "method": "m", "data": 1 } });
    socket.say(&rpc.to_string());
    let said = socket.through("}}}");
    let meta = "\"meta\":{\"seen\":\"by backends\"},\"said\":\"hello\",\"user\":\"ann\"";
    assert!(said.contains(meta), "{said}");
    server.publish("news", "\"after\"");
    listener.through("after");
    for (name, client) in &mut clients {
        let called = client.result("rpc", &json!({ "method": "m", "data": 1 }));
        assert_eq!(called["data"]["user"], "ann", "{name}");
        assert_eq!(client.left("connecting"), 0, "{name} had to come back");
    }
    let asked = asked.lock().expect("no test panicked");
    let connects = asked.iter().filter(|(path, _)| path == "/connect");
    assert_eq!(
        connects.count(),
        clients.len() + 2,
        "nobody was asked about again"
    );
}

/// Questions that were asked and will have no answer.
static UNANSWERED: AtomicUsize = AtomicUsize::new(0);

fn says_nothing(_: &str, _: &Value) -> (u16, Value) {
    UNANSWERED.fetch_add(1, Ordering::Relaxed);
    loop {
        thread::park();
    }
}

/// Clients about whom a backend is asked stay with the process that has asked, and are told to come
/// again: by a status, where nothing was sent yet.
#[test]
fn clients_who_wait_for_a_backend_are_told_to_come_again() {
    let (address, _) = backend(says_nothing);
    let key = "a key that is long enough for everybody";
    let config = format!(
        "[auth]\nanonymous = false\napi_keys = [\"{key}\"]\n[drain]\njitter = \"0s\"\n\
         [proxy]\nconnect = \"http://{address}/connect\"\ntimeout = \"60s\"\n"
    );
    for (round, upgrades) in [(1, true), (2, false)] {
        let installed = Installed::default();
        let mut server = Setup::new(&config)
            .binary(&installed.path())
            .api_key(key)
            .shards(2)
            .start();
        let mut socket = Wire::connect(server.clients());
        socket.ask("/ws?channel=a", HANDSHAKE);
        let [sse, stream] = ["/sse?channel=a", "/stream?channel=a"].map(|it| server.get(it));
        let mut uni = server.get("/connection/uni_sse");
        assert_eq!(uni.head().status, 200);
        until("the questions", || {
            UNANSWERED.load(Ordering::Relaxed) == 4 * round
        });
        match upgrades {
            true => server.upgrade_well(),
            false => server.signal(Signal::TERM),
        }
        for mut wire in [socket, sse, stream] {
            let head = wire.head();
            assert_eq!((head.status, head.header("retry-after")), (503, Some("5")));
            wire.until_closed();
        }
        let told = uni.rest();
        assert!(told.contains("\"disconnect\":{\"code\":3001"), "{told}");
        if !upgrades {
            assert_eq!(server.wait().code(), Some(0));
        }
    }
}
