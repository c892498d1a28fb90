//! A Redis that is away, and one that refuses.

use std::process::Command;

use throng_testkit::{Setup, free_port, until};

use crate::plain::FILES;
use crate::redis_server::RedisServer;
use crate::stage::{Event, PROJECT, Stage};

const DOCUMENTS: &str = "project=bench&channels[]=documents";

#[test]
fn what_was_revoked_while_redis_was_away_is_revoked() {
    let mut stage = Stage::new("");
    for user in ["ann", "bob", "cid"] {
        stage.accounts.join(user, "T", &["dev"]);
    }
    let mut ann = stage.open_as("ann", DOCUMENTS);
    let mut bob = stage.open_as("bob", DOCUMENTS);
    let mut cid = stage.open_as("cid", DOCUMENTS);
    stage.publish(&Event::document("A", "team:T", "open"));
    assert_eq!([ann.event(), bob.event(), cid.event()], ["A", "A", "A"]);
    stage.redis.go_away();
    until("the loss to be noticed", || {
        (stage.server.metric("throng_appwrite_feed_up") == 0).then_some(())
    });
    // No client receives it.
    stage.accounts.leave("ann", "T");
    stage.accounts.sign_out("cid");
    stage.accounts.take_asked();
    stage.redis.come_back();
    stage.redis.wait_for_subscriber();
    // All three are looked up again, without one of them doing anything.
    let answers = |answer: &str| {
        let series = format!("throng_appwrite_lookups_total{{answer={answer:?}}}");
        stage.server.metric(&series)
    };
    until("the look-ups", || {
        (answers("user") == 5 && answers("nobody") == 1).then_some(())
    });
    stage.publish(&Event::document("B", "team:T", "open"));
    stage.publish(&Event::document("C", "users", "open"));
    stage.publish(&Event::document("D", "any", "open"));
    assert_eq!([ann.event(), ann.event()], ["C", "D"]);
    assert_eq!([bob.event(), bob.event(), bob.event()], ["B", "C", "D"]);
    assert_eq!(cid.event(), "D");
    // And no client is let in by what was known before.
    let cookie = format!("a_session_{PROJECT}=cid");
    let (_, first) = stage.open_with(DOCUMENTS, &[("Cookie", &cookie)]);
    assert!(first["data"]["user"].is_null(), "{first}");
    stage.server.stop();
}

#[test]
fn a_redis_that_refuses_is_down_and_loud() {
    let acl = ["user throng on >secret resetchannels +@connection +subscribe +ping"];
    for (redis, address) in [
        (RedisServer::with(&["requirepass secret"]), "redis://"),
        (RedisServer::with(&acl), "redis://throng:secret@"),
        (RedisServer::with(&acl), "redis://throng:wrong@"),
    ] {
        let url = redis.url().replace("redis://", address);
        let config = format!("[appwrite]\nredis = {url:?}\n[[appwrite.project]]\nid = \"bench\"");
        let server = Setup::new(&config).shards(1).start();
        until("a refusal", || {
            (server.metric("throng_appwrite_feed_refused_total") > 0).then_some(())
        });
        assert_eq!(server.metric("throng_appwrite_feed_up"), 0, "{address}");
        let log = server.log();
        let loud = |line: &&serde_json::Value| line["level"] == "ERROR";
        let line = log.iter().find(loud).expect("a loud line");
        let message = line["message"].as_str().unwrap();
        assert!(message.contains("does not let Throng listen"), "{message}");
        assert!(
            !log.iter()
                .any(|line| line["message"] == "listening to Appwrite's Redis")
        );
        assert!(!log.iter().any(|line| line.to_string().contains("secret")));
        server.stop();
    }
}

#[test]
fn a_redis_with_users_lets_the_right_one_listen() {
    let user = "user throng on >secret resetchannels &realtime +@connection +subscribe +ping";
    let redis = RedisServer::with(&[user]);
    listens(
        &redis.url().replace("redis://", "redis://throng:secret@"),
        &redis,
        &[],
    );
}

#[test]
fn a_socket_on_this_machine_and_sentinels_lead_to_redis() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis.sock");
    let redis = RedisServer::with(&[&format!("unixsocket {}", socket.display())]);
    let monitor = format!("sentinel monitor mymaster 127.0.0.1 {} 1", redis.port());
    let sentinel = RedisServer::sentinel(&monitor);
    for url in [
        format!("unix://{}", socket.display()),
        format!(
            "redis+sentinel://127.0.0.1:1,127.0.0.1:{}/mymaster",
            sentinel.port()
        ),
    ] {
        listens(&url, &redis, &[]);
    }
}

#[test]
fn a_redis_with_tls_is_verified() {
    let folder = tempfile::tempdir().unwrap();
    let (key, cert) = (
        folder.path().join("key.pem"),
        folder.path().join("cert.pem"),
    );
    let mut openssl = Command::new("openssl");
    openssl.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
    ]);
    openssl
        .args(["-nodes", "-days", "30", "-subj", "/CN=redis", "-keyout"])
        .arg(&key);
    openssl
        .arg("-out")
        .arg(&cert)
        .args(["-addext", "subjectAltName=IP:127.0.0.1"]);
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    let made = openssl.output().expect("openssl, see .ci/packages");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let port = free_port();
    let redis = RedisServer::with(&[
        &format!("tls-port {port}"),
        &format!("tls-cert-file {}", cert.display()),
        &format!("tls-key-file {}", key.display()),
        "tls-auth-clients no",
    ]);
    let url = format!("rediss://127.0.0.1:{port}");
    // A certificate without a trusted authority is refused.
    let config = format!("[appwrite]\nredis = {url:?}\n[[appwrite.project]]\nid = \"bench\"");
    let server = Setup::new(&config).shards(1).start();
    until("the refusal", || {
        let lines = server.log();
        let told = lines
            .iter()
            .any(|line| line["message"] == "no connection to Appwrite's Redis");
        told.then_some(())
    });
    assert_eq!(server.metric("throng_appwrite_feed_up"), 0);
    server.stop();
    let cert = cert.display().to_string();
    listens(&url, &redis, &[("SSL_CERT_FILE", &cert)]);
}

/// Starts a server on an address, and sees an event through.
#[track_caller]
fn listens(url: &str, redis: &RedisServer, variables: &[(&str, &str)]) {
    let config = format!("[appwrite]\nredis = {url:?}\n[[appwrite.project]]\nid = \"bench\"");
    let mut setup = Setup::new(&config).shards(1);
    for (name, value) in variables {
        setup = setup.variable(name, value);
    }
    let server = setup.start();
    redis.wait_for_subscriber();
    let mut socket = crate::socket::Socket::open(server.clients(), FILES, &[]);
    socket.frame();
    assert_eq!(redis.publish(&Event::file("A").message()), 1);
    assert_eq!(socket.event(), "A");
    server.stop();
    until("nobody to listen", || {
        (redis.publish(&Event::file("B").message()) == 0).then_some(())
    });
}
