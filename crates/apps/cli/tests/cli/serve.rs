//! A real server, and the other commands against it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Done, Running, run, throng, words};
use crate::proxy::Proxy;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// A server on ports of its own, ready to serve.
pub(crate) struct Server {
    running: Running,
    pub(crate) client: String,
    pub(crate) api: String,
    pub(crate) banner: String,
}

impl Server {
    #[track_caller]
    pub(crate) fn start(more: &[&str]) -> Self {
        Self::start_by(Running::start, more)
    }

    #[track_caller]
    fn start_by(start: impl FnOnce(&mut Command) -> Running, more: &[&str]) -> Self {
        let own = words("serve --listen 127.0.0.1:0 --api 127.0.0.1:0 --shards 1");
        let running = start(&mut throng(&[&own[..], more].concat()));
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

    #[track_caller]
    pub(crate) fn stop(self) -> Done {
        signal(&self.running, Signal::TERM);
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

fn signal(running: &Running, signal: Signal) {
    let pid = Pid::from_raw(running.pid().try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// The line is cut, publications are missed, and all of them arrive in their order, each once.
#[test]
fn what_was_missed_comes_after_a_cut() {
    let server = Server::start(&words(
        "--set channel.history_size=100 --set channel.history_ttl=5m --set channel.recovery=true",
    ));
    for more in [&[][..], &["--json"], &["other"]] {
        let proxy = Proxy::new(&server.client);
        let arguments = [&["subscribe", "news", "--server", &proxy.url], more].concat();
        let subscriber = Running::start(&mut throng(&arguments));
        // The first connection has a place to come back to once something was heard.
        server.publish_until_heard(&subscriber, &[]);
        let publish = |data: &str| run(&["publish", "news", data, "--api", &server.api]).expect(0);
        publish("before");
        while !subscriber.line().contains("before") {}
        proxy.cut();
        subscriber.until_err("coming back");
        let missed: Vec<String> = (0..50).map(|n| format!("missed {n}")).collect();
        for data in &missed {
            publish(data);
        }
        proxy.mend();
        subscriber.until_err("nothing was missed");
        publish("after");
        for data in missed.iter().map(String::as_str).chain(["after"]) {
            let line = subscriber.line();
            let told = serde_json::from_str::<Value>(&line).map(|line| line["data"].clone());
            assert_eq!(
                told.unwrap_or_else(|_| line.trim_end().into()),
                data,
                "{more:?}"
            );
        }
    }
    server.stop();
}

#[test]
fn a_websocket_subscription_hears_and_comes_back() {
    let server = Server::start(&[]);
    let proxy = Proxy::new(&server.client);
    let url = proxy.url.replace("http://", "ws://");
    let subscriber = Running::start(&mut throng(&["subscribe", "news", "--url", &url]));
    assert_eq!(server.publish_until_heard(&subscriber, &[]), "hello\n");
    proxy.cut();
    subscriber.until_err("coming back");
    proxy.mend();
    subscriber.until_err("does not resume");
    subscriber.drain_lines();
    assert_eq!(server.publish_until_heard(&subscriber, &[]), "hello\n");
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

/// A client that does not read keeps a server from leaving as long as the drain may take, which is
/// a day here.
#[test]
fn a_second_signal_ends_it_at_once() {
    let server = Server::start(&words(
        "--set drain.timeout=1d --set channel.slow_consumer=drop-oldest",
    ));
    let mut stuck = TcpStream::connect(server.client.trim_start_matches("http://")).unwrap();
    stuck
        .write_all(b"GET /sse?channel=news HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    // The head and the first words are there once there is anything after the head.
    let mut heard = Vec::new();
    while !String::from_utf8_lossy(&heard).contains("subscribed") {
        let mut bytes = [0; 1024];
        let count = stuck.read(&mut bytes).unwrap();
        assert_ne!(count, 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&bytes[..count]);
    }
    // More than the kernel holds for a connection that nobody reads.
    let large = vec![b'x'; 900_000];
    for _ in 0..24 {
        let publish = ["publish", "news", "--api", &server.api];
        let done = Running::start_with(&mut throng(&publish), &large).wait();
        done.expect(0);
    }
    signal(&server.running, Signal::INT);
    server.running.until_err("again");
    signal(&server.running, Signal::INT);
    server.running.wait().expect(0);
}

/// `throng serve 2>&1 | head` must not take the server with it.
#[test]
fn it_serves_when_nobody_reads_its_logs() {
    let server = Server::start_by(Running::start_unheard, &["--log-level", "trace"]);
    run(&["publish", "news", "x", "--api", &server.api]).expect(0);
    server.stop();
}

/// The pages tell people to look for these lines by their targets.
#[test]
fn lines_have_their_targets() {
    let secret = format!("auth.hmac_secret={SECRET}");
    let own = ["--log-level", "debug", "--set", &secret];
    let text = Server::start(&own);
    told_by_target(&text.running, &text.client, &text.api, |line| {
        line.split(": ").next().unwrap_or_default().to_owned()
    });
    text.stop();
    let json = words("serve --log-format json --listen 127.0.0.1:0 --api 127.0.0.1:0");
    let json = Running::start(&mut throng(&[&json[..], &own].concat()));
    let object = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    let serving = object(&json.until_err("\"serving\""));
    let url = |key: &str| format!("http://{}", serving[key].as_str().unwrap());
    told_by_target(&json, &url("clients"), &url("api"), |line| {
        let line = object(line);
        format!(
            "{} {}",
            line["level"].as_str().unwrap(),
            line["target"].as_str().unwrap()
        )
    });
    signal(&json, Signal::TERM);
    json.wait().expect(0);
}

/// Does what is logged; `target` takes level and target from a line.
#[track_caller]
fn told_by_target(server: &Running, client: &str, api: &str, target: impl Fn(&str) -> String) {
    let told = |level_and_target: &str, part: &str| {
        let line = server.until_err(part);
        assert!(target(&line).ends_with(level_and_target), "{line}");
    };
    run(&["subscribe", "news", "--server", client]).expect(6);
    told("INFO throng::refused", "no token");
    run(&["publish", "news", "x", "--api", api]).expect(0);
    told("DEBUG throng::audit", "publish");
    let host = api.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let body = r#"{"user":"ann"}"#;
    let head = format!(
        "POST /api/disconnect HTTP/1.1\r\nHost: {host}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    told("INFO throng::audit", "disconnect");
}

#[test]
fn json_logs_are_json_alone() {
    let arguments = words("serve --listen 127.0.0.1:0 --api 127.0.0.1:0 --log-format json");
    let running = Running::start(&mut throng(&arguments));
    let line = running.until_err("\"serving\"");
    let told: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(told["open_mode"], true);
    signal(&running, Signal::TERM);
    let done = running.wait().expect(0);
    assert_eq!(done.out, "");
    for line in done.err.lines() {
        serde_json::from_str::<Value>(line).unwrap();
    }
}
