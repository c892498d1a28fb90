//! Openings of connections: addresses, projects, credentials, and missed events.

use throng_proxy::Block;
use throng_session::{Claim, Forwarded, Gateway};

use super::*;
use crate::Credential;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Any address may invent a header; a proxy close by is believed for the one address that it has
/// seen itself. Where proxies are named, no other is believed.
#[test]
fn the_address_that_counts_is_the_clients() {
    let header = "X-Forwarded-For: 198.51.100.1, 198.51.100.2\r\n";
    // HAProxy adds a line, others a port.
    let lines = "X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 198.51.100.2\r\n";
    let port = "X-Forwarded-For: 198.51.100.1:55, 198.51.100.2:55\r\n";
    for (peer, headers, trusted, counted) in [
        ("203.0.113.7", "", None, Some("203.0.113.7")),
        ("203.0.113.7", header, None, Some("203.0.113.7")),
        ("10.0.0.1", "", None, Some("10.0.0.1")),
        ("10.0.0.1", header, None, Some("198.51.100.2")),
        ("127.0.0.1", header, None, Some("198.51.100.2")),
        ("::ffff:10.0.0.1", "", None, Some("10.0.0.1")),
        ("10.0.0.1", header, Some("192.0.2.0/24"), Some("10.0.0.1")),
        ("10.0.0.1", header, Some("10.0.0.1"), Some("198.51.100.2")),
        ("10.0.0.1", lines, None, Some("198.51.100.2")),
        ("10.0.0.1", lines, Some("10.0.0.1"), Some("198.51.100.2")),
        ("10.0.0.1", port, None, Some("198.51.100.2")),
        ("10.0.0.1", port, Some("10.0.0.1"), Some("198.51.100.2")),
        // This machine's own programs are not counted.
        ("127.0.0.1", "", None, None),
        ("::1", "", None, None),
    ] {
        let mut server = Server::new();
        let trusted = trusted.and_then(Block::parse).into_iter().collect();
        server.shared().forwarded = Forwarded::new(trusted, None);
        server.open_from(address(peer), 0, FILES, headers);
        assert_eq!(server.frames(0)[0]["type"], "connected");
        let expected: Vec<IpAddr> = counted.map(address).into_iter().collect();
        let what = (peer, headers, expected);
        server
            .world
            .change(|doings| assert_eq!(doings.counted, what.2, "{what:?}"));
    }
}

#[test]
fn an_address_that_opens_too_many_is_refused() {
    let mut server = Server::new();
    server.world.change(|doings| doings.admits_nobody = true);
    server.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    let told = server.frames(0);
    assert_eq!(told[0]["data"]["code"], 1013, "{told:?}");
    assert_eq!(told[1..], [json!({ "close": 1013 })]);
    assert!(server.asked.try_recv().is_err(), "nobody is asked");
    server.open_from(address("127.0.0.1"), 1, FILES, "");
    assert_eq!(server.frames(1)[0]["type"], "connected");
}

#[test]
fn a_header_names_the_project_before_the_url_does() {
    for (query, headers, expected) in [
        ("project=bench", "", "connected"),
        ("project=other", "", "error"),
        (
            "project=other",
            "X-Appwrite-Project: bench\r\n",
            "connected",
        ),
        ("project=bench", "X-Appwrite-Project: other\r\n", "error"),
        ("project=bench", "X-Appwrite-Project:\r\n", "connected"),
        ("", "", "connected"),
    ] {
        let mut server = Server::new();
        server.open(0, query, headers);
        assert_eq!(server.frames(0)[0]["type"], expected, "{query} {headers}");
        let refused = server.counted(Counter::AppwriteRefusedProject);
        assert_eq!(refused, u64::from(expected == "error"));
    }
}

/// Credentials are checked at their project, or at the console for those who manage it.
#[test]
fn what_a_client_shows_is_asked_about() {
    let session = |value: &str| Credential::Session(value.into());
    let jwt = |value: &str| Credential::Jwt(value.into());
    let bench = "Cookie: a_session_bench=s\r\n";
    let console = "Cookie: a_session_console=c\r\n";
    let both = format!("X-Appwrite-JWT: h\r\n{bench}");
    let manages = format!("X-Appwrite-Mode: admin\r\n{console}");
    let uses = format!("X-Appwrite-Mode: default\r\n{console}");
    for (query, headers, expected) in [
        ("", "", None),
        ("", bench, Some((session("s"), "bench"))),
        ("&jwt=t", bench, Some((jwt("t"), "bench"))),
        ("&jwt=t", &*both, Some((jwt("h"), "bench"))),
        ("&jwt=t", "X-Appwrite-JWT:\r\n", Some((jwt("t"), "bench"))),
        (
            "",
            "X-Appwrite-Session: x\r\n",
            Some((session("x"), "bench")),
        ),
        ("", console, None),
        ("&mode=admin", console, Some((session("c"), "console"))),
        ("", &*manages, Some((session("c"), "console"))),
        ("", &*uses, None),
    ] {
        let mut server = Server::new();
        server.open(0, &format!("{FILES}{query}"), headers);
        let lookup = server.asked.try_recv().ok();
        let asked = lookup.map(|lookup| (lookup.credential, lookup.project));
        let expected = expected.map(|(shown, project)| (shown, project.into()));
        assert_eq!(asked, expected, "{query} {headers}");
        // Without an answer it is not in.
        assert_eq!(server.frames(0).is_empty(), asked.is_some());
        // Without lookups, all clients are guests.
        let mut server = Server::with(|own| own.identifies = false);
        server.open(0, &format!("{FILES}{query}"), headers);
        assert_eq!(server.frames(0)[0]["data"]["user"], Value::Null);
        assert!(server.asked.try_recv().is_err());
    }
}

/// A lookup has the time within which a connection must be identified.
#[test]
fn an_opening_has_its_time() {
    let mut server = Server::new();
    let ms = server.floor.shared.limits.connect_timeout_ms;
    server.open(0, FILES, "Cookie: a_session_bench=ann\r\n");
    assert_eq!(server.deadline(0), Some(server.floor.now.mono + ms));
}

/// Only paths under `/v1/realtime` are reported as off without a section for them.
#[test]
fn who_asks_for_what_is_off_is_told_so() {
    for (port, path, is_ours) in [
        (Port::Client, "/v1/realtime", true),
        (Port::Client, "/v1/realtime/x", true),
        (Port::Client, "/v1/realtimes", false),
        (Port::Client, "/ws", false),
        (Port::Api, "/v1/realtime/events", true),
        (Port::Api, "/v1/realtime", false),
        (Port::Api, "/v1/realtime/event", false),
    ] {
        let told = Appwrite::off(port, path);
        let names_section = told.is_some_and(|told| told.contains("[appwrite]"));
        assert_eq!(names_section, is_ours, "{path}");
        assert_eq!(told.is_some(), is_ours, "{path}");
        let claim: Option<Claim> = crate::open::claim(port, path);
        assert_eq!(claim.is_some(), is_ours, "{path}");
    }
}

/// The console has its configured platforms; without configuration, only pages of this machine may
/// open it.
#[test]
fn the_console_is_served_as_configured() {
    let project = |id: &str, host: &str| AppwriteProject {
        id: id.into(),
        platforms: throng_appwrite::Platforms::new(&[host]),
    };
    for (projects, allowed, refused) in [
        (
            vec![project("bench", "a.example")],
            "localhost",
            "a.example",
        ),
        (
            vec![project("console", "a.example")],
            "a.example",
            "localhost",
        ),
    ] {
        for (host, expected) in [(allowed, "connected"), (refused, "error")] {
            let mut server = Server::with(|own| {
                *own = AppwriteShared::new(projects.clone(), own.outside.clone());
            });
            server.open(0, "project=console", &format!("Origin: https://{host}\r\n"));
            assert_eq!(server.frames(0)[0]["type"], expected, "{host}");
        }
    }
}

#[test]
fn credentials_are_not_shown_to_logs() {
    for (credential, shown) in [
        (Credential::Session("secret".into()), "Session(..)"),
        (Credential::Jwt("secret".into()), "Jwt(..)"),
    ] {
        assert_eq!(format!("{credential:?}"), shown);
    }
}

/// An event from the API port is handed on as it came, answered when it is on its way, and refused
/// when there is no room for it or it is none.
#[test]
fn events_come_by_the_api_port_too() {
    let server = Server::new();
    let (shared, own) = (server.floor.shared.clone(), server.floor.own.clone());
    let mut solo = Solo::<Appwrite>::new(conn(0), Port::Api, PEER, shared, own);
    let mut post = |body: &str, more: &str| {
        let bytes = body.len();
        let head = "POST /v1/realtime/events HTTP/1.1\r\nHost: x\r\n";
        solo.feed(format!("{head}{more}Content-Length: {bytes}\r\n\r\n{body}").as_bytes());
        let told = String::from_utf8(solo.out.split_off(0)).expect("text");
        (told[9..12].to_owned(), solo.actions.end)
    };
    let answered = |status: &str| (status.to_owned(), None);
    assert_eq!(post(&event("A", "any").to_string(), ""), answered("202"));
    assert_eq!(post("{}", ""), answered("400"));
    server.world.change(|doings| doings.is_full = true);
    assert_eq!(post(&event("B", "any").to_string(), ""), answered("503"));
    server.world.change(|doings| doings.is_full = false);
    let last = post(&event("C", "any").to_string(), "Connection: close\r\n");
    assert_eq!(last, ("202".to_owned(), Some(End::Flush)));
    server.world.change(|doings| {
        let subjects = doings.published.iter().map(FeedMessage::subject);
        assert!(subjects.eq([Some("A"), Some("C")]));
    });
}
