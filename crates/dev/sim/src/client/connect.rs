//! How each protocol begins: the request, and where the client says it was.

use std::collections::BTreeMap;

use serde_json::json;
use throng_http1::{encode_request, query};
use throng_ws::handshake;

use super::centrifuge::Commands;
use super::wire::Wire;
use super::{Around, Client, Link, Protocol};
use crate::feed::Feed;
use crate::setup::token;

impl Client {
    pub(super) fn begin(&mut self, pipe: usize, around: &mut Around<'_>) -> Link {
        let resume = around.rng.percent(85);
        if !resume {
            self.cursor.clear();
        }
        let has_cursor = matches!(self.protocol, Protocol::Sse | Protocol::Lines);
        let uni = matches!(
            self.protocol,
            Protocol::UniWs | Protocol::UniSse | Protocol::UniHttp
        );
        let mut since = BTreeMap::new();
        if resume && uni {
            for channel in &self.channels {
                let known = self.positions.get(channel);
                since.extend(known.map(|&position| (*channel, position)));
            }
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&around.rng.next().to_be_bytes());
        let bytes = Vec::new();
        let mut link = Link {
            pipe,
            conn: None,
            wire: Wire::Head { bytes, key },
            feed: Feed::default(),
            commands: Commands::default(),
            since,
            resuming: has_cursor && !self.cursor.is_empty(),
            open: false,
            over: false,
        };
        for &channel in &self.channels {
            link.feed.asks(channel, around.witness);
        }
        let request = self.request(&link, key, around);
        around.net.pipe(pipe).up.extend(request);
        around.witness.note(|| {
            let (number, protocol, channels) = (self.number, self.protocol, &self.channels);
            format!("client {number} ({protocol:?}, {channels:?}) connects by pipe {pipe}")
        });
        match self.protocol {
            Protocol::Centrifuge => self.connect_command(&mut link, resume, around),
            Protocol::UniWs => {
                // It does not wait for the answer to its handshake.
                let text = self.uni_connect(&link, around);
                let frame = frame(text.as_bytes(), around);
                around.net.pipe(pipe).up.extend(frame);
            }
            _ => {}
        }
        link
    }

    fn request(&self, link: &Link, key: [u8; 16], around: &mut Around<'_>) -> Vec<u8> {
        let mut target = match self.protocol {
            Protocol::Sse => "/sse?",
            Protocol::Lines => "/stream?",
            Protocol::Plain => "/ws?",
            Protocol::Centrifuge => "/connection/websocket",
            Protocol::UniWs => "/connection/uni_websocket",
            Protocol::UniSse => "/connection/uni_sse?cf_connect=",
            Protocol::UniHttp => "/connection/uni_http_stream",
        }
        .to_owned();
        let mut bearer = String::new();
        let mut headers = Vec::new();
        let mut body = Vec::new();
        match self.protocol {
            Protocol::Sse | Protocol::Lines | Protocol::Plain => {
                for &channel in &self.channels {
                    target.push_str("channel=");
                    query::encode(around.witness.name(channel), &mut target);
                    target.push('&');
                }
                if link.resuming && (self.protocol == Protocol::Lines || around.rng.percent(20)) {
                    target.push_str("last_event_id=");
                    query::encode(&self.cursor, &mut target);
                } else if link.resuming {
                    headers.push(("Last-Event-ID", self.cursor.as_str()));
                }
                if !self.user.is_empty() {
                    let token = token(&self.user, None, Vec::new(), self.expiry(around));
                    bearer.push_str("Bearer ");
                    bearer.push_str(&token);
                    headers.push(("Authorization", bearer.as_str()));
                }
            }
            Protocol::UniSse => query::encode(&self.uni_connect(link, around), &mut target),
            Protocol::UniHttp => body = self.uni_connect(link, around).into_bytes(),
            Protocol::Centrifuge | Protocol::UniWs => {}
        }
        let mut out = Vec::new();
        match self.protocol {
            Protocol::Plain | Protocol::Centrifuge | Protocol::UniWs => {
                handshake::encode_request("sim", &target, key, &headers, &mut out);
            }
            Protocol::UniHttp => {
                encode_request("POST", &target, "sim", &headers, Some(&body), &mut out);
            }
            _ => encode_request("GET", &target, "sim", &headers, None, &mut out),
        }
        out
    }

    /// When a token of this client's ends, if it does.
    pub(super) fn expiry(&self, around: &mut Around<'_>) -> Option<u64> {
        let ends = !self.calm && around.rng.percent(20);
        ends.then(|| around.witness.now.unix_s() + around.rng.between(2, 60) as u64)
    }

    fn uni_connect(&self, link: &Link, around: &mut Around<'_>) -> String {
        let mut subs = serde_json::Map::new();
        for channel in &self.channels {
            let sub = match link.since.get(channel) {
                Some((epoch, offset)) => {
                    json!({"recover": true, "epoch": epoch.to_string(), "offset": offset})
                }
                None => json!({}),
            };
            subs.insert(around.witness.name(*channel).to_owned(), sub);
        }
        let mut connect = json!({ "subs": subs });
        if !self.user.is_empty() {
            connect["token"] = token(&self.user, None, Vec::new(), self.expiry(around)).into();
        }
        connect.to_string()
    }
}

/// A client's text frame.
pub(super) fn frame(text: &[u8], around: &mut Around<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let masking = throng_ws::Masking::Client((around.rng.next() as u32).to_be_bytes());
    throng_ws::encode_message(masking, throng_ws::Opcode::Text, text, &mut out);
    out
}
