//! Keys and certificates that openssl makes for the test: signatures by PEM, and TLS to origins.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use throng_testkit::{Setup, Wire, request};

use crate::support::{Backend, port, python, reply};

#[track_caller]
fn openssl(folder: &Path, arguments: &[&str]) {
    let output = Command::new("openssl")
        .current_dir(folder)
        .args(arguments)
        .output();
    let output = output.expect("openssl is installed: `.ci/install` says how");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[track_caller]
fn check_signature(kind: &[&str], algorithm: &str) {
    let folder = folder();
    let make = [&["genpkey", "-out", "private.pem"][..], kind].concat();
    openssl(folder.path(), &make);
    let public = [
        "pkey",
        "-in",
        "private.pem",
        "-pubout",
        "-out",
        "public.pem",
    ];
    openssl(folder.path(), &public);
    let backend = Backend::start(|_, stream| {
        reply(
            stream,
            &[("Grip-Hold", "stream"), ("Grip-Channel", "a")],
            "hi",
        )
    });
    let server = |option: &str, file: &str| {
        let path = folder.path().join(file);
        let config = format!(
            "[grip]\n{option} = \"file:{}\"\n[[grip.route]]\npath = \"/\"\norigin = \
             \"http://{}\"\n",
            path.display(),
            backend.address
        );
        Setup::new(&config).shards(1).start()
    };
    let signs = server("sig_key", "private.pem");
    crate::support::get(&signs, "/signed").head();
    let asked = backend.wait("/signed", 1);
    let sig = asked[0].header("grip-sig").expect("signed").to_owned();
    signs.stop();
    let checks = server("upstream_key", "public.pem");
    let trusted = |sig: &str| {
        let mut wire = Wire::connect(checks.clients());
        wire.send(&format!(
            "GET / HTTP/1.1\r\nHost: t\r\nGrip-Sig: {sig}\r\n\r\n"
        ));
        wire.head().header("grip-hold").is_some()
    };
    assert!(trusted(&sig), "{algorithm}: {sig}");
    let (message, _) = sig.rsplit_once('.').expect("three parts");
    assert!(!trusted(&format!("{message}.AAAA")), "{algorithm}");
    checks.stop();
}

#[test]
fn an_elliptic_key_signs() {
    check_signature(
        &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"],
        "ES256",
    );
}

#[test]
fn an_rsa_key_signs() {
    check_signature(
        &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
        "RS256",
    );
}

/// A folder with a key and a certificate for this machine.
fn certified() -> TempDir {
    let folder = folder();
    let make = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost,IP:127.0.0.1",
        "-keyout",
        "key.pem",
        "-out",
        "cert.pem",
    ];
    openssl(folder.path(), &make);
    folder
}

#[test]
fn tls_to_an_origin_is_checked_unless_the_route_says_insecure() {
    let folder = certified();
    let path = folder.path().display().to_string();
    let backend = python("tls.py", &[&path]);
    let at = port(&backend);
    let routes = folder.path().join("routes");
    let lines = format!("*,path_beg=/any {at},ssl,insecure\n* {at},ssl\n");
    fs::write(&routes, lines).expect("a file in it");
    let config = format!("[grip]\nroutes_file = {:?}\n", routes.display().to_string());
    let server = Setup::new(&config).shards(1).start();
    let ask = |target: &str| request(server.clients(), "GET", target, &[], "");
    assert_eq!(ask("/any").body, "over TLS: /any\n");
    // Twice on a kept connection, and with a body.
    let long = "x".repeat(300_000);
    let answer = request(server.clients(), "POST", "/any", &[], &long);
    assert_eq!(answer.body, "300000 bytes over TLS\n");
    // No authority vouches for this certificate.
    assert_eq!(ask("/checked").status, 502);
    server.stop();
}

/// Which host a client names is its own choice, so it makes no room: connections to a backend are
/// as many as one backend may have, and those that nobody uses are closed.
#[test]
fn hosts_of_clients_do_not_make_connections() {
    const IDLE_MAX: usize = 256;
    let folder = certified();
    let backend = python("tls.py", &[&folder.path().display().to_string()]);
    let at = port(&backend);
    let routes = folder.path().join("routes");
    fs::write(&routes, format!("* {at},ssl,insecure\n")).expect("a file in it");
    let config = format!("[grip]\nroutes_file = {:?}\n", routes.display().to_string());
    let server = Setup::new(&config).shards(1).start();
    let mut wire = Wire::connect(server.clients());
    for number in 0..IDLE_MAX + 50 {
        wire.send(&format!("GET / HTTP/1.1\r\nHost: h{number}.test\r\n\r\n"));
        assert_eq!(wire.response("GET").status, 200);
    }
    let counts = |lines: &[String]| {
        let count = |word: &str| lines.iter().filter(|line| *line == word).count();
        (count("opened"), count("closed"))
    };
    backend.out("connections that give way", |lines| {
        let (opened, closed) = counts(lines);
        (opened - closed <= IDLE_MAX).then_some(())
    });
    backend.out("all of them closed, since nobody uses them", |lines| {
        let (opened, closed) = counts(lines);
        (opened == closed).then_some(())
    });
    server.stop();
}
