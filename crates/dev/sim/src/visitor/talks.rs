//! Visitors that talk to the backend: in messages, or in bytes that only pass through.

use std::collections::VecDeque;

use throng_ws::Opcode;

use super::came::Came;
use crate::client::{Around, Message, Shape, Wire};
use crate::net::Net;
use crate::payload::{self, Got};
use crate::setup::GRIP;

/// Messages that may wait for their answers.
const UNHEARD_MAX: u64 = 20;

/// A WebSocket: `say 0`, `say 1`, …, each answered.
#[derive(Default)]
pub(super) struct Talk {
    wire: Wire,
    said: u64,
    heard: u64,
    is_open: bool,
    has_closed: bool,
    /// Numbers of publications that came.
    got: Vec<u64>,
}

impl Talk {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            wire: Wire::new(key),
            ..Self::default()
        }
    }

    pub(super) fn act(&mut self, net: &Net) -> Vec<u8> {
        let mut out = Vec::new();
        if self.has_closed || !self.is_open {
            return out;
        }
        let masking = net.masking();
        if net.percent(3) {
            self.has_closed = true;
            throng_ws::encode_close(masking, None, &mut out);
            return out;
        }
        for _ in 0..net.pick(&[1, 1, 2, 6]) {
            if self.said < self.heard + UNHEARD_MAX {
                let text = format!("say {}", self.said);
                throng_ws::encode_message(masking, Opcode::Text, text.as_bytes(), &mut out);
                self.said += 1;
            }
        }
        out
    }

    pub(super) fn read(&mut self, who: &str, bytes: &mut [u8], around: &mut Around<'_>) -> Came {
        for message in self.wire.take(bytes, Shape::Messages, "") {
            note!(around.net, "{who} gets {}", message.shown());
            match message {
                Message::Begun => self.is_open = true,
                Message::Refused(status) => return Came::Refused(status),
                Message::Close(_) => return Came::Over,
                Message::Data { text: true, data } => self.data(who, &data, around),
                other => panic!("{who} gets {other:?}"),
            }
        }
        Came::More
    }

    /// The answer to the server's close.
    pub(super) fn farewell(&mut self, net: &Net) -> Vec<u8> {
        let mut out = Vec::new();
        if !std::mem::replace(&mut self.has_closed, true) {
            throng_ws::encode_close(net.masking(), None, &mut out);
        }
        out
    }

    fn data(&mut self, who: &str, data: &[u8], around: &mut Around<'_>) {
        let text = String::from_utf8_lossy(data);
        if let Some(number) = text.strip_prefix("heard ") {
            assert_eq!(number, self.heard.to_string(), "{who}: the next answer");
            assert!(self.heard < self.said, "{who}: an answer to nothing");
            self.heard += 1;
            around.net.count("a backend answers a message");
            return;
        }
        let got = Got::Raw(data);
        around.witness.checks(who, GRIP, &got);
        let number = payload::number_of(&got).expect("it was checked");
        assert!(!self.got.contains(&number), "{who}: n={number} came twice");
        self.got.push(number);
        around.net.count("a client of GRIP gets a publication");
    }

    pub(super) fn settle(&self, who: &str) {
        assert!(self.is_open, "{who}: its handshake was not answered");
        assert!(!self.has_closed, "{who}: its close was not answered");
        assert_eq!(self.heard, self.said, "{who}: all was answered");
    }
}

/// Bytes that come back as they went.
pub(super) struct Echo {
    wire: Wire,
    is_open: bool,
    owed: VecDeque<u8>,
}

impl Echo {
    pub(super) const fn new(key: [u8; 16]) -> Self {
        Self {
            wire: Wire::new(key),
            is_open: false,
            owed: VecDeque::new(),
        }
    }

    pub(super) fn act(&mut self, net: &Net) -> Vec<u8> {
        if !self.is_open || self.owed.len() > 200_000 {
            return Vec::new();
        }
        let count = net.pick(&[1, 20, 300, 4000, 70_000]);
        let first = net.next() as usize;
        let bytes: Vec<u8> = (0..count).map(|at| ((first + at) % 251) as u8).collect();
        self.owed.extend(&bytes);
        bytes
    }

    pub(super) fn read(&mut self, who: &str, bytes: &mut [u8], around: &mut Around<'_>) -> Came {
        for message in self.wire.take(bytes, Shape::Bytes, "") {
            match message {
                Message::Begun => self.is_open = true,
                Message::Refused(status) => return Came::Refused(status),
                Message::Data { data, .. } => self.take(who, &data, around),
                other => panic!("{who} gets {other:?}"),
            }
        }
        Came::More
    }

    fn take(&mut self, who: &str, bytes: &[u8], around: &mut Around<'_>) {
        for byte in bytes {
            assert_eq!(self.owed.pop_front(), Some(*byte), "{who}: its own bytes");
        }
        around.net.add("bytes come back", bytes.len() as u64);
    }

    pub(super) fn settle(&self, who: &str) {
        assert!(self.is_open, "{who}: its handshake was not answered");
        assert!(
            self.owed.is_empty(),
            "{who}: {} bytes never came back",
            self.owed.len()
        );
    }
}
