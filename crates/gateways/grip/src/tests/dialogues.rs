//! Dialogues as text: what a client, its backend and publishers do, and all that comes of it.
//!
//! Lines are `STEP => OUTCOME`. An outcome is whole: what the client gets, subscriptions (`+a`,
//! `-a`), orders to the backend, the next deadline in milliseconds from now, a change of reading,
//! the end. `-` is nothing, `|` a line end, `<1000>` a thousand times `x`, `a (3)` the same thrice,
//! `in 45000..60000` a deadline with chance in it.
//!
//! Each dialogue is played twice: as it is, and with a client that moves to another process
//! whenever it can, which nobody may see.

use throng_broker::Refusal;
use throng_session::{CloseReason, FormKind, Gateway, Meter, WorkLimits};
use throng_types::{Disconnect, cases};
use throng_ws::WsRole;

use super::words::*;
use super::*;
use crate::sequencer::LastItem;

#[test]
fn answers_and_long_polls() {
    play(include_str!("dialogues/answers.txt"), false);
}

#[test]
fn streams() {
    play(include_str!("dialogues/streams.txt"), false);
}

#[test]
fn websockets_that_pass_through() {
    play(include_str!("dialogues/tunnels.txt"), false);
}

#[test]
fn websockets_over_http() {
    play(include_str!("dialogues/over_http.txt"), true);
}

/// Effects of a backend on a client's WebSocket are equal for backends by WebSocket and by HTTP.
#[test]
fn websockets_of_either_kind() {
    for over_http in [false, true] {
        play(include_str!("dialogues/sockets.txt"), over_http);
    }
}

#[track_caller]
fn play(text: &str, over_http: bool) {
    for moves in [false, true] {
        let mut play = Play::new(over_http, moves);
        for (step, expected) in cases(text) {
            let found = play.step(step);
            assert!(
                is_as_expected(&found, expected),
                "{step} (over HTTP: {over_http}, moving: {moves})\n\
                 found {found}\nexpected {expected}"
            );
        }
    }
}

fn is_as_expected(found: &str, expected: &str) -> bool {
    // A deadline with chance in it is the last part.
    let Some((before, range)) = expected
        .split_once("in ")
        .filter(|(_, at)| at.contains(".."))
    else {
        return found == expected;
    };
    let ms = found
        .strip_prefix(before)
        .and_then(|rest| rest.strip_prefix("in "));
    let number = |text: &str| text.parse::<u64>().ok();
    let (least, most) = range.split_once("..").expect("a range");
    let ms = ms.and_then(number);
    ms.is_some() && (number(least)..=number(most)).contains(&ms)
}

/// A client whose backend speaks WebSocket over HTTP, or not, at some point of a dialogue.
struct Play {
    client: Client,
    options: Arc<GripOptions>,
    messages_per_s_max: u32,
    over_http: bool,
    moves: bool,
    /// Address of the next client.
    peer: IpAddr,
    /// Token of the exchange that was begun last.
    token: u32,
    told: Vec<String>,
}

impl Play {
    fn new(over_http: bool, moves: bool) -> Self {
        Self {
            client: Client::new(),
            options: options(),
            messages_per_s_max: 0,
            over_http,
            moves,
            peer: Ipv4Addr::LOCALHOST.into(),
            token: 0,
            told: Vec::new(),
        }
    }

    /// A client of a server with the options of now.
    fn connect(&mut self) {
        let limits = WorkLimits {
            messages_per_s_max: self.messages_per_s_max,
            ..WorkLimits::NONE
        };
        let shared = Rc::new(Shared {
            meter: Meter::new(limits, [1, 2]),
            ..throng_solo::shared()
        });
        let own = Rc::new(GripShared::new(self.options.clone()));
        let id = ConnId::new(ShardId(0), 1, 1);
        self.client = Client::by((Port::Client, self.peer), id, own, shared);
    }

    fn step(&mut self, step: &str) -> String {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (due, is_paused) = (self.client.due, self.client.is_paused);
        let (had_ended, was_busy) = (self.client.ended, self.client.solo.session().is_some());
        let is_new = matches!(verb, "asks" | "asks-from" | "upgrades" | "open");
        self.act(verb, rest);
        self.tell();
        let now = self.client.solo.now.mono;
        match self.client.due {
            Some(at) if is_new || due != Some(at) => {
                self.told.push(format!("in {}", at.since(now)))
            }
            None if !is_new && due.is_some() => self.told.push("no deadline".to_owned()),
            _ => {}
        }
        if !is_new && self.client.is_paused != is_paused {
            let change = if is_paused { "read on" } else { "not read" };
            self.told.push(change.to_owned());
        }
        if let Some(end) = self.client.ended.filter(|_| is_new || had_ended.is_none()) {
            self.told.push(format!("ends {end:?}"));
        }
        if was_busy && !is_new && self.client.solo.session().is_none() {
            self.told.push("next request".to_owned());
        }
        if self.moves && self.client.solo.session().is_some() && self.client.ended.is_none() {
            self.client.moves(false);
        }
        summary(std::mem::take(&mut self.told))
    }

    fn act(&mut self, verb: &str, rest: &str) {
        let client = &mut self.client;
        match verb {
            "server" => self.configure(rest),
            "asks" => {
                self.connect();
                self.client.feeds(&request_of(rest));
            }
            "asks-from" => {
                let (peer, rest) = rest.split_once(' ').expect("an address");
                self.peer = peer.parse().expect("an address");
                self.connect();
                self.peer = Ipv4Addr::LOCALHOST.into();
                self.client.feeds(&request_of(rest));
            }
            "upgrades" => {
                self.connect();
                self.client.says(&upgrade(rest));
            }
            "open" => self.open(),
            "says" => client.feeds(&bytes_of(rest)),
            "sends" => {
                let (times, rest) = rest.split_once(" times ").unwrap_or(("1", rest));
                let times = times.parse().expect("a number");
                client.feeds(&frame_of(Masking::Client([0; 4]), rest).repeat(times));
            }
            "raw" => {
                let bytes = { rest.split(' ') }.map(|byte| u8::from_str_radix(byte, 16));
                client.feeds(&bytes.collect::<Result<Vec<u8>, _>>().expect("hexadecimal"));
            }
            "head" | "answer" | "stale" => {
                let token = self.token - u32::from(verb == "stale");
                let (head, body) = rest.split_once(" || ").unwrap_or((rest, ""));
                let (code, fields) = head.split_once(' ').unwrap_or((head, ""));
                let fields = { fields.split(" | ") }.filter_map(|field| field.split_once(": "));
                let fields: Vec<(&str, &str)> = fields.collect();
                client.head(token, code.parse().expect("a code"), &fields);
                if !body.is_empty() {
                    client.backend(token, OriginEvent::Body(bytes_of(body)));
                }
                if verb == "answer" {
                    client.end(token);
                }
            }
            "body" => client.backend(self.token, OriginEvent::Body(bytes_of(rest))),
            "end" => client.end(self.token),
            "taken" => {
                let bytes = rest.parse().expect("a number");
                client.backend(self.token, OriginEvent::Taken(bytes));
            }
            "fails" => client.backend(self.token, failure_named(rest)),
            "events" => {
                let body = events_of(rest);
                client.head(self.token, 200, &[EVENTS, EXTENSION]);
                client.backend(self.token, OriginEvent::Body(body));
                client.end(self.token);
            }
            "frame" => {
                let bytes = frame_of(Masking::Server, rest);
                client.backend(self.token, OriginEvent::Body(bytes));
            }
            "control" => self.control(rest),
            "item" => self.item(rest),
            "items" => {
                let (times, json) = rest.split_once(' ').expect("a number");
                (0..times.parse().expect("a number")).for_each(|_| self.item(json));
            }
            "joins" => client.joins(rest),
            "no-room-in" => {
                let (channel, result) = (channel(rest), Err(Refusal::Busy));
                let answer = Answer::Subscribed { channel, result };
                client.happens(Event::Answer { token: 0, answer });
            }
            "last-item" => {
                let last = match rest {
                    "unknown" => LastItem::Unknown,
                    "quiet" => LastItem::Quiet,
                    id => LastItem::Id(id.into()),
                };
                client
                    .solo
                    .act(|session, cx| session.last_item(&channel("a"), &last, cx));
                client.sort();
            }
            "recover" => client.recover(),
            "refresh" => client.refresh(),
            "left" => {
                client.solo.act_and_become(|session, cx| session.left(cx));
                client.sort();
            }
            "later" => {
                let ms: u64 = rest.parse().expect("milliseconds");
                client.solo.now.mono = client.solo.now.mono + ms;
            }
            "wait" => {
                client.due = None;
                client.wait_ms(rest.parse().expect("milliseconds"));
            }
            "due" => {
                let due = client.due.take().expect("a deadline");
                let ms = due.since(client.solo.now.mono);
                client.wait_ms(ms.saturating_sub(1));
                assert!(
                    ms == 0 || client.solo.out.is_empty() && !client.is_asking(),
                    "early"
                );
                client.due = None;
                client.wait_ms(u64::from(ms > 0));
            }
            "closed-for" => {
                let why = match rest {
                    "shutdown" => Disconnect::Shutdown,
                    _ => Disconnect::Slow,
                };
                client.happens(Event::Close(&CloseReason::Because(why)));
            }
            "moves" => {
                let moves = client.moves(true);
                self.told.push(if moves { "yes" } else { "no" }.to_owned());
            }
            _ => panic!("there is no step {verb} {rest}"),
        }
    }

    /// Sets options of the next server; without a value, the usual ones.
    fn configure(&mut self, rest: &str) {
        let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
        match name {
            "as-usual" => {
                self.options = options();
                self.messages_per_s_max = 0;
            }
            "routes" => self.options = options_with(|options| options.book = book(value)),
            "channels-max" => {
                let channels_max = value.parse().expect("a number");
                self.options = options_with(|options| options.channels_max = channels_max);
            }
            "forwarded-proto" => {
                self.options = options_with(|options| {
                    options.accept_forwarded_proto = value != "not accepted";
                    options.set_forwarded_proto = true;
                });
            }
            "messages-per-second" => self.messages_per_s_max = value.parse().expect("a number"),
            _ => panic!("there is no option {name}"),
        }
    }

    /// A WebSocket whose handshake was answered.
    fn open(&mut self) {
        self.connect();
        self.client
            .says(&upgrade(if self.over_http { "/over" } else { "/a" }));
        self.tell();
        if self.over_http {
            self.client.answer(1, 200, &[EVENTS, EXTENSION], "OPEN\r\n");
        } else {
            self.client.head(1, 101, &[ACCEPT, EXTENSION]);
        }
        self.tell();
        assert!(
            self.told.iter().any(|told| told.starts_with("101 ")),
            "{:?}",
            self.told
        );
        self.told.clear();
    }

    /// A control message of the backend, which is asked if it cannot speak otherwise.
    fn control(&mut self, json: &str) {
        let text = format!("c:{json}");
        if self.over_http {
            self.client.refresh();
            self.tell();
            self.told.clear();
            let body = events_of(&format!("TEXT {text}"));
            self.client.head(self.token, 200, &[EVENTS]);
            self.client.backend(self.token, OriginEvent::Body(body));
            self.client.end(self.token);
        } else {
            self.client.backend(1, OriginEvent::Body(of_server(&text)));
        }
    }

    /// An item reaches the client in the form that it has subscribed with.
    fn item(&mut self, json: &str) {
        let publication = publication(json);
        let mut frame = Vec::new();
        let own = self.client.solo.own.clone();
        let format = { self.client.commands.iter().rev() }.find_map(|command| match command {
            Command::Subscribe { format, .. } => Some(*format),
            _ => None,
        });
        if let Some(format) = format.filter(|format| format.kind() == FormKind::Noted) {
            Grip::encode(&own, format.number(), &publication, None, &mut frame);
        }
        if frame.is_empty() {
            return self.client.happens(Event::Publication(&publication));
        }
        let client = &mut self.client;
        client
            .held
            .as_mut()
            .unwrap_or(&mut client.solo.out)
            .extend_from_slice(&frame);
        let (now, shared) = (client.solo.now, client.solo.shared.clone());
        let session = client.solo.session().expect("a session");
        Grip::delivered(&own, session, &[publication], true, now, &shared);
    }

    /// Notes what the client got, and what it ordered.
    fn tell(&mut self) {
        let bytes = self.client.told_bytes();
        self.told.extend(self.client.texts_of(&bytes));
        let hub = std::mem::take(&mut self.client.hub);
        self.told
            .extend(hub.iter().map(|name| name.replace("grip:", "")));
        for order in std::mem::take(&mut self.client.orders) {
            match order {
                Order::Ask { token, request, .. } => {
                    self.token = token;
                    self.told.push(request_as_text(&request));
                }
                Order::Tell { request } => self
                    .told
                    .push(format!("tell {}", request_as_text(&request))),
                Order::Send { bytes, .. } => {
                    let frames = frames_in(WsRole::Server, &bytes).into_iter();
                    self.told
                        .extend(frames.map(|frame| format!("send {frame}")));
                }
                Order::LastId { channel, .. } => self
                    .told
                    .push(format!("last id of {channel}?").replace("grip:", "")),
                Order::Finish { .. } => self.told.push("finish".to_owned()),
                Order::Forget { .. } => self.told.push("forget".to_owned()),
                Order::Leave { .. } => self.told.push("leave".to_owned()),
                other => panic!("{other:?}"),
            }
        }
    }
}
