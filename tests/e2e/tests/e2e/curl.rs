//! curl, as the README shows it: streams and publishing.

use std::process::Command;

use serde_json::{Value, json};
use throng_testkit::{Process, Server, Setup};

const INSTALL: &str = "install curl: `.ci/install` on Debian";

/// A stream of `news` that goes on until it is dropped.
fn stream(server: &Server, path: &str) -> Process {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--no-buffer"]);
    curl.arg(format!("http://{}/{path}?channel=news", server.clients()));
    Process::start(&mut curl, INSTALL)
}

fn publish(server: &Server, data: &str) {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--max-time", "30"]);
    curl.args(["--data-binary", data]);
    curl.arg(format!("http://{}/pub?channel=news", server.api_address()));
    let done = curl.output().expect(INSTALL);
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn the_readme_commands_work() {
    let server = Setup::default().start();
    let (sse, lines) = (stream(&server, "sse"), stream(&server, "stream"));
    sse.prints("event: subscribed");
    lines.prints("\"channels\"");
    publish(&server, "hello");
    sse.prints("data: hello");
    let line: Value = serde_json::from_str(&lines.prints("\"data\"")).unwrap();
    assert_eq!(
        (&line["channel"], &line["data"]),
        (&json!("news"), &json!("hello"))
    );
    // Several lines are one event, and JSON stays JSON.
    publish(&server, "one\ntwo");
    sse.prints("data: two");
    publish(&server, r#"{"a":[1,2]}"#);
    sse.prints(r#"data: {"a":[1,2]}"#);
    let line: Value = serde_json::from_str(&lines.prints("[1,2]")).unwrap();
    assert_eq!(line["data"], json!({ "a": [1, 2] }));
    server.stop();
}
