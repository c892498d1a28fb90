//! Subscriptions made by messages, their ids, and a crowd that comes and goes.

use super::*;
use crate::SubscriptionOrder;

/// Subscriptions of a connection are bounded. A message beyond the bound changes nothing.
#[test]
fn too_many_subscriptions_are_refused() {
    let mut server = Server::new();
    server.open(0, "project=bench", "");
    server.frames(0);
    let many = vec![json!({"channels": ["files"]}); 1024];
    let many = json!({"type": "subscribe", "data": many}).to_string();
    for _ in 0..4 {
        server.say(0, &many);
    }
    server.floor.sent.remove(&0);
    server.say(0, r#"{"type":"subscribe","data":[{"channels":["files"]}]}"#);
    let told = server.frames(0).remove(0);
    assert_eq!(told["data"]["code"], 1003, "{told}");
    let refused = server.counted(Counter::AppwriteRefusedFormat);
    assert_eq!(refused, 1);
}

/// Connections that only count deliveries.
#[derive(Default)]
struct Crowd(usize);

impl Connections for Crowd {
    fn id(&self, index: u32) -> Option<ConnId> {
        Some(conn(index))
    }

    fn say(&mut self, _: ConnId, _: &[u8]) {}

    fn deliver(&mut self, _: ConnId, _: &[u8], _: &Frame) {
        self.0 += 1;
    }

    fn changed(&mut self, _: ConnId, _: &Change) {}

    fn recheck(&mut self, _: ConnId) -> bool {
        false
    }

    fn refuse(&mut self, _: ConnId, fault: &RealtimeError, _: ConnectionPhase) {
        panic!("{fault}");
    }

    fn matched(&mut self, _: usize) {}

    fn recovered(&mut self, _: bool) {}
}

/// Room for a crowd is given back; room for a usual event is kept.
#[test]
fn room_for_a_crowd_is_given_back() {
    let options = EventHubOptions {
        seed: 1,
        history_ms: 0,
        history_bytes_max: 0,
    };
    let mut hub = EventHub::new(options);
    let mut crowd = Crowd::default();
    let now = Now::default();
    let told =
        Arc::new(FeedMessage::parse(event("A", "any").to_string().as_bytes(), 1000).unwrap());
    let mut connections = 0;
    let position = Position {
        epoch: Epoch(1),
        offset: 1,
    };
    for (more, is_kept) in [(100, true), (65_436, true), (1, false)] {
        for index in connections..connections + more {
            let order = Order::Enter {
                conn: conn(index),
                project: "bench".into(),
                roles: vec!["any".to_owned()],
                subscriptions: vec![SubscriptionOrder {
                    id: "s".to_owned(),
                    channels: vec!["files".to_owned()],
                    filter: throng_appwrite::QueryFilter::ALL,
                }],
                positions: false,
            };
            hub.handle(order, &mut crowd);
        }
        connections += more;
        hub.event(&told, position, now, &mut crowd);
        assert_eq!(hub.fan_out(usize::MAX, &mut crowd), connections as usize);
        assert_eq!(std::mem::take(&mut crowd.0), connections as usize);
        let room = hub.matches.receivers.capacity();
        assert_eq!(
            room > 0,
            is_kept,
            "{connections} connections, room for {room}"
        );
    }
}

/// Appwrite's form of ids: 13 digits of the time in microseconds, and 7 that make it unique.
#[test]
fn subscriptions_without_ids_get_different_ones() {
    let mut server = Server::new();
    server.open(0, FILES, "");
    let mut told = server.frames(0);
    let two = r#"{"type":"subscribe","data":[{"channels":["files"]},{"channels":["files"]}]}"#;
    for _ in 0..2 {
        server.say(0, two);
        told.extend(server.frames(0));
    }
    server.event(1, &event("A", "any"));
    server.turn();
    let heard = server.frames(0).remove(0);
    let ids = heard["data"]["subscriptions"].as_array().expect("ids");
    let ids: Vec<&str> = ids.iter().filter_map(Value::as_str).collect();
    // 1,700,000,000 seconds.
    let is_ours = |id: &&str| id.starts_with("6553f10000000") && id.len() == 20;
    assert!(ids.iter().all(is_ours), "{ids:?}");
    let different: std::collections::BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!((ids.len(), different.len()), (5, 5), "{told:?}");
}
