//! Clients of backends without sockets: requests, events of backends and publications in, bytes and
//! orders out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_broker::{Recovery, Subscribed};
use throng_grip::item::zmq_pull_item;
use throng_grip::routes::parse_routes;
use throng_http1::field::Header;
use throng_http1::origin::{
    OriginEvent, OriginFailure, OriginFailureKind, OriginHead, OriginRequest,
};
use throng_hub::{Answer, Command};
use throng_session::{Event, Flow, Port, Shared};
use throng_solo::{Order as Wish, Solo};
use throng_types::{ChannelName, ConnId, End, Millis, Publication, PublicationKind, ShardId};
use throng_ws::{Masking, Opcode, encode_header};

use self::world::Played;
use crate::forms::{draft, hub_channel};
use crate::{Grip, GripOptions, GripShared, Order, RouteBook};

/// A WebSocket's handshake on this path; its key and the answer to it are RFC 6455's own example.
fn upgrade(path: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
}

const ACCEPT: (&str, &str) = ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
/// Fields of a backend that speaks WebSocket over HTTP.
const EVENTS: (&str, &str) = ("Content-Type", "application/websocket-events");
const EXTENSION: (&str, &str) = ("Sec-WebSocket-Extensions", "grip");

/// A frame; a client's key of zeros leaves its content as it is.
fn frame(masking: Masking, opcode: Opcode, content: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    encode_header(masking, opcode, content.len(), &mut frame);
    frame.extend_from_slice(content);
    frame
}

fn of_server(text: &str) -> Vec<u8> {
    frame(Masking::Server, Opcode::Text, text.as_bytes())
}

mod dialogues;
mod flow;
mod moved;
mod words;
mod world;
mod worlds;

/// Client with its orders to others.
struct Client {
    solo: Solo<Grip>,
    /// Channels sent to the hub, with a mark for coming or going.
    hub: Vec<String>,
    /// Commands sent to the hub, unabridged.
    commands: Vec<Command>,
    orders: Vec<Order>,
    /// Deadline that it has set.
    due: Option<Millis>,
    ended: Option<End>,
    is_paused: bool,
    /// Deliveries that are held back.
    held: Option<Vec<u8>>,
}

impl Client {
    fn new() -> Self {
        Self::with(|_| ())
    }

    /// A client of a server with other options.
    fn with(change: impl FnOnce(&mut GripOptions)) -> Self {
        let own = Rc::new(GripShared::new(options_with(change)));
        let id = ConnId::new(ShardId(0), 1, 1);
        Self::of(id, own, Rc::new(throng_solo::shared()))
    }

    fn of(id: ConnId, own: Rc<GripShared>, shared: Rc<Shared>) -> Self {
        Self::by((Port::Client, Ipv4Addr::LOCALHOST.into()), id, own, shared)
    }

    /// A connection by any port, from any address.
    fn by(
        (port, peer): (Port, IpAddr),
        id: ConnId,
        own: Rc<GripShared>,
        shared: Rc<Shared>,
    ) -> Self {
        let mut solo = Solo::new(id, port, peer, shared, own);
        solo.now.mono = Millis(1_000_000);
        Self {
            solo,
            hub: Vec::new(),
            commands: Vec::new(),
            orders: Vec::new(),
            due: None,
            ended: None,
            is_paused: false,
            held: None,
        }
    }

    fn says(&mut self, text: &str) {
        self.feeds(text.as_bytes());
    }

    fn feeds(&mut self, bytes: &[u8]) {
        self.solo.feed(bytes);
        self.sort();
    }

    fn happens(&mut self, event: Event<'_>) {
        self.solo.event(event);
        self.sort();
    }

    fn sort(&mut self) {
        let actions = self.solo.actions;
        self.due = actions.deadline.unwrap_or(self.due);
        self.is_paused = actions.pause.unwrap_or(self.is_paused);
        self.ended = self.ended.or(actions.end);
        if actions.forget_held {
            self.held = None;
        }
        match actions.hold {
            Some(true) => drop(self.held.get_or_insert_default()),
            Some(false) => self.solo.out.extend(self.held.take().unwrap_or_default()),
            None => {}
        }
        for order in self.solo.orders.drain(..) {
            match order {
                Wish::Hub(command) => {
                    match &command {
                        Command::Subscribe { channel, .. } => self.hub.push(format!("+{channel}")),
                        Command::Unsubscribe { channel, .. } => {
                            self.hub.push(format!("-{channel}"));
                        }
                        _ => {}
                    }
                    self.commands.push(command);
                }
                Wish::Gateway(order) => self.orders.push(order),
                Wish::Survey { .. } | Wish::Reload(_) => {}
            }
        }
    }

    fn is_asking(&self) -> bool {
        let asks = |order: &Order| matches!(order, Order::Ask { .. });
        self.orders.iter().any(asks)
    }

    /// Its backend does something in the exchange with this number.
    fn backend(&mut self, token: u32, event: OriginEvent) {
        self.solo
            .act_and_become(|session, cx| session.origin(token, event, cx));
        self.sort();
    }

    fn head(&mut self, token: u32, code: u16, fields: &[(&str, &str)]) {
        self.backend(token, OriginEvent::Head(head(code, fields)));
    }

    fn end(&mut self, token: u32) {
        self.backend(token, OriginEvent::End);
    }

    /// Plays a whole answer.
    fn answer(&mut self, token: u32, code: u16, fields: &[(&str, &str)], body: &str) {
        self.head(token, code, fields);
        if !body.is_empty() {
            self.backend(token, OriginEvent::Body(body.into()));
        }
        self.end(token);
    }

    /// A publisher wants the backend asked for what was missed.
    fn recover(&mut self) {
        self.solo.act(|session, cx| session.recover(cx));
        self.sort();
    }

    /// A publisher wants the backend asked.
    fn refresh(&mut self) {
        self.solo.act(|session, cx| session.refresh(cx));
        self.sort();
    }

    /// The hub has made it a member of a channel.
    fn joins(&mut self, name: &str) {
        let answer = Answer::Subscribed {
            channel: channel(name),
            result: Ok(Subscribed {
                position: None,
                recovery: Recovery::NotAsked,
            }),
        };
        self.happens(Event::Answer { token: 0, answer });
    }

    fn told(&mut self) -> String {
        String::from_utf8_lossy(&self.told_bytes()).into_owned()
    }

    fn told_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.solo.out)
    }

    /// Lets time pass, and the deadline come.
    fn wait_ms(&mut self, ms: u64) {
        self.solo.now.mono = self.solo.now.mono + ms;
        self.happens(Event::Timeout);
    }
}

fn options() -> Arc<GripOptions> {
    let routes = "* localhost:7999\n*,path_beg=/debug,debug localhost:7999\n\
                  *,path_beg=/over localhost:7999,over_http\n";
    Arc::new(GripOptions {
        book: book(routes),
        body_bytes_max: 1 << 20,
        ..GripOptions::default()
    })
}

fn options_with(change: impl FnOnce(&mut GripOptions)) -> Arc<GripOptions> {
    let mut options = Arc::into_inner(options()).expect("nobody else has them");
    change(&mut options);
    Arc::new(options)
}

/// The gateway of a shard, with backends that nobody looks at.
fn grip() -> Grip {
    Grip::new(GripShared::new(options()), Box::<Played>::default())
}

fn book(routes: &str) -> Arc<RouteBook> {
    Arc::new(RouteBook {
        routes: parse_routes(routes).routes,
        ..RouteBook::default()
    })
}

fn channel(name: &str) -> ChannelName {
    hub_channel("", name).expect("a name")
}

fn head(code: u16, fields: &[(&str, &str)]) -> OriginHead {
    OriginHead {
        code,
        reason: "Fine".to_owned(),
        headers: { fields.iter() }
            .map(|&(name, value)| Header::new(name, value.as_bytes()))
            .collect(),
        body_bytes: None,
        is_bodiless: false,
    }
}

fn publication(json: &str) -> Arc<Publication> {
    let item = zmq_pull_item(&[format!("J{json}").into_bytes()]).expect("an item");
    let draft = draft(&item).expect("something to send");
    Publication {
        channel: draft.channel,
        told: PublicationKind::Data,
        position: None,
        payload: draft.payload,
        publisher: None,
        tags: None,
        time_unix_ms: 0,
        trace: None,
    }
    .shared()
}

/// Greeting of a ZMTP 3.0 peer, and its READY (RFC 23).
fn greeting(kind: &str) -> Vec<u8> {
    let mut out = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL".to_vec();
    out.resize(64, 0);
    out.extend_from_slice(&[4, 22 + kind.len() as u8]);
    out.extend_from_slice(b"\x05READY\x0bSocket-Type\0\0\0");
    out.push(kind.len() as u8);
    out.extend_from_slice(kind.as_bytes());
    out
}

/// An item for streams, in JSON.
fn item(channel: &str, content: &str) -> String {
    format!(r#"{{"channel":"{channel}","http-stream":{{"content":"{content}"}}}}"#)
}

/// A request to the publish port.
fn post(target: &str, accept: &str, items: &[String]) -> String {
    let body = format!(r#"{{"items":[{}]}}"#, items.join(","));
    let bytes = body.len();
    format!(
        "POST {target} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nContent-Length: {bytes}\r\n\r\n\
         {body}"
    )
}
