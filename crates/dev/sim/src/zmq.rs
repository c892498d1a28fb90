//! Publishers by ZeroMQ (ZMTP 3.0, RFC 23), spoken by hand: PUSH, and XPUB, which publishes only to
//! channels that it was asked for.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use throng_grip::{Value, tnet, zmtp};

use crate::client::Around;
use crate::publisher::{grip_item, log_item};
use crate::setup::{PORT_PULL, PORT_SUB};

const GREETING_BYTES: usize = 64;
/// Flags of a frame (RFC 23).
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// The type of a publisher's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaks {
    #[default]
    Push,
    Xpub,
}

/// A publisher that keeps its connection.
#[derive(Default)]
pub(crate) struct ZmqPublisher {
    speaks: Speaks,
    conn: Option<usize>,
    input: Vec<u8>,
    was_greeted: bool,
    /// Topics that it was asked for.
    topics: BTreeSet<String>,
}

impl ZmqPublisher {
    pub(crate) fn new(speaks: Speaks) -> Self {
        Self {
            speaks,
            ..Self::default()
        }
    }

    /// Connects, or publishes something.
    pub(crate) fn act(&mut self, around: &mut Around<'_>) {
        let Some(conn) = self.conn else {
            return self.connect(around);
        };
        around.net.arrive(conn, usize::MAX);
        self.read(around);
        for _ in 0..around.net.pick(&[1, 1, 4]) {
            if around.net.percent(40) {
                if let Some(item) = log_item(around) {
                    let is_sent = self.publish(&item, around);
                    if !is_sent {
                        around.net.count("a publication is lost");
                    }
                }
                continue;
            }
            let (item, number) = grip_item(around);
            let is_sent = self.publish(&item, around);
            if let Some(number) = number {
                match is_sent {
                    true => around.witness.accepts(number),
                    false => around.witness.answered(number, false),
                }
            }
        }
    }

    fn connect(&mut self, around: &Around<'_>) {
        let (port, name) = match self.speaks {
            Speaks::Push => (PORT_PULL, "PUSH"),
            Speaks::Xpub => (PORT_SUB, "XPUB"),
        };
        let conn = around.net.connect(port, 30_000);
        let mut out = vec![0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0];
        out.extend_from_slice(b"NULL");
        out.resize(GREETING_BYTES, 0);
        let mut ready = b"\x05READY\x0bSocket-Type\0\0\0\x04".to_vec();
        ready.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&[COMMAND, ready.len() as u8]);
        out.extend_from_slice(&ready);
        note!(around.net, "a publisher connects as {name}: {conn}");
        around.net.client_send(conn, &out);
        *self = Self {
            conn: Some(conn),
            ..Self::new(self.speaks)
        };
    }

    pub(crate) fn leave(&mut self, around: &Around<'_>) {
        if let Some(conn) = self.conn.take() {
            around.net.client_leaves(conn, false);
        }
    }

    /// Publishes an item; false if no subscriber asked for it.
    fn publish(&self, item: &Json, around: &Around<'_>) -> bool {
        // A connection that was greeted is read to the end.
        let Some(conn) = self.conn.filter(|_| self.was_greeted) else {
            return false;
        };
        let json = item.to_string();
        let channel = item["channel"].as_str().expect("items have channels");
        let mut tnetstring = Vec::new();
        let value = Value::from_json(json.as_bytes()).expect("JSON");
        tnet::encode(&value, &mut tnetstring);
        let mut out = Vec::new();
        match self.speaks {
            Speaks::Xpub if !self.topics.contains(channel) => return false,
            Speaks::Xpub => {
                zmtp::encode_message(&[channel.as_bytes(), &tnetstring], &mut out);
            }
            Speaks::Push if around.net.percent(50) => {
                zmtp::encode_message(&[format!("J{json}")], &mut out);
            }
            Speaks::Push => zmtp::encode_message(&[&tnetstring], &mut out),
        }
        note!(around.net, "{:?} publishes {json}", self.speaks);
        around.net.client_send(conn, &out);
        true
    }

    /// Reads what has arrived. True if anything happened.
    pub(crate) fn read(&mut self, around: &Around<'_>) -> bool {
        let Some(conn) = self.conn else {
            return false;
        };
        around.net.arrive(conn, usize::MAX);
        let Some(bytes) = around.net.client_recv(conn, usize::MAX) else {
            around.net.client_leaves(conn, false);
            *self = Self::new(self.speaks);
            return true;
        };
        self.input.extend(&bytes);
        if !self.was_greeted && self.input.len() >= GREETING_BYTES {
            self.was_greeted = true;
            assert_eq!(self.input[0], 0xff, "a greeting");
            self.input.drain(..GREETING_BYTES);
        }
        while self.was_greeted && self.take_frame() {}
        !bytes.is_empty()
    }

    fn take_frame(&mut self) -> bool {
        let &[flags, length, ..] = &self.input[..] else {
            return false;
        };
        assert_eq!(flags & LONG, 0, "what a subscriber says is short");
        let end = 2 + usize::from(length);
        if self.input.len() < end {
            return false;
        }
        let frame: Vec<u8> = self.input.drain(..end).skip(2).collect();
        if flags & COMMAND == 0 {
            let (wants, topic) = frame.split_first().expect("a subscription");
            let topic = String::from_utf8(topic.to_vec()).expect("a channel");
            match wants {
                0 => assert!(self.topics.remove(&topic), "{topic} was asked for"),
                _ => assert!(self.topics.insert(topic), "each once"),
            }
        }
        true
    }
}
