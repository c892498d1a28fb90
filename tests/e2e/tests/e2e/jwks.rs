//! Keys that are fetched from the issuer of tokens, who changes them, answers badly and goes away.

use std::process::Command;

use serde_json::json;
use throng_testkit::{
    Authority, Issuer, PemFiles, Process, Server, Setup, TokenKey, unix_s, until,
};

const KEY: &str = "the-key-of-the-server-api";

fn config(url: &str, more: &str) -> String {
    format!(
        "[auth]\njwks_url = \"{url}\"\njwks_refresh_interval = \"1h\"\n\
         jwks_refresh_interval_min = \"100ms\"\njwks_timeout = \"5s\"\n{more}\n\
         api_keys = [\"{KEY}\"]\n[channel]\nsubscribe = true\n\
         [stream]\nkeepalive_interval = \"0s\"\n"
    )
}

fn start(text: &str) -> Server {
    Setup::new(text).shards(2).api_key(KEY).start()
}

fn token(key: &TokenKey) -> String {
    key.sign(&json!({ "sub": "ann", "exp": unix_s() + 600 }))
}

/// Status for a client with a token of this key.
#[track_caller]
fn status(server: &Server, key: &TokenKey) -> u16 {
    let mut wire = server.get(&format!("/stream?channel=news&token={}", token(key)));
    let head = wire.head();
    let retry = head.header("retry-after").is_some();
    assert_eq!(retry, head.status == 503, "{head:?}");
    head.status
}

/// Comes again until it is so.
#[track_caller]
fn becomes(server: &Server, key: &TokenKey, expected: u16) {
    until("another answer", || status(server, key) == expected);
}

fn fetches(server: &Server, result: &str) -> u64 {
    server.metric(&format!(
        "throng_token_key_fetches_total{{result=\"{result}\"}}"
    ))
}

fn unknown(server: &Server) -> u64 {
    server.metric("throng_auth_failures_total{reason=\"unknown_key\"}")
}

#[test]
fn keys_rotate_and_outlive_their_issuer() {
    let [old, new, newest] = ["old", "new", "newest"].map(TokenKey::new);
    let issuer = Issuer::start(&[&old]);
    let server = start(&config(&issuer.url(), ""));
    assert_eq!((status(&server, &old), issuer.asked()), (200, 1));
    let mut stream = server.stream(&format!("/stream?channel=news&token={}", token(&old)));
    stream.chunk();
    // A key that is not published yet: it is asked for, and the client may come again.
    assert_eq!((status(&server, &new), unknown(&server)), (503, 1));
    until("the second request", || issuer.asked() > 1);
    issuer.publish(&[&old, &new]);
    becomes(&server, &new, 200);
    assert_eq!(status(&server, &old), 200);
    // The old one goes. Somebody has to ask for a key, as an hour is long.
    issuer.publish(&[&new]);
    assert_eq!(status(&server, &newest), 503);
    becomes(&server, &old, 503);
    server.counts("throng_token_keys", 1);
    let fetched = server.metric("throng_token_keys_fetched_timestamp_seconds");
    assert!(fetched.abs_diff(unix_s()) < 300, "{fetched}");
    // Whatever is wrong with an answer, the keys that are there stay.
    let long = [b"{\"keys\":[],\"x\":\"", &*vec![b'x'; 1 << 20], b"\"}"].concat();
    let private = json!({ "keys": [{"kty": "oct", "kid": "newest", "k": "c2VjcmV0"}] });
    let crowd = json!({ "keys": vec![newest.jwk(); 65] });
    let elsewhere = json!({ "keys": [newest.jwk()] });
    for (code, body) in [
        (500, elsewhere.to_string().into_bytes()),
        (302, elsewhere.to_string().into_bytes()),
        (200, b"<html>maintenance</html>".to_vec()),
        (200, b"{\"keys\":[]}".to_vec()),
        (200, private.to_string().into_bytes()),
        (200, crowd.to_string().into_bytes()),
        (200, long),
    ] {
        let before = fetches(&server, "failed");
        issuer.say(code, &body);
        until("a failure", || {
            assert_eq!(status(&server, &newest), 503);
            fetches(&server, "failed") > before
        });
        assert_eq!(status(&server, &new), 200, "{code}");
    }
    // It goes away altogether.
    let (address, before) = (issuer.address(), fetches(&server, "failed"));
    drop(issuer);
    until("a failure", || {
        assert_eq!(status(&server, &newest), 503);
        fetches(&server, "failed") > before
    });
    assert_eq!(status(&server, &new), 200);
    assert!(server.logged("/keys: cannot fetch keys for tokens") > 0);
    // And comes back.
    let _issuer = Issuer::at(&address.to_string(), &[&new, &newest]);
    becomes(&server, &newest, 200);
    server.publish("news", "still here");
    assert!(stream.chunk().contains("still here"));
    server.stop();
}

/// The one shard serves while the issuer keeps it waiting, however many want the key.
#[test]
fn an_issuer_that_does_not_answer_holds_nobody_up() {
    let [known, other] = ["known", "other"].map(TokenKey::new);
    let issuer = Issuer::start(&[&known]);
    let text = config(&issuer.url(), "").replace("\"5s\"", "\"60s\"");
    let server = Setup::new(&text).shards(1).api_key(KEY).start();
    issuer.hold();
    assert_eq!(status(&server, &other), 503);
    until("the request that waits", || issuer.asked() == 2);
    for _ in 0..20 {
        assert_eq!(
            (status(&server, &other), status(&server, &known)),
            (503, 200)
        );
    }
    server.publish("news", "1");
    // All of them have brought about that one request, and it still waits.
    assert_eq!((issuer.asked(), fetches(&server, "failed")), (2, 0));
    server.stop();
}

#[test]
fn a_server_starts_before_its_issuer() {
    let key = TokenKey::new("a");
    let issuer = Issuer::start(&[&key]);
    let (address, url) = (issuer.address(), issuer.url());
    drop(issuer);
    let server = start(&config(&url, ""));
    assert_eq!((status(&server, &key), fetches(&server, "good")), (503, 0));
    let _issuer = Issuer::at(&address.to_string(), &[&key]);
    // Nobody has to ask: after a failure it is tried again soon.
    until("its keys", || fetches(&server, "good") > 0);
    assert_eq!(status(&server, &key), 200);
    server.stop();
}

/// By TLS, from an issuer whose certificate is believed and from nobody else.
#[test]
fn keys_come_by_https_from_who_is_believed() {
    let (ours, others) = (Authority::new("ours"), Authority::new("others"));
    let (files, key) = (PemFiles::new(), TokenKey::new("a"));
    let [certificate, secret] = files.write_issued("issuer", &ours.issue(&["localhost"]));
    files.write("keys", &json!({ "keys": [key.jwk()] }).to_string());
    let mut openssl = Command::new("openssl");
    openssl
        .args(["s_server", "-WWW", "-accept", "127.0.0.1:0"])
        .args(["-cert", &certificate, "-key", &secret])
        .current_dir(files.folder());
    let issuer = Process::start(&mut openssl, "install openssl, see .ci/packages");
    let port: u16 = issuer.out("its port", |lines| {
        lines
            .iter()
            .find_map(|line| line.strip_prefix("ACCEPT 127.0.0.1:")?.parse().ok())
    });
    let text = config(&format!("https://localhost:{port}/keys"), "");
    for (authority, expected) in [(&ours, 200), (&others, 503)] {
        let believed = files.write("believed.pem", authority.pem());
        let server = Setup::new(&text)
            .api_key(KEY)
            .variable("SSL_CERT_FILE", &believed)
            .start();
        assert_eq!(status(&server, &key), expected);
        assert_eq!(fetches(&server, "good"), u64::from(expected == 200));
        server.stop();
    }
}

/// Another address takes effect if keys come from there, and changes nothing if not.
#[test]
fn a_reload_needs_the_keys_of_the_new_address() {
    let [here, there] = ["here", "there"].map(TokenKey::new);
    let (first, second) = (Issuer::start(&[&here]), Issuer::start(&[&there]));
    let server = start(&config(&first.url(), ""));
    let reload = |text: &str| {
        let (status, told) = server.reload(text);
        (status, told.to_string())
    };
    let gone = Issuer::start(&[]);
    let nowhere = gone.url();
    drop(gone);
    let refused = reload(&config(&nowhere, "anonymous = true"));
    assert_eq!(refused.0, 422, "{refused:?}");
    assert!(refused.1.contains("auth.jwks_url: "), "{refused:?}");
    assert_eq!(status(&server, &here), 200);
    // What stays as it was is not fetched again.
    assert_eq!(reload(&config(&first.url(), "leeway = \"5s\"")).0, 200);
    assert_eq!((status(&server, &here), first.asked()), (200, 1));
    assert_eq!(reload(&config(&second.url(), "")).0, 200);
    for _ in 0..4 {
        assert_eq!(
            (status(&server, &there), status(&server, &here)),
            (200, 503)
        );
    }
    // A set that stands in the configuration goes beside the one that is fetched.
    let own = json!({ "keys": [here.jwk()] });
    let both = reload(&config(&second.url(), &format!("jwks = '{own}'")));
    assert_eq!(both.0, 200, "{both:?}");
    assert_eq!(
        (status(&server, &there), status(&server, &here)),
        (200, 200)
    );
    let wrong = reload(&config(&second.url(), "jwks = '{}'"));
    assert_eq!(wrong.0, 422, "{wrong:?}");
    assert!(wrong.1.contains("auth.jwks: "), "{wrong:?}");
    server.stop();
}
