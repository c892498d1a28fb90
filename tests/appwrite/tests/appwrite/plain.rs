//! What the SDKs do not show: limits, refusals, faults around the server, and what is beyond stock.

use serde_json::{Value, json};
use throng_testkit::until;

use crate::socket::Socket;
use crate::stage::{Event, PROJECT, Stage};

pub(crate) const FILES: &str = "project=bench&channels[]=files";

/// The URL of Appwrite's own benchmark.
const BENCHMARK: &str = "project=console&channels[]=files";

impl Stage {
    #[track_caller]
    pub(crate) fn open(&self, query: &str) -> (Socket, Value) {
        self.open_with(query, &[])
    }

    #[track_caller]
    pub(crate) fn open_with(&self, query: &str, headers: &[(&str, &str)]) -> (Socket, Value) {
        let mut socket = Socket::open(self.server.clients(), query, headers);
        let first = socket.frame();
        (socket, first)
    }

    /// Opens a socket with a session.
    #[track_caller]
    pub(crate) fn open_as(&self, user: &str, query: &str) -> Socket {
        self.accounts.sign_in(user, user);
        let cookie = format!("x=1; a_session_{PROJECT}={user}");
        let (socket, first) = self.open_with(query, &[("Cookie", &cookie)]);
        assert_eq!(first["data"]["user"]["$id"], user, "{first}");
        socket
    }
}

#[track_caller]
pub(crate) fn refused(mut socket: Socket, frame: &Value, code: u16, message: &str, closed: u16) {
    let expect = json!({"type": "error", "data": {"code": code, "message": message}});
    assert_eq!(*frame, expect);
    assert_eq!(socket.closed(), closed);
}

#[test]
fn everybody_hears_once() {
    let stage = Stage::new("");
    let mut sockets: Vec<Socket> = (0..500).map(|_| stage.open(BENCHMARK).0).collect();
    let mut event = Event::file("A");
    event.project = "console";
    stage.publish(&event);
    event.payload = json!({"$id": "B"});
    stage.publish(&event);
    for socket in &mut sockets {
        assert_eq!([socket.event(), socket.event()], ["A", "B"]);
    }
    stage.until_metric("throng_appwrite_matches_total", 1000);
    stage.until_metric("throng_appwrite_connections", 500);
    drop(sockets);
    until("all to have left", || {
        (stage.server.metric("throng_appwrite_connections") == 0).then_some(())
    });
    assert_eq!(stage.server.metric("throng_deliveries_total"), 1000);
    stage.server.stop();
}

#[test]
fn openings_are_refused() {
    let stage = Stage::new("connections_per_minute = 2");
    let (socket, frame) = stage.open("project=other&channels[]=files");
    refused(socket, &frame, 1008, "Missing or unknown project ID", 1008);
    let (socket, frame) = stage.open("project=bench&channels[]=files&files[0][]={}");
    assert_eq!(
        (&frame["type"], &frame["data"]["code"]),
        (&json!("error"), &json!(1008))
    );
    drop(socket);
    let from = |address| stage.open_with(FILES, &[("X-Forwarded-For", address)]);
    // What stands before the last address is the client's invention.
    let _first = from("198.51.100.7");
    let _second = from("203.0.113.1, 198.51.100.7");
    let (socket, frame) = from("203.0.113.2, 198.51.100.7");
    refused(socket, &frame, 1013, "Too many requests", 1013);
    assert_eq!(from("203.0.113.2").1["type"], "connected");
    let series = |reason| format!("throng_appwrite_refused_total{{reason={reason:?}}}");
    for reason in ["project", "query", "too_many_requests"] {
        assert_eq!(stage.server.metric(&series(reason)), 1, "{reason}");
    }
    stage.server.stop();
}

#[test]
fn refusals_can_look_like_stock() {
    let stage = Stage::new("close_codes = false\nhide_errors = true\nmessages_per_minute = 1");
    let (mut socket, frame) = stage.open("project=other&channels[]=files");
    assert_eq!(frame["data"]["message"], "Missing or unknown project ID");
    assert!(socket.ended());
    let (mut socket, _) = stage.open(FILES);
    socket.say(r#"{"type":"dance"}"#);
    assert_eq!(
        socket.frame()["data"],
        json!({"code": 1003, "message": "Error: Server Error"})
    );
    stage.server.stop();
}

#[test]
fn long_messages_end_the_connection() {
    let stage = Stage::new("");
    let (mut socket, _) = stage.open(FILES);
    socket.say(&"x".repeat(64_001));
    assert_eq!(socket.closed(), 1009);
    stage.server.stop();
}

#[test]
fn events_come_through_the_api_port_too() {
    let stage = Stage::new("");
    let (mut socket, _) = stage.open(FILES);
    let post = |body: &str| stage.server.ask("POST", "/v1/realtime/events", body);
    assert_eq!(post(&Event::file("A").message()).status, 202);
    assert_eq!(socket.event(), "A");
    for wrong in ["", "{}", "[1]"] {
        assert_eq!(post(wrong).status, 400, "{wrong}");
    }
    let mut nobody = Event::file("A");
    nobody.roles.clear();
    assert_eq!(post(&nobody.message()).status, 400);
    assert_eq!(
        stage.server.ask("GET", "/v1/realtime/events", "").status,
        405
    );
    assert_eq!(
        stage
            .server
            .metric(r#"throng_appwrite_events_total{source="api"}"#),
        1
    );
    stage.server.stop();
}

#[test]
fn who_comes_back_gets_what_it_missed() {
    let stage = Stage::new("history = \"10m\"");
    let position = |frame: &Value| frame["data"]["position"].as_str().unwrap().to_owned();
    let (mut socket, _) = stage.open(&format!("{FILES}&recover="));
    let told = socket.frame();
    assert_eq!(
        (&told["type"], &told["data"]["recovered"]),
        (&json!("recovery"), &json!(false))
    );
    stage.publish(&Event::file("A"));
    let event = socket.frame();
    let seen = position(&event);
    assert!(seen.ends_with("-1") && event["data"]["payload"]["$id"] == "A");
    drop(socket);
    stage.publish(&Event::file("B"));
    stage.publish(&Event::document("D", "any", "open"));
    stage.publish(&Event::document("E", "user:ann", "open"));
    // Clients that do not ask get nothing of it.
    let (mut plain, _) = stage.open(FILES);
    stage.publish(&Event::file("C"));
    let event = plain.frame();
    assert_eq!(event["data"]["position"], Value::Null);

    // Another shard may get C a moment later.
    let mut again = until("its shard to have heard of C", || {
        let (mut again, _) = stage.open(&format!("{FILES}&recover={seen}"));
        let told = again.frame();
        assert_eq!(told["data"]["recovered"], true);
        position(&told).ends_with("-5").then_some(again)
    });
    assert_eq!([again.event(), again.event()], ["B", "C"]);
    // By message: what was missed comes after the first subscribe. A user's roles count.
    let mut ann = stage.open_as("ann", &format!("project=bench&recover={seen}"));
    ann.say(r#"{"type":"subscribe","data":[{"channels":["documents"]}]}"#);
    assert_eq!(ann.frame()["type"], "response");
    assert_eq!(ann.frame()["data"]["recovered"], true);
    assert_eq!([ann.event(), ann.event()], ["D", "E"]);
    for nowhere in ["0-1", "x", &seen.replace("-1", "-99")] {
        let (mut lost, _) = stage.open(&format!("{FILES}&recover={nowhere}"));
        assert_eq!(lost.frame()["data"]["recovered"], false, "{nowhere}");
    }
    stage.server.stop();
}

#[test]
fn redis_goes_away_and_comes_back() {
    let mut stage = Stage::new("history = \"10m\"");
    let (mut socket, _) = stage.open(&format!("{FILES}&recover="));
    socket.frame();
    stage.publish(&Event::file("A"));
    let seen = socket.frame()["data"]["position"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(stage.server.metric("throng_appwrite_feed_up"), 1);
    stage.redis.go_away();
    until("the loss to be noticed", || {
        (stage.server.metric("throng_appwrite_feed_up") == 0).then_some(())
    });
    // The API port is a way in even then.
    stage
        .server
        .ask("POST", "/v1/realtime/events", &Event::file("B").message());
    assert_eq!(socket.event(), "B");
    stage.redis.come_back();
    stage.redis.wait_for_subscriber();
    stage.publish(&Event::file("C"));
    assert_eq!(socket.event(), "C");
    assert_eq!(
        stage.server.metric("throng_appwrite_feed_reconnects_total"),
        1
    );
    // It is unknown what was lost, and a client that asks must be told so.
    let (mut again, _) = stage.open(&format!("{FILES}&recover={seen}"));
    assert_eq!(again.frame()["data"]["recovered"], false);
    stage.server.stop();
}

#[test]
fn a_slow_consumer_costs_only_itself() {
    let stage = Stage::with("[engine]\nout_buffer_bytes_max = \"64KiB\"", "");
    let (mut slow, _) = stage.open(FILES);
    let (mut quick, _) = stage.open(FILES);
    let mut event = Event::file("A");
    event.payload = json!({"$id": "A", "text": "x".repeat(32 << 10)});
    let closed = r#"throng_connections_closed_total{reason="slow"}"#;
    let mut sent = 0;
    while stage.server.metric(closed) == 0 {
        stage.publish(&event);
        assert_eq!(quick.event(), "A");
        sent += 1;
        assert!(
            sent < 10_000,
            "the kernel takes no more than some megabytes"
        );
    }
    let mut heard = 0;
    // What was queued still comes, whole and in order, and then the reason.
    let code = loop {
        match slow.event_or_close() {
            Ok(_) => heard += 1,
            Err(code) => break code,
        }
    };
    assert_eq!(code, 1013);
    assert!(heard < sent);
    let dropped = r#"throng_dropped_total{policy="close"}"#;
    assert_eq!(stage.server.metric(dropped), 1, "it is one client");
    // An event that fits into no queue reaches no client, and is counted.
    event.payload = json!({"$id": "B", "text": "x".repeat(70 << 10)});
    stage.publish(&event);
    stage.publish(&Event::file("C"));
    assert_eq!(quick.event(), "C");
    let too_long = r#"throng_appwrite_events_refused_total{reason="too_long"}"#;
    assert_eq!(stage.server.metric(too_long), 1);
    stage.server.stop();
}

#[test]
fn a_stop_tells_clients_to_come_back() {
    let stage = Stage::new("");
    let (mut socket, _) = stage.open(FILES);
    stage.server.signal(throng_testkit::Signal::TERM);
    assert_eq!(socket.closed(), 1012);
}

#[test]
fn any_project_and_any_host_of_ones_own() {
    let more = "[[appwrite.project]]\nid = \"*\"\nplatforms = [\"*.apps.test\"]\n\
                schemes = [\"myapp\"]\n";
    let stage = Stage::new(more);
    let from = |project: &str, origin: &str| {
        let query = format!("project={project}&channels[]=files");
        stage.open_with(&query, &[("Origin", origin)])
    };
    let mut sockets = Vec::new();
    for (project, origin) in [
        ("one", "https://a.apps.test"),
        ("two", "myapp://x"),
        ("two", "appwrite-callback-two://x"),
        // The name that the connection itself went to.
        ("two", "http://x:3000"),
        ("bench", "http://localhost:3000"),
        ("console", "http://localhost"),
        ("console", "http://x"),
    ] {
        let (socket, frame) = from(project, origin);
        assert_eq!(frame["type"], "connected", "{project} {origin} {frame}");
        sockets.push((project, socket));
    }
    for (project, origin) in [
        ("one", "http://localhost"),
        ("two", "appwrite-callback-one://x"),
        ("bench", "https://a.apps.test"),
        ("console", "https://a.apps.test"),
        ("console", "https://evil.test"),
    ] {
        let (mut socket, frame) = from(project, origin);
        assert_eq!(frame["data"]["code"], 1008, "{project} {origin} {frame}");
        assert_eq!(socket.closed(), 1008);
    }
    for project in ["one", "two", "bench", "console"] {
        let mut event = Event::file(project);
        event.project = project;
        stage.publish(&event);
    }
    for (project, socket) in &mut sockets {
        assert_eq!(socket.event(), *project);
    }
    // A user of such a project is asked for in that project.
    stage.accounts.sign_in("eve", "eve");
    let cookie = [("Cookie", "a_session_one=eve")];
    let (_, first) = stage.open_with("project=one", &cookie);
    assert_eq!(first["data"]["user"]["$id"], "eve");
    stage.server.stop();
}
