//! A publisher: one publication at a time to some node, with its idempotency key again and again
//! until a node acknowledges it.

use serde_json::{Value, json};

use super::around::Around;
use super::witness::{CHANNELS, GRIP};
use crate::http::{Exchange, Progress};
use crate::setup::{PORT_API, PORT_GRIP};

/// A publication that is not acknowledged.
struct Pending {
    n: u64,
    channel: usize,
    body: Vec<u8>,
    attempts: u64,
}

/// A client of the server API.
#[derive(Default)]
pub(super) struct Publisher {
    pending: Option<Pending>,
    link: Option<Exchange>,
}

impl Publisher {
    /// The publication that is not acknowledged.
    pub(super) fn pending(&self) -> Option<u64> {
        self.pending.as_ref().map(|pending| pending.n)
    }

    /// Publishes something, or the same once more; `new` forbids something new.
    pub(super) fn act(&mut self, new: bool, around: &mut Around<'_>) {
        if self.link.is_some() {
            return;
        }
        let repeats = { self.pending.as_ref() }
            .filter(|pending| pending.channel != GRIP)
            .is_some_and(|pending| around.witness.may_repeat(pending.n));
        if !repeats {
            // Its key may be forgotten: nobody knows what became of it.
            self.pending = None;
            if !new {
                return;
            }
            let channel = around.net.below(CHANNELS.len());
            let n = around.witness.sends(channel);
            let (name, data) = (CHANNELS[channel].name, json!({"n": n}));
            let body = match channel {
                GRIP => {
                    let content = format!("{}\n", json!({ "data": data }));
                    let formats = json!({"http-stream": {"content": content}});
                    json!({"items": [{"channel": name, "formats": formats}]})
                }
                _ => {
                    let key = format!("key-{n}");
                    json!({"channel": name, "data": data, "idempotency_key": key})
                }
            };
            self.pending = Some(Pending {
                n,
                channel,
                body: body.to_string().into_bytes(),
                attempts: 0,
            });
        }
        let Some(pending) = &mut self.pending else {
            return;
        };
        pending.attempts += 1;
        if pending.attempts == 2 {
            let what = "a publication is repeated until its outcome is known";
            around.net.count(what);
        }
        let node = around.net.below(around.nodes.len());
        let (target, port) = match pending.channel {
            GRIP => ("/publish/", PORT_GRIP),
            _ => ("/api/publish", PORT_API),
        };
        let body = Some(&*pending.body);
        self.link = Some(around.ask(node, port, "POST", target, body));
        note!(around.net, "{} is published at node {node}", pending.n);
    }

    /// Gives up on an answer.
    pub(super) fn leave(&mut self, around: &Around<'_>) {
        if let Some(exchange) = self.link.take() {
            around.net.client_leaves(exchange.conn, false);
        }
    }

    pub(super) fn read(&mut self, around: &mut Around<'_>) -> bool {
        let Some(exchange) = &mut self.link else {
            return false;
        };
        let progress = exchange.read(around.net, usize::MAX);
        if progress == Progress::Open {
            return false;
        }
        let is_answered = progress == Progress::Whole && exchange.status() == Some(200);
        let is_grip = { self.pending.as_ref() }.is_some_and(|it| it.channel == GRIP);
        let answer: Value = match is_answered && !is_grip {
            true => serde_json::from_slice(exchange.body()).expect("JSON"),
            false => Value::Null,
        };
        let n = self.pending.as_ref().map_or(0, |pending| pending.n);
        let status = exchange.status();
        note!(around.net, "{n} is answered {status:?}: {answer}");
        self.leave(around);
        if is_answered && answer["error"].is_null() {
            around.witness.acknowledged(n, &answer["result"]);
            self.pending = None;
        }
        self.pending.take_if(|_| is_grip);
        true
    }
}
