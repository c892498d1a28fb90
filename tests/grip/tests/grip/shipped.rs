//! The configuration that Debian ships with Pushpin, its files untouched, run by Throng: the target
//! `test`, its ports, the SIGHUP of its log rotation, other routes, and the end.
//!
//! Ours above it are the addresses, since the ports may be taken.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use throng_testkit::{Server, Setup, Signal, Wire, request, throng, until};

use crate::support::{Backend, get, item, open, publish, python, reply, subscribed};

/// As the package has them: what is in `/etc/pushpin` may have been changed since.
const CONF: &str = "/usr/share/pushpin/pushpin.conf.condure";
const ROUTES: &str = "* test\n";

/// A folder like `/etc/pushpin`.
fn etc() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let conf = folder.path().join("pushpin.conf");
    fs::copy(CONF, &conf).expect("the package pushpin: run .ci/install");
    fs::write(folder.path().join("routes"), ROUTES).expect("a file");
    (folder, conf)
}

fn shipped() -> (Server, TempDir) {
    let (folder, conf) = etc();
    let config = format!(
        "[grip]\npushpin_conf = {:?}\n\
         http_publish = \"127.0.0.1:0\"\nzmq_pull = \"tcp://127.0.0.1:0\"\n\
         zmq_sub = \"tcp://127.0.0.1:0\"\nzmq_command = \"tcp://127.0.0.1:0\"\n\
         prometheus_prefix = \"pushpin_\"\n",
        conf.display().to_string()
    );
    (Setup::new(&config).shards(2).start(), folder)
}

/// The next text frame of a short message.
#[track_caller]
fn text(wire: &mut Wire) -> String {
    let head = wire.exactly(2);
    assert_eq!(head[0], 0x81, "{head:?}");
    let data = wire.exactly(usize::from(head[1]));
    String::from_utf8(data).expect("text")
}

/// The two lines of the migrating guide are a whole configuration. It is not run here, since its
/// ports may be taken.
#[test]
fn debians_configuration_needs_nothing_beside_it() {
    let (folder, conf) = etc();
    let file = folder.path().join("throng.toml");
    let guide = include_str!("../../../../docs/guides/migrating.md");
    let lines = "[grip]\npushpin_conf = \"/etc/pushpin/pushpin.conf\"\n";
    assert!(guide.contains(lines));
    let conf = conf.display().to_string();
    fs::write(&file, lines.replace("/etc/pushpin/pushpin.conf", &conf)).expect("a file");
    let mut command = Command::new(throng());
    let output = command.args(["config", "check"]).arg(&file).output();
    let output = output.expect("the binary");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[test]
fn debians_configuration_runs_from_start_to_stop() {
    if Path::new("/etc/pushpin/routes").exists() {
        let etc = fs::read_to_string("/etc/pushpin/routes").expect("a text");
        assert_eq!(etc.trim(), ROUTES.trim(), "the package ships other routes");
    }
    let (mut server, folder) = shipped();
    let clients = server.clients();
    let hello = request(clients, "GET", "/", &[], "");
    assert_eq!(
        (hello.status, hello.header("content-type")),
        (200, Some("text/plain"))
    );
    assert_eq!(request(clients, "GET", "/other", &[], "").status, 404);
    // Clients that stay.
    let mut stream = get(&server, "/stream");
    assert_eq!(stream.head().status, 200);
    assert_eq!(stream.chunk(), "[stream opened]\n");
    let mut socket = open(&server, "/ws");
    assert_eq!(socket.head().status, 101);
    socket.send_bytes(b"\x81\x84\0\0\0\0echo");
    assert_eq!(text(&mut socket), "echo");
    let mut poll = get(&server, "/response?channel=other&channel=poll");
    subscribed(&server, 4);
    // Every port.
    let command = format!("tcp://{}", server.grip("zmq_command"));
    let http = format!("http://{}", server.grip("http_publish"));
    for (how, uri) in [("http", &http), ("push", &command), ("pub", &command)] {
        // It sends in the background, so it is there until all is sent.
        let _publisher = python("publish.py", &[how, uri, "test", how]);
        assert_eq!(stream.chunk(), format!("{how}\n"));
        assert_eq!(text(&mut socket), how);
    }
    publish(&server, &item("poll", "an answer", ""));
    assert_eq!(poll.response("GET").body, "an answer");
    // The signal of its log rotation: no client notices.
    server.signal(Signal::HUP);
    until("a word about it", || {
        let lines = server.log().into_iter();
        let mut texts = lines.filter_map(|line| Some(line["message"].as_str()?.to_owned()));
        texts.find(|text| text.contains("new routes are in force"))
    });
    publish(&server, &item("test", "still here", ""));
    assert_eq!(stream.chunk(), "still here");
    // Other routes, with the rest as it was.
    let backend = Backend::start(|_, stream| reply(stream, &[], "a backend"));
    let routes = format!("# ours\n* {},over_http\n", backend.address);
    fs::write(folder.path().join("routes"), routes).expect("a file");
    until("the backend", || {
        (request(clients, "GET", "/", &[], "").body == "a backend").then_some(())
    });
    let asked = backend.wait("GET / ", 1);
    let sig = asked[0].header("grip-sig").unwrap_or_default();
    assert_eq!(sig.split('.').count(), 3, "signed with the key of the file");
    publish(&server, &item("test", "and here", ""));
    assert_eq!(stream.chunk(), "and here");
    assert!(server.runs());
    server.stop();
}
