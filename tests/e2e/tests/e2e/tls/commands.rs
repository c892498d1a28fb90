//! Throng's own commands by TLS: publish, subscribe, and the load generator.

use std::process::{Command, Output};

use serde_json::Value;
use throng_testkit::{Process, Server, Setup, throng, until};

use super::Scene;

fn both_ports(scene: &Scene) -> Server {
    let setup = Setup::new(&scene.config("")).shards(2);
    setup.tls_clients().tls_api().start()
}

fn run(arguments: &[&str]) -> Output {
    Command::new(throng())
        .args(arguments)
        .output()
        .expect("the binary")
}

#[test]
fn publish_and_subscribe_believe_whom_they_are_told_to() {
    let scene = Scene::default();
    let server = both_ports(&scene);
    let [clients, api] = [server.clients(), server.api_address()];
    let (secure, socket) = (format!("https://{clients}"), format!("wss://{clients}/ws"));
    let api = format!("https://{api}");
    let believe = [&["--ca", scene.trusted.as_str()][..], &["--insecure"]];
    for (to, believe) in [
        &["--server", secure.as_str()][..],
        &["--url", socket.as_str()],
    ]
    .into_iter()
    .zip(believe)
    {
        let mut subscribe = Command::new(throng());
        subscribe
            .args(["subscribe", "news", "--count", "1"])
            .args(to)
            .args(believe);
        let subscribe = Process::start(&mut subscribe, "cargo has just built it");
        let line = until("a delivery", || {
            let publish = ["publish", "news", "hello", "--api", &api];
            let done = run(&[&publish[..], believe].concat());
            assert!(done.status.success(), "{done:?}");
            let lines = subscribe.out("nothing yet or a line", |lines| Some(lines.to_vec()));
            lines.first().cloned()
        });
        assert_eq!(line, "hello");
    }
    let done = run(&["publish", "news", "hello", "--api", &api]);
    let text = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(5));
    assert!(
        text.contains("not trusted here") && text.contains("--ca FILE"),
        "{text}"
    );
}

#[test]
fn the_generator_measures_over_tls() {
    let scene = Scene::default();
    let server = both_ports(&scene);
    let url = format!("wss://{}/ws?channel={{channel:url}}", server.clients());
    let api = format!("https://{}", server.api_address());
    let run = run(&[
        "bench",
        "sub",
        "--url",
        &url,
        "--clients",
        "50",
        "--channels",
        "room",
        "--publish",
        &api,
        "--publish-rate",
        "20/s",
        "--duration",
        "2s",
        "--ca",
        &scene.trusted,
        "--json",
    ]);
    let text = String::from_utf8_lossy(&run.stdout);
    let results: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{run:?}"));
    let counters = &results["totals"]["counters"];
    assert_eq!(counters["upgraded"], 50, "{counters}");
    assert_eq!(counters["lost"], serde_json::json!({}), "{counters}");
    let deliveries = &results["totals"]["deliveries"];
    assert_eq!(deliveries["missing"], 0, "{deliveries}");
}
