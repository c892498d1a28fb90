//! Streams that must not miss anything: ids, gaps, next and gone links.

use crate::support::{Backend, get, item, publish, reply, server, subscribed};

#[test]
fn a_gap_is_filled_from_the_link() {
    let backend = Backend::start(|asked, stream| {
        if asked.line.contains("/more") {
            let last = asked.header("grip-last").unwrap_or_default().to_owned();
            let headers = [
                ("Grip-Hold", "stream"),
                ("Grip-Channel", "a; prev-id=3"),
                ("Grip-Link", "</more>; rel=next"),
            ];
            return reply(stream, &headers, &format!("after {last}\n"));
        }
        let headers = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "a; prev-id=1"),
            ("Grip-Link", "<more?x>; rel=next"),
        ];
        reply(stream, &headers, "start\n")
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    assert_eq!(wire.chunk(), "start\n");
    subscribed(&server, 1);
    publish(&server, &item("a", "two", r#""id": "2", "prev-id": "1","#));
    assert_eq!(wire.chunk(), "two");
    // The third never comes, the fourth follows on it. Being the channel's next by no account, it
    // waits for its turn first.
    publish(&server, &item("a", "four", r#""id": "4", "prev-id": "3","#));
    assert_eq!(wire.chunk(), "after a; last-id=2\n");
    assert_eq!(wire.chunk(), "four");
    // Once more is once too often.
    publish(&server, &item("a", "four", r#""id": "4", "prev-id": "3","#));
    publish(&server, &item("a", "five", r#""id": "5", "prev-id": "4","#));
    assert_eq!(wire.chunk(), "five");
    server.stop();
}

#[test]
fn items_wait_for_those_before_them() {
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
    for (text, ids) in [
        ("one", r#""id": "1","#),
        ("three", r#""id": "3", "prev-id": "2","#),
        ("two", r#""id": "2", "prev-id": "1","#),
        ("late", r#""no-seq": true,"#),
    ] {
        publish(&server, &item("a", text, ids));
    }
    for expected in ["one", "two", "three", "late"] {
        assert_eq!(wire.chunk(), expected);
    }
    server.stop();
}

#[test]
fn a_hint_and_recover_fetch_the_link() {
    let backend = Backend::start(|asked, stream| {
        let link = ("Grip-Link", "</next>; rel=next");
        let body = if asked.line.contains("/next") {
            "page\n"
        } else {
            ""
        };
        reply(
            stream,
            &[("Grip-Hold", "stream"), ("Grip-Channel", "a"), link],
            body,
        )
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    subscribed(&server, 1);
    publish(
        &server,
        r#"{"channel": "a", "http-stream": {"action": "hint"}}"#,
    );
    assert_eq!(wire.chunk(), "page\n");
    let recover = throng_testkit::request(server.grip("http_publish"), "POST", "/recover", &[], "");
    assert_eq!(recover.body, "Updated\n");
    assert_eq!(wire.chunk(), "page\n");
    publish(&server, &item("a", "live", ""));
    assert_eq!(wire.chunk(), "live");
    server.stop();
}

#[test]
fn a_backend_hears_that_a_client_has_gone() {
    let backend = Backend::start(|asked, stream| {
        if asked.line.contains("/bye") {
            return reply(stream, &[], "");
        }
        let headers = [
            ("Grip-Hold", "stream"),
            ("Grip-Channel", "a"),
            ("Grip-Link", "</bye>; rel=gone"),
        ];
        reply(stream, &headers, "")
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/");
    wire.head();
    subscribed(&server, 1);
    drop(wire);
    let asked = backend.wait("/bye", 1);
    assert!(asked[0].line.starts_with("POST "), "{asked:?}");
    server.stop();
}

#[test]
fn pages_follow_each_other_to_the_end() {
    let backend = Backend::start(|asked, stream| match asked.line.as_str() {
        line if line.contains("/2") => reply(stream, &[], "two"),
        _ => reply(stream, &[("Grip-Link", "</2>; rel=next")], "one"),
    });
    let server = server(&[backend.address], "");
    let mut wire = get(&server, "/1");
    wire.head();
    for expected in ["one", "two", ""] {
        assert_eq!(wire.chunk(), expected);
    }
    server.stop();
}
