//! A simulated backend: one connection to the API port, requests and their answers in order.

use std::collections::VecDeque;

use serde_json::{Value, json};
use throng_http1::{BodyDecoder, Limits, encode_request, parse_response, query};

use crate::client::Around;
use crate::net::Port;
use crate::payload;

/// What a request asked for.
#[derive(Debug)]
enum Asked {
    /// `/pub`: the number that was published, and where.
    Pub(u64, Vec<usize>),
    Publish(u64, usize),
    Broadcast(u64, Vec<usize>),
    History(usize),
    Channels,
    Info,
    /// Disconnect or unsubscribe.
    Command,
}

/// See the module's head.
#[derive(Default)]
pub(crate) struct Backend {
    pipe: Option<usize>,
    input: Vec<u8>,
    open: VecDeque<Asked>,
    /// The answers of the last `info` and `channels`.
    pub(crate) clients: Option<u64>,
    pub(crate) counts: Option<Value>,
}

impl Backend {
    pub(crate) const fn pipe(&self) -> Option<usize> {
        self.pipe
    }

    pub(crate) fn connect(&mut self, kernel_bytes: usize, around: &mut Around<'_>) -> usize {
        let pipe = around.net.open(Port::Api, kernel_bytes);
        *self = Self {
            pipe: Some(pipe),
            ..Self::default()
        };
        pipe
    }

    pub(crate) fn leave(&mut self, around: &mut Around<'_>) {
        if let Some(pipe) = self.pipe.take() {
            around.net.leave(pipe, false);
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    fn post(&mut self, asked: Asked, target: &str, body: &[u8], around: &mut Around<'_>) {
        let Some(pipe) = self.pipe else { return };
        let mut out = Vec::new();
        encode_request("POST", target, "sim", &[], Some(body), &mut out);
        around
            .witness
            .note(|| format!("a backend posts {target} {}", String::from_utf8_lossy(body)));
        around.net.pipe(pipe).up.extend(out);
        self.open.push_back(asked);
    }

    fn call(&mut self, asked: Asked, method: &str, body: &Value, around: &mut Around<'_>) {
        self.post(
            asked,
            &format!("/api/{method}"),
            body.to_string().as_bytes(),
            around,
        );
    }

    /// Asks what the servers count.
    pub(crate) fn survey(&mut self, around: &mut Around<'_>) {
        self.call(Asked::Info, "info", &json!({}), around);
        self.call(Asked::Channels, "channels", &json!({}), around);
    }

    pub(crate) fn act(&mut self, around: &mut Around<'_>) {
        if self.open.len() >= 3 {
            return;
        }
        let channel = around.witness.draw_channel(false, around.rng);
        let name = around.witness.name(channel).to_owned();
        let pick = if around.witness.meddling && around.rng.percent(40) {
            around.rng.between(87, 99)
        } else {
            around.rng.below(100)
        };
        match pick {
            0..32 => self.publish_plainly(channel, around),
            32..58 => {
                let n = around.witness.number();
                let data: Value = parsed(&payload::make(n, true, around.rng));
                let mut publish = json!({"channel": name, "data": data});
                if around.rng.percent(10) {
                    publish["skip_history"] = true.into();
                }
                self.call(Asked::Publish(n, channel), "publish", &publish, around);
            }
            58..72 => {
                let n = around.witness.number();
                let data: Value = parsed(&payload::make(n, true, around.rng));
                let mut all = vec![channel];
                let other = around.witness.draw_channel(false, around.rng);
                let several = around.witness.broadcasts && other != channel;
                all.extend(several.then_some(other));
                let names: Vec<&str> = all.iter().map(|&at| around.witness.name(at)).collect();
                let broadcast = json!({"channels": names, "data": data});
                self.call(Asked::Broadcast(n, all), "broadcast", &broadcast, around);
            }
            72..77 => {
                let history = json!({"channel": name, "limit": 5});
                self.call(Asked::History(channel), "history", &history, around);
            }
            77..82 => self.survey(around),
            82..93 => {
                let user = format!("u{}", around.rng.below(3));
                let unsubscribe = json!({"channel": name, "user": user});
                self.call(Asked::Command, "unsubscribe", &unsubscribe, around);
            }
            _ => {
                let user = format!("u{}", around.rng.below(3));
                self.call(Asked::Command, "disconnect", &json!({"user": user}), around);
            }
        }
    }

    fn publish_plainly(&mut self, channel: usize, around: &mut Around<'_>) {
        let n = around.witness.number();
        let data = payload::make(n, false, around.rng);
        let mut target = "/pub?channel=".to_owned();
        query::encode(around.witness.name(channel), &mut target);
        self.post(Asked::Pub(n, vec![channel]), &target, &data, around);
    }

    /// Reads what has arrived, and the end if that is all. True if anything happened.
    pub(crate) fn read(&mut self, around: &mut Around<'_>) -> bool {
        let Some(number) = self.pipe else {
            return false;
        };
        let pipe = around.net.pipe(number);
        let bytes: Vec<u8> = pipe.down.drain(..).collect();
        let ended = pipe.server_fin || pipe.server_gone;
        self.input.extend(&bytes);
        while self.response(around) {}
        if ended {
            assert!(self.input.is_empty(), "a response was cut off");
            around.net.leave(number, false);
            *self = Self::default();
        }
        ended || !bytes.is_empty()
    }

    /// Takes one whole response.
    fn response(&mut self, around: &mut Around<'_>) -> bool {
        let limits = Limits::default();
        let parsed_head = parse_response(&self.input, &limits, false).expect("a good response");
        let Some((response, head_bytes)) = parsed_head else {
            return false;
        };
        let status = response.status;
        let mut decoder = BodyDecoder::for_response(response.body, &limits);
        let step = decoder
            .feed(&self.input[head_bytes..])
            .expect("a good body");
        if !step.done {
            return false;
        }
        let body = step.data.to_vec();
        self.input.drain(..head_bytes + step.consumed);
        let shown = String::from_utf8_lossy(&body).into_owned();
        around
            .witness
            .note(|| format!("a backend gets {status} {shown}"));
        let Some(asked) = self.open.pop_front() else {
            panic!("an answer to nothing: {status} {shown}");
        };
        if status == 408 {
            // The clock leapt within the request; the server ends the connection, and what
            // was sent behind it is not answered.
            self.open.clear();
            return false;
        }
        assert_eq!(status, 200, "{asked:?}: {shown}");
        self.answered(&asked, &parsed(&body), around);
        true
    }

    fn answered(&mut self, asked: &Asked, body: &Value, around: &mut Around<'_>) {
        let witness = &*around.witness;
        let published = |n: u64, channel: usize, told: &Value| {
            let place = witness
                .place(channel, n)
                .expect("who is told has been accepted");
            let position = witness.position_of(channel, place);
            let offset = position.map(|position| position.offset);
            assert_eq!(
                told["offset"].as_u64(),
                offset,
                "{}: {body}",
                witness.name(channel)
            );
            let epoch = position.map(|position| position.epoch.to_string());
            assert_eq!(told["epoch"].as_str(), epoch.as_deref());
        };
        match asked {
            Asked::Pub(n, channels) => published(*n, channels[0], body),
            Asked::Publish(n, channel) => published(*n, *channel, &body["result"]),
            Asked::Broadcast(n, channels) => {
                let responses = body["result"]["responses"].as_array().expect("one each");
                assert_eq!(responses.len(), channels.len());
                for (channel, response) in channels.iter().zip(responses) {
                    published(*n, *channel, &response["result"]);
                }
            }
            Asked::History(channel) => {
                let keeps = witness.options(*channel).retention.keeps();
                assert_eq!(
                    body["error"]["code"].as_u64(),
                    (!keeps).then_some(108),
                    "{body}"
                );
            }
            Asked::Channels => self.counts = Some(body["result"]["channels"].clone()),
            Asked::Info => self.clients = body["result"]["nodes"][0]["num_clients"].as_u64(),
            Asked::Command => assert!(body["error"].is_null(), "{body}"),
        }
    }
}

fn parsed(bytes: &[u8]) -> Value {
    let value = serde_json::from_slice(bytes);
    value.unwrap_or_else(|error| panic!("{error} in {}", String::from_utf8_lossy(bytes)))
}
