//! A running server hands over to a new process under traffic, and no client notices; see also
//! `dialogues/upgrade.txt`.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use throng_testkit::{HANDSHAKE, Installed, Server, Setup, TlsFiles, Wire, escaped, post, throng};

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

/// The numbers of what was published, as they came: each stands between angle brackets.
fn numbers(text: &str) -> Vec<u32> {
    let pieces = text.split('<').skip(1);
    pieces
        .filter_map(|piece| piece.split_once('>')?.0.parse().ok())
        .collect()
}

const CHANNELS: usize = 8;

fn start(installed: &Installed) -> Server {
    let setup = Setup::new(CONFIG).binary(&installed.path());
    setup.shards(2).start()
}

/// Asks for a stream or a WebSocket.
fn ask_on(mut wire: Wire, target: &str, is_socket: bool) -> Wire {
    wire.ask(target, if is_socket { HANDSHAKE } else { "" });
    wire.head();
    wire
}

/// Clients of each transport on each channel.
fn crowd(connect: impl Fn() -> Wire, each: usize) -> Vec<(usize, &'static str, Wire)> {
    let mut crowd = Vec::new();
    for channel in 0..CHANNELS {
        let name = format!("c{channel}");
        for _ in 0..each {
            let query = escaped(&json!({"subs": {&*name: {}}}).to_string());
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
            wire.say("{\"id\":1,\"connect\":{}}");
            wire.through("\"connect\":");
            wire.say(&json!({"id": 2, "subscribe": {"channel": name}}).to_string());
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
            wire.send(&post(
                &format!("/pub?channel=c{channel}"),
                &format!("<{last}>"),
            ));
            let response = wire.response("POST");
            assert_eq!(response.status, 200, "{response:?}");
        }
    }
    published
}

#[test]
fn nobody_notices_upgrades_in_a_row() {
    let installed = Installed::default();
    let server = start(&installed);
    let address = server.clients();
    upgrades_in_a_row(server, 20, || Wire::connect(address), Server::upgrade_well);
}

/// A program that takes everything, and then declines.
const REFUSES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/handover/relay.py");

/// Upgrades a server with TLS several times in a row, by each kind of `records`.
fn upgrades_over_tls(upgrade: impl Fn(&Installed, &Server)) {
    for records in ["rustls", "lean"] {
        let (installed, tls) = (Installed::default(), TlsFiles::default());
        let record = tempfile::NamedTempFile::new().expect("a file");
        let tls_config = tls.config(&format!("records = {records:?}\n"));
        let server = Setup::new(&format!("{CONFIG}{tls_config}"))
            .binary(&installed.path())
            .variable("HANDOVER_RECORD", &record.path().to_string_lossy())
            .shards(2)
            .tls_clients()
            .start();
        let address = server.clients();
        let connect = || Wire::connect_secure(address, tls.authority.pem());
        upgrades_in_a_row(server, 20, connect, |server| upgrade(&installed, server));
    }
}

#[test]
fn nobody_notices_upgrades_that_break_off_at_their_end() {
    upgrades_over_tls(|installed, server| {
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

#[test]
fn nobody_notices_upgrades_over_tls() {
    upgrades_over_tls(|_, server| server.upgrade_well());
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
