//! Commands that come by requests of their own: on their way to the session that they name, or
//! refused.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use serde_json::json;
use throng_broker::{Draft, Published, Refusal};
use throng_gateway_centrifuge::{Centrifuge, Mail, Order, Session};
use throng_hub::Hub;
use throng_session::{
    Event, Flow, Gateway as _, NodeReply, Own, Port, Shard, Shared, Survey, SurveyReply,
};
use throng_solo::{Order as AnyOrder, Solo};
use throng_types::{ConnId, Frame, Now, ShardId};

/// One request's connection on the first of three shards.
struct Floor {
    solo: Solo<Centrifuge>,
    has_room: bool,
    /// To which shards commands went.
    mailed: Vec<ShardId>,
    /// Surveys sent to all nodes.
    surveys: Vec<Survey>,
}

impl Floor {
    fn new(has_room: bool) -> Self {
        let id = ConnId::new(ShardId(0), 3, 1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let shared = Rc::new(throng_solo::shared());
        Self {
            solo: Solo::new(id, Port::Client, peer, shared, Rc::default()),
            has_room,
            mailed: Vec::new(),
            surveys: Vec::new(),
        }
    }

    /// Posts a body, and gives the status of the answer.
    fn post(&mut self, body: &str) -> String {
        let length = body.len();
        let head = format!("POST /emulation HTTP/1.1\r\nHost: a\r\nContent-Length: {length}");
        self.solo.feed(format!("{head}\r\n\r\n{body}").as_bytes());
        for order in std::mem::take(&mut self.solo.orders) {
            match order {
                AnyOrder::Gateway(order) => Centrifuge::default().order(order, self),
                AnyOrder::Survey { survey, .. } => self.surveys.push(survey),
                AnyOrder::Hub(_) | AnyOrder::Reload(_) => {}
            }
        }
        let told = String::from_utf8(std::mem::take(&mut self.solo.out)).expect("text");
        told.get(9..12).unwrap_or_default().to_owned()
    }
}

impl Shard<Centrifuge> for Floor {
    fn this(&self) -> ShardId {
        ShardId(0)
    }

    fn shards(&self) -> u8 {
        3
    }

    fn now(&self) -> Now {
        self.solo.now
    }

    fn shared(&self) -> &Shared {
        &self.solo.shared
    }

    fn hub(&self) -> &Hub {
        panic!("no command is carried out here")
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        Err((Refusal::Busy, draft))
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        conn == self.solo.id
    }

    fn conn(&self, index: u32) -> Option<ConnId> {
        Some(self.solo.id).filter(|id| id.index() == index)
    }

    fn sessions(&self) -> Vec<ConnId> {
        vec![self.solo.id]
    }

    fn queued_bytes(&self, _: ConnId) -> usize {
        0
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Session, &mut Own<'_, Centrifuge>) -> Flow,
    ) -> bool {
        conn == self.solo.id && self.solo.act(act).is_some()
    }

    fn with_gone(
        &mut self,
        _: ConnId,
        _: &mut Session,
        _: impl FnOnce(&mut Session, &mut Own<'_, Centrifuge>),
    ) {
    }

    fn take_orders(&mut self) -> Vec<Order> {
        Vec::new()
    }

    fn deliver(&mut self, _: ConnId, _: &[u8], _: &Frame) {}

    fn has_room(&self, _: ShardId) -> bool {
        self.has_room
    }

    fn mail(&mut self, to: ShardId, mail: Mail) {
        assert!(matches!(mail, Mail::Upward(_)), "not what was asked");
        self.mailed.push(to);
    }
}

#[test]
fn commands_are_on_their_way_or_refused() {
    let node = throng_solo::shared().node;
    let elsewhere = node.session_id(ConnId::new(ShardId(1), 5, 1));
    let here = node.session_id(ConnId::new(ShardId(0), 5, 1));
    let public = node.client_id(ConnId::new(ShardId(1), 5, 1));
    let body = |session: &str, node: &str| {
        json!({ "session": session, "node": node, "data": "{\"id\":2,\"ping\":{}}" }).to_string()
    };
    let name = node.name();
    for (body, has_room, status, mailed) in [
        (
            body(elsewhere.as_str(), &name),
            true,
            "204",
            &[ShardId(1)][..],
        ),
        // The queue to that shard is full: the client may ask again.
        (body(elsewhere.as_str(), &name), false, "503", &[]),
        // A closed session is not reported.
        (body(here.as_str(), &name), false, "204", &[]),
        (body("none", &name), true, "204", &[]),
        // A public id opens nothing.
        (body(public.as_str(), &name), true, "204", &[]),
        (body(elsewhere.as_str(), "other"), true, "404", &[]),
        // Other nodes are asked first.
        (body(elsewhere.as_str(), "0123456789abcdef"), true, "", &[]),
        ("{\"session\":1}".to_owned(), true, "400", &[]),
    ] {
        let mut floor = Floor::new(has_room);
        assert_eq!(floor.post(&body), status, "{body}");
        assert_eq!(floor.mailed, mailed, "{body}");
    }
}

/// The other nodes have answered, or one of them has not.
#[test]
fn commands_for_another_node_are_brought_there() {
    let other = "0123456789abcdef";
    let body = json!({ "session": "s", "node": other, "data": "{}" }).to_string();
    let node = |done| NodeReply {
        replies: vec![SurveyReply::Done(0), SurveyReply::Done(done)],
        ..NodeReply::default()
    };
    let own = SurveyReply::Done(0);
    for (reply, status) in [
        (SurveyReply::Elsewhere(vec![node(0), node(1)]), "204"),
        (SurveyReply::Elsewhere(vec![node(0)]), "404"),
        (SurveyReply::Unanswered, "503"),
        // There are no other nodes.
        (own.clone(), "404"),
    ] {
        let mut floor = Floor::new(true);
        assert_eq!(floor.post(&body), "");
        let carried = Survey::Carry {
            node: other.into(),
            session: "s".into(),
            data: (*b"{}").into(),
        };
        let asked = floor.surveys.pop();
        assert_eq!(asked, Some(carried));
        floor.solo.event(Event::Surveyed(vec![own.clone(), reply]));
        let told = String::from_utf8(std::mem::take(&mut floor.solo.out)).expect("text");
        assert_eq!(told.get(9..12), Some(status));
    }
}
