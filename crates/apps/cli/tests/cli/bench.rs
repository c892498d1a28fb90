//! The load generator against a real server. How fast either is, is not looked at: on a busy
//! machine a run may end as one that the generator could not keep up with.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Done, Running, failing, run, run_line, throng, words};

/// A server on ports of its own.
struct Server {
    _running: Running,
    client: String,
    api: String,
}

impl Server {
    #[track_caller]
    fn start() -> Self {
        let own = "serve --listen 127.0.0.1:0 --api 127.0.0.1:0 --shards 1";
        let running = Running::start(&mut throng(&words(own)));
        let mut banner = String::new();
        while !banner.contains("\n  room ") {
            banner.push_str(&running.line());
        }
        let address = |row: &str| {
            let line = banner.lines().find(|line| line.contains(row)).unwrap();
            let rest = line.split("http://").nth(1).unwrap();
            rest[..rest.find('/').unwrap()].to_owned()
        };
        Self {
            client: address("/sse?"),
            api: address("dashboard"),
            _running: running,
        }
    }
}

/// A run that took place, valid or not.
#[track_caller]
fn took_place(done: Done) -> Done {
    assert!(matches!(done.code, Some(0 | 12)), "{done:#?}");
    done
}

#[track_caller]
fn check_deliveries(arguments: &str, server: &Server) {
    let api = &server.api;
    let done = took_place(run_line(&format!(
        "bench sub --clients 30 --rate 1000/s --channels room-{{n%3}} --duration 1s --json \
         --publish http://{api} --publish-rate 60/s {arguments}"
    )));
    let results: Value = serde_json::from_str(&done.out).unwrap();
    let totals = &results["totals"];
    assert_eq!(totals["counters"]["subscribed"], 30, "{totals:#}");
    assert_eq!(totals["deliveries"]["missing"], 0, "{totals:#}");
    assert_eq!(totals["deliveries"]["duplicates"], 0, "{totals:#}");
    let published = totals["counters"]["published"].as_u64().unwrap();
    assert_eq!(
        totals["deliveries"]["distinct"],
        published * 10,
        "{totals:#}"
    );
}

#[test]
fn every_transport_delivers_what_is_published() {
    let server = Server::start();
    for (scheme, path, more) in [
        ("ws", "/ws?channel={channel:url}", ""),
        ("http", "/sse?channel={channel:url}", ""),
        ("http", "/stream?channel={channel:url}", "--speak stream"),
        (
            "ws",
            "/connection/websocket",
            "--speak centrifugo --as centrifugo",
        ),
    ] {
        let client = &server.client;
        check_deliveries(&format!("--url {scheme}://{client}{path} {more}"), &server);
    }
}

#[test]
fn a_run_leaves_a_folder_that_can_be_reported_and_compared() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let url = format!("ws://{}/ws?channel=a", server.client);
    let out = folder.path().join("run");
    let out = out.to_str().unwrap();
    let line = format!("bench sub --url {url} --clients 5 --duration 1s --out {out}");
    took_place(run_line(&line)).prints(&["5 alive", "report.html"]);
    for name in [
        "manifest.json",
        "results.json",
        "series.json",
        "series.csv",
        "latency.hlog",
        "report.html",
    ] {
        let text = fs::read_to_string(format!("{out}/{name}")).unwrap();
        assert!(!text.is_empty(), "{name}");
    }
    run(&["bench", "report", out])
        .expect(0)
        .prints(&["5 alive"]);
    run(&["bench", "report", out, out])
        .expect(0)
        .prints(&["connections alive"]);
    run(&["bench", "report", "/nowhere"])
        .expect(2)
        .says(&["--out"]);
}

#[test]
fn other_tools_scenarios_run_here() {
    let server = Server::start();
    let xml = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../bench/plan/fixtures/tsung-bench.xml"
    );
    let target = format!("ws://{}/ws?channel=files", server.client);
    let line = format!("bench run {xml} --target {target} --scale 0.01 --duration 2s");
    took_place(run_line(&line)).prints(&["0 failed"]);
    let request =
        r"GET /sse?channel=group-\{connection.uid%10} HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let options = words("bench tcpkali -- -c 20 --connect-rate 200 -T 1s -e -1");
    let arguments = [&options[..], &[request, &server.client]].concat();
    took_place(run(&arguments)).prints(&["20 alive, 0 lost, 0 failed"]);
}

#[test]
fn a_check_has_an_exit_code_of_its_own_and_nothing_heard_is_an_error() {
    let server = Server::start();
    let url = format!("ws://{}/ws?channel=a", server.client);
    let sub = format!("bench sub --url {url} --clients 5 --duration 1s");
    let done = run_line(&format!("{sub} --check alive==6"));
    assert!(matches!(done.code, Some(10 | 12)), "{done:#?}");
    done.prints(&["FAIL  alive==6"]);
    let done = run_line(&format!("{sub} --check p99<1s"));
    assert!(matches!(done.code, Some(11 | 12)), "{done:#?}");
    run_line("bench sub --url ws://127.0.0.1:1/ --clients 3 --duration 1s")
        .expect(1)
        .prints(&["refused"]);
}

#[test]
fn mistakes_are_told_before_anything_is_opened() {
    let nowhere = "--url ws://127.0.0.1:1/";
    failing(&format!(
        "bench sub {nowhere} --clients 0 => 2 no clients
bench sub --url 127.0.0.1:1 => 2 --speak
bench sub {nowhere} --channels a-{{m}} => 2 did you mean
bench sub --url wss://127.0.0.1:1/ --ca /nowhere.pem => 2 --ca /nowhere.pem
bench sub {nowhere} --clients 5M => 13 ip_local_port_range
bench sub {nowhere} --check p99 => 2 comparator
bench pub --url http://127.0.0.1:1 --channels a --until p99<1s => 2 --subscribe
bench run /nowhere.toml => 2 nowhere
bench tcpkali -- --nothing => 2 --nothing
bench agent --token= => 2 empty
bench sub {nowhere} --agents 127.0.0.1:1 --agents-token t => 5 bench agent"
    ));
}

#[test]
fn an_interrupted_run_keeps_its_results() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let url = format!("ws://{}/ws?channel=a", server.client);
    let line = format!("bench sub --url {url} --clients 5 --duration 1h --out {out}");
    let running = Running::start(&mut throng(&words(&line)));
    // The first line says that it runs; only a signal ends it.
    running.until_err("5 alive");
    kill_process(Pid::from_raw(running.pid() as i32).unwrap(), Signal::INT).unwrap();
    running.wait().expect(130).prints(&["5 alive"]);
    assert!(fs::exists(folder.path().join("report.html")).unwrap());
}
