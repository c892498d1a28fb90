//! curl, as the README shows it: streams, publishing, and the server API in Centrifugo's shapes.

use std::process::Command;

use serde_json::{Value, json};
use throng_testkit::{Process, Server, Setup};

use crate::support::RECOVERY;

const INSTALL: &str = "install curl: `.ci/install` on Debian";

/// A stream that goes on until it is dropped.
fn stream(url: &str, more: &[&str]) -> Process {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--no-buffer"])
        .args(more)
        .arg(url);
    Process::start(&mut curl, INSTALL)
}

fn wait_for(curl: &Process, part: &str) -> String {
    curl.out(part, |lines| {
        lines.iter().find(|line| line.contains(part)).cloned()
    })
}

/// Runs curl and returns the status and its output.
fn run(arguments: &[&str]) -> (u16, String) {
    let mut curl = Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "30",
        "--write-out",
        "\n%{http_code}",
    ]);
    let done = curl.args(arguments).output();
    let done = done.unwrap_or_else(|error| panic!("cannot start curl: {error}; {INSTALL}"));
    let text = String::from_utf8_lossy(&done.stdout);
    let (body, status) = text.rsplit_once('\n').unwrap();
    assert!(
        done.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
    (status.parse().unwrap(), body.to_owned())
}

fn publish(server: &Server, channel: &str, data: &str) {
    let url = format!("http://{}/pub?channel={channel}", server.api_address());
    let (status, body) = run(&["--data-binary", data, &url]);
    assert_eq!(status, 200, "{body}");
}

#[test]
fn the_readme_commands_work() {
    let server = Setup::default().start();
    let sse = stream(
        &format!("http://{}/sse?channel=news", server.clients()),
        &[],
    );
    let lines = stream(
        &format!("http://{}/stream?channel=news", server.clients()),
        &[],
    );
    wait_for(&sse, "event: subscribed");
    wait_for(&lines, "\"channels\"");
    publish(&server, "news", "hello");
    wait_for(&sse, "data: hello");
    let line: Value = serde_json::from_str(&wait_for(&lines, "\"data\"")).unwrap();
    assert_eq!(
        (&line["channel"], &line["data"]),
        (&json!("news"), &json!("hello"))
    );
    // Several lines are one event, and JSON stays JSON.
    publish(&server, "news", "one\ntwo");
    wait_for(&sse, "data: two");
    publish(&server, "news", r#"{"a":[1,2]}"#);
    wait_for(&sse, r#"data: {"a":[1,2]}"#);
    let line: Value = serde_json::from_str(&wait_for(&lines, "[1,2]")).unwrap();
    assert_eq!(line["data"], json!({ "a": [1, 2] }));
    server.stop();
}

/// Where a namespace asks for it and the client takes gzip, each publication is there as soon as it
/// was published, and the server's own words between them.
#[test]
fn a_compressed_stream_is_read_as_it_comes() {
    let options =
        format!("{RECOVERY}compression = true\n\n[stream]\nkeepalive_interval = \"1s\"\n");
    let server = Setup::new(&options).shards(2).start();
    let text = "the same again and again, ".repeat(400) + "end";
    for (path, sign_of_life) in [("sse", ":"), ("stream", "{}")] {
        let url = format!("http://{}/{path}?channel=chat:a", server.clients());
        let curl = stream(&url, &["--compressed", "--include"]);
        wait_for(&curl, "Content-Encoding: gzip");
        wait_for(&curl, "\"recovered\"");
        for n in 0..3 {
            publish(&server, "chat:a", &format!("{n} {text}"));
            wait_for(&curl, &format!("{n} {text}"));
        }
        wait_for(&curl, sign_of_life);
        // Several channels have ids of each connection's own, which no other connection can share.
        let curl = stream(
            &format!("{url}&channel=chat:b"),
            &["--compressed", "--include"],
        );
        publish(&server, "chat:b", "alone");
        let lines = curl.out("its head", |lines| {
            lines
                .iter()
                .any(|line| line.is_empty())
                .then(|| lines.to_vec())
        });
        assert!(lines.iter().all(|line| !line.contains("gzip")), "{lines:?}");
    }
    server.stop();
}

#[test]
fn a_stream_resumes_by_its_id() {
    let server = Setup::new(RECOVERY).shards(2).start();
    for channels in ["channel=chat:a", "channel=chat:a&channel=chat:b"] {
        let url = format!("http://{}/sse?{channels}", server.clients());
        let first = stream(&url, &[]);
        wait_for(&first, "event: subscribed");
        publish(&server, "chat:a", "known");
        wait_for(&first, "data: known");
        let id = first.out("an id", |lines| {
            let known = lines.iter().position(|line| line == "data: known")?;
            let id = lines[..known]
                .iter()
                .rev()
                .find(|line| line.starts_with("id: "))?;
            Some(id[4..].to_owned())
        });
        drop(first);
        for n in 0..3 {
            publish(&server, "chat:a", &format!("missed {n}"));
        }
        let header = format!("Last-Event-ID: {id}");
        let in_query = format!("{url}&last_event_id={id}");
        for again in [stream(&url, &["--header", &header]), stream(&in_query, &[])] {
            let told = wait_for(&again, "\"recovered\":true");
            assert!(told.contains("\"resuming\":true"), "{told}");
            wait_for(&again, "data: missed 2");
            let data = again.out("data", |lines| {
                let data = lines
                    .iter()
                    .filter_map(|line| line.strip_prefix("data: missed "));
                Some(data.map(str::to_owned).collect::<Vec<_>>())
            });
            assert_eq!(data, ["0", "1", "2"]);
        }
        // An id that is not ours recovers nothing, and the answer shows that.
        for wrong in ["nonsense", "1.1.1", "0"] {
            let header = format!("Last-Event-ID: {wrong}");
            wait_for(&stream(&url, &["--header", &header]), "\"recovered\":false");
        }
    }
    server.stop();
}

#[test]
fn the_server_api_has_centrifugos_shapes() {
    let server = Setup::new(RECOVERY).shards(2).api_key("secret-key").start();
    let call = |method: &str, key: &str, body: &Value| {
        let url = format!("http://{}/api/{method}", server.api_address());
        let key = format!("X-API-Key: {key}");
        let (status, text) = run(&["--header", &key, "--data-binary", &body.to_string(), &url]);
        (
            status,
            serde_json::from_str::<Value>(&text).unwrap_or_else(|_| json!(text)),
        )
    };
    let ok = |method: &str, body: Value| {
        let (status, answer) = call(method, "secret-key", &body);
        assert_eq!(status, 200, "{method} {body}: {answer}");
        answer["result"].clone()
    };
    assert_eq!(call("info", "wrong", &json!({})).0, 401);
    assert_eq!(
        call("publish", "", &json!({ "channel": "news", "data": 1 })).0,
        401
    );

    let one = ok(
        "publish",
        json!({ "channel": "chat:a", "data": { "n": 1 } }),
    );
    assert_eq!(one["offset"], 1, "{one}");
    assert!(
        one["epoch"].as_str().is_some_and(|epoch| !epoch.is_empty()),
        "{one}"
    );
    let all = ok(
        "broadcast",
        json!({ "channels": ["chat:a", "chat:b", "un:known"], "data": { "n": 2 } }),
    );
    let responses = &all["responses"];
    assert_eq!(responses[0]["result"]["offset"], 2, "{all}");
    assert_eq!(responses[1]["result"]["offset"], 1, "{all}");
    assert_eq!(responses[2]["error"]["code"], 102, "{all}");
    let history = ok("history", json!({ "channel": "chat:a", "limit": 10 }));
    assert_eq!(history["offset"], 2);
    let data: Vec<_> = history["publications"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pub_| &pub_["data"]["n"])
        .collect();
    assert_eq!(data, [1, 2]);
    let page = ok(
        "history",
        json!({ "channel": "chat:a", "limit": 1, "reverse": true }),
    );
    assert_eq!(page["publications"][0]["data"]["n"], 2);

    let info = ok("info", json!({}));
    assert_eq!(info["nodes"][0]["num_clients"], 0, "{info}");
    for (method, body, code) in [
        ("publish", json!({ "channel": "un:known", "data": 1 }), 102),
        ("publish", json!({ "channel": "", "data": 1 }), 107),
        ("publish", json!({ "channel": "news" }), 107),
        ("history", json!({ "channel": "news" }), 108),
        (
            "history",
            json!({ "channel": "chat:a", "limit": 1, "since": { "offset": 1, "epoch": "gone" } }),
            112,
        ),
        ("disconnect", json!({ "user": "" }), 107),
        ("unsubscribe", json!({ "user": "", "channel": "news" }), 107),
        ("broadcast", json!({ "channels": [], "data": 1 }), 107),
    ] {
        let (status, answer) = call(method, "secret-key", &body);
        assert_eq!(
            (status, &answer["error"]["code"]),
            (200, &json!(code)),
            "{method} {body}: {answer}"
        );
    }
    // In transport mode the status shows it, too.
    let url = format!("http://{}/api/publish", server.api_address());
    let headers = [
        "--header",
        "X-API-Key: secret-key",
        "--header",
        "X-Centrifugo-Error-Mode: transport",
    ];
    let (status, _) = run(&[
        &headers[..],
        &["--data-binary", r#"{"channel":"un:known","data":1}"#, &url],
    ]
    .concat());
    assert_eq!(status, 404);
    let (status, _) = run(&[
        "--header",
        "X-API-Key: secret-key",
        "--data-binary",
        "{nonsense",
        &url,
    ]);
    assert_eq!(status, 400);
    // The key may also come as Centrifugo's clients send it otherwise.
    let (status, _) = run(&[
        "--header",
        "Authorization: apikey secret-key",
        "--data-binary",
        "{}",
        &url.replace("publish", "info"),
    ]);
    assert_eq!(status, 200);
    server.stop();
}

#[test]
fn channels_and_connections_are_counted() {
    let server = Setup::new(RECOVERY).shards(2).start();
    let streams: Vec<Process> = ["news", "news", "chat:a"]
        .iter()
        .map(|channel| {
            stream(
                &format!("http://{}/stream?channel={channel}", server.clients()),
                &[],
            )
        })
        .collect();
    for stream in &streams {
        wait_for(stream, "\"channels\"");
    }
    let channels = server.call("channels", &json!({}));
    let expect = json!({ "chat:a": { "num_clients": 1 }, "news": { "num_clients": 2 } });
    assert_eq!(channels["result"]["channels"], expect);
    let some = server.call("channels", &json!({ "pattern": "chat:*" }));
    assert_eq!(
        some["result"]["channels"],
        json!({ "chat:a": { "num_clients": 1 } })
    );
    let node = &server.call("info", &json!({}))["result"]["nodes"][0];
    let counts = (
        &node["num_clients"],
        &node["num_channels"],
        &node["num_subs"],
    );
    assert_eq!(counts, (&json!(3), &json!(2), &json!(3)), "{node}");
    server.stop();
}
