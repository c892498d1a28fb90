//! The gateway before a real hub, without sockets: `room.txt` tells what clients and back ends say
//! and hear.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::rc::Rc;

use throng_auth::Origins;
use throng_dialogue::{Outcome, Stage, Variables, parse, play, same, word};
use throng_hub::{Answer, Batch, Format, Hub, Patch, ReplyTo, Sink};
use throng_pusher::AppKeys;
use throng_pusher::api::EventLimits;
use throng_session::{Event, FormKind, Gateway, Port, SurveyReply};
use throng_solo::{Order, Solo, WEBSOCKET, conn, fan_out, hub_of};
use throng_types::{Now, Publication};
use throng_ws::{Masking, Opcode, WsDecoder, WsEvent, WsLimits, WsRole, encode_message};

use crate::socket_id::socket_id;
use crate::{
    AppLimits, CACHE_NAMESPACE, NAMESPACE, Pusher, PusherApp, PusherSession, PusherShared, forms,
};

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn app() -> PusherApp {
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
    }
}

/// Apps of all stories: one without limits, one with small ones, and one that is not served.
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
    };
    let small = PusherApp {
        quota,
        ..other("small")
    };
    let off = PusherApp {
        is_enabled: false,
        ..other("off")
    };
    vec![app(), small, off]
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

struct Room {
    pusher: Pusher,
    hub: Hub,
    clients: Clients,
    names: BTreeMap<String, usize>,
    variables: Variables,
    now: Now,
    /// Frames that came and were not told yet, and the code of the close.
    heard: Vec<(VecDeque<String>, Option<u16>)>,
}

impl Room {
    fn new() -> Self {
        let options = |namespace| (namespace, Pusher::channel_options(namespace));
        Self {
            pusher: Pusher::new(PusherShared::default().renewed(apps(), "")),
            hub: hub_of(&[options(NAMESPACE), options(CACHE_NAMESPACE)]),
            clients: Clients::default(),
            names: BTreeMap::new(),
            variables: Variables::default(),
            now: Now::default(),
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
                        self.hub.handle(command, self.now, &mut self.clients);
                    }
                    Order::Survey { reply_to, .. } => {
                        let channels = self.hub.channels();
                        let channels = channels.map(|(name, count)| (name.clone(), count));
                        let replies = vec![SurveyReply::Channels(channels.collect())];
                        let caller = &mut self.clients.0[reply_to.conn.index() as usize];
                        caller.event(Event::Surveyed(replies));
                    }
                    other => panic!("{other:?}"),
                }
            }
            fan_out(&mut self.hub, 10, self.now, &mut self.clients);
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
        let query = throng_pusher::api::signed_query(&keys, method, signed, body.as_bytes(), 0);
        let pairs = query.split('&').chain(asked.split('&'));
        let mut pairs: Vec<&str> = pairs
            .filter(|pair| !pair.is_empty() && !pair.starts_with("auth_signature"))
            .collect();
        pairs.sort_unstable();
        let query = pairs.join("&");
        let signature = keys.sign(format!("{method}\n{signed}\n{query}").as_bytes());
        let query = format!("{query}&auth_signature={signature}");
        let index = self.open(Port::Api);
        let length = format!("Content-Length: {}", body.len());
        let request = format!(
            "{method} {path}?{query} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n{body}"
        );
        self.clients.0[index].feed(request.as_bytes());
        self.run();
        self.clients.0[index].answers()
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
        if name == "after" {
            self.now.mono = self.now.mono + verb.parse::<u64>().expect("a time");
            self.run();
            return Ok(());
        }
        let index = self.names[name];
        match verb {
            "goes" => {
                self.hub.gone(self.clients.0[index].id, self.now);
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
