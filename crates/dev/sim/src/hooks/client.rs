//! One of Pusher's clients: subscribes, unsubscribes, sends events, goes, and comes back.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};
use throng_pusher::{AppKeys, channel_message};
use throng_ws::{Opcode, handshake};

use crate::client::{Message, Shape, Wire};
use crate::net::Net;
use crate::setup::PORT_CLIENT;

const CHANNELS: [&str; 5] = ["a", "b", "private-a", "presence-a", "presence-b"];
const KERNEL_BYTES: usize = 30_000;

struct Link {
    conn: usize,
    wire: Wire,
    socket_id: Option<String>,
    /// Whether the server has let it into a channel that it has asked for.
    channels: BTreeMap<&'static str, bool>,
}

pub(super) struct Client {
    number: usize,
    link: Option<Link>,
    /// Channels for a connection that begins, as of a page that is loaded anew.
    again: Vec<&'static str>,
    events: usize,
}

impl Client {
    pub(super) const fn new(number: usize) -> Self {
        Self {
            number,
            link: None,
            again: Vec::new(),
            events: 0,
        }
    }

    /// Two clients are one user.
    fn user(&self) -> String {
        format!("u{}", self.number / 2)
    }

    fn connect(&mut self, kernels: Range<usize>, net: &Net) {
        let conn = net.connect_to(kernels, PORT_CLIENT, KERNEL_BYTES);
        let (key, mut request) = (net.key(), Vec::new());
        handshake::encode_request("sim", "/app/key?protocol=7", key, &[], &mut request);
        net.client_send(conn, &request);
        self.link = Some(Link {
            conn,
            wire: Wire::new(key),
            socket_id: None,
            channels: BTreeMap::new(),
        });
    }

    fn say(&self, net: &Net, value: &Value) {
        let mut out = Vec::new();
        let text = value.to_string();
        throng_ws::encode_message(net.masking(), Opcode::Text, text.as_bytes(), &mut out);
        self.send(net, &out);
    }

    fn send(&self, net: &Net, bytes: &[u8]) {
        if let Some(link) = &self.link {
            net.client_send(link.conn, bytes);
        }
    }

    fn subscribe(&mut self, net: &Net, channel: &'static str) {
        let user = self.user();
        let Some(link) = &mut self.link else { return };
        let Some(socket_id) = &link.socket_id else {
            return;
        };
        let data =
            { channel.starts_with("presence-") }.then(|| json!({"user_id": user}).to_string());
        let message = channel_message(socket_id, channel, data.as_deref());
        let sign = AppKeys::new("key", ["secret"]).sign(message.as_bytes());
        let mut asked = json!({"channel": channel});
        if channel.contains('-') {
            asked["auth"] = format!("key:{sign}").into();
        }
        if let Some(data) = data {
            asked["channel_data"] = data.into();
        }
        link.channels.insert(channel, false);
        self.say(net, &json!({"event": "pusher:subscribe", "data": asked}));
    }

    /// Reads at most so many bytes; whether there were any.
    pub(super) fn read(&mut self, net: &Net, bytes_max: usize) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        let Some(mut bytes) = net.client_recv(link.conn, bytes_max) else {
            note!(net, "the connection of client {} has ended", self.number);
            self.again = link.channels.keys().copied().collect();
            self.link = None;
            return true;
        };
        for message in link.wire.take(&mut bytes, Shape::Messages, "") {
            match message {
                Message::Data { data, .. } => {
                    self.hear(net, &serde_json::from_slice(&data).expect("JSON"));
                }
                Message::Ping(data) => {
                    let mut out = Vec::new();
                    throng_ws::encode_pong(net.masking(), &data, &mut out);
                    self.send(net, &out);
                }
                // A leap of the clock may be too long for a handshake.
                Message::Begun | Message::Close(_) | Message::Refused(408) => {}
                other => panic!("nobody asked for {other:?}"),
            }
        }
        !bytes.is_empty()
    }

    fn hear(&mut self, net: &Net, said: &Value) {
        let Some(link) = &mut self.link else { return };
        match said["event"].as_str().expect("an event") {
            "pusher:connection_established" => {
                let data = said["data"].as_str().expect("text");
                let data: Value = serde_json::from_str(data).expect("JSON");
                link.socket_id = data["socket_id"].as_str().map(str::to_owned);
                for channel in std::mem::take(&mut self.again) {
                    self.subscribe(net, channel);
                }
            }
            "pusher_internal:subscription_succeeded" => {
                let channel = said["channel"].as_str().expect("a channel");
                if let Some((_, is_in)) = { link.channels.iter_mut() }.find(|it| *it.0 == channel) {
                    *is_in = true;
                }
            }
            "pusher:ping" => self.say(net, &json!({"event": "pusher:pong", "data": {}})),
            // Or for an answer to a ping; or the broker cannot be reached.
            "pusher:error" if matches!(said["data"]["code"].as_u64(), Some(4201 | 4301)) => {}
            // The broker cannot be reached.
            "pusher:subscription_error" if said["data"]["status"] == 503 => {
                let channel = said["channel"].as_str().expect("a channel");
                link.channels.retain(|name, _| *name != channel);
            }
            "pusher:error" | "pusher:subscription_error" => panic!("refused: {said}"),
            _ => {}
        }
    }

    /// Comes if it is not there, to the process with these kernels.
    pub(super) fn comes(&mut self, kernels: Range<usize>, net: &Net) {
        if self.link.is_none() {
            self.connect(kernels, net);
        }
    }

    /// Whether data are those of an event on the connection that it has.
    pub(super) fn has_sent(&self, data: &str) -> bool {
        let link = self.link.as_ref();
        link.is_some_and(|link| data.starts_with(&format!("|{}.", link.conn)))
    }

    /// Whether it is connected to the process with these kernels.
    pub(super) fn is_of(&self, kernels: Range<usize>, net: &Net) -> bool {
        let watched = self
            .link
            .as_ref()
            .and_then(|link| net.0.borrow().conns[link.conn].watched);
        watched.is_some_and(|(kernel, ..)| kernels.contains(&kernel))
    }

    /// Does something, by a process with these kernels if it is not there; gives the data of an
    /// event that it has sent.
    pub(super) fn act(&mut self, kernels: Range<usize>, net: &Net) -> Option<String> {
        let Some(link) = &mut self.link else {
            if net.percent(20) {
                self.connect(kernels, net);
            }
            return None;
        };
        let channel = net.pick(&CHANNELS);
        match link.channels.get(channel) {
            None => self.subscribe(net, channel),
            Some(true) if net.percent(15) => {
                link.channels.remove(channel);
                let gone = json!({"event": "pusher:unsubscribe", "data": {"channel": channel}});
                self.say(net, &gone);
            }
            Some(true) if channel.contains('-') => {
                self.events += 1;
                let data = format!("|{}.{}|", link.conn, self.events);
                let event = json!({"event": "client-e", "channel": channel, "data": data});
                self.say(net, &event);
                return Some(data);
            }
            Some(_) => {}
        }
        None
    }

    /// Goes; mostly it wants its channels when it comes back.
    pub(super) fn leave(&mut self, net: &Net) {
        let Some(link) = self.link.take() else {
            return;
        };
        net.client_drops(link.conn);
        if net.percent(70) {
            self.again = link.channels.into_keys().collect();
        }
    }

    /// Id of the connection that it has.
    pub(super) fn socket_id(&self) -> &str {
        let id = self.link.as_ref().and_then(|link| link.socket_id.as_ref());
        id.expect("all are there in the end")
    }

    /// States that hold by its being there, as receivers are told of them.
    pub(super) fn states(&self) -> Vec<String> {
        let link = self.link.as_ref().expect("all are there in the end");
        let mut states = Vec::new();
        for (channel, is_in) in &link.channels {
            assert!(is_in, "client {} is let into {channel}", self.number);
            states.push((*channel).to_owned());
            if channel.starts_with("presence-") {
                states.push(format!("{channel} {}", self.user()));
            }
        }
        states
    }
}
