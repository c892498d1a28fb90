//! A simulated publisher: one connection to the API port or to GRIP's, requests and their
//! answers in order.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};
use throng_http1::{encode_request, query};

use crate::backend::{LOGS, log_channel};
use crate::client::{Around, json_of, place_of};
use crate::http::Answer;
use crate::payload;
use crate::setup::{API_KEY, APPWRITE, CHANNELS, GRIP, PORT_API, PORT_GRIP};

/// Request that waits for its answer.
#[derive(Debug)]
enum Asked {
    /// A publication by `/pub`.
    Pub(u64, usize),
    Publish(u64, usize),
    Broadcast(u64, Vec<usize>),
    /// `/api/batch`: in each channel the publication, and then its history.
    Batch(u64, Vec<usize>),
    History(usize),
    Channels,
    Info,
    /// Number of connections in a channel.
    Present(usize),
    /// Command to disconnect or unsubscribe.
    Command,
    /// Items published to GRIP's `/publish/`.
    Items(Vec<u64>),
    /// An event of Appwrite's.
    Event(u64),
}

/// A simulated publisher on a keep-alive connection.
#[derive(Default)]
pub(crate) struct Publisher {
    conn: Option<usize>,
    /// Whether it publishes to GRIP's port.
    is_grip: bool,
    input: Vec<u8>,
    answer: Answer,
    open: VecDeque<Asked>,
    /// The answers of the last `info` and `channels`.
    pub(crate) clients: Option<u64>,
    pub(crate) counts: Option<Value>,
    /// Number of connections in each channel, by the last answer.
    pub(crate) present: BTreeMap<usize, u64>,
}

impl Publisher {
    pub(crate) fn new(is_grip: bool) -> Self {
        Self {
            is_grip,
            ..Self::default()
        }
    }

    pub(crate) const fn is_grip(&self) -> bool {
        self.is_grip
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.conn.is_some()
    }

    pub(crate) fn conn(&self) -> Option<usize> {
        self.conn
    }

    pub(crate) fn connect(&mut self, around: &mut Around<'_>) {
        let port = if self.is_grip { PORT_GRIP } else { PORT_API };
        *self = Self {
            conn: Some(around.net.connect(port, around.setup.kernel_bytes)),
            ..Self::new(self.is_grip)
        };
    }

    pub(crate) fn leave(&mut self, around: &mut Around<'_>) {
        if let Some(conn) = self.conn.take() {
            around.net.client_leaves(conn, false);
        }
        // What was not answered may have been carried out, or not.
        self.open.clear();
        self.input.clear();
        self.answer = Answer::default();
    }

    pub(crate) fn is_waiting(&self) -> bool {
        !self.open.is_empty()
    }

    fn post(&mut self, asked: Asked, target: &str, body: &[u8], around: &mut Around<'_>) {
        let Some(conn) = self.conn else { return };
        let mut out = Vec::new();
        let headers = [("X-API-Key", API_KEY)];
        encode_request("POST", target, "sim", &headers, Some(body), &mut out);
        note!(
            around.net,
            "a publisher on {conn} posts {target} {}",
            String::from_utf8_lossy(body)
        );
        around.net.client_send(conn, &out);
        self.open.push_back(asked);
    }

    fn call(&mut self, asked: Asked, method: &str, body: &Value, around: &mut Around<'_>) {
        let target = format!("/api/{method}");
        self.post(asked, &target, body.to_string().as_bytes(), around);
    }

    /// Asks what the servers count.
    pub(crate) fn survey(&mut self, around: &mut Around<'_>) {
        self.call(Asked::Info, "info", &json!({}), around);
        self.call(Asked::Channels, "channels", &json!({}), around);
    }

    /// Asks how many are in each channel that has a list.
    pub(crate) fn count_present(&mut self, around: &mut Around<'_>) {
        let listed = (0..CHANNELS.len()).filter(|&channel| CHANNELS[channel].is_listed());
        for channel in listed {
            let of = json!({ "channel": CHANNELS[channel].name });
            self.call(Asked::Present(channel), "presence_stats", &of, around);
        }
    }

    /// Sends a request, or many without waiting.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) {
        let most = around.setup.pipelined.saturating_sub(self.open.len());
        for _ in 0..around.net.pick(&[1, most]).min(most) {
            self.ask(around);
        }
    }

    fn ask(&mut self, around: &mut Around<'_>) {
        let net = around.net;
        if self.is_grip {
            return self.publish_items(around);
        }
        if !around.setup.hands_over && net.percent(6) {
            return self.publish_event(around);
        }
        let channel = around.setup.draw_channel(false, net);
        let name = CHANNELS[channel].name;
        let pick = if around.setup.meddling && net.percent(40) {
            net.between(87, 99)
        } else {
            net.below(100)
        };
        let keeps = CHANNELS[channel].history.0 > 0;
        let n = around.witness.next_number();
        match pick {
            0..32 => {
                let data = payload::make(n, false, net);
                around.witness.sends(&[channel], &data, keeps);
                let mut target = "/pub?channel=".to_owned();
                query::encode(name, &mut target);
                self.post(Asked::Pub(n, channel), &target, &data, around);
            }
            32..58 => {
                let data = payload::make(n, true, net);
                let mut publish = json!({"channel": name, "data": json_of(&data)});
                let skips = net.percent(10);
                if skips {
                    publish["skip_history"] = true.into();
                }
                around.witness.sends(&[channel], &data, keeps && !skips);
                self.call(Asked::Publish(n, channel), "publish", &publish, around);
            }
            58..72 => {
                let data = payload::make(n, true, net);
                let mut all = vec![channel];
                let other = around.setup.draw_channel(false, net);
                let several = around.setup.broadcasts && other != channel;
                all.extend(several.then_some(other));
                let names: Vec<&str> = all.iter().map(|&at| CHANNELS[at].name).collect();
                around.witness.sends(&all, &data, true);
                let data = json_of(&data);
                if n.is_multiple_of(2) {
                    let both = |name: &&str| {
                        let publish = json!({"publish": {"channel": name, "data": data}});
                        [publish, json!({"history": {"channel": name, "limit": 5}})]
                    };
                    let commands: Vec<Value> = names.iter().flat_map(both).collect();
                    let batch = json!({ "commands": commands });
                    return self.call(Asked::Batch(n, all), "batch", &batch, around);
                }
                let broadcast = json!({"channels": names, "data": data});
                self.call(Asked::Broadcast(n, all), "broadcast", &broadcast, around);
            }
            72..77 => {
                let history = json!({"channel": name, "limit": 5});
                self.call(Asked::History(channel), "history", &history, around);
            }
            77..82 => self.survey(around),
            82..93 => {
                let user = format!("u{}", net.below(3));
                around.witness.meddles(&user, channel);
                let unsubscribe = json!({"channel": name, "user": user});
                self.call(Asked::Command, "unsubscribe", &unsubscribe, around);
            }
            _ => {
                let user = format!("u{}", net.below(3));
                self.call(Asked::Command, "disconnect", &json!({"user": user}), around);
            }
        }
    }

    fn publish_event(&mut self, around: &mut Around<'_>) {
        let channel = APPWRITE + around.net.below(2);
        let n = around.witness.next_number();
        let payload = json!({"n": n, "pad": ""});
        let bytes = payload.to_string();
        around.witness.sends(&[channel], bytes.as_bytes(), false);
        let name = CHANNELS[channel].name;
        let event = json!({"project": "sim", "roles": ["any"], "data": {
            "events": [format!("{name}.create")], "channels": [name], "timestamp": "now",
            "payload": payload}});
        let body = event.to_string();
        self.post(
            Asked::Event(n),
            "/v1/realtime/events",
            body.as_bytes(),
            around,
        );
    }

    fn publish_items(&mut self, around: &mut Around<'_>) {
        let (mut items, mut numbers) = (Vec::new(), Vec::new());
        for _ in 0..around.net.pick(&[1, 1, 3]) {
            if around.net.percent(30) {
                items.extend(log_item(around));
                continue;
            }
            let (item, number) = grip_item(around);
            items.push(item);
            numbers.extend(number);
        }
        let body = json!({ "items": items }).to_string();
        self.post(Asked::Items(numbers), "/publish/", body.as_bytes(), around);
    }

    /// Publishes one more line of each log.
    pub(crate) fn end_logs(&mut self, around: &mut Around<'_>) {
        let items: Vec<Value> = (0..LOGS).map(|log| next_line(log, around)).collect();
        let body = json!({ "items": items }).to_string();
        self.post(
            Asked::Items(Vec::new()),
            "/publish/",
            body.as_bytes(),
            around,
        );
    }

    /// Reads what has arrived, and the end if that is all. True if anything happened.
    pub(crate) fn read(&mut self, around: &mut Around<'_>) -> bool {
        let Some(conn) = self.conn else {
            return false;
        };
        let Some(bytes) = around.net.client_recv(conn, usize::MAX) else {
            // A drain whose time is over ends connections as they are, and so does a leap of the
            // clock those of publishers that are slow to read.
            let leaps = around.setup.leap_percent > 0 || around.setup.hands_over;
            let excused = around.setup.drain_at.is_some() || leaps;
            let is_between = self.input.is_empty() && self.answer.status.is_none();
            assert!(is_between || excused, "a response was cut off");
            around.net.client_leaves(conn, false);
            *self = Self::new(self.is_grip);
            return true;
        };
        self.input.extend(&bytes);
        while self.response(around) {}
        !bytes.is_empty()
    }

    /// Takes one whole response.
    fn response(&mut self, around: &mut Around<'_>) -> bool {
        if !self.answer.take(&mut self.input) {
            return false;
        }
        let Answer { status, body, .. } = std::mem::take(&mut self.answer);
        let status = status.expect("it is whole");
        let shown = String::from_utf8_lossy(&body).into_owned();
        note!(around.net, "a publisher gets {status} {shown}");
        let Some(asked) = self.open.pop_front() else {
            panic!("an answer to nothing: {status} {shown}");
        };
        if status == 408 {
            // The clock leapt within the request; the server ends the connection, and what
            // was sent behind it is not answered.
            self.open.clear();
            return false;
        }
        let is_good = matches!((&asked, status), (Asked::Event(_), 202) | (_, 200));
        assert!(is_good, "{asked:?}: {status} {shown}");
        self.answered(&asked, &body, around);
        true
    }

    fn answered(&mut self, asked: &Asked, body: &[u8], around: &mut Around<'_>) {
        let witness = &mut *around.witness;
        if let Asked::Items(numbers) = asked {
            for &n in numbers {
                witness.answered(n, true);
            }
            return;
        }
        let body = json_of(body);
        let mut published = |n: u64, channel: usize, told: &Value| {
            if let Some(place) = place_of(told) {
                witness.stands(n, channel, place);
            }
        };
        match asked {
            Asked::Pub(n, channel) => {
                published(*n, *channel, &body);
                witness.answered(*n, true);
            }
            Asked::Publish(n, channel) => {
                assert!(body["error"].is_null(), "{body}");
                published(*n, *channel, &body["result"]);
                witness.answered(*n, true);
            }
            Asked::Broadcast(n, channels) => {
                let responses = body["result"]["responses"].as_array().expect("one each");
                assert_eq!(responses.len(), channels.len());
                for (channel, response) in channels.iter().zip(responses) {
                    assert!(response["error"].is_null(), "{body}");
                    published(*n, *channel, &response["result"]);
                }
                witness.answered(*n, true);
            }
            Asked::Batch(n, channels) => {
                let replies = body["replies"].as_array().expect("one each");
                assert_eq!(replies.len(), 2 * channels.len());
                for (channel, pair) in channels.iter().zip(replies.chunks(2)) {
                    assert!(pair[0]["publish"].is_object(), "{body}");
                    published(*n, *channel, &pair[0]["publish"]);
                    let keeps = CHANNELS[*channel].history.0 > 0;
                    let code = pair[1]["error"]["code"].as_u64();
                    assert_eq!(code, (!keeps).then_some(108), "{body}");
                }
                witness.answered(*n, true);
            }
            Asked::History(channel) => {
                let keeps = CHANNELS[*channel].history.0 > 0;
                let code = body["error"]["code"].as_u64();
                assert_eq!(code, (!keeps).then_some(108), "{body}");
            }
            Asked::Channels => self.counts = Some(body["result"]["channels"].clone()),
            Asked::Info => self.clients = body["result"]["nodes"][0]["num_clients"].as_u64(),
            Asked::Present(channel) => {
                let count = body["result"]["num_clients"].as_u64();
                self.present.insert(*channel, count.expect("a number"));
            }
            Asked::Command => assert!(body["error"].is_null(), "{body}"),
            // It is still on its way.
            Asked::Event(n) => witness.accepts(*n),
            Asked::Items(_) => {}
        }
    }
}

/// An item for all subscribers of one of GRIP's channels, and its number; or the end of their
/// streams.
pub(crate) fn grip_item(around: &mut Around<'_>) -> (Value, Option<u64>) {
    let channel = GRIP + around.net.below(2);
    let name = CHANNELS[channel].name;
    if around.net.percent(4) {
        let item = json!({"channel": name, "http-stream": {"action": "close"}});
        return (item, None);
    }
    let n = around.witness.next_number();
    let data = format!("n={n};{}", "x".repeat(around.net.pick(&[0, 30, 300])));
    around.witness.sends(&[channel], data.as_bytes(), false);
    let stream = json!({"content": format!("{data}\n")});
    let message = json!({"content": data});
    let formats = json!({"http-stream": stream, "ws-message": message});
    let item = json!({"channel": name, "formats": formats});
    (item, Some(n))
}

/// A new line of some log, which is sometimes not published.
pub(crate) fn log_item(around: &Around<'_>) -> Option<Value> {
    let item = next_line(around.net.below(LOGS), around);
    let is_lost = around.net.percent(10);
    if is_lost {
        around.net.count("a publication is lost");
    }
    (!is_lost).then_some(item)
}

pub(crate) fn next_line(log: usize, around: &Around<'_>) -> Value {
    let line = around.backend.with_site(|site| {
        site.logs[log] += 1;
        site.logs[log]
    });
    let text = format!("{line}\n");
    let formats = json!({"http-stream": {"content": text}, "http-response": {"body": text}});
    let (id, before) = (line.to_string(), (line - 1).to_string());
    json!({"channel": log_channel(log), "id": id, "prev-id": before, "formats": formats})
}
