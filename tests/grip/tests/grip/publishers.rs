//! Publishers of others: PyPI's gripcontrol and pubcontrol, and npm's @fanoutio/grip; and our own
//! `throng pushpin-publish`, by HTTP and by ZeroMQ, and what it ends with.

use std::process::{Command, Output};

use throng_testkit::{Process, Server, javascript_of};

use crate::support::{listens, python};

#[track_caller]
fn check(how: &str, uri: impl Fn(&Server) -> String) {
    let (server, mut wire) = listens();
    let publisher = python("publish.py", &[how, &uri(&server), "a", "hello"]);
    publisher.out("its word", |lines| {
        lines.contains(&"published".to_owned()).then_some(())
    });
    assert_eq!(wire.chunk(), "hello\n", "{how}");
    server.stop();
}

#[test]
fn pubcontrol_by_http() {
    check("http", |server| {
        format!("http://{}", server.grip("http_publish"))
    });
}

#[test]
fn pubcontrol_pushes_by_zeromq() {
    check("push", |server| {
        format!("tcp://{}", server.grip("zmq_command"))
    });
}

#[test]
fn pubcontrol_publishes_by_zeromq_to_those_who_subscribe() {
    check("pub", |server| {
        format!("tcp://{}", server.grip("zmq_command"))
    });
}

#[test]
fn fanoutio_grip_publishes() {
    let (server, mut wire) = listens();
    let folder = javascript_of("grip-js", "tests/grip/js");
    let mut node = Command::new("node");
    let script = folder.join("publish.mjs");
    std::fs::copy(
        concat!(env!("CARGO_MANIFEST_DIR"), "/js/publish.mjs"),
        &script,
    )
    .expect("a copy below target");
    node.arg(script)
        .arg(format!("http://{}", server.grip("http_publish")));
    let publisher = Process::start(&mut node, "node runs it");
    assert_eq!(wire.chunk(), "from node\n");
    publisher.out("its end", |lines| {
        lines.contains(&"published".to_owned()).then_some(())
    });
    server.stop();
}

fn publish(spec: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(throng_testkit::throng());
    command
        .args(["pushpin-publish", "--spec", spec])
        .args(arguments);
    command.env_remove("GRIP_URL");
    command.output().expect("throng runs")
}

#[test]
fn items_arrive_by_http_and_by_zeromq() {
    let (server, mut wire) = listens();
    let specs = [
        format!("http://{}", server.grip("http_publish")),
        format!("tcp://{}", server.grip("zmq_pull")),
    ];
    for spec in &specs {
        let done = publish(spec, &["a", spec]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(done.stdout, b"Published\n");
        assert_eq!(wire.chunk(), format!("{spec}\n"));
    }
    server.stop();
}

#[test]
fn whatever_goes_wrong_ends_with_one() {
    let nobody = "http://127.0.0.1:9";
    for (spec, arguments) in [
        (nobody, &["a", "x"][..]),
        ("tcp://127.0.0.1:9", &["a", "x"]),
        (nobody, &["a"]),
        (nobody, &["--no-such-option", "a", "x"]),
        (nobody, &["--user", "me:secret", "a", "x"]),
    ] {
        let done = publish(spec, arguments);
        assert_eq!(done.status.code(), Some(1), "{spec} {arguments:?}");
        assert!(!done.stderr.is_empty(), "{spec} {arguments:?}");
    }
}
