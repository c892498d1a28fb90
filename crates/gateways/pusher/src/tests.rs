//! The gateway before a real hub, without sockets: `room.txt` tells what clients and back ends say
//! and hear.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use throng_auth::Origins;
use throng_broker::{Draft, HookEvent, Hooks, Published, Refusal};
use throng_dialogue::{Outcome, Stage, Variables, parse, play, same, word};
use throng_hub::{Answer, Batch, Format, Hub, Patch, ReplyTo, Sink};
use throng_pusher::AppKeys;
use throng_pusher::api::EventLimits;
use throng_session::{
    Event, Flow, FormKind, Gateway, NodeReply, Own, Port, Sender as MailFrom, ShardCalls, Shared,
    Survey, SurveyReply,
};
use throng_solo::{Order, Solo, WEBSOCKET, conn, fan_out, hub_of};
use throng_types::{ChannelName, ConnId, Frame, Load as _, Now, Publication, Save as _, ShardId};
use throng_ws::{Masking, Opcode, WsDecoder, WsEvent, WsLimits, WsRole, encode_message};

use crate::socket_id::socket_id;
use crate::{
    AppLimits, CACHE_NAMESPACE, NAMESPACE, Pusher, PusherApp, PusherConnection, PusherMail,
    PusherSession, PusherShared, forms,
};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub(crate) fn app() -> PusherApp {
    PusherApp {
        id: "app".into(),
        keys: AppKeys::new("key", ["secret"]),
        origins: Origins::new(["https://app.example.com"], false).expect("an origin"),
        client_events: true,
        activity_timeout_s: 120,
        limits: EventLimits {
            name_bytes_max: 12,
            data_bytes_max: 40,
        },
        is_enabled: true,
        quota: AppLimits::default(),
        used: Default::default(),
        presence_members_max: 2,
        watchlists: true,
        subscription_count: false,
    }
}

/// Apps of all stories: one without limits, two with small ones, one that counts subscribers, and
/// one that is not served.
fn apps() -> Vec<PusherApp> {
    let other = |id: &str| PusherApp {
        id: id.into(),
        keys: AppKeys::new(&format!("{id}-key"), ["another secret"]),
        ..app()
    };
    let quota = AppLimits {
        connections_max: 1,
        publications_per_s: 3,
        client_events_per_s: 3,
        bytes_per_s: 100,
        reads_per_s: 1,
        ..AppLimits::default()
    };
    let tiny = PusherApp {
        quota: AppLimits {
            channels_max: 2,
            history_bytes_max: 100,
            ..AppLimits::default()
        },
        ..other("tiny")
    };
    let small = PusherApp {
        quota,
        ..other("small")
    };
    let off = PusherApp {
        is_enabled: false,
        ..other("off")
    };
    let counts = PusherApp {
        subscription_count: true,
        ..other("counts")
    };
    vec![app(), small, tiny, off, counts]
}

/// Connections of one shard, by the order in which they came.
#[derive(Default)]
struct Clients(Vec<Solo<Pusher>>);

impl Sink for Clients {
    fn answer(&mut self, ReplyTo { conn, token }: ReplyTo, answer: Answer) {
        self.0[conn.index() as usize].event(Event::Answer { token, answer });
    }

    fn encode(&mut self, _: Format, of: &Publication, _: Option<Patch<'_>>, out: &mut Vec<u8>) {
        forms::encode(of, out);
    }

    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        assert_eq!(batch.format.kind(), FormKind::Noted);
        let client = &mut self.0[index as usize];
        let frames = batch.encoded.expect("shared bytes").frames.each();
        for (publication, frame) in batch.publications.iter().zip(frames) {
            match frame.is_empty() {
                true => client.event(Event::Publication(publication)),
                false => client.out.extend_from_slice(frame),
            }
        }
    }
}

/// Listener that passes numbers of subscribers on, as webhooks are told them.
struct Counted(Sender<String>);

impl Hooks for Counted {
    fn tell(&self, event: HookEvent) {
        if let HookEvent::Count {
            channel,
            subscribers,
        } = event
        {
            let told = self.0.send(format!("{channel} {subscribers}"));
            told.expect("somebody listens");
        }
    }
}

/// One of two shards as the gateway sees it. Mail to the other one comes back.
struct Floor {
    shared: Shared,
    hub: Hub,
    now: Now,
    surveys: VecDeque<Survey>,
    mails: VecDeque<PusherMail>,
}

impl ShardCalls<Pusher> for Floor {
    fn this(&self) -> ShardId {
        ShardId(0)
    }

    fn shards(&self) -> u8 {
        2
    }

    fn now(&self) -> Now {
        self.now
    }

    fn shared(&self) -> &Shared {
        &self.shared
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    fn publish(&mut self, draft: Draft) -> Result<Published, (Refusal, Draft)> {
        self.hub.publish_here(draft, self.now)
    }

    fn survey(&mut self, survey: Survey) {
        self.surveys.push_back(survey);
    }

    fn is_connected(&self, _: ConnId) -> bool {
        panic!("not asked for")
    }

    fn conn(&self, _: u32) -> Option<ConnId> {
        panic!("not asked for")
    }

    fn sessions(&self) -> Vec<ConnId> {
        panic!("not asked for")
    }

    fn queued_bytes(&self, _: ConnId) -> usize {
        panic!("not asked for")
    }

    fn with(
        &mut self,
        _: ConnId,
        _: impl FnOnce(&mut PusherSession, &mut Own<'_, Pusher>) -> Flow,
    ) -> bool {
        panic!("not asked for")
    }

    fn with_gone(
        &mut self,
        _: ConnId,
        _: &mut PusherSession,
        _: impl FnOnce(&mut PusherSession, &mut Own<'_, Pusher>),
    ) {
    }

    fn take_orders(&mut self) -> Vec<ChannelName> {
        panic!("not asked for")
    }

    fn deliver(&mut self, _: ConnId, _: &[u8], _: &Frame) {}

    fn has_room(&self, _: ShardId) -> bool {
        self.mails.is_empty()
    }

    fn mail(&mut self, _: ShardId, mail: PusherMail) {
        self.mails.push_back(mail);
    }
}

struct Room {
    pusher: Pusher,
    floor: Floor,
    counted: Receiver<String>,
    /// Whether another node does not answer.
    is_cut: bool,
    clients: Clients,
    names: BTreeMap<String, usize>,
    variables: Variables,
    /// Frames that came and were not told yet, and the code of the close.
    heard: Vec<(VecDeque<String>, Option<u16>)>,
}

impl Room {
    fn new() -> Self {
        let (counts, counted) = channel();
        let shared = Shared {
            hooks: Some(Arc::new(Counted(counts))),
            ..throng_solo::shared()
        };
        let options = |namespace| (namespace, Pusher::channel_options(namespace));
        Self {
            pusher: Pusher::new(PusherShared::default().renewed(apps(), "")),
            floor: Floor {
                shared,
                hub: hub_of(&[options(NAMESPACE), options(CACHE_NAMESPACE)]),
                now: Now::default(),
                surveys: VecDeque::new(),
                mails: VecDeque::new(),
            },
            counted,
            is_cut: false,
            clients: Clients::default(),
            names: BTreeMap::new(),
            variables: Variables::default(),
            heard: Vec::new(),
        }
    }

    fn open(&mut self, port: Port) -> usize {
        let (index, shared) = (self.clients.0.len(), Rc::new(throng_solo::shared()));
        let solo = Solo::new(conn(index as u32), port, PEER, shared, self.pusher.shared());
        self.clients.0.push(solo);
        self.heard.push(Default::default());
        index
    }

    /// Has the hub do what was ordered, until nothing is left.
    fn run(&mut self) {
        loop {
            let orders = self.clients.0.iter_mut();
            let orders: Vec<_> = orders
                .flat_map(|client| mem::take(&mut client.orders))
                .collect();
            let is_done = orders.is_empty();
            for order in orders {
                match order {
                    Order::Hub(command) => {
                        let Floor { hub, now, .. } = &mut self.floor;
                        hub.handle(command, *now, &mut self.clients);
                    }
                    Order::Gateway(changed) => self.pusher.order(changed, &mut self.floor),
                    Order::Survey { reply_to, survey } => {
                        let is_asked = |name: &ChannelName| match &survey {
                            Survey::Subscribers(names) => names.contains(name),
                            _ => true,
                        };
                        let channels = self.floor.hub.channels();
                        let channels = channels.filter(|(name, _)| is_asked(name));
                        let channels = channels.map(|(name, count)| (name.clone(), count));
                        let replies = vec![SurveyReply::Channels(channels.collect())];
                        let caller = &mut self.clients.0[reply_to.conn.index() as usize];
                        caller.event(Event::Surveyed(replies));
                    }
                    other => panic!("{other:?}"),
                }
            }
            self.pusher.turn(10, &mut self.floor);
            while let Some(mail) = self.floor.mails.pop_front() {
                self.pusher
                    .mail(MailFrom::Shard(ShardId(1)), mail, &mut self.floor);
            }
            while let Some(survey) = self.floor.surveys.pop_front() {
                self.answer(survey);
            }
            fan_out(&mut self.floor.hub, 10, self.floor.now, &mut self.clients);
            if is_done {
                break;
            }
        }
        for (client, (frames, close)) in self.clients.0.iter_mut().zip(&mut self.heard) {
            if !matches!(client.session(), Some(PusherSession::Client(_))) {
                continue;
            }
            let mut out = mem::take(&mut client.out);
            if out.starts_with(b"HTTP/1.1 101") {
                let end = out.windows(4).position(|bytes| bytes == b"\r\n\r\n");
                out.drain(..end.expect("a whole head") + 4);
            }
            let mut decoder = WsDecoder::new(WsRole::Client);
            let read = decoder.feed(&mut out, &WsLimits::new(1 << 20), |event| {
                match event {
                    WsEvent::Message { data, .. } => {
                        frames.push_back(String::from_utf8_lossy(data).into_owned());
                    }
                    WsEvent::Close(frame) => *close = frame.map(|frame| frame.code),
                    WsEvent::Ping(_) | WsEvent::Pong(_) => {}
                }
                ControlFlow::Continue(())
            });
            read.expect("good frames");
        }
    }

    /// Answers the gateway for this shard, and for another node with one subscriber of `far`.
    fn answer(&mut self, survey: Survey) {
        let Survey::Subscribers(channels) = survey else {
            panic!("{survey:?}");
        };
        let hub = &self.floor.hub;
        let own = channels
            .iter()
            .map(|name| (name.clone(), hub.subscribers(name)));
        let own = own.filter(|(_, count)| *count > 0).collect();
        let is_far = |name: &&ChannelName| name.as_str().ends_with("far");
        let far = channels.iter().filter(is_far).map(|name| (name.clone(), 1));
        let node = NodeReply {
            replies: vec![SurveyReply::Channels(far.collect())],
            ..NodeReply::default()
        };
        let others = match self.is_cut {
            true => SurveyReply::Unanswered,
            false => SurveyReply::Elsewhere(vec![node]),
        };
        let replies = vec![SurveyReply::Channels(own), others];
        self.pusher.surveyed(replies, &mut self.floor);
    }

    /// Sends a signed call, and checks its answer.
    fn call(&mut self, text: &str) -> Outcome {
        let (call, expected) = text.split_once(" = ").expect("an answer");
        let (method, rest) = word(call);
        let (path, body) = word(rest);
        let signed = path.split('?').next().unwrap_or_default();
        let answers = self.ask((method, body.trim_start_matches('-')), path, signed);
        same(&answers, &vec![expected.to_owned()])
    }

    /// Answers to a call whose app has signed a path.
    fn ask(&mut self, (method, body): (&str, &str), path: &str, signed: &str) -> Vec<String> {
        let id = signed
            .rsplit("apps/")
            .next()
            .and_then(|rest| rest.split('/').next());
        let known = apps().into_iter().find(|app| Some(&*app.id) == id);
        let keys = known.unwrap_or_else(app).keys;
        let (path, asked) = path.split_once('?').unwrap_or((path, ""));
        let now_s = self.floor.now.unix_s();
        let query = throng_pusher::api::signed_query(&keys, method, signed, body.as_bytes(), now_s);
        let pairs = query.split('&').chain(asked.split('&'));
        let mut pairs: Vec<&str> = pairs
            .filter(|pair| !pair.is_empty() && !pair.starts_with("auth_signature"))
            .collect();
        pairs.sort_unstable();
        let query = pairs.join("&");
        let signature = keys.sign(format!("{method}\n{signed}\n{query}").as_bytes());
        let query = format!("{query}&auth_signature={signature}");
        let index = self.open(Port::Api);
        self.clients.0[index].now = self.floor.now;
        let length = format!("Content-Length: {}", body.len());
        let request = format!(
            "{method} {path}?{query} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n{body}"
        );
        self.clients.0[index].feed(request.as_bytes());
        self.run();
        // An answer and, behind it, when to come again.
        let told = self.clients.0[index].told();
        let answers = told.split("HTTP/1.1 ").skip(1).map(|answer| {
            let (head, body) = answer.split_once("\r\n\r\n").expect("a whole head");
            let fields = head.lines();
            let wait = fields.filter_map(|line| line.strip_prefix("Retry-After: "));
            let wait: String = wait.map(|wait| format!(" after {wait}")).collect();
            format!("{} {body}{wait}", &head[..3])
        });
        answers.collect()
    }
}

/// Puts signatures in the place of `SIGN(MESSAGE)SIGN`, where quotes are escaped.
fn signed(text: &str) -> String {
    let Some((before, rest)) = text.split_once("SIGN(") else {
        return text.to_owned();
    };
    let (message, rest) = rest.split_once(")SIGN").expect("an end");
    let message = message.replace("\\\"", "\"");
    // `KEY|MESSAGE` is signed by another app than the first.
    let (key, message) = message.split_once('|').unwrap_or(("key", &message));
    let app = apps().into_iter().find(|app| app.keys.key() == key);
    let signature = app.expect("a key").keys.sign(message.as_bytes());
    format!("{before}{key}:{signature}{rest}")
}

impl Stage for Room {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn step(&mut self, step: &str, _: &str) -> Outcome {
        let (name, rest) = word(step);
        if matches!(name, "GET" | "POST") {
            return self.call(step);
        }
        let (verb, rest) = word(rest);
        if verb == "asks" {
            let (target, field) = rest.split_once(" | ").unwrap_or((rest, ""));
            let end = if field.is_empty() { "" } else { "\r\n" };
            let index = self.open(Port::Client);
            let client = &mut self.clients.0[index];
            client.get(target, &format!("{field}{end}{WEBSOCKET}"));
            let id = socket_id(&client.shared.node, client.id);
            self.variables.set(name, id);
            self.names.insert(name.to_owned(), index);
            self.run();
            return Ok(());
        }
        if name == "hook" {
            let told = self.counted.try_recv();
            return same(&told.as_deref(), &Ok(step.trim_start_matches("hook ")));
        }
        if name == "cut" {
            self.is_cut = verb == "on";
            return Ok(());
        }
        if name == "after" {
            let now = &mut self.floor.now;
            let ms: u64 = verb.parse().expect("a time");
            *now = Now::new(now.mono.0 + ms, now.unix_ms + ms);
            self.pusher.tick(&mut self.floor);
            self.run();
            return Ok(());
        }
        let index = self.names[name];
        match verb {
            "goes" => {
                let client = &mut self.clients.0[index];
                self.floor.hub.gone(client.id, self.floor.now);
                if let Some(PusherSession::Client(open)) = client.session() {
                    let copy = PusherConnection::load_whole(&open.saved()).expect("whole");
                    let gone = PusherSession::Client(mem::replace(open, copy));
                    self.pusher.closed(client.id, gone, &mut self.floor);
                }
                self.run();
            }
            "says" => {
                let (mut frame, text) = (Vec::new(), signed(rest));
                let masking = Masking::Client([1; 4]);
                encode_message(masking, Opcode::Text, text.as_bytes(), &mut frame);
                self.clients.0[index].feed(&frame);
                self.run();
            }
            "hears" => {
                let (frames, _) = &mut self.heard[index];
                let told = frames.pop_front().ok_or("it hears nothing")?;
                return self.variables.fit(&parse(&told, 0), &parse(rest, 0));
            }
            "closes" => return same(&self.heard[index].1, &rest.parse().ok()),
            other => panic!("no step: {other}"),
        }
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        let mut frames = self.heard.iter().flat_map(|(frames, _)| frames);
        frames
            .next()
            .map_or(Ok(()), |frame| Err(format!("nobody tells of {frame}")))
    }
}

#[test]
fn stories_of_clients_and_back_ends() {
    play("room.txt", include_str!("tests/room.txt"), Room::new);
}

#[test]
fn calls_are_signed_with_the_path_before_all_or_without_it() {
    let mut room = Room::new();
    room.pusher = Pusher::new(PusherShared::default().renewed(apps(), "/push"));
    for (path, signed, status) in [
        ("/push/apps/app/channels", "/push/apps/app/channels", "200"),
        ("/push/apps/app/channels", "/apps/app/channels", "200"),
        ("/push/apps/app/channels", "/other/apps/app/channels", "401"),
        ("/push/apps/app/channels", "/apps/small/channels", "401"),
        ("/apps/app/channels", "/apps/app/channels", "404"),
    ] {
        let answers = room.ask(("GET", ""), path, signed);
        assert!(
            answers[0].starts_with(status),
            "{path} {signed}: {answers:?}"
        );
    }
}
