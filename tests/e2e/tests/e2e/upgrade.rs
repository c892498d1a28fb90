//! A running server hands over to a new process: no client notices, or nothing changes.
//!
//! The binary that a server was started with is a link; a test installs another one by changing
//! where it leads.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use tempfile::TempDir;
use throng_testkit::{Authority, PemFiles, Sdk, Server, Setup, Signal, Wire, throng, until};

use crate::support::{data, emulated, publish, sdks, url};

/// History, and nothing that happens by itself while a test looks.
const CONFIG: &str = r#"
[channel]
history_size = 10000
history_ttl = "5m"
recovery = true
presence = true

[websocket]
ping_interval = "0s"

[stream]
keepalive_interval = "0s"
"#;

/// Where the binary seems to be.
pub(crate) struct Installed(TempDir);

impl Installed {
    pub(crate) fn new() -> Self {
        let this = Self(tempfile::tempdir().expect("a folder"));
        this.install(throng());
        this
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("throng")
    }

    pub(crate) fn install(&self, binary: &Path) {
        let new = self.0.path().join("new");
        symlink(binary, &new).expect("a link");
        fs::rename(&new, self.path()).expect("another link");
    }

    /// Installs a script that does not take over.
    pub(crate) fn install_script(&self, script: &str) {
        let path = self.0.path().join("script");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, executable).expect("its permissions");
        self.install(&path);
    }
}

/// A request for a stream or a WebSocket.
pub(crate) fn ask(to: SocketAddr, target: &str, is_socket: bool) -> Wire {
    ask_on(Wire::connect(to), target, is_socket)
}

/// Sends a request and leaves the answer unread.
pub(crate) fn ask_unanswered(to: SocketAddr, target: &str, is_socket: bool) -> Wire {
    let mut wire = Wire::connect(to);
    send_request(&mut wire, target, is_socket);
    wire
}

fn ask_on(mut wire: Wire, target: &str, is_socket: bool) -> Wire {
    send_request(&mut wire, target, is_socket);
    wire.head();
    wire
}

fn send_request(wire: &mut Wire, target: &str, is_socket: bool) {
    let upgrade = match is_socket {
        true => {
            "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        }
        false => "",
    };
    wire.send(&format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n"
    ));
}

/// A text as a client sends it, under a mask that changes nothing.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![0x81];
    match text.len() {
        length @ 0..126 => frame.push(0x80 | length as u8),
        length => {
            frame.push(0xfe);
            frame.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    frame.extend_from_slice(&[0; 4]);
    frame.extend_from_slice(text.as_bytes());
    frame
}

/// The numbers of what was published, as they came: each stands between angle brackets.
fn numbers(text: &str) -> Vec<u32> {
    let pieces = text.split('<').skip(1);
    pieces
        .filter_map(|piece| piece.split_once('>')?.0.parse().ok())
        .collect()
}

const CHANNELS: usize = 8;

/// Clients of each transport on each channel.
fn crowd(connect: impl Fn() -> Wire, each: usize) -> Vec<(usize, &'static str, Wire)> {
    let mut crowd = Vec::new();
    for channel in 0..CHANNELS {
        let name = format!("c{channel}");
        for _ in 0..each {
            let centrifuge = json!({"subs": {&*name: {}}}).to_string();
            let query: String = centrifuge
                .bytes()
                .map(|byte| format!("%{byte:02x}"))
                .collect();
            let streams = [
                ("ws", format!("/ws?channel={name}"), true),
                ("sse", format!("/sse?channel={name}"), false),
                (
                    "several",
                    format!("/sse?channel={name}&channel=other-{name}"),
                    false,
                ),
                ("lines", format!("/stream?channel={name}"), false),
                (
                    "uni_sse",
                    format!("/connection/uni_sse?cf_connect={query}"),
                    false,
                ),
            ];
            for (kind, target, is_socket) in streams {
                crowd.push((channel, kind, ask_on(connect(), &target, is_socket)));
            }
            let mut wire = ask_on(connect(), "/connection/websocket", true);
            wire.send_bytes(&frame("{\"id\":1,\"connect\":{}}"));
            wire.through("\"connect\":");
            let subscribe = json!({"id": 2, "subscribe": {"channel": name}}).to_string();
            wire.send_bytes(&frame(&subscribe));
            wire.through("\"subscribe\":");
            crowd.push((channel, "centrifuge", wire));
        }
    }
    crowd
}

/// Publishes into all channels in turn until stopped; returns how many each has.
fn publish_until(address: SocketAddr, stop: &AtomicBool) -> Vec<u32> {
    let mut wire = Wire::connect(address);
    let mut published = vec![0; CHANNELS];
    while !stop.load(Ordering::Relaxed) {
        for (channel, last) in published.iter_mut().enumerate() {
            *last += 1;
            let body = format!("<{last}>");
            let length = body.len();
            wire.send(&format!(
                "POST /pub?channel=c{channel} HTTP/1.1\r\nHost: localhost\r\nContent-Length: \
                 {length}\r\n\r\n{body}"
            ));
            let response = wire.response("POST");
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
    published
}

#[test]
fn nobody_notices_upgrades_in_a_row() {
    let installed = Installed::new();
    let server = Setup::new(CONFIG)
        .binary(&installed.path())
        .shards(2)
        .start();
    let address = server.clients();
    upgrades_in_a_row(server, 20, || Wire::connect(address), Server::upgrade_well);
}

/// A program that takes everything, and then declines.
const REFUSES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/handover/relay.py");

#[test]
fn nobody_notices_upgrades_that_break_off_at_their_end() {
    for records in ["rustls", "lean"] {
        breaks_off_at_its_end(records);
    }
}

fn breaks_off_at_its_end(records: &str) {
    let (installed, record) = (Installed::new(), tempfile::NamedTempFile::new());
    let record = record.expect("a file").into_temp_path();
    let tls = TlsFiles::new();
    let server = Setup::new(&format!("{CONFIG}{}", tls.config(records)))
        .binary(&installed.path())
        .variable("HANDOVER_RECORD", &record.to_string_lossy())
        .shards(2)
        .tls_clients()
        .start();
    let address = server.clients();
    let connect = || Wire::connect_secure(address, tls.authority.pem());
    upgrades_in_a_row(server, 20, connect, |server| {
        installed.install_script(&format!("exec python3 '{REFUSES}' \"$@\""));
        for _ in 0..2 {
            let output = server.upgrade();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("it was recorded"), "{said}");
        }
        installed.install(throng());
        server.upgrade_well();
    });
}

/// A certificate of an authority of the test's own.
struct TlsFiles {
    authority: Authority,
    files: PemFiles,
}

impl TlsFiles {
    fn new() -> Self {
        let (authority, files) = (Authority::new("ours"), PemFiles::new());
        files.write_issued("server", &authority.issue(&["127.0.0.1"]));
        Self { authority, files }
    }

    /// Connections of such a server can move.
    fn config(&self, records: &str) -> String {
        let [certificate, key] = ["server.pem", "server.key"].map(|name| self.files.path(name));
        format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\nrecords = {records:?}\n")
    }
}

/// Upgrades a server with TLS several times in a row, with these `records`.
fn tls_upgrades_in_a_row(records: &str, each: usize) {
    let tls = TlsFiles::new();
    let installed = Installed::new();
    let server = Setup::new(&format!("{CONFIG}{}", tls.config(records)))
        .binary(&installed.path())
        .shards(2)
        .tls_clients()
        .start();
    let address = server.clients();
    let connect = || Wire::connect_secure(address, tls.authority.pem());
    upgrades_in_a_row(server, each, connect, Server::upgrade_well);
}

#[test]
fn nobody_notices_upgrades_over_tls() {
    for records in ["rustls", "lean"] {
        tls_upgrades_in_a_row(records, 20);
    }
}

/// Upgrades a server while clients receive publications, and checks what they received.
fn upgrades_in_a_row(
    mut server: Server,
    each: usize,
    connect: impl Fn() -> Wire,
    mut upgrade: impl FnMut(&Server),
) {
    let api = server.api_address();
    let crowd = crowd(connect, each);
    let count = crowd.len() as u64;
    let present = server.call("presence", &json!({"channel": "c0"}));
    let stop = AtomicBool::new(false);
    let published = thread::scope(|scope| {
        let publisher = scope.spawn(|| publish_until(api, &stop));
        // If one fails, the publisher must end for the test to end.
        let upgraded = catch_unwind(AssertUnwindSafe(|| {
            (0..4).for_each(|_| upgrade(&server));
        }));
        stop.store(true, Ordering::Relaxed);
        upgraded.unwrap_or_else(|failed| resume_unwind(failed));
        publisher
            .join()
            .expect("the publisher was answered all the time")
    });
    // The same clients under the same ids.
    assert_eq!(server.call("presence", &json!({"channel": "c0"})), present);
    assert_eq!(
        server.metric("throng_connections{transport=\"websocket\"}"),
        count / 3
    );
    for (channel, kind, mut wire) in crowd {
        let last = published[channel];
        assert!(last > 0, "nothing was published during the upgrades");
        let got = numbers(&wire.through(&format!("<{last}>")));
        let all: Vec<u32> = (1..=last).collect();
        assert_eq!(got, all, "{kind}");
    }
    // The first process has ended by itself.
    assert_eq!(server.wait().code(), Some(0));
}

#[test]
fn what_came_in_part_goes_on() {
    let installed = Installed::new();
    let server = Setup::new(CONFIG)
        .binary(&installed.path())
        .shards(2)
        .start();
    let (address, api) = (server.clients(), server.api_address());
    let mut listener = ask(address, "/ws?channel=c0", true);
    let mut head = Wire::connect(address);
    head.send("GET /sse?chan");
    let mut body = Wire::connect(api);
    body.send("POST /pub?channel=c0 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n<on");
    let mut chunked = Wire::connect(api);
    chunked.send(
        "POST /pub?channel=c0 HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: \
         chunked\r\n\r\n2\r\n<t",
    );
    let mut socket = ask(address, "/connection/websocket", true);
    let command = frame("{\"id\":1,\"connect\":{}}");
    socket.send_bytes(&command[..9]);
    let mut behind = ask(address, "/sse?channel=c0", false);
    behind.through("subscribed");
    // All of it has been read.
    until("half requests", || {
        (server.metric("throng_connections{transport=\"http\"}") >= 3).then_some(())
    });
    server.upgrade_well();
    head.send("nel=c0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    head.through("subscribed");
    body.send("e>body");
    assert_eq!(body.response("POST").status, 200);
    chunked.send("\r\n3\r\nwo>\r\n0\r\n\r\n");
    assert_eq!(chunked.response("POST").status, 200);
    socket.send_bytes(&command[9..]);
    socket.through("\"connect\":");
    for wire in [&mut listener, &mut head, &mut behind] {
        wire.through("<one>body");
        wire.through("<two>");
    }
}

#[test]
fn history_goes_on_with_its_positions() {
    let installed = Installed::new();
    let server = Setup::new(CONFIG)
        .binary(&installed.path())
        .shards(2)
        .start();
    let ids: Vec<String> = (0..8)
        .map(|n| {
            let channel = format!("h{n}");
            publish(&server, &channel, &data("before", 5));
            let mut first = ask(server.clients(), &format!("/sse?channel={channel}"), false);
            first.through("id: ").clear();
            first.through("\n").trim().to_owned()
        })
        .collect();
    server.upgrade_well();
    for (n, id) in ids.iter().enumerate() {
        let channel = format!("h{n}");
        publish(&server, &channel, &data("after", 5));
        let target = format!("/sse?channel={channel}&last_event_id={id}");
        let mut again = ask(server.clients(), &target, false);
        again.through("\"recovered\":true");
        let missed = again.through("\"n\":4");
        assert!(
            !missed.contains("before") && missed.contains("\"n\":0"),
            "{missed}"
        );
    }
    // A retried publication is known.
    let keyed = json!({"channel": "h0", "data": 1, "idempotency_key": "k"});
    let first = server.call("publish", &keyed);
    server.upgrade_well();
    assert_eq!(server.call("publish", &keyed), first);
}

/// One of each SDK. Whether it has to come back is counted from here on.
pub(crate) fn connected(server: &Server) -> Vec<(&'static str, Sdk)> {
    let sdks = sdks().into_iter().chain(emulated());
    sdks.map(|(name, start)| {
        let mut client = start();
        client.connect(&url(server.clients()));
        client.forget("connecting");
        (name, client)
    })
    .collect()
}

#[test]
fn sdks_notice_nothing() {
    let installed = Installed::new();
    let server = Setup::new(CONFIG)
        .binary(&installed.path())
        .shards(2)
        .start();
    let mut clients = connected(&server);
    for (_, client) in &mut clients {
        client.subscribe("sdk");
    }
    server.upgrade_well();
    publish(&server, "sdk", &data("after", 3));
    for (name, client) in &mut clients {
        assert_eq!(client.publications("sdk", 3), data("after", 3), "{name}");
        // What it asks is carried out by the new process.
        let order = json!({ "channel": "sdk", "data": { "by": name } });
        client.result("publish", &order);
        assert_eq!(client.left("connecting"), 0, "{name} had to come back");
    }
}

#[test]
fn a_binary_that_does_not_take_over_changes_nothing() {
    let installed = Installed::new();
    let mut server = Setup::new(CONFIG)
        .binary(&installed.path())
        .shards(2)
        .start();
    let mut listener = ask(server.clients(), "/sse?channel=c0", false);
    let port = server.api_address().port().to_string();
    let real = throng().display().to_string();
    let config = format!("exec {real} serve --config /nowhere --take-over");
    for (n, (script, says)) in [
        ("exit 3", "ended"),
        ("kill -9 $$", "ended"),
        ("exec sleep 600", "longer than"),
        // Its output cannot be understood.
        ("echo hello >&0; exec sleep 600", ""),
        (&*config, "ended"),
        ("exec /nowhere/throng", "ended"),
    ]
    .into_iter()
    .enumerate()
    {
        installed.install_script(script);
        let mut command = Command::new(throng());
        command.args(["upgrade", "--api-port", &port, "--patience", "2"]);
        let output = command.output().expect("the binary runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(6), "{script}: {said}");
        assert!(
            said.contains("nothing has changed") && said.contains(says),
            "{said}"
        );
        server.publish("c0", &format!("<{n}>"));
        listener.through(&format!("<{n}>"));
        assert!(server.runs());
    }
    fs::remove_file(installed.path()).expect("a link");
    let output = server.upgrade();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("cannot start"), "{said}");
    // And a good one takes over after all of them.
    installed.install(throng());
    server.signal(Signal::USR2);
    assert_eq!(server.wait().code(), Some(0));
    server.publish("c0", "<last>");
    listener.through("<last>");
}

#[test]
fn without_a_server_there_is_nothing_to_upgrade() {
    let mut command = Command::new(throng());
    let output = command.args(["upgrade", "--api-port", "1"]).output();
    let output = output.expect("the binary runs");
    assert_eq!(output.status.code(), Some(5));
}
