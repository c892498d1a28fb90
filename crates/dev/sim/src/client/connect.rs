//! Requests that open a connection in each protocol, with the position that the client resumes
//! from.

use std::collections::BTreeMap;

use serde_json::json;
use throng_http1::{encode_request, query};
use throng_ws::handshake;

use super::kind::Kind;
use super::state::{Around, Client, Link};
use super::wire::Wire;
use crate::setup::{CHANNELS, token};

impl Client {
    pub(super) fn begin(&mut self, conn: usize, around: &mut Around<'_>) {
        let net = around.net;
        let resume = net.percent(85);
        if !resume {
            self.cursor.clear();
        }
        let has_cursor = matches!(self.kind, Kind::Sse | Kind::Lines);
        let mut since = BTreeMap::new();
        if resume && self.kind.is_uni() {
            for channel in &self.channels {
                let known = self.positions.get(channel);
                since.extend(known.map(|&position| (*channel, position)));
            }
        }
        let key = net.key();
        self.link = Some(Link {
            conn,
            wire: Wire::new(key),
            since,
            resuming: has_cursor && !self.cursor.is_empty(),
            ..Link::default()
        });
        if !self.kind.has_commands() {
            for channel in self.channels.clone() {
                self.asks(channel, around);
            }
        }
        let first = match self.kind.has_commands() {
            true => self.connect_command(resume, around),
            false => String::new(),
        };
        let request = self.request(key, &first, around);
        self.say(&request, around);
        match self.kind {
            // It does not wait for the answer to its handshake.
            Kind::Centrifuge | Kind::Protobuf => self.speak(&first, around),
            Kind::UniWs => {
                // It does not wait for the answer to its handshake.
                let text = self.uni_connect(around);
                self.say(&frame(text.as_bytes(), around), around);
            }
            _ => {}
        }
    }

    fn request(&self, key: [u8; 16], first: &str, around: &Around<'_>) -> Vec<u8> {
        let resuming = self.link.as_ref().is_some_and(|link| link.resuming);
        let mut target = match self.kind {
            Kind::Sse => "/sse?",
            Kind::Lines => "/stream?",
            Kind::Plain => "/ws?",
            Kind::Centrifuge => "/connection/websocket",
            Kind::Protobuf => "/connection/websocket?cf_protocol=protobuf",
            Kind::Events => "/connection/sse?cf_connect=",
            Kind::HttpStream => "/connection/http_stream",
            Kind::UniWs => "/connection/uni_websocket",
            Kind::UniSse => "/connection/uni_sse?cf_connect=",
            Kind::UniHttp => "/connection/uni_http_stream",
            Kind::Grip => "/grip?",
            Kind::Appwrite => "/v1/realtime?project=sim",
        }
        .to_owned();
        let mut bearer = String::new();
        let mut headers = Vec::new();
        let mut body = Vec::new();
        let names = self.channels.iter().map(|&channel| CHANNELS[channel].name);
        match self.kind {
            Kind::Sse | Kind::Lines | Kind::Plain => {
                for name in names {
                    target.push_str("channel=");
                    query::encode(name, &mut target);
                    target.push('&');
                }
                if resuming && (self.kind == Kind::Lines || around.net.percent(20)) {
                    target.push_str("last_event_id=");
                    query::encode(&self.cursor, &mut target);
                } else if resuming {
                    headers.push(("Last-Event-ID", self.cursor.as_str()));
                }
                if !self.user.is_empty() {
                    let token = token(&self.user, None, Vec::new(), self.expiry(around));
                    bearer.push_str("Bearer ");
                    bearer.push_str(&token);
                    headers.push(("Authorization", bearer.as_str()));
                }
            }
            Kind::UniSse => query::encode(&self.uni_connect(around), &mut target),
            Kind::UniHttp => body = self.uni_connect(around).into_bytes(),
            Kind::Grip => target.extend(names.map(|name| format!("{name}&"))),
            Kind::Appwrite => target.extend(names.map(|name| format!("&channels[]={name}"))),
            Kind::Events => query::encode(first, &mut target),
            Kind::HttpStream => body = first.as_bytes().to_vec(),
            Kind::Centrifuge | Kind::Protobuf | Kind::UniWs => {}
        }
        let mut out = Vec::new();
        if self.kind.is_websocket() {
            handshake::encode_request("sim", &target, key, &headers, &mut out);
        } else if matches!(self.kind, Kind::UniHttp | Kind::HttpStream) {
            encode_request("POST", &target, "sim", &headers, Some(&body), &mut out);
        } else {
            encode_request("GET", &target, "sim", &headers, None, &mut out);
        }
        out
    }

    /// When a token of this client's ends, if it does.
    pub(super) fn expiry(&self, around: &Around<'_>) -> Option<u64> {
        let ends = !self.calm && around.net.percent(20);
        ends.then(|| around.net.now().unix_ms / 1000 + around.net.between(2, 60) as u64)
    }

    fn uni_connect(&self, around: &Around<'_>) -> String {
        let mut subs = serde_json::Map::new();
        for channel in &self.channels {
            let since = self.link.as_ref().and_then(|link| link.since.get(channel));
            let sub = match since {
                Some((epoch, offset)) => {
                    json!({"recover": true, "epoch": epoch.to_string(), "offset": offset})
                }
                None => json!({}),
            };
            subs.insert(CHANNELS[*channel].name.to_owned(), sub);
        }
        let mut connect = json!({ "subs": subs });
        if !self.user.is_empty() {
            connect["token"] = token(&self.user, None, Vec::new(), self.expiry(around)).into();
        }
        connect.to_string()
    }
}

/// A client's text frame.
pub(super) fn frame(text: &[u8], around: &Around<'_>) -> Vec<u8> {
    message(throng_ws::Opcode::Text, text, around)
}

/// Encodes one masked frame of a client.
pub(super) fn message(opcode: throng_ws::Opcode, data: &[u8], around: &Around<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    throng_ws::encode_message(around.net.masking(), opcode, data, &mut out);
    out
}
