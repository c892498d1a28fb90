//! Reload: what changes while clients stay, what is refused, and what waits for a restart.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, Signal, Wire, sign, throng, unix_s, until};

use crate::support::{SECRET, token};

const NEW: &str = "another secret, and it is long enough too";
const KEY: &str = "the-key-of-the-server-api";

fn config(auth: &str, more: &str) -> String {
    format!(
        "[auth]\n{auth}\napi_keys = [\"{KEY}\"]\n[channel]\nsubscribe = true\n{more}\n[stream]\n\
         keepalive_interval = \"0s\"\n"
    )
}

fn start(text: &str) -> Server {
    Setup::new(text).shards(2).api_key(KEY).start()
}

/// A stream of a channel, as far as its first line.
#[track_caller]
fn stream(server: &Server, channel: &str, token: &str) -> Wire {
    let mut wire = server.stream(&format!("/stream?channel={channel}&token={token}"));
    wire.chunk();
    wire
}

fn status(server: &Server, channel: &str, token: &str) -> u16 {
    server.status(&format!("/stream?channel={channel}&token={token}"))
}

fn with_new_secret(user: &str) -> String {
    sign(&json!({ "sub": user, "exp": unix_s() + 600 }), NEW)
}

#[test]
fn keys_are_rotated_while_clients_stay() {
    let server = start(&config(&format!("hmac_secret = \"{SECRET}\""), ""));
    let (old, new) = (token("ann", 600), with_new_secret("ann"));
    let mut streams: Vec<Wire> = (0..4).map(|_| stream(&server, "news", &old)).collect();
    assert_eq!(status(&server, "news", &new), 401);
    let both = config(
        &format!("hmac_secret = \"{NEW}\"\nhmac_previous_secret = \"{SECRET}\""),
        "",
    );
    let told = server.reload(&both);
    let changed = json!(["auth.hmac_previous_secret", "auth.hmac_secret"]);
    assert_eq!((told.0, &told.1["changed"]), (200, &changed), "{told:?}");
    assert_eq!(told.1["needs_restart"], json!([]));
    for token in [&old, &new] {
        assert_eq!(status(&server, "news", token), 200);
    }
    let told = server.reload(&config(&format!("hmac_secret = \"{NEW}\""), ""));
    assert_eq!(told.0, 200, "{told:?}");
    // More than one connection a shard: it holds on both.
    for _ in 0..4 {
        assert_eq!(status(&server, "news", &old), 401);
        assert_eq!(status(&server, "news", &new), 200);
    }
    server.publish("news", "still here");
    for stream in &mut streams {
        assert!(stream.chunk().contains("still here"));
    }
    server.stop();
}

#[test]
fn namespaces_limits_and_origins_change() {
    let auth = format!("hmac_secret = \"{SECRET}\"");
    let server = start(&config(&auth, ""));
    let good = token("ann", 600);
    let publish = |channel: &str| {
        server
            .ask("POST", &format!("/pub?channel={channel}"), "1")
            .status
    };
    let mut news = stream(&server, "news", &good);
    assert_eq!(
        (publish("late:1"), status(&server, "late:1", &good)),
        (404, 404)
    );
    let late = "[[namespace]]\nname = \"late\"\nsubscribe = true\nhistory_size = 5\n\
                history_ttl = \"1m\"\nrecovery = true\n[limits]\nchannels_per_connection = 1\n";
    let origins = format!("{auth}\nallowed_origins = [\"https://a.example\"]");
    let told = server.reload(&config(&origins, late));
    assert_eq!(told.0, 200, "{told:?}");
    let changed = told.1["changed"].as_array().unwrap();
    for path in [
        "auth.allowed_origins",
        "limits.channels_per_connection",
        "namespace[\"late\"].history_size",
    ] {
        assert!(changed.contains(&json!(path)), "{path}: {told:?}");
    }
    assert_eq!(
        (publish("late:1"), status(&server, "late:1", &good)),
        (200, 200)
    );
    let history = server.call("history", &json!({ "channel": "late:1", "limit": 10 }));
    assert_eq!(
        history["result"]["publications"].as_array().unwrap().len(),
        1,
        "{history}"
    );
    assert_eq!(status(&server, "a&channel=b", &good), 400);
    let from = |origin: &str| {
        let mut wire = Wire::connect(server.clients());
        let target = format!("/sse?channel=news&token={good}");
        wire.ask(&target, &format!("Origin: {origin}\r\n"));
        wire.head().status
    };
    assert_eq!(
        (from("https://a.example"), from("http://other")),
        (200, 403)
    );
    // The namespace goes again: publishing there is refused, and no client is cut off.
    let mut left = stream(&server, "late:2", &good);
    assert_eq!(server.reload(&config(&auth, "")).0, 200);
    assert_eq!(publish("late:2"), 404);
    server.publish("news", "still here");
    assert!(news.chunk().contains("still here"));
    assert_eq!(server.reload(&config(&auth, late)).0, 200);
    server.publish("late:2", "back");
    assert!(left.chunk().contains("back"));
    server.stop();
}

#[test]
fn a_mistake_changes_nothing_and_is_told_with_its_line() {
    let good = config(&format!("hmac_secret = \"{SECRET}\""), "");
    let mut server = start(&good);
    let ann = token("ann", 600);
    let mut news = stream(&server, "news", &ann);
    // One mistake among changes that could be taken over, and one in a file that is named.
    for (wrong, expected) in [
        (
            format!("{good}[log]\nlevel = \"loud\"\n"),
            "throng.toml:10:9: log.level: expected",
        ),
        (format!("{good}nonsense ="), "not valid TOML"),
        (
            config(
                "hmac_secret_file = \"none\"",
                "[[namespace]]\nname = \"new\"\n",
            ),
            "auth.hmac_secret_file: cannot read",
        ),
        (config("hmac_secret = \"short\"", ""), "32"),
        (
            config(
                "rsa_public_key = \"-----BEGIN PUBLIC KEY-----\\nAA==\\n-----END PUBLIC KEY-----\"",
                "",
            ),
            "RSA",
        ),
    ] {
        let (status, told) = server.reload(&wrong);
        let told = told["problems"].to_string();
        assert!(
            status == 422 && told.contains(expected),
            "{status} {expected}: {told}"
        );
        assert!(!told.contains("short\""), "{told}");
    }
    let command = throng_reload(&server);
    assert_eq!(command.0, Some(4), "{}", command.1);
    assert!(command.1.contains("RSA"), "{}", command.1);
    server.signal(Signal::HUP);
    until("a line of the log", || {
        server.logged("\"SIGHUP: nothing changes: ") > 0
    });
    assert_eq!(status(&server, "news", &ann), 200);
    assert_eq!(server.ask("POST", "/pub?channel=new:1", "1").status, 404);
    server.publish("news", "still here");
    assert!(news.chunk().contains("still here"));
    server.configure(&good);
    let command = throng_reload(&server);
    assert_eq!((command.0, &*command.1), (Some(0), "nothing has changed\n"));
    assert!(server.runs());
    server.stop();
}

/// `throng reload`: its exit code and its output.
fn throng_reload(server: &Server) -> (Option<i32>, String) {
    let api = format!("http://{}", server.api_address());
    let mut command = Command::new(throng());
    command.args(["reload", "--api", &api, "--api-key", KEY]);
    let output = command.output().expect("it starts");
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&text).into_owned(),
    )
}

#[test]
fn what_needs_a_restart_is_named_and_the_rest_holds() {
    let auth = format!("hmac_secret = \"{SECRET}\"");
    let server = start(&config(&auth, ""));
    let other = config(
        &auth,
        "[engine]\nbacklog = 7\n[broker]\nprefix = \"other\"\n[limits]\nmessage_bytes_max = 500\n",
    );
    for _ in 0..2 {
        let (status, told) = server.reload(&other);
        assert_eq!(status, 200, "{told}");
        assert_eq!(
            told["needs_restart"],
            json!(["broker.prefix", "engine.backlog"]),
            "{told}"
        );
    }
    let (_, told) = server.reload(&config(&auth, ""));
    assert_eq!(
        told["changed"],
        json!(["limits.message_bytes_max"]),
        "{told}"
    );
    assert_eq!(told["needs_restart"], json!([]), "{told}");
    server.stop();
}

#[test]
fn the_log_says_more_once_it_is_asked_to() {
    let auth = format!("hmac_secret = \"{SECRET}\"");
    let server = start(&config(&auth, ""));
    let told = |server: &Server| {
        let published = |line: &Value| line["level"] == "DEBUG" && line["object"] == "news";
        server.log().iter().filter(|line| published(line)).count()
    };
    server.publish("news", "1");
    assert_eq!(
        server
            .reload(&config(&auth, "[log]\nlevel = \"debug\"\n"))
            .0,
        200
    );
    server.publish("news", "2");
    until("the second publication", || told(&server) == 1);
    assert_eq!(
        server.reload(&config(&auth, "[log]\nlevel = \"info\"\n")).0,
        200
    );
    server.publish("news", "3");
    assert_eq!(server.reload(&config(&auth, "")).0, 200);
    assert_eq!(told(&server), 1);
    server.stop();
}

#[test]
fn many_reloads_in_a_row_lose_nothing_under_traffic() {
    let text = |round: usize| {
        let secrets = [SECRET, NEW];
        let [secret, previous] = [secrets[round % 2], secrets[(round + 1) % 2]];
        config(
            &format!("hmac_secret = \"{secret}\"\nhmac_previous_secret = \"{previous}\""),
            &format!(
                "history_size = {}\nhistory_ttl = \"1m\"\nrecovery = true\n[limits]\n\
                 message_bytes_max = {}\n[[namespace]]\nname = \"n{round}\"\n",
                100 + round,
                1000 + round
            ),
        )
    };
    let server = start(&text(0));
    let mut streams: Vec<Wire> = (0..6)
        .map(|_| stream(&server, "news", &token("ann", 600)))
        .collect();
    let ends = AtomicBool::new(false);
    let published = std::thread::scope(|scope| {
        let publisher = scope.spawn(|| {
            let mut count = 0;
            while !ends.load(Ordering::Relaxed) {
                server.publish("news", &format!("\"n{count}\""));
                count += 1;
            }
            count
        });
        for round in 1..=40 {
            match round % 4 {
                // By both ways at once.
                0 => {
                    server.configure(&text(round));
                    server.signal(Signal::HUP);
                    let answer = server.ask("POST", "/api/reload", "");
                    assert_eq!(answer.status, 200, "{answer:?}");
                }
                _ => assert_eq!(server.reload(&text(round)).0, 200),
            }
            assert_eq!(status(&server, "news", &token("jo", 600)), 200);
        }
        ends.store(true, Ordering::Relaxed);
        publisher.join().expect("every publication was taken")
    });
    assert!(published > 0);
    for stream in &mut streams {
        let mut next = 0;
        while next < published {
            // A chunk may hold several lines.
            for line in stream.chunk().lines() {
                assert!(line.contains(&format!("\"n{next}\"")), "{next}: {line}");
                next += 1;
            }
        }
    }
    server.stop();
}
