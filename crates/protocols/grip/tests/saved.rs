//! Instructions and routes as bytes, for the hand-over to another process.

use std::sync::Arc;

use throng_grip::filters::{Filter, Filters};
use throng_grip::instruct::{HeldReply, KeepAlive, KeepAliveMode, NextLink};
use throng_grip::item::WsKind;
use throng_grip::routes::{Domain, Protocol, Route};
use throng_grip::stats::SubscriptionMode;
use throng_grip::ws_events::WsKeepAlive;
use throng_http1::field::Header;
use throng_http1::origin::{Destination, OriginTarget, TargetAddress};
use throng_types::check_saved;

#[test]
fn what_is_said_survives() {
    let address = TargetAddress::Origin {
        host: "::1".to_owned(),
        port: 7,
    };
    let route = Route {
        domain: Domain::Exact("a.example".to_owned()),
        protocol: Some(Protocol::Ws),
        log_level: Some(-1),
        headers: vec![Header::new("A", "b")],
        to: Arc::new(Destination {
            targets: vec![
                OriginTarget::new(address),
                OriginTarget::new(TargetAddress::Test),
            ],
            ..Destination::default()
        }),
        ..Route::default()
    };
    check_saved(&route);
    check_saved(&Route {
        domain: Domain::None,
        ..route
    });
    check_saved(&HeldReply {
        code: 200,
        reason: None,
        headers: Vec::new(),
        body: Some(b"x".to_vec()),
    });
    let all = Filter::ALL;
    check_saved(&Filters::from_names(all.map(|filter| filter.name())).expect("as many as may be"));
    check_saved(&WsKeepAlive {
        kind: WsKind::Pong,
        content: b"x".to_vec(),
        timeout_s: 1,
        is_interval: true,
    });
    let keep_alive = KeepAlive {
        data: b"x".to_vec(),
        timeout_s: 1,
        mode: KeepAliveMode::Interval,
    };
    let uri = "/".to_owned();
    check_saved(&(keep_alive, NextLink { uri, timeout_s: 3 }));
    check_saved(&vec![
        SubscriptionMode::Response,
        SubscriptionMode::Stream,
        SubscriptionMode::WebSocket,
    ]);
}
