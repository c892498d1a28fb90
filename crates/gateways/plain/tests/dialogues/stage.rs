//! Steps of the stories in the text files here; `throng_dialogue` says how they are read, and what
//! a CHECK of a text may be.
//!
//! `let NAME = VALUE` sets a variable; functions are `token {claims}`, with `"@+10"` for a time
//! ten seconds from now, `hash CHANNEL`, as ids have it, and `times COUNT TEXT`, in which `NN` is
//! the number.
//!
//! `with OPTION, ..` holds for later servers: `keys`, `namespaces` (rights: `asked:` by a backend,
//! `open:` for users), `backends`, `key` (of the server API), `open` or `compressed` channels,
//! `draining`, `pings`, `charged`, `long-heads`, `short-bodies`. `port api` and `port client` are
//! those of later connections.
//!
//! Each of these begins a connection, to a server of its own: `opens TARGET | FIELD` asks for a
//! stream or a WebSocket, `gets TARGET | FIELD` for anything, and `calls` for nothing yet. Between
//! fields stands a bar, or a plus sign where bars separate cells. `feeds ESCAPES` sends bytes;
//! `sends` the requests below at once: `POST TARGET | FIELD` with the body `1`, `LONG` with `123`,
//! `GET TARGET`, or `raw ESCAPES`. After `cut COUNT` so many bytes come first. `publishes` sends
//! each line below as a message to `/pub`, with escapes.
//!
//! `> CHECK` is all that came since, with escapes, an answer from its status on, or `nothing`.
//! `answers CHECK` are answers, status and body, with ` ; ` between, and `said CHECK` the messages
//! to a publisher. `newline`: the output ends with one. `skips` drops all. Nothing may be left
//! before the next input, and at the end.
//!
//! `subscribes CHANNEL FORM KIND, ..` are orders for the hub, all from nowhere; `only CHANNEL, ..`
//! names their channels, `first COUNT CHANNEL` their number and the first, and `since CHANNEL
//! PLACE` the place of that. The hub answers with `subscribed CHANNEL`, `recovered CHANNEL
//! OFFSET:TEXT ..`, `lost CHANNEL` or `refused CHANNEL`. `delivers CHANNEL OFFSET TEXT` lets the
//! session write a publication. `encoded FORM KIND ESCAPES => ESCAPES` is one at position 4, or
//! `unplaced`.
//!
//! `ordered CHANNEL TOKEN, ..` are publications, `drafts` adds key and data where there is a key,
//! `orders COUNT` is their number, and `all CHANNEL ..` answers them, too; `drops` drops them.
//! `answer TOKEN RESULT` answers one, `results RESULT, ..` all from token 0: `done`, `at OFFSET`,
//! `busy`, `unavailable`, `unknown`, `unknown-channel`, `too-long`. `asked NAME {pattern}` is the
//! next question to a backend, and `replies NAME STATUS BODY` or `replies NAME none` its answer;
//! without a name it is the last one. `reloads` is an order, and `reloaded refused LINE` or
//! `reloaded unavailable` its answer.
//!
//! These happen to the connection: `drained COUNT`, `loses CHANNEL` (the server ends it) or `loses
//! CHANNEL insufficient`, `closes CODE`, `closes shutdown`, `drains MS`, `waits MS` or `waits due`
//! until a deadline; `passes MS` is time alone. `due MS`, `due LEAST..MOST`, `due never` and `due
//! same` are the deadline that the last input set; `paused true`, `false` or `same` whether
//! reading stops; `ended flush`, `now` or `no`. `client true`, `user NAME` or `nobody`, `transport
//! NAME`: how the server counts it; `front-door`: it has no session. `moves` to another process,
//! or `cannot-move`. `counted COUNT publications`, or ends for a reason.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::rc::Rc;

use serde_json::Value;
use throng_broker::{Draft, Recovery, Refusal};
use throng_dialogue::{Outcome, Stage, Variables, arrow, named, parse, same, unescaped, word};
use throng_gateway_plain::{Plain, Session};
use throng_hub::FormKind;
use throng_metrics::Counter;
use throng_session::{Ask, CloseReason, Event, Gateway as _, Port, ProxyOptions, Reloaded};
use throng_solo::{Order, Solo, WEBSOCKET, name, publication};
use throng_types::{Disconnect, End, Now, Unsubscribe};
use throng_ws::{WsDecoder, WsEvent, WsLimits, WsRole};

use crate::given::{SECRET, encoded, head, message, proxies, request, result, set};

/// Unix seconds at which connections begin.
const NOW_S: u64 = 1_700_000_000;

pub(crate) struct Story {
    variables: Variables,
    options: String,
    port: Port,
    pub(crate) solo: Solo<Plain>,
    /// Bytes of requests that come first, the others later.
    cut: usize,
    /// Numbers of questions to backends by their names; the last one has none.
    asked: HashMap<String, u32>,
}

impl Default for Story {
    fn default() -> Self {
        Self {
            variables: Variables::default(),
            options: String::new(),
            port: Port::Client,
            solo: Solo::at(Port::Client, throng_solo::shared()),
            cut: usize::MAX,
            asked: HashMap::new(),
        }
    }
}

impl Story {
    /// Takes steps that have to hold.
    pub(crate) fn take(&mut self, steps: &str) {
        throng_dialogue::take(steps, self).expect("steps that hold");
    }

    /// Begins a connection to a server of its own.
    fn connect(&mut self) {
        let mut shared = throng_solo::shared();
        for option in self.options.split(", ") {
            set(&mut shared, option);
        }
        let own = match self.options.contains("backends") {
            true => proxies(),
            false => ProxyOptions::default(),
        };
        let id = throng_solo::conn(1);
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        self.solo = Solo::new(id, self.port, peer, Rc::new(shared), Rc::new(own));
        self.solo.now = Now::new(1000, NOW_S * 1000);
    }

    /// Takes the output as text, an answer from its status on.
    pub(crate) fn told(&mut self) -> String {
        let out = std::mem::take(&mut self.solo.out);
        let out = out.escape_ascii().to_string();
        let out = out.replace("\\\"", "\"").replace("\\'", "'");
        out.strip_prefix("HTTP/1.1 ").unwrap_or(&out).to_owned()
    }

    fn quiet(&mut self) {
        assert_eq!(self.told(), "", "there is more");
    }

    fn happens(&mut self, event: Event<'_>) {
        self.quiet();
        self.solo.event(event);
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.happens(Event::Bytes(&mut bytes.to_vec()));
    }

    fn define(&mut self, name: &str, value: &str) {
        let (function, rest) = word(value);
        let value = match function {
            "token" => {
                let claims = parse(rest, self.solo.now.unix_s().max(NOW_S));
                let key = throng_auth::SigningKey::HmacSecret(SECRET);
                throng_auth::sign(&claims, throng_auth::Algorithm::Hs256, key).expect("a token")
            }
            "hash" => format!("{:x}", throng_solo::name(rest).stable_hash()),
            "times" => {
                let (count, text) = word(rest);
                let numbers = 0..count.parse::<u32>().expect("a count");
                numbers
                    .map(|n| text.replace("NN", &format!("{n:02}")))
                    .collect()
            }
            _ => value.to_owned(),
        };
        self.variables.set(name, value);
    }

    /// The messages that were sent to the publisher.
    pub(crate) fn said(&mut self) -> String {
        let mut out = std::mem::take(&mut self.solo.out);
        let mut said = Vec::new();
        let fed = WsDecoder::new(WsRole::Client).feed(&mut out, &WsLimits::new(1000), |event| {
            said.push(match event {
                WsEvent::Message { data, .. } => String::from_utf8_lossy(data).into_owned(),
                WsEvent::Close(frame) => format!("close {}", frame.map_or(0, |it| it.code)),
                other => format!("{other:?}"),
            });
            ControlFlow::Continue(())
        });
        fed.expect("good frames");
        said.join(" ; ")
    }

    fn hub(&mut self, verb: &str, rest: &str) {
        let (channel, missed) = word(rest);
        let missed = missed.split(' ').filter(|it| !it.is_empty()).map(|it| {
            let (offset, text) = it.split_once(':').expect("OFFSET:TEXT");
            publication(channel, offset.parse().expect("an offset"), text)
        });
        let result = match verb {
            "subscribed" => Ok(Recovery::NotAsked),
            "recovered" => Ok(Recovery::Whole(missed.collect())),
            "lost" => Ok(Recovery::Lost),
            _ => Err(Refusal::ChannelLimit),
        };
        self.quiet();
        self.solo.subscribed(channel, result);
    }

    fn asked(&mut self, rest: &str) -> Outcome {
        let (name, pattern) = named(rest);
        let is_question = |order: &mut Order<Ask>| matches!(order, Order::Gateway(_));
        let at = self.solo.orders.iter_mut().position(is_question);
        let Some(Order::Gateway(ask)) = at.map(|at| self.solo.orders.remove(at)) else {
            return same(&"nothing", &rest);
        };
        let mut told: Value = serde_json::from_slice(&ask.question.body).expect("JSON");
        told["to"] = ask.question.kind.name().into();
        let headers = ask.question.headers.iter();
        told["headers"] = { headers.map(|(name, value)| format!("{name}: {value}")) }.collect();
        for name in [name, ""] {
            self.asked.insert(name.to_owned(), ask.number);
        }
        self.variables.fit(&told, &parse(pattern, 0))
    }

    fn replies(&mut self, rest: &str) {
        let (name, answer) = named(rest);
        let number = self.asked[name];
        let (status, body) = word(answer);
        let answer = status.parse().ok().map(|status| (status, body.into()));
        self.quiet();
        self.solo
            .act_and_become(|session, cx| Plain::answered(session, number, answer, cx));
    }

    fn subscribes(&mut self) -> String {
        let asked = self.solo.subscribes().into_iter();
        let asked = asked.map(|(name, format, since)| {
            let kind = match format.kind() {
                FormKind::Shared => "shared",
                FormKind::Personal => "personal",
                _ => "other",
            };
            assert!(since.is_none(), "{since:?}");
            format!("{name} {} {kind}", format.number())
        });
        asked.collect::<Vec<_>>().join(", ")
    }

    /// The channels of the subscribes, and the place from which the first one goes on.
    fn channels(&mut self) -> (Vec<String>, String) {
        let (mut names, mut places) = (Vec::new(), Vec::new());
        for (name, _, since) in self.solo.subscribes() {
            names.push(name);
            places.push(since.map_or_else(
                || "nothing".to_owned(),
                |it| format!("{:x}.{}", it.epoch.0, it.offset),
            ));
        }
        (names, places.swap_remove(0))
    }

    fn due(&self, wanted: &str) -> Outcome {
        let Some(set) = self.solo.actions.deadline else {
            return same(&"same", &wanted);
        };
        let Some(at) = set else {
            return same(&"never", &wanted);
        };
        let left = at.since(self.solo.now.mono);
        match wanted.split_once("..") {
            Some((least, most)) => {
                let [least, most]: [u64; 2] = [least, most].map(|it| it.parse().expect("ms"));
                same(&(least..=most).contains(&left), &true)
            }
            None => same(&left.to_string().as_str(), &wanted),
        }
    }

    fn pass(&mut self, rest: &str) {
        let ms = match rest {
            "due" => {
                let due = self.solo.actions.deadline.take().flatten();
                due.expect("a deadline").since(self.solo.now.mono)
            }
            ms => ms.parse().expect("milliseconds"),
        };
        let now = &mut self.solo.now;
        *now = Now::new(now.mono.0 + ms, now.unix_ms + ms);
    }

    /// Takes the publications that were ordered, with their tokens.
    fn drafts(&mut self) -> Vec<(u32, Draft)> {
        let drafts = self.solo.published().into_iter();
        drafts
            .flat_map(|(first, drafts)| (first..).zip(drafts))
            .collect()
    }

    fn counted(&self, series: &str) -> u64 {
        let ends = [Disconnect::Expired, Disconnect::InsufficientState];
        let end = ends.into_iter().find(|it| it.reason() == series);
        let counter = end.map_or(Counter::PublicationsApi, Counter::closed);
        self.solo.shared.counters.counter(counter)
    }
}

impl Stage for Story {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn step(&mut self, text: &str, block: &str) -> Outcome {
        let (verb, rest) = word(text);
        match verb {
            "let" => {
                let (name, value) = rest.split_once(" = ").expect("NAME = VALUE");
                self.define(name, value);
            }
            "with" => rest.clone_into(&mut self.options),
            "port" if rest == "api" => self.port = Port::Api,
            "port" => self.port = Port::Client,
            "calls" => self.connect(),
            "gets" | "opens" => {
                let is_socket = rest.starts_with("/ws") || rest.starts_with("/pub");
                let more = if verb == "opens" && is_socket {
                    WEBSOCKET
                } else {
                    ""
                };
                self.connect();
                self.feed(head("GET", rest, more).as_bytes());
            }
            "feeds" => self.feed(&unescaped(rest)),
            "cut" => self.cut = rest.parse().expect("bytes"),
            "sends" => {
                let bytes: Vec<u8> = block.lines().flat_map(request).collect();
                let (now, later) = bytes.split_at(self.cut.min(bytes.len()));
                self.feed(now);
                if !later.is_empty() {
                    self.feed(later);
                }
            }
            "publishes" => self.feed(&block.lines().flat_map(message).collect::<Vec<u8>>()),
            ">" => {
                let told = self.told();
                let told = if told.is_empty() { "nothing" } else { &told };
                self.variables.check(told, rest)?;
            }
            "answers" => {
                let answers = self.solo.answers().join(" ; ");
                let answers = if answers.is_empty() {
                    "nothing"
                } else {
                    &answers
                };
                self.variables.check(answers, rest)?;
            }
            "said" => {
                let said = self.said();
                let said = if said.is_empty() { "nothing" } else { &said };
                self.variables.check(said, rest)?;
            }
            "newline" => assert!(self.solo.out.ends_with(b"\n")),
            "skips" => self.solo.out.clear(),
            "subscribes" => same(&self.subscribes().as_str(), &rest)?,
            "only" => same(&self.channels().0.join(", ").as_str(), &rest)?,
            "first" => {
                let (names, _) = self.channels();
                same(&format!("{} {}", names.len(), names[0]).as_str(), &rest)?;
            }
            "since" => {
                let (names, place) = self.channels();
                same(&format!("{} {place}", names[0]).as_str(), &rest)?;
            }
            "drops" => self.solo.orders.clear(),
            "subscribed" | "recovered" | "lost" | "refused" => self.hub(verb, rest),
            "ordered" | "orders" | "drafts" | "all" => {
                let drafts = self.drafts();
                let listed = drafts
                    .iter()
                    .map(|(token, draft)| match &draft.idempotency_key {
                        Some(key) if verb == "drafts" => {
                            let data = String::from_utf8_lossy(&draft.payload.bytes);
                            format!("{} {token} {key} {data}", draft.channel)
                        }
                        _ if verb == "all" => draft.channel.to_string(),
                        _ => format!("{} {token}", draft.channel),
                    });
                let listed: Vec<String> = listed.collect();
                let found = match verb {
                    "orders" => drafts.len().to_string(),
                    "all" => listed.join(" "),
                    _ => listed.join(", "),
                };
                same(&found.as_str(), &rest.trim_start_matches("nothing"))?;
                if verb == "all" {
                    for (token, _) in drafts {
                        self.solo.answer(token, Ok(None));
                    }
                }
            }
            "answer" => {
                let (token, outcome) = word(rest);
                let token = token.parse().expect("a token");
                self.solo.answer(token, result(outcome));
            }
            "results" => {
                for (token, outcome) in (0..).zip(rest.split(", ")) {
                    assert!(self.solo.out.is_empty(), "not all are answered");
                    self.solo.answer(token, result(outcome));
                }
            }
            "asked" => self.asked(rest)?,
            "replies" => self.replies(rest),
            "reloads" => {
                let orders = std::mem::take(&mut self.solo.orders);
                let is_it = matches!(orders[..], [Order::Reload(who)] if who == self.solo.id);
                assert!(is_it, "{orders:?}");
            }
            "reloaded" => {
                let reloaded = match rest.strip_prefix("refused ") {
                    Some(line) => Reloaded::Refused(vec![line.to_owned()]),
                    None => Reloaded::Unavailable,
                };
                self.happens(Event::Reloaded(&reloaded));
            }
            "drained" => self.happens(Event::Drained {
                dropped: rest.parse().expect("a number"),
            }),
            "loses" => {
                let (channel, why) = word(rest);
                let channel = &name(channel);
                let why = match why {
                    "insufficient" => Unsubscribe::InsufficientState,
                    _ => Unsubscribe::Server,
                };
                self.happens(Event::Unsubscribed { channel, why });
            }
            "closes" | "drains" => {
                let why = match (verb, rest.parse()) {
                    ("drains", Ok(reconnect_ms)) => CloseReason::Drain { reconnect_ms },
                    (_, Ok(code)) => CloseReason::Custom {
                        code: code as u16,
                        reason: "away".into(),
                    },
                    _ => CloseReason::Because(Disconnect::Shutdown),
                };
                self.happens(Event::Close(&why));
            }
            "waits" => {
                self.pass(rest);
                self.happens(Event::Timeout);
            }
            "passes" => self.pass(rest),
            "delivers" => {
                let (channel, rest) = word(rest);
                let (offset, text) = word(rest);
                let offset = offset.parse().expect("an offset");
                let publication = publication(channel, offset, text);
                let act = |session: &mut Session, out: &mut Vec<u8>| {
                    Plain::encode_personal(session, &publication, out);
                };
                self.solo.act(|session, cx| act(session, cx.out));
            }
            "due" => self.due(rest)?,
            "paused" => {
                let found = self.solo.actions.pause;
                let found = found.map_or_else(|| "same".to_owned(), |it| it.to_string());
                same(&found.as_str(), &rest)?;
            }
            "ended" => {
                let found = match self.solo.actions.end {
                    None => "no",
                    Some(End::Flush) => "flush",
                    Some(_) => "now",
                };
                same(&found, &rest)?;
            }
            "client" | "transport" | "user" => {
                let wanted = rest.replace("nobody", "");
                same(&self.solo.counts_as(verb), &wanted)?;
            }
            "front-door" => same(&self.solo.session().is_none(), &true)?,
            "moves" | "cannot-move" => same(&self.solo.moves(), &(verb == "moves"))?,
            "counted" => {
                let (count, series) = word(rest);
                same(&self.counted(series).to_string().as_str(), &count)?;
            }
            "encoded" => {
                let (delivery, wanted) = arrow(rest);
                same(&encoded(delivery).as_str(), &wanted)?;
            }
            _ => panic!("no step"),
        }
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        same(&self.told().as_str(), &"")
    }
}
