//! Steps of the stories in the text files here; `throng_dialogue` says how they are read, and what
//! a CHECK of a message may be.
//!
//! `"@+60"` is the time a minute from now, in Unix seconds. `let NAME = VALUE` sets a variable;
//! functions are `token {claims}`, `channel SHARD PREFIX` (at home there), `times COUNT TEXT`,
//! `names COUNT PREFIX`, `subs COUNT PREFIX`, `escaped TEXT`, `node`, and `session` and `client`,
//! the ids of the connection, or with a shard those of none there. `fields COUNT {object}` counts
//! the fields of an object.
//!
//! Server, before connections: `with proxied` (backends), `full` (they have no room), `unasked`
//! (about nothing), `personal`, `anonymous`, `pings SECONDS`, `keep-alives SECONDS` of streams,
//! `messages PER_SECOND`, `keys-to-come`, `http2`. Later: `no-room` and `room` between shards,
//! `renews` (backends without room), `publish CHANNEL DATA`, `tagged CHANNEL TAGS DATA`.
//!
//! Each of these begins a connection: `opens TARGET | HEADER`, a WebSocket; `ann`, one that has
//! connected as ann; `known {result}`, one that a backend let in; `listens PATH {connect}`;
//! `listener`, a stream of ann's; `api`; `rpc NAME | HEADER || ESCAPES`, a call by gRPC. `at NAME
//! SHARD` goes on with another one. `gets TARGET` and `posts TARGET | HEADER`, with the body below,
//! are requests; `head CHECK` looks at the answer's head. `call METHOD BODY => CHECK` is a call of
//! the server API, by the connection `API`.
//!
//! `< TEXT` sends a message, or the lines below as one; also `connect {claims} => CHECK`, `binary
//! TEXT`, `bytes ESCAPES`, `protobuf ID:REQUEST FIELD=BYTES + ID:REQUEST` (`text-protobuf` in a
//! text frame), and `raw ESCAPES` without a frame. `> CHECK` receives one: a text, `close CODE`,
//! `binary ESCAPES`, the status of a stream, `last chunk`, the fields in its place, or the status
//! and the body of an answer; `> nothing` is left. `lines` makes the lines of an answer messages,
//! `skips` drops all, and `told 10..20` drops so many but the last. Nothing may be left before the
//! next input, and at the end.
//!
//! `waits SECONDS` until a deadline; `passes SECONDS` without one. `drained COUNT`, `loses
//! CHANNEL` (the server ends the subscription), `closes CODE` or `closes shutdown` happen to the
//! connection. `control {..}` is a backend's request:
//! `{"subscribe":CHANNEL,"until":S,"since":"start"}` or `{"refresh":{"expired":BOOL,"until":S}}`.
//! `ended` and `stays`: whether it ends. `client true`, `user NAME`, `transport NAME`: how the
//! server counts it. `moves` to another process, or `cannot-move`. `refused COMMAND CHANNEL` is a
//! notice.
//!
//! `asked NAME {pattern}` is the next question to a backend, and `answer NAME STATUS BODY` or
//! `answer NAME none` its answer; without a name it is the last one. `surveyed PART && PART` is
//! the next question to all shards, in its debug form, and `replies [..]` are theirs. `mailed
//! SHARD BYTES`: mail to other shards. After `holds` the test answers in place of the hubs:
//! `ordered TOKEN: CHANNEL .., TOKEN: history CHANNEL`, then `hub TOKEN done`, `busy` or
//! `history`. `paused true`, `false` or `same`: whether reading stops. `patches DELTA FROM TO`, by
//! names of variables.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use throng_broker::{Draft, home_of};
use throng_dialogue::{
    Outcome, Stage, Variables, arrow, escaped, named, parse, same, unescaped, word,
};
use throng_gateway_centrifuge::{Centrifuge, Mail};
use throng_session::{
    BackendMail, Backends, CloseReason, Event, Gateway as _, Meter, Port, ProxyOptions, Sender,
    WorkLimits,
};
use throng_solo::Solo;
use throng_types::{ConnId, Disconnect, Http2, Payload, PayloadKind, ShardId, Unsubscribe};
use throng_ws::{Masking, Opcode, encode_header};

use crate::client::{Client, Wire};
use crate::given::{Full, answer_of, control, keys_to_come, reply_of};
use crate::shard::{Asked, SECRET, SHARDS, Server, proxies};

#[derive(Default)]
pub(crate) struct Story {
    variables: Variables,
    pub(crate) server: Server,
    clients: HashMap<String, Client>,
    current: (String, u8),
    /// Questions by their names; the last one has none.
    asked: HashMap<String, (ConnId, u32)>,
}

/// A token with these claims.
pub(crate) fn sign(claims: &Value) -> String {
    let key = throng_auth::SigningKey::HmacSecret(SECRET.as_bytes());
    throng_auth::sign(claims, throng_auth::Algorithm::Hs256, key).expect("a good key")
}

impl Story {
    /// Takes steps that have to hold.
    pub(crate) fn take(&mut self, steps: &str) {
        throng_dialogue::take(steps, self).expect("steps that hold");
    }

    pub(crate) fn client(&mut self) -> &mut Client {
        let (name, _) = &self.current;
        self.clients.get_mut(name).expect("a connection")
    }

    fn solo(&mut self) -> &mut Solo<Centrifuge> {
        let at = self.client().at;
        &mut self.server.floor.conns[at].solo
    }

    /// Bytes that the connection has got and nobody has read.
    pub(crate) fn heard(&mut self) -> &mut Vec<u8> {
        let at = self.client().at;
        &mut self.server.floor.conns[at].heard
    }

    /// The messages that the connection has got.
    pub(crate) fn told(&mut self) -> &mut VecDeque<String> {
        let (name, _) = &self.current;
        let client = self.clients.get_mut(name).expect("a connection");
        let heard = &mut self.server.floor.conns[client.at].heard;
        while let Some(message) = client.read(heard) {
            client.told.push_back(message);
        }
        assert!(heard.is_empty(), "whole messages: {heard:?}");
        &mut client.told
    }

    fn quiet(&mut self) {
        let told = self.told();
        assert!(told.is_empty(), "there is more: {told:?}");
    }

    /// Begins a connection in the place of the one of this name.
    fn begin(&mut self, port: Port) {
        let (name, shard) = self.current.clone();
        let at = self.server.connect(port, shard);
        let client = Client {
            at,
            ..Client::default()
        };
        self.clients.insert(name, client);
    }

    fn happens(&mut self, event: Event<'_>) {
        self.quiet();
        let at = self.client().at;
        self.server.event(at, event);
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.happens(Event::Bytes(&mut bytes.to_vec()));
    }

    /// Sends a request, by a connection that can take one. `target` has header fields behind bars.
    fn request(&mut self, method: &str, target: &str, body: Option<&[u8]>) {
        let port = match self.current.0 == "API" {
            true => Port::Api,
            false => Port::Client,
        };
        let known = self.clients.get(&self.current.0);
        let takes = |client: &Client| {
            let actions = &self.server.floor.conns[client.at].solo.actions;
            matches!(client.wire, Wire::Answers) && actions.end.is_none()
        };
        if !known.is_some_and(takes) {
            self.begin(port);
        }
        let (target, fields) = target.split_once(" | ").unwrap_or((target, ""));
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n");
        for field in fields.split(" | ").filter(|field| !field.is_empty()) {
            head.extend([field, "\r\n"]);
        }
        if let Some(body) = body {
            head.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
        }
        self.feed(&[head.as_bytes(), b"\r\n", body.unwrap_or_default()].concat());
    }

    pub(crate) fn send(&mut self, opcode: Opcode, payload: &[u8]) {
        let mut frame = Vec::new();
        // A key of zeros leaves the payload as it is.
        encode_header(Masking::Client([0; 4]), opcode, payload.len(), &mut frame);
        frame.extend_from_slice(payload);
        self.feed(&frame);
    }

    fn receive(&mut self, wanted: &str) -> Outcome {
        let told = self.told().pop_front();
        match told {
            None if wanted == "nothing" => Ok(()),
            None => Err("there is nothing".to_owned()),
            Some(told) => self.variables.check(&told, wanted),
        }
    }

    /// Replaces texts such as `"@+60"` by times.
    fn timed(&self, text: &str) -> String {
        let mut parts = text.split("\"@");
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (offset, rest) = part.split_once('"').expect("a time");
            let offset = offset.parse().expect("seconds");
            let time = self.server.floor.now.unix_s().saturating_add_signed(offset);
            out.extend([time.to_string().as_str(), rest]);
        }
        out
    }

    fn define(&mut self, name: &str, value: &str) {
        let (function, rest) = word(value);
        let value = match function {
            "token" => sign(&parse(rest, 0)),
            "channel" => {
                let (shard, prefix) = word(rest);
                let shard = ShardId(shard.parse().expect("a shard"));
                let mut names = (0..).map(|n| format!("{prefix}c{n}"));
                let is_there = |name: &String| home_of(&throng_solo::name(name), SHARDS) == shard;
                names.find(is_there).expect("one of them")
            }
            "times" => {
                let (count, text) = word(rest);
                let text = text.replace("\\n", "\n");
                text.repeat(count.parse().expect("a count"))
            }
            "escaped" => escaped(rest),
            // `names COUNT PREFIX`, and the same as fields of an object.
            "names" | "subs" => {
                let (count, prefix) = word(rest);
                let names = 0..count.parse::<u32>().expect("a count");
                let end = if function == "subs" { ":{}" } else { "" };
                let names = names.map(|n| format!("\"{prefix}{n}\"{end}"));
                names.collect::<Vec<_>>().join(",")
            }
            "node" => self.server.floor.shared.node.name(),
            "session" | "client" => {
                let id = match rest.parse() {
                    Ok(shard) => ConnId::new(ShardId(shard), 50, 1),
                    Err(_) => self.solo().id,
                };
                let node = &self.server.floor.shared.node;
                match function {
                    "session" => node.session_id(id).as_str().to_owned(),
                    _ => node.client_id(id).as_str().to_owned(),
                }
            }
            _ => value.to_owned(),
        };
        self.variables.set(name, value);
    }

    fn with(&mut self, option: &str) {
        let (option, value) = word(option);
        let number = || value.parse::<u32>().expect("a number");
        let server = &mut self.server;
        match option {
            "proxied" | "full" | "unasked" => {
                let asked = Asked {
                    questions: server.asked.clone(),
                    has_room: option != "full",
                };
                let own = match option {
                    "unasked" => ProxyOptions::default(),
                    _ => proxies(),
                };
                server.gateway = Centrifuge::with_backends(own, Box::new(asked));
            }
            "personal" => server.change(|shared| shared.personal_channel = true),
            "http2" => server.change(|shared| shared.http2.set(Http2::Stream)),
            "anonymous" => server.change(|shared| shared.anonymous = true),
            "pings" => server.change(|it| it.limits.ping_interval_ms = u64::from(number()) * 1000),
            "keep-alives" => {
                server.change(|it| it.limits.stream_keepalive_ms = u64::from(number()) * 1000);
            }
            "messages" => server.change(|shared| {
                let limits = WorkLimits {
                    messages_per_s_max: number(),
                    ..WorkLimits::NONE
                };
                shared.meter = Meter::new(limits, [1, 2]);
            }),
            "keys-to-come" => server.change(|shared| {
                shared.verifier = Some(keys_to_come());
            }),
            _ => panic!("no option"),
        }
    }

    fn publish(&mut self, channel: &str, tags: Option<&str>, data: &str) {
        let payload = Payload {
            bytes: data.as_bytes().into(),
            kind: PayloadKind::Json,
        };
        self.server.publish(Draft {
            tags: tags.map(Into::into),
            ..Draft::new(throng_solo::name(channel), payload)
        });
    }

    fn opens(&mut self, target: &str) {
        self.begin(Port::Client);
        let upgrade = throng_solo::WEBSOCKET.trim_end().replace("\r\n", " | ");
        self.request("GET", &format!("/connection/{target} | {upgrade}"), None);
        assert_eq!(self.told().pop_front().as_deref(), Some("101"));
    }

    fn connect(&mut self, claims: &str, wanted: &str) -> Outcome {
        let connect = json!({ "id": 1, "connect": { "token": sign(&parse(claims, 0)) } });
        self.send(Opcode::Text, connect.to_string().as_bytes());
        match wanted {
            "" => self.receive(r#"~ {"id":1,"connect":{"client":"*"}}"#),
            wanted => self.receive(wanted),
        }
    }

    fn listens(&mut self, path: &str, connect: &str) {
        if path == "uni_websocket" {
            self.opens(path);
            return self.send(Opcode::Text, connect.as_bytes());
        }
        self.begin(Port::Client);
        match path {
            "uni_sse" => {
                let target = format!("/connection/{path}?cf_connect={}", escaped(connect));
                self.request("GET", &target, None);
            }
            _ => {
                let target = format!("/connection/{path}");
                self.request("POST", &target, Some(connect.as_bytes()));
            }
        }
        // Of a stream only the head of a refusal is a message.
        if self.told().front().is_some_and(|told| told == "200") {
            self.told().pop_front();
        }
    }

    fn asked(&mut self, rest: &str) -> Outcome {
        let (name, pattern) = named(rest);
        let next = self.server.asked.borrow_mut().pop_front();
        let Some((conn, number, question)) = next else {
            return same(&"nothing", &rest);
        };
        let mut told: Value = serde_json::from_slice(&question.body).unwrap_or_default();
        told["to"] = question.kind.name().into();
        told["backend"] = question.to.0.into();
        let headers = question.headers.iter();
        told["headers"] = { headers.map(|(name, value)| format!("{name}: {value}")) }.collect();
        for name in [name, ""] {
            self.asked.insert(name.to_owned(), (conn, number));
        }
        self.variables.fit(&told, &parse(pattern, 0))
    }

    fn answer(&mut self, rest: &str) {
        let (name, answer) = named(rest);
        let (conn, number) = self.asked[name];
        let (status, body) = word(answer);
        let answer = status.parse().ok().map(|status| (status, body.into()));
        self.quiet();
        let mail = Mail::Backends(BackendMail::Answered {
            conn,
            number,
            answer,
        });
        assert_eq!(Centrifuge::mail_bytes(&mail), 0);
        self.server.mail(conn.shard(), Sender::Driver, mail);
    }

    fn closes(&mut self, why: &str) {
        let why = match why {
            "shutdown" => CloseReason::Because(Disconnect::Shutdown),
            code => CloseReason::Custom {
                code: code.parse().expect("a code"),
                reason: "away".into(),
            },
        };
        self.happens(Event::Close(&why));
    }
}

/// Compares texts with those that a step lists, or with `nothing`.
fn listed(found: impl Iterator<Item = String>, wanted: &str) -> Outcome {
    let found = found.collect::<Vec<_>>().join(", ");
    let found = if found.is_empty() { "nothing" } else { &found };
    same(&found, &wanted)
}

impl Stage for Story {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn step(&mut self, text: &str, block: &str) -> Outcome {
        let text = self.timed(text);
        let (verb, rest) = word(&text);
        let number = || rest.parse::<u64>().expect("a number");
        match verb {
            "let" => {
                let (name, value) = rest.split_once(" = ").expect("NAME = VALUE");
                self.define(name, value);
            }
            "with" => self.with(rest),
            "room" | "no-room" => self.server.floor.has_room = verb == "room",
            "renews" => {
                let backends = Some(Box::new(Full) as Box<dyn Backends + Send>);
                let mail = Mail::Backends(BackendMail::Renewed(proxies(), backends));
                self.server.mail(ShardId(0), Sender::Driver, mail);
            }
            "publish" => {
                let (channel, data) = word(rest);
                self.publish(channel, None, data);
            }
            "tagged" => {
                let (channel, rest) = word(rest);
                let (tags, data) = word(rest);
                self.publish(channel, Some(tags), data);
            }
            "at" => {
                let (name, shard) = word(rest);
                let shard = shard.parse().unwrap_or_default();
                self.current = (name.to_owned(), shard);
            }
            "api" => self.begin(Port::Api),
            "opens" => self.opens(rest),
            "ann" => {
                self.opens("websocket");
                self.connect(r#"{"sub":"ann"}"#, "")?;
            }
            "listener" => {
                let connect = json!({ "token": sign(&json!({ "sub": "ann" })) });
                self.listens("uni_http_stream", &connect.to_string());
                self.receive(r#"~ {"connect":{"client":"*"}}"#)?;
            }
            // A client that a backend lets in.
            "known" => {
                self.opens("websocket");
                self.send(Opcode::Text, br#"{"id":1,"connect":{}}"#);
                self.asked(r#"{"to":"connect"}"#)?;
                self.answer(&format!("200 {{\"result\":{rest}}}"));
                self.receive(r#"~ {"id":1,"connect":{"client":"*"}}"#)?;
            }
            "connect" => {
                let (claims, wanted) = arrow(rest);
                self.connect(claims, wanted)?;
            }
            "listens" => {
                let (path, connect) = word(rest);
                self.listens(path, connect);
            }
            "head" => {
                let head = self.client().head.clone();
                self.variables.check(&head, rest)?;
            }
            "gets" => self.request("GET", rest, None),
            "posts" => {
                let body = self.timed(block.trim_end());
                let body = match body.strip_prefix("bytes ") {
                    Some(escapes) => unescaped(escapes),
                    None => body.into_bytes(),
                };
                self.request("POST", rest, Some(&body));
            }
            "rpc" => {
                let (target, message) = rest.split_once(" || ").unwrap_or((rest, ""));
                let message = unescaped(message);
                let length = (message.len() as u32).to_be_bytes();
                let body = [&[0][..], &length, &message].concat();
                let service = match word(target).0 {
                    "Consume" => "unistream.CentrifugoUniStream",
                    _ => "api.CentrifugoApi",
                };
                let (name, fields) = target.split_once(" | ").unwrap_or((target, "A: b"));
                let target = format!(
                    "/centrifugal.centrifugo.{service}/{name} | Content-Type: application/grpc | \
                     {fields}"
                );
                self.request("POST", &target, Some(&body));
            }
            "raw" => self.feed(&unescaped(rest)),
            "call" => {
                let (call, wanted) = arrow(rest);
                let (method, body) = word(call);
                let before = std::mem::replace(&mut self.current, ("API".to_owned(), 0));
                self.request("POST", &format!("/api/{method}"), Some(body.as_bytes()));
                let outcome = self.receive(wanted);
                self.current = before;
                outcome?;
            }
            "<" if rest.is_empty() => {
                self.send(Opcode::Text, self.timed(block).trim_end().as_bytes())
            }
            "<" => self.send(Opcode::Text, rest.as_bytes()),
            "binary" => self.send(Opcode::Binary, rest.as_bytes()),
            "bytes" => self.send(Opcode::Binary, &unescaped(rest)),
            "text-protobuf" => self.send(Opcode::Text, &crate::protobuf::commands(rest)),
            "protobuf" => self.send(Opcode::Binary, &crate::protobuf::commands(rest)),
            ">" => self.receive(rest)?,
            // The status and the lines of an answer, as messages.
            "lines" => {
                let told = self.told().pop_front().ok_or("no answer")?;
                let (status, lines) = word(&told);
                let lines = std::iter::once(status).chain(lines.lines());
                let lines: Vec<String> = lines.map(str::to_owned).collect();
                self.told().extend(lines);
            }
            "fields" => {
                let (count, object) = word(rest);
                let fields = parse(object, 0).as_object().map_or(0, serde_json::Map::len);
                same(&fields.to_string().as_str(), &count)?;
            }
            "skips" => self.told().clear(),
            "told" => {
                let (least, most) = rest.split_once("..").expect("a range");
                let [least, most]: [usize; 2] =
                    [least, most].map(|it| it.parse().expect("a number"));
                let count = self.told().len();
                assert!((least..=most).contains(&count), "{count}");
                self.told().drain(..count - 1);
            }
            "waits" | "passes" => {
                let seconds: f64 = rest.parse().expect("seconds");
                self.server.pass_ms((seconds * 1000.0) as u64);
                if verb == "waits" {
                    self.happens(Event::Timeout);
                }
            }
            "drained" => self.happens(Event::Drained {
                dropped: number() as u32,
            }),
            "loses" => self.happens(Event::Unsubscribed {
                channel: &throng_solo::name(rest),
                why: Unsubscribe::Server,
            }),
            "closes" => self.closes(rest),
            "control" => self.happens(Event::Control(&control(&parse(rest, 0)))),
            "ended" | "stays" => {
                let end = self.solo().actions.end;
                same(&end.is_some(), &(verb == "ended"))?;
            }
            "client" | "transport" | "user" => same(&self.solo().counts_as(verb).as_str(), &rest)?,
            "moves" | "cannot-move" => same(&self.solo().moves(), &(verb == "moves"))?,
            "refused" => {
                let solo = self.solo();
                let notices = &solo.shared.notices;
                notices.begin(solo.id, solo.now);
                let taken = notices.take().into_iter();
                listed(taken.map(|it| format!("{} {}", it.what, it.object)), rest)?;
            }
            "asked" => self.asked(rest)?,
            "answer" => self.answer(rest),
            "surveyed" => {
                let found = self.server.surveys.pop_front();
                let found = found.map_or_else(|| "nothing".to_owned(), |it| format!("{it:?}"));
                self.variables.check(&found, &format!("has {rest}"))?;
            }
            "replies" => {
                let replies = parse(rest, 0);
                let replies = replies.as_array().into_iter().flatten();
                self.happens(Event::Surveyed(replies.map(reply_of).collect()));
            }
            "mailed" => {
                let mailed = std::mem::take(&mut self.server.mailed).into_iter();
                listed(mailed.map(|(to, bytes)| format!("{to} {bytes}")), rest)?;
            }
            "holds" => self.server.held = Some(Vec::new()),
            "ordered" => {
                let held = self.server.held.as_mut().expect("held orders");
                listed(std::mem::take(held).into_iter(), rest)?;
            }
            "hub" => {
                let (token, answer) = word(rest);
                let token = token.parse().expect("a token");
                let answer = answer_of(answer);
                self.happens(Event::Answer { token, answer });
            }
            "paused" => {
                let found = self.solo().actions.pause;
                let found = found.map_or_else(|| "same".to_owned(), |it| it.to_string());
                same(&found.as_str(), &rest)?;
            }
            "patches" => {
                let mut texts = rest
                    .split(' ')
                    .map(|name| self.variables.get(name).expect("a variable").as_bytes());
                let [delta, from, to] = [(); 3].map(|()| texts.next().expect("three names"));
                same(&throng_fossil::apply(from, delta, 1000).as_deref(), &Ok(to))?;
            }
            _ => panic!("no step"),
        }
        Ok(())
    }

    fn end(&mut self) -> Outcome {
        for name in self.clients.keys().cloned().collect::<Vec<_>>() {
            self.current.0 = name;
            let told = self.told();
            same(&told.make_contiguous(), &&mut [][..])?;
        }
        same(&self.server.asked.borrow().len(), &0)?;
        same(&self.server.surveys.len(), &0)
    }
}
