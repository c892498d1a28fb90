//! Answers that are passed on, and clients that are held for one.

use super::*;

const HOLD: [(&str, &str); 3] = [
    ("Grip-Hold", "response"),
    ("Grip-Channel", "a"),
    ("Grip-Timeout", "5"),
];

fn held() -> Client {
    let mut client = Client::gets();
    client.asked();
    client.head(1, 200, &HOLD);
    assert!(client.hub.is_empty(), "its body is not whole");
    client.body(1, "nothing");
    client.end(1);
    assert_eq!(client.hub, ["+grip:a"]);
    assert_eq!(client.deadline_ms(), Some(5000));
    assert_eq!(client.told(), "");
    client
}

#[test]
fn an_answer_is_passed_on_as_it_comes() {
    for (version, framing, body) in [
        (
            "1.1",
            "Transfer-Encoding: chunked\r\n\r\n",
            "2\r\nhi\r\n0\r\n\r\n",
        ),
        ("1.0", "Connection: close\r\n\r\n", "hi"),
    ] {
        let request = format!("GET /a?b=c HTTP/{version}\r\nHost: a\r\nX-Own: 1\r\n\r\n");
        let mut client = Client::asks(&request);
        let asked = client.asked();
        assert_eq!((&*asked.method, &*asked.path), ("GET", "/a?b=c"));
        assert!(asked.headers.iter().any(|field| field.is("X-Own")));
        client.head(2, 500, &[]);
        assert_eq!(client.told(), "", "another exchange's");
        client.head(1, 201, &[("X-A", "1"), ("Date", "now")]);
        let expected = format!("HTTP/1.1 201 Fine\r\nX-A: 1\r\nDate: now\r\n{framing}");
        assert_eq!(client.told(), expected);
        client.body(1, "hi");
        let stays = client.end(1);
        assert_eq!(client.told(), body);
        assert_eq!(stays, version == "1.1");
        assert_eq!(client.solo.actions.end.is_some(), version == "1.0");
    }
    // A client that asks for an end of its connection gets it.
    let mut client = Client::asks("GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    client.head(1, 200, &[]);
    assert!(!client.end(1));
    assert!(client.told().contains("Connection: close\r\n"));
    assert_eq!(client.solo.actions.end, Some(End::Flush));
}

#[test]
fn what_fails_is_said_if_nothing_was_said_before() {
    let failed = || {
        OriginEvent::Failed(OriginFailure {
            fault: OriginFailureKind::Timeout,
            detail: "inside".to_owned(),
        })
    };
    for (path, detail) in [("/a", false), ("/debug", true)] {
        let mut client = Client::asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(client.backend(1, failed()), "the next request may come");
        let told = client.told();
        assert!(told.starts_with("HTTP/1.1 504 "), "{told}");
        assert_eq!(told.contains("inside"), detail, "{told}");
        // Instructions that cannot be followed.
        let mut client = Client::asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.head(1, 200, &[("Grip-Hold", "nonsense"), ("Grip-Channel", "a")]);
        let told = client.told();
        assert!(told.starts_with("HTTP/1.1 502 "), "{told}");
        assert_eq!(told.contains("followed:"), detail, "{told}");
    }
    let mut client = Client::gets();
    client.head(1, 200, &[]);
    client.told();
    client.backend(1, failed());
    assert_eq!(
        client.told(),
        "",
        "the client sees that the end does not come"
    );
    assert_eq!(client.solo.actions.end, Some(End::Flush));
}

#[test]
fn bodies_of_holds_are_bounded() {
    for (more, expected) in [(0, ""), (1, "HTTP/1.1 502 ")] {
        let mut client = Client::gets();
        client.head(1, 200, &HOLD);
        client.body(1, &"x".repeat(INSTRUCT_BODY_BYTES_MAX));
        client.body(1, &"x".repeat(more));
        assert!(client.told().starts_with(expected));
        client.end(1);
        assert_eq!(client.hub.len(), 1 - more, "held, or not");
    }
    for (more, expected) in [(0, ""), (1, "HTTP/1.1 400 "), (10, "HTTP/1.1 400 ")] {
        let bytes = KEPT_BYTES_MAX + more;
        let head = format!("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n");
        let mut client = Client::asks(&(head + &"x".repeat(bytes)));
        client.answer(1, 200, &HOLD, "");
        let told = client.told();
        assert!(told.starts_with(expected), "{told}");
        assert_eq!(client.hub.is_empty(), more > 0);
        if more > 0 {
            assert!(told.ends_with("Request too large to accept GRIP instruct.\n"));
        } else {
            // What is kept is enough to be asked again.
            client.asked();
            client.recover();
            assert_eq!(client.asked().body.len(), bytes);
        }
    }
}

#[test]
fn a_body_that_cannot_be_read_ends_its_exchange() {
    let head = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let mut client = Client::asks(&format!("{head}2\r\nhe\r\n"));
    assert_eq!(client.deadline_ms(), Some(10_000));
    client.says("x\r\n");
    assert!(client.has_forgotten());
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 400 "), "{told}");
    assert_eq!(client.solo.actions.end, Some(End::Flush));
    // Two pieces of 600 bytes are progress, one is not.
    let mut client = Client::asks(head);
    client.solo.now.mono = client.solo.now.mono + 9000;
    let piece = format!("258\r\n{}\r\n", "x".repeat(600));
    client.says(&piece);
    assert_eq!(client.solo.actions.deadline, None);
    client.says(&piece);
    assert_eq!(client.deadline_ms(), Some(10_000));
    client.wait_ms(10_000);
    assert!(client.told().starts_with("HTTP/1.1 408 "));
}

#[test]
fn a_held_client_gets_what_is_published_or_what_its_backend_said() {
    let mut client = held();
    client.wait_ms(5000);
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 200 Fine\r\n"), "{told}");
    assert!(told.ends_with("Content-Length: 7\r\n\r\nnothing"), "{told}");
    assert_eq!(client.hub, ["+grip:a", "-grip:a"]);
    assert_eq!(client.solo.actions.end, None);

    let mut client = held();
    client.item(r#"{"channel":"b","http-response":{"body":"no"}}"#);
    client.item(r#"{"channel":"a","http-stream":{"content":"no"}}"#);
    assert_eq!(client.told(), "");
    client.item(r#"{"channel":"a","http-response":{"code":201,"body":"news"}}"#);
    let told = client.told();
    assert!(told.starts_with("HTTP/1.1 201 "), "{told}");
    assert!(told.ends_with("Content-Length: 4\r\n\r\nnews"), "{told}");
    assert_eq!(client.hub, ["+grip:a", "-grip:a"]);

    // A server that shuts down sends the backend's answer, and closes.
    let mut client = held();
    let down = throng_session::CloseReason::Because(throng_types::Disconnect::Shutdown);
    client.happens(Event::Close(&down));
    assert!(client.told().ends_with("nothing"));
    assert_eq!(client.solo.actions.end, Some(End::Flush));
    // To HEAD nothing is sent but the head.
    let mut client = Client::asks("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
    client.answer(1, 200, &HOLD, "nothing");
    client.wait_ms(5000);
    let told = client.told();
    assert!(told.ends_with("Content-Length: 7\r\n\r\n"), "{told}");
}

/// A publisher's recovery, or a gap, makes the backend be asked again.
#[test]
fn a_held_client_is_asked_for_again() {
    let recovers: [fn(&mut Client); 2] = [
        |client| {
            client.recover();
        },
        |client| client.item(r#"{"channel":"a","http-response":{"action":"hint"}}"#),
    ];
    for recover in recovers {
        let mut client = held();
        recover(&mut client);
        assert_eq!(client.asked().path, "/a");
        assert_eq!(client.hub, ["+grip:a", "-grip:a"]);
        assert_eq!(client.deadline_ms(), None);
        client.head(2, 200, &[]);
        assert!(client.told().starts_with("HTTP/1.1 200 "));
    }
}
