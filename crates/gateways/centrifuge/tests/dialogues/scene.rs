//! One client's WebSocket in front of three hubs, played without a shard.
//!
//! The client's connection lives on shard 0. Its orders are carried out after each of its frames,
//! as a shard does it at the end of a turn; mail between the shards takes another round.

use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_auth::{KeyConfig, Verifier};
use throng_broker::{
    BackendId, ChannelOptions, NamespaceOptions, ProxySwitches, Retention, home_of,
};
use throng_gateway_centrifuge::{Centrifuge, Session};
use throng_hub::{Answer, Batch, Command, Format, Hub, Patch, ReplyTo, Sink};
use throng_session::{Ask, Event, Gateway, Port, ProxyOptions, Question, Shared, Survey};
use throng_solo::{Order, Solo};
use throng_types::{ChannelName, ConnId, Millis, Now, Payload, PayloadKind, Publication, ShardId};
use throng_ws::{Masking, Opcode, encode_header};

/// Shards; the client's is the first.
const SHARDS: u8 = 3;

/// Signs the tokens of tests.
pub(crate) const SECRET: &str = "a secret that is long enough for HS256";
/// The time at which every dialogue begins, in Unix seconds.
pub(crate) const BEGIN_S: u64 = 1_790_000_000;

/// A token with these claims.
pub(crate) fn sign(claims: &serde_json::Value) -> String {
    let key = throng_auth::SigningKey::HmacSecret(SECRET.as_bytes());
    throng_auth::sign(claims, throng_auth::Algorithm::Hs256, key).expect("a good key")
}

/// A channel at home on a shard, in a namespace (`""` for none).
pub(crate) fn channel_on(shard: u8, namespace: &str) -> String {
    let mut names = (0..).map(|n| format!("{namespace}c{n}"));
    let is_there = |name: &String| home_of(&channel(name), SHARDS) == ShardId(shard);
    names.find(is_there).expect("one of them")
}

fn channel(name: &str) -> ChannelName {
    ChannelName::new(name).expect("a channel name")
}

#[derive(Default)]
struct Outlet {
    answers: Vec<(ReplyTo, Answer)>,
    deliveries: Vec<u8>,
}

impl Sink for Outlet {
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        self.answers.push((reply_to, answer));
    }

    fn encode(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        let proxies = ProxyOptions::default();
        Centrifuge::encode(&proxies, format.number(), publication, patch, out);
    }

    fn deliver(&mut self, _: u32, batch: &Batch<'_>) {
        let frames = batch.encoded.expect("a shared form");
        self.deliveries.extend_from_slice(frames.frames.bytes());
    }
}

/// Options of a server with keys: channels in `open:` and `kept:` are for clients with a token,
/// `anyone:` for all, `asked:` for those that a backend lets in, `other:` for those that the second
/// one lets in, `latest:` with the newest publication, `changed:` as differences or filtered,
/// `zipped:` compressed; others need a token of their own.
fn options() -> NamespaceOptions {
    let closed = ChannelOptions::default();
    let open = ChannelOptions {
        subscribe: true,
        publish: true,
        ..closed
    };
    let kept = ChannelOptions {
        retention: Retention {
            publications_max: 3,
            ttl_ms: 60_000,
        },
        recovery: true,
        ..open
    };
    let anyone = ChannelOptions {
        anonymous_subscribe: true,
        ..closed
    };
    let asked = ChannelOptions {
        proxies: ProxySwitches {
            subscribe: Some(BackendId::DEFAULT),
            publish: Some(BackendId::DEFAULT),
            sub_refresh: Some(BackendId::DEFAULT),
            cache_empty: None,
        },
        user_channels: true,
        ..closed
    };
    let other = ChannelOptions {
        proxies: ProxySwitches {
            subscribe: Some(BackendId(1)),
            publish: Some(BackendId(1)),
            ..ProxySwitches::default()
        },
        ..closed
    };
    let latest = ChannelOptions {
        cache: true,
        proxies: ProxySwitches {
            cache_empty: Some(BackendId(1)),
            ..ProxySwitches::default()
        },
        ..kept
    };
    let changed = ChannelOptions {
        delta: true,
        tags_filter: true,
        ..kept
    };
    let zipped = ChannelOptions {
        compression: true,
        ..open
    };
    let named = [
        ("open", open),
        ("kept", kept),
        ("anyone", anyone),
        ("asked", asked),
        ("other", other),
        ("latest", latest),
        ("changed", changed),
        ("zipped", zipped),
        ("throng", anyone),
    ];
    NamespaceOptions::new(closed, named.map(|(name, it)| (name.into(), it)).into())
}

/// Connection of a client, the hubs behind it, and its output so far.
pub(crate) struct Scene {
    solo: Solo<Centrifuge>,
    hubs: [Hub; SHARDS as usize],
    heard: Vec<u8>,
    /// Surveys sent to every shard.
    pub(crate) surveys: Vec<Survey>,
    /// Questions to backends, each with its number.
    pub(crate) asked: Vec<(u32, Question)>,
    /// Head of the answer to the handshake.
    pub(crate) head: String,
}

impl Scene {
    /// A server with keys, and a WebSocket at `target` with these headers.
    pub(crate) fn open(target: &str, headers: &str) -> Self {
        let mut scene = Self::new(Port::Client);
        scene.upgrade(target, headers);
        scene
    }

    /// Takes the refusals: command and object of each.
    pub(crate) fn refused(&self) -> Vec<(&'static str, Box<str>)> {
        let notices = &self.solo.shared.notices;
        notices.begin(self.solo.id, self.solo.now);
        let taken = notices.take().into_iter();
        taken.map(|notice| (notice.what, notice.object)).collect()
    }

    /// Makes the connection a WebSocket.
    pub(crate) fn upgrade(&mut self, target: &str, headers: &str) {
        self.solo.feed(
            format!(
                "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Version: 13\r\n{headers}\
                 Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            )
            .as_bytes(),
        );
        self.head = String::from_utf8(std::mem::take(&mut self.solo.out)).expect("a head");
    }

    /// A request to the server API, and its status and body.
    pub(crate) fn post(&mut self, path: &str, headers: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{headers}Content-Length: {length}");
        self.solo.feed(format!("{head}\r\n\r\n{body}").as_bytes());
        self.settle();
        let told = String::from_utf8(std::mem::take(&mut self.heard)).expect("text");
        let (head, body) = told.split_once("\r\n\r\n").expect("an answer");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    /// Sends bytes, and gives those that come of it, as text.
    pub(crate) fn raw(&mut self, bytes: &str) -> String {
        self.solo.feed(bytes.as_bytes());
        self.settle();
        self.take_text()
    }

    /// Something happens to the client's session; gives the bytes that come of it, as text.
    pub(crate) fn happens(&mut self, event: Event<'_>) -> String {
        self.solo.event(event);
        self.settle();
        self.take_text()
    }

    /// Takes the output as text.
    pub(crate) fn take_text(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.heard)).into_owned()
    }

    /// The session, once there is one.
    pub(crate) const fn session(&mut self) -> Option<&mut Session> {
        self.solo.session()
    }

    /// Whether the server counts the connection as a client's, once it is more than a request.
    pub(crate) fn is_client(&mut self) -> Option<bool> {
        let session = self.solo.session();
        session.map(|session| Centrifuge::class(session).is_client)
    }

    /// Advances the clock, without the output.
    pub(crate) fn pass_s(&mut self, seconds: u64) {
        self.solo.now.mono = self.solo.now.mono + seconds * 1000;
        self.solo.now.unix_ms += seconds * 1000;
    }

    /// A server with keys for clients, and a connection to one of its ports.
    pub(crate) fn new(port: Port) -> Self {
        Self::with(port, |_| {})
    }

    /// Opens a scene with changed options.
    pub(crate) fn with(port: Port, change: impl FnOnce(&mut Shared)) -> Self {
        Self::with_backends(port, change, ProxyOptions::default())
    }

    /// Opens a scene with changed options and backends.
    pub(crate) fn with_backends(
        port: Port,
        change: impl FnOnce(&mut Shared),
        proxies: ProxyOptions,
    ) -> Self {
        let namespaces = Arc::new(options());
        let keys = KeyConfig {
            hmac_secret: Some(SECRET.as_bytes().into()),
            ..KeyConfig::default()
        };
        let mut shared = Shared {
            namespaces: namespaces.clone(),
            verifier: Some(Arc::new(Verifier::new(keys).expect("a good key"))),
            anonymous: false,
            ..throng_solo::shared()
        };
        change(&mut shared);
        let hub = |shard| throng_solo::hub(ShardId(shard), SHARDS, &namespaces);
        let id = ConnId::new(ShardId(0), 3, 1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let mut solo = Solo::new(id, port, peer, Rc::new(shared), Rc::new(proxies));
        solo.now = Now {
            mono: Millis(1_000_000),
            unix_ms: BEGIN_S * 1000,
        };
        Self {
            solo,
            hubs: [hub(0), hub(1), hub(2)],
            heard: Vec::new(),
            surveys: Vec::new(),
            asked: Vec::new(),
            head: String::new(),
        }
    }

    /// A client in JSON that has connected as `ann`.
    pub(crate) fn ann() -> Self {
        let mut scene = Self::open("/connection/websocket", "");
        let result = scene.connect(&serde_json::json!({ "sub": "ann" }));
        assert!(result["client"].is_string(), "{result}");
        scene
    }

    /// Connects a client in JSON with a token of these claims, and takes the result.
    #[track_caller]
    pub(crate) fn connect(&mut self, claims: &serde_json::Value) -> serde_json::Value {
        let connect = serde_json::json!({ "id": 1, "connect": { "token": sign(claims) } });
        let told = self.say(&connect.to_string());
        let [reply] = &told[..] else {
            panic!("{told:?}");
        };
        let reply: serde_json::Value = serde_json::from_str(reply).expect("a reply");
        assert_eq!(reply["id"], 1, "{reply}");
        reply["connect"].clone()
    }

    /// Sends a text frame, and takes the output.
    pub(crate) fn say(&mut self, text: &str) -> Vec<String> {
        self.send(Opcode::Text, text.as_bytes())
    }

    /// Sends a frame, and takes the output.
    pub(crate) fn send(&mut self, opcode: Opcode, payload: &[u8]) -> Vec<String> {
        self.send_raw(opcode, payload);
        self.told()
    }

    fn send_raw(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        // A key of zeros leaves the payload as it is.
        encode_header(Masking::Client([0; 4]), opcode, payload.len(), &mut frame);
        frame.extend_from_slice(payload);
        self.solo.feed(&frame);
        self.settle();
    }

    /// Sends a frame, and gives the bytes of the frames that come of it.
    pub(crate) fn exchange(&mut self, opcode: Opcode, payload: &[u8]) -> Vec<(u8, Vec<u8>)> {
        self.send_raw(opcode, payload);
        self.frames()
    }

    /// Advances the clock, and takes the output.
    pub(crate) fn wait_s(&mut self, seconds: u64) -> Vec<String> {
        self.pass_s(seconds);
        self.solo.event(Event::Timeout);
        self.settle();
        self.told()
    }

    /// Whether its connection ends.
    pub(crate) const fn has_ended(&self) -> bool {
        self.solo.actions.end.is_some()
    }

    /// Publishes by the server, and takes the frames of a WebSocket.
    pub(crate) fn publish(&mut self, name: &str, data: &str) -> Vec<(u8, Vec<u8>)> {
        self.publish_text(name, data);
        self.frames()
    }

    /// Publishes JSON by the server.
    pub(crate) fn publish_text(&mut self, name: &str, data: &str) {
        let payload = Payload {
            bytes: data.as_bytes().into(),
            kind: PayloadKind::Json,
        };
        let draft = throng_broker::Draft::new(channel(name), payload);
        let nobody = ReplyTo {
            conn: ConnId::new(ShardId(0), 9, 9),
            token: 0,
        };
        let reply_to = nobody;
        self.carry_out(Command::Publish { reply_to, draft });
        self.settle();
    }

    /// Takes the next question to a backend, as JSON.
    pub(crate) fn question(&mut self) -> (u32, serde_json::Value) {
        let (number, question) = self.asked.remove(0);
        let mut json: serde_json::Value = serde_json::from_slice(&question.body).expect("JSON");
        json["to"] = question.kind.name().into();
        json["backend"] = question.to.0.into();
        let headers = question.headers.iter();
        let headers: Vec<String> = headers
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        json["headers"] = headers.into();
        (number, json)
    }

    /// Answers a question with a status and a body, or with a failure; takes the output.
    pub(crate) fn answer(&mut self, number: u32, answer: Option<(u16, &str)>) -> Vec<String> {
        self.take_answer(number, answer);
        self.told()
    }

    /// Answers the next question, and takes the output.
    pub(crate) fn answers(&mut self, answer: Option<(u16, &str)>) -> Vec<String> {
        let (number, _) = self.question();
        self.answer(number, answer)
    }

    /// Answers a question, and takes the output as text.
    pub(crate) fn answer_text(&mut self, number: u32, answer: Option<(u16, &str)>) -> String {
        self.take_answer(number, answer);
        self.take_text()
    }

    fn take_answer(&mut self, number: u32, answer: Option<(u16, &str)>) {
        let answer = answer.map(|(status, body)| (status, body.as_bytes().to_vec()));
        self.solo
            .act(|session, cx| session.answered(number, answer, cx));
        self.settle();
    }

    fn carry_out(&mut self, command: Command) {
        let mut outlet = Outlet::default();
        self.hubs[0].handle(command, self.solo.now, &mut outlet);
        self.take(outlet);
    }

    fn take(&mut self, outlet: Outlet) {
        for (reply_to, answer) in outlet.answers {
            let token = reply_to.token;
            if reply_to.conn == self.solo.id {
                self.solo.event(Event::Answer { token, answer });
            }
        }
        self.heard.append(&mut self.solo.out);
        self.heard.extend_from_slice(&outlet.deliveries);
    }

    /// Carries out orders, mail and fan-out until nothing is left.
    fn settle(&mut self) {
        loop {
            self.heard.append(&mut self.solo.out);
            let orders = std::mem::take(&mut self.solo.orders);
            let mut is_quiet = orders.is_empty();
            for order in orders {
                match order {
                    Order::Hub(command) => self.carry_out(command),
                    Order::Survey { survey, .. } => self.surveys.push(survey),
                    Order::Gateway(throng_gateway_centrifuge::Order::Ask(Ask {
                        number,
                        question,
                        ..
                    })) => self.asked.push((number, question)),
                    Order::Gateway(throng_gateway_centrifuge::Order::CacheEmpty {
                        question,
                        ..
                    }) => self.asked.push((0, question)),
                    Order::Gateway(_) | Order::Reload(_) => {}
                }
            }
            for (from, to) in [(0, 1), (0, 2), (2, 0), (1, 0), (1, 2), (2, 1)] {
                while let Some(mail) = self.hubs[from].take_mail(ShardId(to as u8)) {
                    is_quiet = false;
                    let mut outlet = Outlet::default();
                    let from = ShardId(from as u8);
                    self.hubs[to].mail(from, mail, self.solo.now, &mut outlet);
                    self.take(outlet);
                }
            }
            let mut outlet = Outlet::default();
            let more = self.hubs[0].fan_out(100, self.solo.now, &mut outlet);
            self.take(outlet);
            if is_quiet && !more && self.solo.orders.is_empty() {
                return;
            }
        }
    }

    /// Takes the bytes of the output.
    pub(crate) fn wire(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.heard)
    }

    /// Takes the frames of the output: opcode and payload.
    fn frames(&mut self) -> Vec<(u8, Vec<u8>)> {
        let bytes = std::mem::take(&mut self.heard);
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while let [first, short, ..] = *rest {
            let (head, length) = match short {
                126 => (4, usize::from(u16::from_be_bytes([rest[2], rest[3]]))),
                127 => (
                    10,
                    rest[2..10]
                        .iter()
                        .fold(0, |sum, &byte| sum << 8 | usize::from(byte)),
                ),
                short => (2, usize::from(short)),
            };
            frames.push((first & 15, rest[head..head + length].to_vec()));
            rest = &rest[head + length..];
        }
        assert!(rest.is_empty(), "whole frames");
        frames
    }

    /// Takes the frames in words: text as it is, `close CODE`.
    fn told(&mut self) -> Vec<String> {
        let word = |(opcode, payload): (u8, Vec<u8>)| match opcode {
            1 => String::from_utf8(payload).expect("text"),
            8 => format!("close {}", u16::from_be_bytes([payload[0], payload[1]])),
            opcode => format!("{opcode} {payload:?}"),
        };
        self.frames().into_iter().map(word).collect()
    }
}
