//! OpenSSL's client: names, versions, protocols, tickets, new keys, and no second handshake.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use throng_testkit::{Process, Server, Setup};

use super::Scene;

const INSTALL: &str = "install openssl: `.ci/install` on Debian";
const ASK: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn client(scene: &Scene, to: SocketAddr, arguments: &[&str]) -> Command {
    let mut openssl = Command::new("openssl");
    openssl.args([
        "s_client",
        "-CAfile",
        &scene.trusted,
        "-connect",
        &to.to_string(),
    ]);
    openssl.args(["-verify_return_error"]).args(arguments);
    openssl
}

/// A client that stays, and has subscribed to `news` by a stream.
pub(super) fn stream(scene: &Scene, to: SocketAddr, version: &str) -> Process {
    let mut openssl = client(scene, to, &[version, "-crlf"]);
    let mut openssl = Process::start(&mut openssl, INSTALL);
    openssl.prints("Verify return code");
    for line in ["GET /stream?channel=news HTTP/1.1", "Host: localhost", ""] {
        openssl.say(line);
    }
    openssl.prints("\"channels\"");
    openssl
}

/// Options for both record layers.
const RECORDS: [&str; 2] = ["records = \"rustls\"\n", "records = \"lean\"\n"];

/// Asks for something; what it prints, and whether all went well.
pub(super) fn ask(scene: &Scene, to: SocketAddr, arguments: &[&str]) -> (String, bool) {
    let mut child = client(scene, to, arguments)
        .arg("-ign_eof")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect(INSTALL);
    // A refused client may have gone.
    let _ = child.stdin.take().expect("piped").write_all(ASK.as_bytes());
    let done = child.wait_with_output().expect("it ends");
    let text = [done.stdout, done.stderr].concat();
    (
        String::from_utf8_lossy(&text).into_owned(),
        done.status.success(),
    )
}

#[test]
fn names_versions_and_protocols() {
    let scene = Scene::default();
    let chat = scene
        .files
        .write_issued("chat", &scene.authority.issue(&["chat.example"]));
    let below = scene
        .files
        .write_issued("below", &scene.authority.issue(&["*.push.example"]));
    let site = |name: &str, [certificate, key]: [String; 2]| {
        format!("[[tls.site]]\nname = \"{name}\"\ncertificate = {certificate:?}\nkey = {key:?}\n")
    };
    let more = site("chat.example", chat) + &site("*.push.example", below);
    let more = RECORDS[1].to_owned() + &more;
    let server = scene.start(&more);
    let to = server.clients();
    for (name, shown) in [
        ("chat.example", "chat.example"),
        ("CHAT.example", "chat.example"),
        ("a.push.example", "a.push.example"),
        ("unknown.example", "localhost"),
    ] {
        let (text, good) = ask(
            &scene,
            to,
            &["-servername", name, "-verify_hostname", shown],
        );
        assert!(good && text.contains("HTTP/1.1 200"), "{name}: {text}");
    }
    let (text, good) = ask(
        &scene,
        to,
        &["-noservername", "-verify_hostname", "localhost"],
    );
    assert!(good, "{text}");
    for (arguments, good, part) in [
        (&["-tls1_3"][..], true, "TLSv1.3"),
        (&["-tls1_2"], true, "TLSv1.2"),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"],
            true,
            "AES128-GCM",
        ),
        (
            &["-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"],
            true,
            "CHACHA20",
        ),
        (
            &["-tls1_1", "-cipher", "DEFAULT@SECLEVEL=0"],
            false,
            "alert protocol version",
        ),
        (&["-alpn", "http/1.0"], true, "ALPN protocol: http/1.0"),
        (&["-tls1_2", "-cipher", "AES128-SHA"], false, ""),
        (&["-alpn", "h2,http/1.1"], true, "ALPN protocol: http/1.1"),
        (&["-alpn", "h2"], false, "no application protocol"),
    ] {
        let (text, was_good) = ask(&scene, to, arguments);
        let answered = text.contains("HTTP/1.1 200");
        assert!(
            answered == good && (was_good || !good),
            "{arguments:?}: {text}"
        );
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
    server.stop();
}

#[test]
fn tickets_are_taken_back() {
    let scene = Scene::default();
    let server = scene.start("");
    let to = server.clients();
    for version in ["-tls1_3", "-tls1_2"] {
        let ticket = scene.files.path("ticket");
        let ticket = ticket.to_str().unwrap();
        let (text, good) = ask(&scene, to, &[version, "-sess_out", ticket]);
        assert!(good && text.contains("New, TLS"), "{text}");
        let (text, good) = ask(&scene, to, &[version, "-sess_in", ticket]);
        assert!(good && text.contains("Reused, TLS"), "{version}: {text}");
    }
    server.counts("throng_tls_handshakes_total{result=\"resumed\"}", 2);
    server.counts("throng_tls_handshakes_total{result=\"full\"}", 2);
    server.stop();
}

#[test]
fn an_older_version_can_be_refused() {
    let scene = Scene::default();
    let server = scene.start("min_version = \"1.3\"\n");
    let (text, good) = ask(&scene, server.clients(), &["-tls1_2"]);
    assert!(!good && text.contains("protocol version"), "{text}");
    assert!(ask(&scene, server.clients(), &["-tls1_3"]).1);
    server.stop();
}

/// A stream whose client asks for new keys, again and again, loses nothing.
#[test]
fn new_keys_are_made_when_a_client_asks() {
    let scene = Scene::default();
    for records in RECORDS {
        let server = scene.start(records);
        let mut openssl = stream(&scene, server.clients(), "-tls1_3");
        for n in 0..5 {
            openssl.say("K");
            openssl.err("that it asked", |lines| {
                lines.iter().filter(|line| *line == "KEYUPDATE").count() > n
            });
            let text = format!("after {n}");
            server.publish("news", &text);
            openssl.prints(&text);
        }
        drop(openssl);
        server.counts("throng_tls_broken_total", 0);
        server.stop();
    }
}

/// A client that has asked for new keys, and receives what is published on both sides of two
/// upgrades without coming back, and has new keys after them.
#[test]
fn clients_hear_everything_over_upgrades() {
    let scene = Scene::default();
    for records in RECORDS {
        let mut server = scene.start(records);
        let to = server.clients();
        let mut clients = ["-tls1_3", "-tls1_3", "-tls1_2"].map(|v| stream(&scene, to, v));
        let asks = |openssl: &mut Process, times: usize| {
            openssl.say("K");
            openssl.err("that it asked", |lines| {
                lines.iter().filter(|line| *line == "KEYUPDATE").count() == times
            });
        };
        let everybody_hears = |clients: &mut [Process], server: &Server, text: &str| {
            server.publish("news", text);
            for openssl in clients {
                openssl.prints(text);
            }
        };
        everybody_hears(&mut clients, &server, "before all");
        // Nothing is sent to it before rustls gives its keys away, but for the answer to this.
        asks(&mut clients[0], 1);
        server.upgrade_well();
        everybody_hears(&mut clients, &server, "between the two");
        asks(&mut clients[0], 2);
        server.upgrade_well();
        everybody_hears(&mut clients, &server, "after both");
        asks(&mut clients[0], 3);
        everybody_hears(&mut clients, &server, "the end");
        let full = "throng_tls_handshakes_total{result=\"full\"}";
        assert_eq!(server.metric(full), 0, "the new process shook no hands");
        server.counts("throng_tls_broken_total", 0);
        // The first process has ended by itself.
        assert_eq!(server.wait().code(), Some(0));
    }
}

/// Asks for a renegotiation, which must be refused.
#[track_caller]
pub(super) fn is_refused_another_handshake(openssl: &mut Process) {
    openssl.say("R");
    openssl.err("that it is refused", |lines| {
        let is_refused = |line: &String| line.contains("no renegotiation");
        lines.iter().any(is_refused)
    });
}

#[test]
fn a_second_handshake_is_refused() {
    let scene = Scene::default();
    for records in RECORDS {
        let server = Setup::new(&scene.config(records))
            .shards(1)
            .tls_clients()
            .start();
        let good = stream(&scene, server.clients(), "-tls1_2");
        let mut bad = stream(&scene, server.clients(), "-tls1_2");
        is_refused_another_handshake(&mut bad);
        server.publish("news", "hello");
        good.prints("hello");
        server.stop();
    }
}
