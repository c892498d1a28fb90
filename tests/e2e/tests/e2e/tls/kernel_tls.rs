//! TLS in the kernel, met by OpenSSL's client and rustls.
//!
//! Where the kernel has no TLS, all but the first of these tests say so and prove nothing;
//! `tests/ktls/run` has such a kernel.

use std::process::Command;

use throng_testkit::{Wire, throng, until};

use super::openssl::{ask, hears, is_refused_another_handshake, stream};
use super::{Scene, subscribed};

const KERNEL: &str = "records = \"kernel\"\n";

/// Whether this machine's kernel offers TLS, as far as its modules are loaded.
pub(crate) fn has_kernel_tls() -> bool {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_ulp");
    let has = names.is_ok_and(|names| names.split_ascii_whitespace().any(|name| name == "tls"));
    if !has {
        println!("skipped, nothing is proved: this kernel's module `tls` is not loaded");
    }
    has
}

#[test]
fn without_it_kernel_tls_is_refused_with_a_word_on_what_to_do() {
    if has_kernel_tls() {
        return;
    }
    let scene = Scene::new();
    let config = scene.config(KERNEL) + "[listen]\nclient = [\"tls://127.0.0.1:0\"]\n";
    let file = scene.files.write("throng.toml", &config);
    for words in [
        &["config", "check", &file][..],
        &["serve", "--config", &file],
    ] {
        let done = Command::new(throng()).args(words).output();
        let done = done.expect("the binary runs");
        let said = String::from_utf8_lossy(&done.stderr);
        // A kernel that may load the module by itself has done so now.
        if done.status.success() && words[0] == "config" {
            return;
        }
        assert!(!done.status.success(), "{said}");
        for part in ["tls.records", "modprobe tls", "\"lean\""] {
            assert!(said.contains(part), "{said}");
        }
    }
}

#[test]
fn each_suite_passes() {
    if !has_kernel_tls() {
        return;
    }
    let scene = Scene::new();
    let server = scene.start(KERNEL);
    for (version, option, suite) in [
        ("-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"),
        ("-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"),
        ("-tls1_3", "-ciphersuites", "TLS_CHACHA20_POLY1305_SHA256"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("-tls1_2", "-cipher", "ECDHE-ECDSA-CHACHA20-POLY1305"),
    ] {
        // The answer, and the word that this was all.
        let (text, good) = ask(&scene, server.clients(), &[version, option, suite]);
        assert!(good && text.contains("HTTP/1.1 200"), "{suite}: {text}");
        assert!(text.contains(suite), "{suite}: {text}");
    }
    let full = "throng_tls_handshakes_total{result=\"full\"}";
    assert_eq!(server.metric(full), 6);
    assert_eq!(server.metric("throng_tls_broken_total"), 0);
    server.stop();
}

#[test]
fn what_is_published_arrives_whole() {
    if !has_kernel_tls() {
        return;
    }
    let scene = Scene::new();
    let server = scene.start(KERNEL);
    let to = server.clients();
    let mut clients: Vec<_> = ["-tls1_3", "-tls1_2"]
        .map(|version| stream(&scene, to, version))
        .into();
    let mut wire = Wire::connect_secure(to, scene.authority.pem());
    wire.send("GET /stream?channel=news HTTP/1.1\r\nHost: localhost\r\n\r\n");
    wire.head();
    wire.through("\"channels\"");
    subscribed(&server, 3);
    // More than a record, and more than one write.
    let large = "x".repeat(300_000);
    for text in ["small", &large, "the end"] {
        server.publish("news", text);
    }
    let all = wire.through("the end");
    assert!(all.contains("small") && all.contains(&large));
    for client in &mut clients {
        hears(client, "the end");
        client.out("all of it", |lines| {
            { lines.iter() }
                .any(|line| line.contains(&large))
                .then_some(())
        });
    }
    // Everybody hears that this is all; rustls would take a mere end of the stream for a fault.
    server.stop();
    wire.rest();
}

/// The kernel keeps its keys. A client that asks for others hears an orderly end, and can come
/// back.
#[test]
fn a_client_that_asks_for_new_keys_comes_back() {
    if !has_kernel_tls() {
        return;
    }
    let scene = Scene::new();
    let server = scene.start(KERNEL);
    let mut openssl = stream(&scene, server.clients(), "-tls1_3");
    let mut other = stream(&scene, server.clients(), "-tls1_3");
    openssl.say("K");
    openssl.wait();
    assert!(
        !openssl
            .err_lines()
            .iter()
            .any(|line| line.contains("alert")),
        "{:?}",
        openssl.err_lines()
    );
    until("it is counted", || {
        (server.metric("throng_tls_key_updates_refused_total") == 1).then_some(())
    });
    assert_eq!(server.metric("throng_tls_broken_total"), 0);
    server.publish("news", "after that");
    hears(&mut other, "after that");
    let mut again = stream(&scene, server.clients(), "-tls1_3");
    server.publish("news", "once more");
    hears(&mut again, "once more");
    server.stop();
}

#[test]
fn a_second_handshake_ends_a_connection_of_kernel_tls() {
    if !has_kernel_tls() {
        return;
    }
    let scene = Scene::new();
    let server = scene.start(KERNEL);
    let mut good = stream(&scene, server.clients(), "-tls1_2");
    let mut bad = stream(&scene, server.clients(), "-tls1_2");
    is_refused_another_handshake(&mut bad);
    server.publish("news", "hello");
    hears(&mut good, "hello");
    until("it is counted", || {
        (server.metric("throng_tls_broken_total") == 1).then_some(())
    });
    server.stop();
}
