//! PyPI's gripcontrol and pubcontrol, and npm's @fanoutio/grip.

use std::process::Command;

use throng_testkit::{Process, Server, javascript_of};

use crate::support::{Backend, get, python, reply, server, subscribed};

#[track_caller]
fn check(how: &str, uri: impl Fn(&Server) -> String) {
    let backend = Backend::start(|_, stream| {
        reply(
            stream,
            &[("Grip-Hold", "stream"), ("Grip-Channel", "a")],
            "",
        )
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    subscribed(&server, 1);
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
    let backend = Backend::start(|_, stream| {
        reply(
            stream,
            &[("Grip-Hold", "stream"), ("Grip-Channel", "a")],
            "",
        )
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    subscribed(&server, 1);
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
