//! The bytes of a hand-over, as a release wrote them: `handover/VERSION.json`. A server that takes
//! them must serve as the one that wrote them would have gone on.
//!
//! So a change of what any room saves shows here, unless the format's version rises with it; and
//! when it does, the new version needs a record of its own, see `docs/TESTING.md`.
//!
//! Not in it: connections by TLS (their keys would have to be known; `runtime/tls` has a test), and
//! what the configuration below does not turn on.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use throng_testkit::{
    HANDSHAKE, Installed, Process, Server, Setup, Wire, frame, request, sign, throng, until,
};

use crate::support::SECRET;

const KEY: &str = "the-key-of-the-server-api";
/// The year 2100, in Unix seconds.
const LATE: u64 = 4_102_444_800;

/// One shard, so that connections have the order in which they came.
const CONFIG: &str = r#"
[listen]
trusted_proxies = ["127.0.0.1"]
[limits]
connections_per_ip = 1
head_timeout = "1h"
[websocket]
ping_interval = "0s"
[stream]
keepalive_interval = "0s"
[channel]
subscribe = true
anonymous_subscribe = true
history_size = 10
history_ttl = "1h"
recovery = true
presence = true
allow_presence_for_client = true
[[namespace]]
name = "chat"
[[namespace]]
name = "full"
subscribe = true
anonymous_subscribe = true
"#;

fn config() -> String {
    format!(
        "[auth]\nhmac_secret = \"{SECRET}\"\nanonymous = true\napi_keys = [\"{KEY}\"]\n{CONFIG}"
    )
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("handover")
}

/// A request of the client behind this address.
fn ask(wire: &mut Wire, target: &str, client: u8, is_socket: bool) {
    let upgrade = if is_socket { HANDSHAKE } else { "" };
    wire.ask(
        target,
        &format!("X-Forwarded-For: 192.0.2.{client}\r\n{upgrade}"),
    );
}

const HEAD: &str = "GET /stream?channel=news HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: \
                    192.0.2.9\r\n\r\n";
const BODY: &str = "{\"n\":\"in two parts\"}";
const HALF_HEAD: usize = 40;
const HALF_BODY: usize = 7;

/// Command that a client sends in two parts.
fn command() -> Vec<u8> {
    frame(
        1,
        json!({"id": 2, "subscribe": {"channel": "other"}}).to_string(),
    )
}

const HALF_COMMAND: usize = 20;
/// Bytes of a publication that waits for a client that does not read.
const FILLING: usize = 2000;
/// Number of connections that move.
const CONNECTIONS: usize = 9;

/// Calls of the server API, to one server or the other.
struct Api(SocketAddr);

impl Api {
    #[track_caller]
    fn call(&self, method: &str, body: &Value) -> Value {
        let headers = [("X-API-Key", KEY)];
        let target = format!("/api/{method}");
        let response = request(self.0, "POST", &target, &headers, &body.to_string());
        serde_json::from_str(&response.body).unwrap_or_else(|_| panic!("{response:?}"))
    }

    /// Returns the server's state as far as its API shows it.
    fn told(&self) -> Value {
        let history = |channel: &str| {
            self.call("history", &json!({ "channel": channel, "limit": -1 }))["result"].clone()
        };
        let presence =
            |channel: &str| self.call("presence", &json!({ "channel": channel }))["result"].clone();
        let mut all = self.call("connections", &json!({}))["result"].clone();
        for row in all["connections"].as_array_mut().into_iter().flatten() {
            // What waits leaves at once where there is room, and a process has a name of its own.
            for field in ["queued_bytes", "node"] {
                row.as_object_mut().expect("a row").remove(field);
            }
        }
        json!({
            "connections": all,
            "channels": self.call("channels", &json!({}))["result"],
            "news": history("news"),
            "versions": history("versions"),
            "bare": history("bare"),
            "present": presence("news"),
            "secret": presence("$secret"),
        })
    }
}

/// Publishes to a client that does not read, until more waits for it than a publication and a part.
fn fill(api: &Api) {
    let data = "x".repeat(FILLING);
    for _ in 0..20_000 {
        api.call("publish", &json!({ "channel": "full:1", "data": data }));
        let slow = api.call("connections", &json!({ "slow": true }));
        let waits = &slow["result"]["connections"][0]["queued_bytes"];
        if waits
            .as_u64()
            .is_some_and(|bytes| bytes > FILLING as u64 + 100)
        {
            api.call("publish", &json!({ "channel": "full:1", "data": "behind" }));
            return;
        }
    }
    panic!("the kernel takes everything");
}

/// Brings a server to where it is recorded. The connections are in the order in which they came.
fn prepare(server: &Server) -> Vec<Wire> {
    let api = Api(server.api_address());
    // Before all others, so that they have the first places, in this order.
    let mut wires: Vec<Wire> = Vec::new();
    let mut open = |to: SocketAddr, begin: &dyn Fn(&mut Wire)| {
        let mut wire = Wire::connect(to);
        begin(&mut wire);
        wires.push(wire);
    };
    let clients = server.clients();
    open(clients, &|wire| {
        ask(wire, "/connection/websocket", 1, true);
        assert_eq!(wire.head().status, 101);
        let token = sign(
            &json!({
                "sub": "ann", "exp": LATE, "info": {"name": "Ann"},
                "allow": {"subscribe": ["news", "chat:*"], "publish": ["news"]},
            }),
            SECRET,
        );
        wire.say(&json!({"id": 1, "connect": {"token": token}}).to_string());
        wire.through("\"connect\":");
        wire.say(&json!({"id": 2, "subscribe": {"channel": "news"}}).to_string());
        wire.through("\"subscribe\":");
        let token = sign(
            &json!({"sub": "ann", "channel": "$secret", "exp": LATE, "info": {"in": "secret"}}),
            SECRET,
        );
        let subscribe = json!({"id": 3, "subscribe": {"channel": "$secret", "token": token}});
        wire.say(&subscribe.to_string());
        wire.through("\"subscribe\":");
    });
    open(clients, &|wire| {
        ask(wire, "/connection/websocket", 2, true);
        assert_eq!(wire.head().status, 101);
        wire.say("{\"id\":1,\"connect\":{}}");
        wire.through("\"connect\":");
        wire.send_bytes(&command()[..HALF_COMMAND]);
    });
    let uni = "/connection/uni_sse?cf_connect=%7B%22subs%22%3A%7B%22news%22%3A%7B%7D%7D%7D";
    for (client, target, is_socket) in [
        (3, "/sse?channel=news&channel=other", false),
        (4, "/stream?channel=news", false),
        (5, uni, false),
        (6, "/ws?channel=news", true),
        (8, "/ws?channel=full:1", true),
    ] {
        open(clients, &|wire| {
            ask(wire, target, client, is_socket);
            assert_eq!(
                wire.head().status,
                if is_socket { 101 } else { 200 },
                "{target}"
            );
        });
    }
    open(clients, &|wire| wire.send(&HEAD[..HALF_HEAD]));
    open(server.api_address(), &|wire| {
        wire.send(&format!(
            "POST /pub?channel=other HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {KEY}\r\n\
             Content-Length: {}\r\n\r\n{}",
            BODY.len(),
            &BODY[..HALF_BODY]
        ));
    });
    let once = json!({
        "channel": "news", "data": {"n": 1}, "tags": {"tag": "its value"},
        "idempotency_key": "once",
    });
    api.call("publish", &once);
    api.call("publish", &json!({ "channel": "news", "data": {"n": 2} }));
    let version = json!({
        "channel": "versions", "data": 5, "version": 5, "version_epoch": "of versions",
    });
    api.call("publish", &version);
    api.call("publish", &json!({ "channel": "bare", "data": 1 }));
    api.call("history_remove", &json!({ "channel": "bare" }));
    fill(&api);
    wires
}

/// Records the hand-over to a program that keeps it, and the server's own state. That program does
/// not take over: so the server goes on, and `then` may look how.
fn record(then: impl FnOnce(&Server, Vec<Wire>, &Value)) -> Value {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let installed = Installed::default();
    let server = Setup::new(&config())
        .shards(1)
        .api_key(KEY)
        .binary(&installed.path())
        .variable("HANDOVER_RECORD", &file.path().to_string_lossy())
        .start();
    let wires = prepare(&server);
    let told = Api(server.api_address()).told();
    let relay = folder().join("relay.py");
    installed.install_script(&format!("exec python3 '{}' \"$@\"", relay.display()));
    let record = || -> Value {
        let output = server.upgrade();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("it was recorded"), "{said}");
        let kept = fs::read_to_string(file.path()).expect("the record");
        serde_json::from_str(&kept).expect("JSON")
    };
    let mut kept = record();
    // The hand-over was broken off after everything was sent. The server takes back what it gave;
    // of connections, what waits for them may have become less meanwhile.
    let hub = |record: &Value| record["shards"][0][0].clone();
    assert_eq!(hub(&record()), hub(&kept));
    kept["told"] = told;
    let shards = kept["shards"].as_array().into_iter().flatten();
    let messages = shards.filter_map(Value::as_array).flatten();
    let moved: u64 = messages
        .filter_map(|message| message["descriptors"].as_u64())
        .sum();
    assert_eq!(moved, CONNECTIONS as u64);
    then(&server, wires, &kept["told"]);
    server.stop();
    kept
}

/// A server that takes over from a record, or its error instead.
fn replay(record: &Path, version: u32) -> Result<(Process, Api, SocketAddr, Vec<Wire>), String> {
    let configuration = tempfile::NamedTempFile::new().expect("a file");
    fs::write(configuration.path(), config()).expect("room");
    let mut command = Command::new("python3");
    command.arg(folder().join("relay.py")).arg(record);
    command.arg(version.to_string()).arg(throng());
    command
        .arg("serve")
        .arg("--config")
        .arg(configuration.path());
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--api",
        "127.0.0.1:0",
        "--shards",
        "1",
    ]);
    let process = Process::start(&mut command, "install python3, see .ci/packages");
    let places: Value = process.out("where it will be", |lines| {
        serde_json::from_str(lines.iter().find(|line| line.starts_with('{'))?).ok()
    });
    let at =
        |port: &Value| SocketAddr::from(([127, 0, 0, 1], port.as_u64().expect("a port") as u16));
    let intake = at(&places["intake"]);
    let wires = (0..CONNECTIONS).map(|_| Wire::connect(intake)).collect();
    process.out("its word", |lines| {
        let refused = lines.iter().find_map(|line| line.strip_prefix("refused: "));
        let taken = lines.iter().any(|line| line == "taken over");
        match refused {
            Some(why) => Some(Err(why.to_owned())),
            None => taken.then_some(Ok(())),
        }
    })?;
    let [clients, api] = [&places["ports"][0], &places["ports"][1]].map(at);
    Ok((process, Api(api), clients, wires))
}

/// Everything that was recorded goes on in a server that takes over.
fn takes_over(record: &Path, version: u32) {
    let kept = fs::read_to_string(record).expect("the record");
    let kept: Value = serde_json::from_str(&kept).expect("JSON");
    let (_process, api, clients, wires) = replay(record, version).unwrap_or_else(|why| {
        panic!("{why}; if the format has changed, its version must rise: see docs/TESTING.md")
    });
    until("the server", || {
        let answer = request(api.0, "GET", "/healthz", &[], "");
        answer.status == 200
    });
    goes_on(&api, clients, wires, &kept["told"]);
}

/// Everything that a server was brought to goes on.
fn goes_on(api: &Api, clients: SocketAddr, mut wires: Vec<Wire>, before: &Value) {
    // History with tags, offsets and epochs, presence, channels: all the same.
    assert_eq!(api.told(), *before);
    // A key that was used, and a version that is older, publish nothing.
    let again = json!({"channel": "news", "data": {"n": "again"}, "idempotency_key": "once"});
    assert_eq!(api.call("publish", &again)["result"]["offset"], 1);
    let older =
        json!({"channel": "versions", "data": 4, "version": 4, "version_epoch": "of versions"});
    api.call("publish", &older);
    assert_eq!(api.told(), *before);
    let offset = api.call("publish", &json!({"channel": "bare", "data": 2}))["result"].clone();
    assert_eq!(
        (&offset["offset"], &offset["epoch"]),
        (&json!(2), &before["bare"]["epoch"])
    );
    // All subscribers get the next publication, each in its own form.
    api.call("publish", &json!({"channel": "news", "data": {"n": 3}}));
    let [ann, other, sse, lines, uni, socket, slow, head, body] = &mut wires[..] else {
        panic!("nine connections");
    };
    let told = ann.through("\"offset\":3");
    assert!(
        told.contains("\"channel\":\"news\"") && told.contains("{\"n\":3}"),
        "{told}"
    );
    assert!(sse.through("{\"n\":3}").contains("id: "));
    lines.through("{\"n\":3}");
    assert!(uni.through("{\"n\":3}").contains("data: "));
    socket.through("{\"n\":3}");
    // What waited: the rest of a publication, a whole one, a small one; and then what is new.
    let waited = slow.through("behind");
    assert!(waited.matches('x').count() > FILLING, "{waited}");
    assert!(waited.contains(&"x".repeat(FILLING)), "{waited}");
    api.call("publish", &json!({"channel": "full:1", "data": "new"}));
    assert!(!slow.through("new").contains('x'));
    // Identity of a client, and what the token allows.
    let mut say = |id: u32, command: &str, what: Value| {
        ann.say(&format!("{{\"id\":{id},\"{command}\":{what}}}"));
        ann.through(&format!("\"id\":{id}"));
        ann.through("}}")
    };
    let denied = say(4, "subscribe", json!({"channel": "other"}));
    assert!(denied.contains("\"code\":103"), "{denied}");
    let opened = say(5, "subscribe", json!({"channel": "chat:1"}));
    assert!(opened.contains("\"subscribe\":"), "{opened}");
    let twice = say(6, "subscribe", json!({"channel": "news"}));
    assert!(twice.contains("\"code\":105"), "{twice}");
    let refreshed = say(7, "sub_refresh", json!({"channel": "$secret", "token": ""}));
    assert!(refreshed.contains("\"code\":107"), "{refreshed}");
    api.call(
        "publish",
        &json!({"channel": "$secret", "data": {"n": "secret"}}),
    );
    ann.through("{\"n\":\"secret\"}");
    // Input that had arrived in part.
    other.send_bytes(&command()[HALF_COMMAND..]);
    other.through("\"id\":2,\"subscribe\":");
    head.send(&HEAD[HALF_HEAD..]);
    assert_eq!(head.head().status, 200);
    body.send(&BODY[HALF_BODY..]);
    assert_eq!(body.response("POST").status, 200);
    for listener in [sse, other] {
        listener.through("in two parts");
    }
    // For whom each counts.
    let status = |client: u8| {
        let mut wire = Wire::connect(clients);
        ask(&mut wire, "/sse?channel=news", client, false);
        wire.head().status
    };
    for client in [1, 2, 3, 4, 5, 6, 8, 9] {
        assert_eq!(status(client), 429, "192.0.2.{client}");
    }
    assert_eq!(status(7), 200);
}

/// The version that this program writes and reads: the refusal of another version names it.
fn version(record: &Path) -> u32 {
    let why = replay(record, 0).err().expect("no such version");
    let (_, known) = why
        .split_once("this program knows only version ")
        .expect(&why);
    assert!(
        why.starts_with("its hand-over format has version 0;"),
        "{why}"
    );
    known.parse().expect(&why)
}

#[test]
fn what_a_release_has_written_is_read() {
    let today = tempfile::NamedTempFile::new().expect("a file");
    let kept = record(|_, wires, _| drop(wires));
    fs::write(today.path(), kept.to_string()).expect("room");
    let version = version(today.path());
    let file = folder().join(format!("{version}.json"));
    if std::env::var_os("HANDOVER_RECORD_NEW").is_some() {
        // Another record of the same version would hide that the format has changed.
        assert!(!file.exists(), "version {version} has its record");
        fs::write(&file, format!("{kept:#}\n")).expect("a place for it");
    }
    // What is written now is what is read now; so the checks are right.
    takes_over(today.path(), version);
    assert!(
        file.exists(),
        "version {version} of the format has no record: see docs/TESTING.md"
    );
    let known = fs::read_to_string(&file).expect("the record");
    let known: Value = serde_json::from_str(&known).expect("JSON");
    let hello = |record: &Value| record["hello"].as_str().expect("hex").to_owned();
    // Its first words name the version, little-endian, behind eight letters.
    let named = u32::from_str_radix(&hello(&known)[16..24], 16).expect("hex");
    assert_eq!(named.swap_bytes(), version);
    takes_over(&file, version);
    for other in [version - 1, version + 1, u32::MAX] {
        let why = replay(&file, other).err().expect("another version");
        let expected = format!("its hand-over format has version {other};");
        assert!(why.starts_with(&expected), "{why}");
    }
}

#[test]
fn an_upgrade_that_breaks_off_at_its_end_changes_nothing() {
    record(|server, wires, before| {
        let api = Api(server.api_address());
        goes_on(&api, server.clients(), wires, before);
    });
}
