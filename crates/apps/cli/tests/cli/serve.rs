//! A real server, and the other commands against it.

use std::net::TcpListener;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Done, Running, run, throng};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A server on ports of its own, ready to serve.
struct Server {
    running: Running,
    client: String,
    api: String,
    banner: String,
}

impl Server {
    #[track_caller]
    fn start(more: &[&str]) -> Self {
        let own = [
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--api",
            "127.0.0.1:0",
            "--shards",
            "1",
        ];
        let running = Running::start(&mut throng(&[&own[..], more].concat()));
        let mut banner = String::new();
        while !banner.contains("\n  room ") || !banner.ends_with('\n') {
            banner.push_str(&running.line());
        }
        let url = |row: &str| {
            let line = banner.lines().find(|line| line.contains(row)).unwrap();
            let at = line.find("http://").unwrap();
            let rest = &line[at + "http://".len()..];
            format!("http://{}", &rest[..rest.find('/').unwrap()])
        };
        let (client, api) = (url("/sse?"), url("dashboard"));
        Self {
            running,
            client,
            api,
            banner,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.running.pid().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    #[track_caller]
    fn stop(self) -> Done {
        self.signal(Signal::TERM);
        self.running.wait().expect(0)
    }

    /// Publishes until the subscriber has something to say: it does not tell when it is there.
    #[track_caller]
    fn publish_until_heard(&self, subscriber: &Running, more: &[&str]) -> String {
        loop {
            let arguments = [&["publish", "news", "hello", "--api", &self.api], more].concat();
            run(&arguments).expect(0);
            if let Some(line) = subscriber.line_if_there() {
                return line;
            }
        }
    }

    fn subscribe(&self, more: &[&str]) -> Running {
        let own = ["subscribe", "news", "--server", &self.client];
        Running::start(&mut throng(&[&own[..], more].concat()))
    }
}

#[test]
fn what_is_published_arrives() {
    let server = Server::start(&[]);
    for part in [
        "open mode",
        "/ws?channel=news",
        "/stream?channel=news",
        "/connection/websocket",
        "curl -d hello",
        "connections",
    ] {
        assert!(server.banner.contains(part), "{}", server.banner);
    }
    let text = server.subscribe(&["--count", "2"]);
    let json = server.subscribe(&["--count", "1", "--json"]);
    assert_eq!(server.publish_until_heard(&text, &[]), "hello\n");
    let line: Value = serde_json::from_str(&server.publish_until_heard(&json, &[])).unwrap();
    assert_eq!(
        (&line["channel"], &line["data"]),
        (&"news".into(), &"hello".into())
    );
    json.wait().expect(0);
    // What was published for the other one arrived here too, perhaps once, perhaps more often.
    run(&["publish", "news", "hello", "--api", &server.api]).expect(0);
    text.wait().expect(0);
    run(&["publish", "un:known", "x", "--api", &server.api])
        .expect(6)
        .says(&["refused"]);
    server.stop();
}

#[test]
fn history_has_positions() {
    let server = Server::start(&[
        "--set",
        "channel.history_size=10",
        "--set",
        "channel.history_ttl=1m",
    ]);
    let offset = || {
        let done = run(&["publish", "news", "x", "--json", "--api", &server.api]).expect(0);
        let told: Value = serde_json::from_str(&done.out).unwrap();
        told["offset"].as_u64().unwrap()
    };
    assert_eq!([offset(), offset()], [1, 2]);
    server.stop();
}

#[test]
fn a_protected_server_wants_keys() {
    let secret = format!("auth.hmac_secret={SECRET}");
    let server = Server::start(&["--set", &secret, "--set", "auth.api_keys=k"]);
    assert!(server.banner.contains("clients need a token") && server.banner.contains("X-API-Key"));
    assert!(!server.banner.contains(SECRET));
    run(&["publish", "news", "x", "--api", &server.api])
        .expect(6)
        .says(&["--api-key"]);
    run(&[
        "publish",
        "news",
        "x",
        "--api",
        &server.api,
        "--api-key",
        "no",
    ])
    .expect(6)
    .says(&["auth.api_keys"]);
    run(&["subscribe", "news", "--server", &server.client])
        .expect(6)
        .says(&["--token"]);
    let made = run(&[
        "token",
        "create",
        "--user",
        "a",
        "--secret",
        SECRET,
        "--allow-subscribe",
        "news",
    ])
    .expect(0);
    let subscriber = server.subscribe(&["--token", made.out.trim_end(), "--count", "1"]);
    server.publish_until_heard(&subscriber, &["--api-key", "k"]);
    subscriber.wait().expect(0);
    server.stop();
}

#[test]
fn subscribers_come_back_after_a_restart() {
    let first = Server::start(&["--set", "drain.jitter=0s"]);
    let subscriber = first.subscribe(&[]);
    first.publish_until_heard(&subscriber, &[]);
    let address = first.client.trim_start_matches("http://").to_owned();
    first.stop();
    subscriber.until_err("coming back");
    let second = Server::start(&["--listen", &address]);
    subscriber.drain_lines();
    assert_eq!(second.publish_until_heard(&subscriber, &[]), "hello\n");
    second.stop();
}

#[test]
fn a_second_signal_ends_it_at_once() {
    // With a client that is in no hurry, the drain alone would outlast the deadline of this test.
    let server = Server::start(&["--set", "drain.timeout=1d"]);
    server.signal(Signal::INT);
    server.running.until_err("again");
    server.signal(Signal::INT);
    server.running.wait().expect(0);
}

#[test]
fn what_keeps_it_from_starting_is_told() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--api", &address];
    run(&arguments).expect(7).says(&[&address]);
    run(&["serve", "--listen", "0.0.0.0:0"])
        .expect(4)
        .says(&["auth.hmac_secret"]);
    run(&["serve", "--shards", "many", "--api", "nowhere"])
        .expect(4)
        .says(&["--shards", "--api"]);
    run(&["serve", "--set", "log.levle=info"])
        .expect(4)
        .says(&["log.level"]);
}

#[test]
fn json_logs_are_json_alone() {
    let arguments = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--api",
        "127.0.0.1:0",
        "--log-format",
        "json",
    ];
    let running = Running::start(&mut throng(&arguments));
    let line = running.until_err("\"serving\"");
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["open_mode"], true);
    let pid = Pid::from_raw(running.pid().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let done = running.wait().expect(0);
    assert_eq!(done.out, "");
    for line in done.err.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}
