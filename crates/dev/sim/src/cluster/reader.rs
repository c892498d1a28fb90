//! A reader: `/stream` of one channel on some node, from where it was before; or a stream that
//! GRIP's backend has held.

use serde_json::{Value, json};
use throng_http1::query;

use super::around::Around;
use super::witness::{CHANNELS, GRIP, Track, Witness};
use crate::http::{Exchange, Progress};
use crate::setup::PORT_CLIENT;

/// Client of one channel, on one node at a time.
pub(super) struct Reader {
    channel: usize,
    pub(super) track: Track,
    /// The node it is connected to, and the exchange there.
    link: Option<(usize, Exchange)>,
    /// `id` of the newest line.
    cursor: String,
}

impl Reader {
    pub(super) fn new(number: usize, around: &Around<'_>) -> Self {
        let channel = around.net.below(CHANNELS.len());
        let name = format!("reader {number} of {}", CHANNELS[channel].name);
        Self {
            channel,
            track: around.witness.reader(name, channel),
            link: None,
            cursor: String::new(),
        }
    }

    pub(super) const fn is_connected(&self) -> bool {
        self.link.is_some()
    }

    /// Whether it has heard its first words on this connection.
    pub(super) fn is_settled(&self) -> bool {
        { self.link.as_ref() }.is_some_and(|(_, exchange)| exchange.status() == Some(200))
    }

    pub(super) fn connect(&mut self, around: &mut Around<'_>) {
        let node = around.net.below(around.nodes.len());
        let path = if self.channel == GRIP {
            "/grip?"
        } else {
            "/stream?channel="
        };
        let mut target = path.to_owned();
        query::encode(CHANNELS[self.channel].name, &mut target);
        if !self.cursor.is_empty() {
            target.push_str("&last_event_id=");
            query::encode(&self.cursor, &mut target);
        }
        let exchange = around.ask(node, PORT_CLIENT, "GET", &target, None);
        let (name, conn) = (&self.track.name, exchange.conn);
        note!(
            around.net,
            "{name} connects to node {node} on {conn}, from {}",
            self.cursor
        );
        self.link = Some((node, exchange));
    }

    pub(super) fn leave(&mut self, around: &Around<'_>) {
        if let Some((_, exchange)) = self.link.take() {
            let name = &self.track.name;
            note!(around.net, "{name} leaves");
            around
                .net
                .client_leaves(exchange.conn, around.net.percent(50));
            Witness::leaves(&mut self.track);
        }
    }

    /// Reads; whether anything came.
    pub(super) fn read(&mut self, bytes_max: usize, around: &mut Around<'_>) -> bool {
        let Some((_, exchange)) = &mut self.link else {
            return false;
        };
        let before = exchange.body().len();
        let progress = exchange.read(around.net, bytes_max);
        let mut lines = Vec::new();
        let is_let_in = exchange.status() == Some(200);
        while let Some(line) = exchange.line().filter(|_| is_let_in) {
            lines.push(line);
        }
        let busy = before != exchange.body().len() || !lines.is_empty();
        for line in lines {
            self.line(&line, around);
        }
        if progress != Progress::Open {
            self.leave(around);
        }
        busy || progress != Progress::Open
    }

    fn line(&mut self, line: &[u8], around: &mut Around<'_>) {
        let line: Value = match line {
            b"welcome\n" => json!({"recovered": false}),
            _ => serde_json::from_slice(line).expect("a line of JSON"),
        };
        note!(around.net, "{} hears {line}", self.track.name);
        if let Some(id) = line["id"].as_str() {
            self.cursor = id.to_owned();
        }
        if !line["recovered"].is_null() {
            around.witness.begins(&mut self.track, &line);
        } else if let Some(n) = line["data"]["n"].as_u64() {
            let track = &mut self.track;
            around.witness.gets(track, n, &line);
        } else if line["disconnect"].is_null() {
            let is_sign_of_life = line.as_object().is_some_and(serde_json::Map::is_empty);
            assert!(is_sign_of_life, "{}: {line}", self.track.name);
        }
    }
}
