//! Certificates: looked at before the server starts, counted down, and replaced while it runs.

use std::process::Command;

use serde_json::json;
use throng_testkit::{Authority, Server, Setup, Signal, throng, until};

use super::{Scene, subscribed};

/// Runs `throng config check`. Returns its output and whether the configuration is good.
fn check(scene: &Scene, config: &str) -> (String, bool) {
    let file = scene.files.write("throng.toml", config);
    let mut command = Command::new(throng());
    let done = command
        .args(["config", "check", &file])
        .output()
        .expect("the binary");
    let text = [done.stdout, done.stderr].concat();
    (
        String::from_utf8_lossy(&text).into_owned(),
        done.status.success(),
    )
}

#[test]
fn config_check_reads_certificates() {
    let scene = Scene::default();
    let listen = "[listen]\nclient = [\"tls://127.0.0.1:8443\"]\n";
    // Relative paths count from the file.
    let with = |certificate: &str, key: &str| {
        format!("{listen}[tls]\ncertificate = \"{certificate}\"\nkey = \"{key}\"\n")
    };
    let issue = |name: &str, year: i32| {
        let issued = scene.authority.issue_until(&["localhost"], year);
        scene.files.write_issued(name, &issued);
        issued
    };
    issue("old", 2021);
    let good = issue("good", 2100);
    let chain = |name: &str, parts: &[&str]| scene.files.write(name, &parts.concat());
    let stranger = Authority::new("theirs");
    chain("whole.pem", &[&good.certificate, scene.authority.pem()]);
    chain("turned.pem", &[scene.authority.pem(), &good.certificate]);
    chain("strange.pem", &[&good.certificate, stranger.pem()]);
    chain("empty.pem", &[]);
    let (text, is_good) = check(&scene, &with("good.pem", "good.key"));
    assert!(is_good && !text.contains("warning"), "{text}");
    let (text, is_good) = check(&scene, &with("whole.pem", "good.key"));
    assert!(is_good && !text.contains("warning"), "{text}");
    for (certificate, key, part, expect) in [
        ("old.pem", "old.key", "expired", true),
        (
            "strange.pem",
            "good.key",
            "was not signed by the one after it",
            true,
        ),
        (
            "none.pem",
            "good.key",
            "tls.certificate: cannot read",
            false,
        ),
        ("good.pem", "none.key", "tls.key: cannot read", false),
        (
            "good.pem",
            "old.key",
            "does not belong to the certificate",
            false,
        ),
        (
            "turned.pem",
            "good.key",
            "belongs to a later certificate",
            false,
        ),
        (
            "empty.pem",
            "good.key",
            "there is no certificate in it",
            false,
        ),
        (
            "good.pem",
            "empty.pem",
            "there is no private key in it",
            false,
        ),
        (
            "good.key",
            "good.key",
            "there is no certificate in it",
            false,
        ),
    ] {
        let (text, is_good) = check(&scene, &with(certificate, key));
        assert!(
            is_good == expect && text.contains(part),
            "{certificate} {key}: {text}"
        );
    }
    let site = "[[tls.site]]\nname = \"chat.example\"\ncertificate = \"good.pem\"\n\
                key = \"good.key\"\n";
    let (text, is_good) = check(&scene, &format!("{}{site}", with("good.pem", "good.key")));
    assert!(
        is_good && text.contains("is not for chat.example"),
        "{text}"
    );
    let (text, is_good) = check(&scene, listen);
    assert!(
        !is_good && text.contains("needs a certificate: set tls.certificate"),
        "{text}"
    );
}

/// Which of two certificates a new client gets.
fn shown(scene: &Scene, server: &Server) -> String {
    let url = format!("https://{}/healthz", server.clients());
    // OpenSSL as well as other libraries: whose name is it?
    let told = scene
        .curl(&["--verbose", "--stderr", "-", &url])
        .expect("an answer");
    let line = told.lines().find(|line| line.contains("subject:"));
    line.unwrap_or_else(|| panic!("{told}")).to_owned()
}

#[test]
fn certificates_are_replaced_and_connections_stay() {
    let scene = Scene::default();
    let year = |names: &[&str], year| scene.authority.issue_until(names, year);
    scene
        .files
        .write_issued("server", &year(&["first", "127.0.0.1"], 2090));
    let server = Setup::new(&scene.config(""))
        .shards(2)
        .tls_clients()
        .start();
    let ws = scene.script(
        "ws.mjs",
        &[&format!("wss://{}/ws?channel=news", server.clients())],
    );
    ws.event("open", &json!({}));
    subscribed(&server, 1);
    assert!(shown(&scene, &server).contains("first"));
    let days = || server.metric("throng_tls_certificate_days_left");
    let before = days();
    assert!(before > 20_000, "{before}");
    server.counts("throng_tls_certificates", 1);
    // By themselves, when the files have changed.
    scene
        .files
        .write_issued("server", &year(&["second", "127.0.0.1"], 2091));
    until("the second certificate", || {
        shown(&scene, &server).contains("second")
    });
    assert!(
        (360..370).contains(&(days() - before)),
        "{} {before}",
        days()
    );
    // A faulty configuration changes nothing, and is reported.
    scene.files.write("server.key", "no key");
    server.signal(Signal::HUP);
    until("a line of the log", || {
        server.logged("certificates were not reloaded") > 0
    });
    assert!(shown(&scene, &server).contains("second"));
    assert!(server.metric("throng_tls_reloads_total{result=\"failed\"}") > 0);
    // And at once, on SIGHUP.
    scene
        .files
        .write_issued("server", &year(&["third", "127.0.0.1"], 2092));
    server.signal(Signal::HUP);
    until("the third certificate", || {
        shown(&scene, &server).contains("third")
    });
    server.publish("news", "still here");
    ws.event("message", &json!({ "data": "still here" }));
    assert_eq!(ws.left("close"), 0);
    server.stop();
}
