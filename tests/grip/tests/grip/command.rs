//! `throng pushpin-publish`, by HTTP and by ZeroMQ, and what it ends with.

use std::process::{Command, Output};

use crate::support::{Backend, get, reply, server, subscribed};

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
    let backend = Backend::start(|_, stream| {
        let headers = [("Grip-Hold", "stream"), ("Grip-Channel", "a")];
        reply(stream, &headers, "")
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    subscribed(&server, 1);
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
