//! TLS on the ports, met by clients of others: SDKs, curl, OpenSSL.

mod bad;
mod certificates;
mod commands;
mod gateways;
mod openssl;

use std::ops::Deref;
use std::process::Command;

use serde_json::json;
use throng_testkit::{Authority, Process, Sdk, Server, Setup, TlsFiles, script_trusting, until};

use crate::support::{RECOVERY, data, publish};

/// A server's certificate, and clients that believe its authority.
#[derive(Default)]
struct Scene(TlsFiles);

impl Deref for Scene {
    type Target = TlsFiles;

    fn deref(&self) -> &TlsFiles {
        &self.0
    }
}

impl Scene {
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

    /// curl, which believes the authority.
    fn curl_command(&self) -> Command {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--cacert", &self.trusted]);
        curl
    }

    /// A request by curl; what it prints, or why it failed.
    fn curl(&self, arguments: &[&str]) -> Result<String, String> {
        let mut curl = self.curl_command();
        let done = curl.args(["--max-time", "30"]).args(arguments).output();
        let done = done.expect("curl: `.ci/install` on Debian");
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
        server.metric("throng_subscriptions") == count
    });
}

/// A stream of curl's that goes on until it is dropped.
#[track_caller]
fn stream(scene: &Scene, url: &str) -> Process {
    let mut curl = scene.curl_command();
    curl.args(["--no-buffer", url]);
    Process::start(&mut curl, "install curl: `.ci/install` on Debian")
}

#[test]
fn clients_of_others_hear_everything_over_tls() {
    let scene = Scene::default();
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
        process.prints("chat:all");
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
            small == 50 && large
        });
    }
    let messages = server.metric("throng_tls_handshakes_total{result=\"full\"}")
        + server.metric("throng_tls_handshakes_total{result=\"resumed\"}");
    assert!(messages >= 8, "{messages}");
    server.counts("throng_tls_handshakes_total{result=\"refused\"}", 0);
    // All clients are told to come back, and that nothing more will be sent.
    server.stop();
}

#[test]
fn the_api_port_asks_callers_for_certificates() {
    let scene = Scene::default();
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
