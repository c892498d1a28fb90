//! `POST /api/reload`: a call that waits for another thread.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use throng_gateway_plain::Plain;
use throng_session::{CloseReason, Event, Gateway, Port, Reloaded, Transport};
use throng_solo::{Order, Solo};
use throng_types::{ConnId, Disconnect, End, ShardId};

const CALL: &str = "POST /api/reload HTTP/1.1\r\nHost: t\r\nContent-Length: 0\r\n\r\n";
const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n";

fn call(port: Port, request: &str) -> Solo<Plain> {
    let id = ConnId::new(ShardId(0), 1, 1);
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut call = Solo::new(
        id,
        port,
        peer,
        Rc::new(throng_solo::shared()),
        Rc::default(),
    );
    call.feed(request.as_bytes());
    call
}

/// The statuses and bodies that were written since this was last asked.
fn written(call: &mut Solo<Plain>) -> Vec<String> {
    let out = String::from_utf8(std::mem::take(&mut call.out)).expect("text");
    let answers = out.split("HTTP/1.1 ").skip(1).map(|answer| {
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        format!("{} {}", &head[..3], body.trim_end())
    });
    answers.collect()
}

#[test]
fn a_reload_is_ordered_and_answered_when_it_is_done() {
    let mut call = call(Port::Api, CALL);
    let orders = std::mem::take(&mut call.orders);
    let [Order::Reload(who)] = orders[..] else {
        panic!("{orders:?}");
    };
    assert_eq!(who, call.id);
    assert_eq!(call.actions.deadline, Some(None), "however long it takes");
    let session = call.session().expect("it waits");
    let class = Plain::class(session);
    assert_eq!(class.transport, Transport::Http);
    assert!(!class.is_client && class.identity.is_none());
    assert!(!Plain::moves(session), "it does not move");
    // What comes behind it waits, and no more is read.
    call.feed(HEALTH.as_bytes());
    assert_eq!(call.actions.pause, Some(true));
    assert!(call.out.is_empty());
    let refused = Reloaded::Refused(vec!["t.toml:3:1: no".to_owned()]);
    call.event(Event::Reloaded(&refused));
    let expected = [r#"422 {"problems":["t.toml:3:1: no"]}"#, "200 ok"];
    assert_eq!(written(&mut call), expected);
    assert_eq!((call.actions.pause, call.actions.end), (Some(false), None));
}

#[test]
fn a_call_that_waits_ends_with_its_server_and_after_its_answer() {
    let mut ends = call(Port::Api, CALL);
    let why = CloseReason::Because(Disconnect::Shutdown);
    ends.event(Event::Close(&why));
    assert_eq!(ends.actions.end, None, "the answer still comes");
    ends.event(Event::Reloaded(&Reloaded::Unavailable));
    assert!(written(&mut ends)[0].starts_with("503 "));
    assert_eq!(ends.actions.end, Some(End::Flush));
    let mut late = call(Port::Api, CALL);
    late.event(Event::Timeout);
    assert_eq!(late.actions.end, Some(End::Flush));
}

#[test]
fn it_is_posted_to_the_api_port_alone() {
    let get = CALL.replace("POST", "GET");
    for (port, request, status) in [
        (Port::Client, CALL, "404"),
        (Port::Api, get.as_str(), "405"),
    ] {
        let mut call = call(port, request);
        assert!(call.orders.is_empty());
        assert!(written(&mut call)[0].starts_with(status));
    }
}
