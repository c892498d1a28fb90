//! The gateway on its shard: clients whose commands come by requests of their own, and questions to
//! backends.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;

use serde_json::{Value, json};
use throng_broker::{BackendId, Draft, Published, Refusal};
use throng_centrifuge::proxy::ProxyKind;
use throng_gateway_centrifuge::{Centrifuge, Mail, Order, Session};
use throng_hub::Hub;
use throng_session::{
    BackendMail, BackendOptions, Backends, Event, Flow, Gateway as _, NodeReply, Own, Port,
    ProxyOptions, Question, Sender, ShardCalls, Shared, Survey, SurveyReply,
};
use throng_solo::{Order as AnyOrder, Solo};
use throng_types::{ChannelName, ConnId, Frame, Millis, Now, ShardId};

/// Connections of one shard of three, and its gateway.
struct Floor {
    this: ShardId,
    solos: Vec<Solo<Centrifuge>>,
    mails: Vec<(ShardId, Mail)>,
    has_room: bool,
    /// Surveys sent to all nodes.
    surveys: Vec<Survey>,
    now: Now,
}

impl Floor {
    fn new(shard: u8) -> Self {
        Self {
            this: ShardId(shard),
            solos: Vec::new(),
            mails: Vec::new(),
            has_room: true,
            surveys: Vec::new(),
            now: Now::default(),
        }
    }

    fn connect(&mut self, gateway: &Centrifuge) -> usize {
        let id = ConnId::new(self.this, self.solos.len() as u32, 1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let shared = Rc::new(throng_solo::shared());
        let solo = Solo::new(id, Port::Client, peer, shared, gateway.shared());
        self.solos.push(solo);
        self.solos.len() - 1
    }

    /// Sends bytes by a connection, carries out the orders, and takes the output.
    fn say(&mut self, at: usize, bytes: &[u8], gateway: &mut Centrifuge) -> Vec<u8> {
        self.solos[at].feed(bytes);
        for order in std::mem::take(&mut self.solos[at].orders) {
            match order {
                AnyOrder::Gateway(order) => gateway.order(order, self),
                AnyOrder::Survey { survey, .. } => self.surveys.push(survey),
                AnyOrder::Hub(_) | AnyOrder::Reload(_) => {}
            }
        }
        std::mem::take(&mut self.solos[at].out)
    }

    fn told(&mut self, at: usize) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.solos[at].out)).into_owned()
    }
}

impl ShardCalls<Centrifuge> for Floor {
    fn this(&self) -> ShardId {
        self.this
    }

    fn shards(&self) -> u8 {
        3
    }

    fn now(&self) -> Now {
        self.now
    }

    fn shared(&self) -> &Shared {
        &self.solos[0].shared
    }

    fn hub(&self) -> &Hub {
        panic!("nothing is asked of it here")
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        Err((Refusal::Busy, draft))
    }

    fn is_connected(&self, conn: ConnId) -> bool {
        self.solos.iter().any(|solo| solo.id == conn)
    }

    fn conn(&self, index: u32) -> Option<ConnId> {
        self.solos.get(index as usize).map(|solo| solo.id)
    }

    fn sessions(&self) -> Vec<ConnId> {
        self.solos.iter().map(|solo| solo.id).collect()
    }

    fn queued_bytes(&self, _: ConnId) -> usize {
        0
    }

    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Session, &mut Own<'_, Centrifuge>) -> Flow,
    ) -> bool {
        let mut solos = self.solos.iter_mut();
        let solo = solos.find(|solo| solo.id == conn);
        solo.is_some_and(|solo| solo.act_and_become(act))
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
        self.mails.push((to, mail));
    }
}

fn post(path: &str, content_type: &str, body: &[u8]) -> Vec<u8> {
    let bytes = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\n\
         Content-Length: {bytes}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

const CONNECT: &str = r#"{"id":1,"connect":{}}"#;
/// Command `connect` in Protobuf, behind its length: `Command { id: 1, connect: {} }`.
const CONNECT_PROTOBUF: &[u8] = &[4, 8, 1, 34, 0];

/// Each transport has a path, ways to begin, and a type of its own.
#[test]
fn streams_of_clients_that_send_commands() {
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").into_bytes();
    let escaped: String = CONNECT.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (json, protobuf) = ("application/json", "application/octet-stream");
    for (request, expected, start) in [
        (
            get(&format!("/connection/sse?cf_connect={escaped}")),
            "text/event-stream",
            "data: {\"id\":1,\"connect\":{",
        ),
        (
            post("/connection/sse", json, CONNECT.as_bytes()),
            "text/event-stream",
            "data: {\"id\":1,\"connect\":{",
        ),
        (
            post("/connection/http_stream", json, CONNECT.as_bytes()),
            "application/x-ndjson",
            "{\"id\":1,\"connect\":{",
        ),
        (
            post("/connection/http_stream", protobuf, CONNECT_PROTOBUF),
            protobuf,
            "",
        ),
    ] {
        let mut gateway = Centrifuge::default();
        let mut floor = Floor::new(0);
        let at = floor.connect(&gateway);
        let told = floor.say(at, &request, &mut gateway);
        let told = String::from_utf8_lossy(&told).into_owned();
        let (head, body) = told.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        assert!(
            head.contains(&format!("Content-Type: {expected}\r\n")),
            "{head}"
        );
        assert_eq!(
            head.contains("chunked"),
            expected != "text/event-stream",
            "{head}"
        );
        assert!(body.contains(start), "{body:?}");
        // The session is the client's alone, and is how its commands find it.
        let id = floor.solos[at].id;
        let session = floor.solos[at].shared.node.session_id(id);
        assert!(body.contains(session.as_str()), "{body:?}");
        assert_eq!(body.contains('{'), expected != protobuf);
    }
    for request in [get("/connection/sse"), post("/connection/sse", json, b"")] {
        let mut gateway = Centrifuge::default();
        let mut floor = Floor::new(0);
        let at = floor.connect(&gateway);
        let told = floor.say(at, &request, &mut gateway);
        assert!(told.starts_with(b"HTTP/1.1 400 "));
    }
}

/// A stream on a shard, and a request that brings a command of its client.
fn stream(home: &mut Floor, gateway: &mut Centrifuge) -> (usize, Vec<u8>) {
    let at = home.connect(gateway);
    let begin = post(
        "/connection/http_stream",
        "application/json",
        CONNECT.as_bytes(),
    );
    home.say(at, &begin, gateway);
    let solo = &home.solos[at];
    let body = json!({
        "session": solo.shared.node.session_id(solo.id).as_str(),
        "node": solo.shared.node.name(),
        "data": PING,
    });
    (
        at,
        post(
            "/emulation",
            "application/json",
            body.to_string().as_bytes(),
        ),
    )
}

const PING: &str = r#"{"id":7,"ping":{}}"#;

/// Commands reach their session, and are answered by its stream; the request that brought them has
/// an answer of its own, and its connection takes the next one.
#[test]
fn commands_find_their_session() {
    let mut gateway = Centrifuge::default();
    let mut home = Floor::new(0);
    let (stream, request) = stream(&mut home, &mut gateway);
    let from = home.connect(&gateway);
    for _ in 0..2 {
        let told = home.say(from, &request, &mut gateway);
        assert!(told.starts_with(b"HTTP/1.1 204 "), "{told:?}");
        assert!(home.told(stream).contains(PING));
    }
    // The stream itself carries nothing in this direction.
    assert!(home.say(stream, PING.as_bytes(), &mut gateway).is_empty());
}

#[test]
fn commands_find_their_session_on_another_shard() {
    let mut gateway = Centrifuge::default();
    let (mut home, mut away) = (Floor::new(1), Floor::new(0));
    let (stream, request) = stream(&mut home, &mut gateway);
    let from = away.connect(&gateway);
    let told = away.say(from, &request, &mut gateway);
    assert!(told.starts_with(b"HTTP/1.1 204 "), "{told:?}");
    let (to, mail) = away.mails.pop().expect("mail");
    assert_eq!((to, away.mails.len()), (ShardId(1), 0));
    assert_eq!(
        Centrifuge::mail_bytes(&mail),
        PING.len(),
        "what the client chose"
    );
    gateway.mail(Sender::Shard(ShardId(0)), mail, &mut home);
    assert!(home.told(stream).contains(PING));
}

/// Posts commands, and gives the status of the answer.
fn emulated(floor: &mut Floor, body: &str) -> String {
    let mut gateway = Centrifuge::default();
    let at = floor.connect(&gateway);
    let request = post("/emulation", "application/json", body.as_bytes());
    let told = String::from_utf8(floor.say(at, &request, &mut gateway)).expect("text");
    told.get(9..12).unwrap_or_default().to_owned()
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
        let mut floor = Floor::new(0);
        floor.has_room = has_room;
        assert_eq!(emulated(&mut floor, &body), status, "{body}");
        let is_upward = |mail: &Mail| matches!(mail, Mail::Upward(_));
        assert!(floor.mails.iter().all(|(_, mail)| is_upward(mail)));
        let to: Vec<ShardId> = floor.mails.iter().map(|(to, _)| *to).collect();
        assert_eq!(to, mailed, "{body}");
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
        let mut floor = Floor::new(0);
        assert_eq!(emulated(&mut floor, &body), "");
        let carried = Survey::Carry {
            node: other.into(),
            session: "s".into(),
            data: (*b"{}").into(),
        };
        let asked = floor.surveys.pop();
        assert_eq!(asked, Some(carried));
        floor.solos[0].event(Event::Surveyed(vec![own.clone(), reply]));
        assert_eq!(floor.told(0).get(9..12), Some(status));
    }
}

/// Input behind a waiting request is kept up to a bound; beyond it the connection is closed.
#[test]
fn what_comes_behind_commands_is_bounded() {
    let gateway = Centrifuge::default();
    for more in [0, 1] {
        let mut floor = Floor::new(0);
        let at = floor.connect(&gateway);
        let solo = &mut floor.solos[at];
        let node = &solo.shared.node;
        let there = ConnId::new(ShardId(1), 5, 1);
        let body = json!({
            "session": node.session_id(there).as_str(), "node": node.name(), "data": "{}",
        });
        // The order is not carried out, so it waits.
        solo.feed(&post(
            "/emulation",
            "application/json",
            body.to_string().as_bytes(),
        ));
        let limits = &solo.shared.limits;
        let bytes_max = 2 * (limits.head_bytes_max + limits.message_bytes_max);
        solo.feed(&vec![b'x'; bytes_max + more]);
        assert_eq!(solo.actions.end.is_some(), more == 1);
        // The wait is bounded.
        solo.event(Event::Timeout);
        assert!(solo.actions.end.is_some());
    }
}

#[derive(Clone, Default)]
struct Asked {
    questions: Rc<RefCell<Vec<(ConnId, u32)>>>,
    is_full: bool,
}

impl Backends for Asked {
    fn ask(&self, conn: ConnId, number: u32, _: Question) -> bool {
        self.questions.borrow_mut().push((conn, number));
        !self.is_full
    }
}

/// Backends without room for questions.
struct Full;

impl Backends for Full {
    fn ask(&self, _: ConnId, _: u32, _: Question) -> bool {
        false
    }
}

fn proxies() -> ProxyOptions {
    ProxyOptions {
        kinds: ProxyKind::ALL.into(),
        backends: vec![BackendOptions::default()],
        ..ProxyOptions::default()
    }
}

/// Decodes the object in a stream of lines, after its head.
fn reply(told: &[u8]) -> Value {
    let told = String::from_utf8_lossy(told);
    let line = told.lines().find(|line| line.starts_with('{'));
    line.map_or(Value::Null, |line| {
        serde_json::from_str(line).expect("an object")
    })
}

/// A question goes to the backend once, and its answer to the connection that asked. A question
/// without room counts as one without an answer.
#[test]
fn backends_are_asked_and_their_answers_arrive() {
    let begin = post(
        "/connection/http_stream",
        "application/json",
        CONNECT.as_bytes(),
    );
    for is_full in [false, true] {
        let asked = Asked {
            is_full,
            ..Asked::default()
        };
        let mut gateway = Centrifuge::with_backends(proxies(), Box::new(asked.clone()));
        let mut floor = Floor::new(0);
        let at = floor.connect(&gateway);
        let told = floor.say(at, &begin, &mut gateway);
        let questions = asked.questions.borrow().clone();
        let [(conn, number)] = questions[..] else {
            panic!("{questions:?}");
        };
        assert_eq!(conn, floor.solos[at].id);
        let failed = |reply: &Value| reply["error"]["code"] == 100;
        assert_eq!(failed(&reply(&told)), is_full, "{told:?}");
        if is_full {
            continue;
        }
        let answer = Some((200, br#"{"result":{"user":"ann"}}"#.to_vec()));
        let mail = Mail::Backends(BackendMail::Answered {
            conn,
            number,
            answer,
        });
        assert_eq!(Centrifuge::mail_bytes(&mail), 0);
        gateway.mail(Sender::Driver, mail, &mut floor);
        let told = floor.told(at);
        assert!(told.contains(r#"{"id":1,"connect":{"#), "{told}");
    }
}

/// After a reload questions go to the new backends, for the kinds that the new options name.
#[test]
fn backends_may_change() {
    let asked = Asked::default();
    let mut gateway = Centrifuge::with_backends(ProxyOptions::default(), Box::new(asked.clone()));
    let mut floor = Floor::new(0);
    let begin = post(
        "/connection/http_stream",
        "application/json",
        CONNECT.as_bytes(),
    );
    let at = floor.connect(&gateway);
    let told = floor.say(at, &begin, &mut gateway);
    assert!(reply(&told)["connect"].is_object(), "nobody is asked");
    let backends = Some(Box::new(Full) as Box<dyn Backends + Send>);
    let mail = Mail::Backends(BackendMail::Renewed(proxies(), backends));
    gateway.mail(Sender::Driver, mail, &mut floor);
    let at = floor.connect(&gateway);
    let told = floor.say(at, &begin, &mut gateway);
    assert_eq!(reply(&told)["error"]["code"], 100);
    assert!(
        asked.questions.borrow().is_empty(),
        "the old ones are not asked"
    );
}

/// A crowd that comes to an empty channel is one notice in a second. A later client is another one,
/// since the backend may have forgotten it; so is another channel.
#[test]
fn that_a_channel_is_empty_is_told_once_in_a_second() {
    let asked = Asked::default();
    let mut gateway = Centrifuge::with_backends(proxies(), Box::new(asked.clone()));
    let mut floor = Floor::new(0);
    let at = floor.connect(&gateway);
    let conn = floor.solos[at].id;
    let mut is_told = |at_ms, channel| {
        floor.now.mono = Millis(at_ms);
        let order = Order::CacheEmpty {
            conn,
            channel: ChannelName::new(channel).expect("a name"),
            question: Question {
                to: BackendId(0),
                kind: ProxyKind::CacheEmpty,
                headers: Vec::new(),
                body: Vec::new(),
            },
        };
        let before = asked.questions.borrow().len();
        gateway.order(order, &mut floor);
        asked.questions.borrow().len() > before
    };
    assert!(is_told(5000, "a"));
    assert!(!is_told(5000, "a"));
    assert!(is_told(5500, "b"));
    assert!(!is_told(5999, "a"));
    assert!(is_told(6000, "a"));
    assert!(!is_told(6499, "b"));
    assert!(!is_told(6999, "a"));
    assert!(is_told(7000, "b"));
}
