//! Paths of the gateway, and events that come by the API port.

use throng_session::{Claim, Gateway};

use super::*;
use crate::Credential;

/// Only whole names of paths are served, and reported as off without a section for them.
#[test]
fn who_asks_for_what_is_off_is_told_so() {
    for (port, path, is_ours) in [
        (Port::Client, "/v1/realtime", true),
        (Port::Client, "/v1/realtime/", true),
        (Port::Client, "/v1/realtime/x", true),
        (Port::Client, "/v1/realtimes", false),
        (Port::Client, "/v1/real", false),
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
        if port == Port::Client {
            let solo = Server::new().client(PEER, 0, &format!("{path}?{FILES}"), "");
            let status = String::from_utf8_lossy(&solo.out[9..12]).into_owned();
            assert_eq!(status, if is_ours { "101" } else { "404" }, "{path}");
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
