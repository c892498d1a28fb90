//! TLS on the ports, met by clients of others: SDKs, curl, OpenSSL.

mod bad;
mod certificates;
mod commands;
mod gateways;
mod openssl;

use std::process::Command;

use serde_json::json;
use throng_testkit::{Authority, PemFiles, Process, Sdk, Server, Setup, script_trusting, until};

use crate::support::{RECOVERY, data, publish};

/// A server's certificate, and the authority that its clients believe.
struct Scene {
    authority: Authority,
    files: PemFiles,
    /// The file with the authority.
    trusted: String,
}

impl Scene {
    /// For `localhost` and this machine's address.
    fn new() -> Self {
        let authority = Authority::new("ours");
        let files = PemFiles::new();
        let trusted = files.write("authority.pem", authority.pem());
        files.write_issued("server", &authority.issue(&["localhost", "127.0.0.1"]));
        Self {
            authority,
            files,
            trusted,
        }
    }

    /// The section that names it, with more behind it.
    fn config(&self, more: &str) -> String {
        let [certificate, key] = ["server.pem", "server.key"].map(|name| self.files.path(name));
        format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n{more}")
    }

    /// A server whose client port speaks TLS.
    #[track_caller]
    fn start(&self, more: &str) -> Server {
        Setup::new(&self.config(more))
            .shards(2)
            .tls_clients()
            .start()
    }

    #[track_caller]
    fn script(&self, name: &str, arguments: &[&str]) -> Sdk {
        script_trusting(&self.trusted, name, arguments)
    }

    /// A request by curl, which believes the authority; what it prints, or why it failed.
    fn curl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut curl = Command::new("curl");
        curl.args([
            "--silent",
            "--show-error",
            "--max-time",
            "30",
            "--cacert",
            &self.trusted,
        ]);
        let done = curl
            .args(arguments)
            .output()
            .expect("curl: `.ci/install` on Debian");
        if done.status.success() {
            Ok(String::from_utf8_lossy(&done.stdout).into_owned())
        } else {
            Err(String::from_utf8_lossy(&done.stderr).into_owned())
        }
    }
}

/// Waits until there are so many subscriptions.
#[track_caller]
fn subscribed(server: &Server, count: u64) {
    until("that all are subscribed", || {
        (server.metric("throng_subscriptions") == count).then_some(())
    });
}

/// A stream of curl's that goes on until it is dropped.
#[track_caller]
fn stream(scene: &Scene, url: &str) -> Process {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--no-buffer",
        "--cacert",
        &scene.trusted,
        url,
    ]);
    Process::start(&mut curl, "install curl: `.ci/install` on Debian")
}

#[test]
fn clients_of_others_hear_everything_over_tls() {
    let scene = Scene::new();
    let server = scene.start(&format!("records = \"lean\"\n{RECOVERY}"));
    let at = server.clients();
    let sse = stream(&scene, &format!("https://{at}/sse?channel=chat:all"));
    let lines = stream(&scene, &format!("https://{at}/stream?channel=chat:all"));
    let ws = scene.script("ws.mjs", &[&format!("wss://{at}/ws?channel=chat:all")]);
    let sdks = [
        &[][..],
        &["protobuf"],
        &["http_stream"],
        &["protobuf", "http_stream"],
        &["sse"],
    ];
    let sdks: Vec<Sdk> = { sdks.into_iter() }
        .map(|words| {
            let mut sdk = scene.script("sdk.mjs", words);
            sdk.connect(&json!({ "url": format!("wss://{at}/connection/websocket") }));
            sdk.subscribe("chat:all");
            sdk
        })
        .collect();
    ws.event("open", &json!({}));
    for process in [&sse, &lines] {
        process.out("that it is subscribed", |lines| {
            lines
                .iter()
                .any(|line| line.contains("chat:all"))
                .then_some(())
        });
    }
    let small = data("small", 50);
    publish(&server, "chat:all", &small);
    // More than a record, and more than one write.
    let large = vec![json!({ "text": "x".repeat(300_000) })];
    publish(&server, "chat:all", &large);
    for sdk in &sdks {
        assert_eq!(sdk.publications("chat:all", 50), small);
        assert_eq!(sdk.publications("chat:all", 1), large);
    }
    for process in [&sse, &lines] {
        process.out("all of it", |lines| {
            let small = lines
                .iter()
                .filter(|line| line.contains("\"small\""))
                .count();
            let large = lines.iter().any(|line| line.len() > 300_000);
            (small == 50 && large).then_some(())
        });
    }
    let messages = server.metric("throng_tls_handshakes_total{result=\"full\"}")
        + server.metric("throng_tls_handshakes_total{result=\"resumed\"}");
    assert!(messages >= 8, "{messages}");
    assert_eq!(
        server.metric("throng_tls_handshakes_total{result=\"refused\"}"),
        0
    );
    // All clients are told to come back, and that nothing more will be sent.
    server.stop();
}

/// A client that does not read is held to its bound, and gets the rest when it reads again.
#[test]
fn a_slow_client_over_tls_is_held_to_its_bound() {
    let scene = Scene::new();
    let more = "[engine]\nout_buffer_bytes_max = \"64KiB\"\n[channel]\nslow_consumer = \
                \"drop-oldest\"\n";
    let server = scene.start(more);
    let mut ws = scene.script(
        "ws.mjs",
        &[&format!("wss://{}/ws?channel=news", server.clients())],
    );
    ws.event("open", &json!({}));
    subscribed(&server, 1);
    ws.say("pause");
    ws.event("paused", &json!({}));
    let text = "x".repeat(16_000);
    let dropped = "throng_dropped_total{policy=\"drop-oldest\"}";
    until("something is dropped", || {
        for _ in 0..50 {
            server.publish("news", &text);
        }
        (server.metric(dropped) > 0).then_some(())
    });
    ws.say("resume");
    server.publish("news", "the end");
    until("the end", || {
        let event = ws.event("message", &json!({}));
        event["data"]
            .as_str()
            .is_some_and(|data| data.contains("the end"))
            .then_some(())
    });
    server.stop();
}

#[test]
fn the_api_port_asks_callers_for_certificates() {
    let scene = Scene::new();
    let callers = Authority::new("callers");
    let [certificate, key] = scene
        .files
        .write_issued("caller", &callers.issue(&["caller"]));
    let [other, other_key] = scene
        .files
        .write_issued("other", &scene.authority.issue(&["other"]));
    let authorities = scene.files.write("callers.pem", callers.pem());
    let config = scene.config(&format!("api_client_authorities = {authorities:?}\n"));
    let server = Setup::new(&config).shards(1).tls_api().start();
    let url = format!("https://{}/pub?channel=news", server.api_address());
    let publish = |with: &[&str]| scene.curl(&[with, &["-d", "hello", &url]].concat());
    let caller = ["--cert", certificate.as_str(), "--key", key.as_str()];
    let stranger = ["--cert", other.as_str(), "--key", other_key.as_str()];
    for _ in 0..2 {
        assert!(publish(&caller).is_ok_and(|answer| answer.contains('{')));
        assert!(publish(&[]).is_err());
        assert!(publish(&stranger).is_err());
    }
    let why = until("two kinds of refusals in the log", || {
        let told = server
            .log()
            .into_iter()
            .filter(|line| line["what"] == "tls");
        let why: Vec<String> = told
            .map(|line| line["why"].as_str().unwrap().to_owned())
            .collect();
        (why.len() >= 4).then_some(why)
    });
    assert!(
        why.iter().any(|why| why.contains("sent no certificate")),
        "{why:?}"
    );
    assert!(why.iter().any(|why| why.contains("not trusted")), "{why:?}");
    server.stop();
}
