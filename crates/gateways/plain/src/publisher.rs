//! `GET /pub` with an upgrade, on the API port: a publisher's WebSocket.
//!
//! Each message is a publication: a line with the channel, and behind it the data.
//!
//! ```text
//! CHANNEL [TAB IDEMPOTENCY-KEY] LF DATA
//! ```
//!
//! Neither a channel nor a key has control characters, so the line has one reading. Messages are
//! numbered from 1, and those of one read go to the hub together. Answers are text: `{"ack":N}`
//! confirms all messages up to number N, and `{"n":N,"status":S,"error":"…"}`, before it, refuses
//! number N.
//!
//! Owns: the messages that have no answer yet. Never: access control; the front door asks for a key
//! like for every call of the server API.
//!
//! Rule for "full": while so many messages have no answer, nothing is read; what one read gave
//! before is carried out. Queue: `publisher's messages`.
//!
//! Invariants
//! - `open` has an entry for each message after number `done`, in order; its first is not
//!   answered.
//! - The hub's token of a publication is the low half of its number.

use std::collections::VecDeque;
use std::io::Write as _;

use throng_broker::Draft;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_session::encode::ws_text;
use throng_session::{
    Caller, CloseReason, Event, Heard, PublishOutcome, WebSocket, may_touch, publish_all,
};
use throng_types::json::payload_of;
use throng_types::{ChannelError, ChannelName, Save};
use throng_ws::WsLimits;

use crate::Cx;
use crate::publish::status_of;
use crate::socket::{SERVICE_RESTART, beat};

/// The longest idempotency key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// Publication as a publisher's message requests it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPublication<'a> {
    pub channel: ChannelName,
    /// Key of the publication: a second one with the same key is answered like the first and not
    /// delivered.
    pub idempotency_key: Option<&'a str>,
    /// Payload of the publication, unchanged.
    pub data: &'a [u8],
}

/// Why a message is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPublication {
    /// The message has no line with its channel.
    NoLine,
    /// The line is not UTF-8.
    NotUtf8,
    /// The channel's name is no name.
    Channel(ChannelError),
    /// The idempotency key is empty, longer than 255 bytes, or has control characters.
    Key,
}

impl BadPublication {
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NoLine => "the message has no line with its channel",
            Self::NotUtf8 => "the line with the channel is not UTF-8",
            Self::Channel(ChannelError::Empty) => "the channel name is empty",
            Self::Channel(ChannelError::TooLong) => "the channel name is too long",
            Self::Channel(ChannelError::ControlCharacter) => {
                "the channel name has a control character"
            }
            Self::Key => "the idempotency key is empty, too long, or has a control character",
        }
    }
}

impl<'a> NewPublication<'a> {
    /// Parses a message: its line, and the data behind it.
    pub fn parse(message: &'a [u8]) -> Result<Self, BadPublication> {
        let end = message.iter().position(|&byte| byte == b'\n');
        let (line, data) = message.split_at(end.ok_or(BadPublication::NoLine)?);
        let line = str::from_utf8(line).map_err(|_| BadPublication::NotUtf8)?;
        let (channel, key) = match line.split_once('\t') {
            Some((channel, key)) => (channel, Some(key)),
            None => (line, None),
        };
        let is_key = |key: &str| {
            (1..=KEY_BYTES_MAX).contains(&key.len()) && !key.chars().any(char::is_control)
        };
        if key.is_some_and(|key| !is_key(key)) {
            return Err(BadPublication::Key);
        }
        Ok(Self {
            channel: ChannelName::new(channel).map_err(BadPublication::Channel)?,
            idempotency_key: key,
            data: &data[1..],
        })
    }
}

/// Messages that may be without an answer before reading pauses. Queue: `publisher's messages`.
const OPEN_MAX: usize = 1024;
/// Messages acknowledged at once while others are without an answer.
const ACK_EVERY: u64 = 64;
/// Bytes of a message beside its data.
const LINE_BYTES_MAX: usize = 1024;

#[derive(Save)]
#[save(check = Self::is_sound)]
pub struct PublisherSession {
    ws: WebSocket,
    /// All messages up to this number are answered.
    done: u64,
    /// The number that was acknowledged last.
    acknowledged: u64,
    /// Flags of the messages after `done`: whether each is answered. Bound: [`OPEN_MAX`], and one
    /// read's.
    #[save(skip)]
    open: VecDeque<bool>,
    is_paused: bool,
    /// Caller whose key let it in.
    caller: Caller,
    /// The server ends it as soon as all messages are answered.
    #[save(skip)]
    ends: bool,
}

impl PublisherSession {
    /// Creates a publisher whose handshake was answered.
    pub(crate) fn open(caller: Caller, cx: &mut Cx<'_>) -> Self {
        let publisher = Self {
            ws: WebSocket::new((), cx),
            done: 0,
            acknowledged: 0,
            open: VecDeque::new(),
            is_paused: false,
            caller,
            ends: false,
        };
        publisher.ws.arm(None, cx);
        publisher
    }

    /// Whether another process can go on with it: all messages are answered.
    pub(crate) fn moves(&self) -> bool {
        self.ws.moves() && self.open.is_empty() && !self.ends
    }

    /// Whether what was loaded can go on: of the answered messages, a few are to be acknowledged.
    const fn is_sound(&self) -> bool {
        self.acknowledged <= self.done
    }

    pub(crate) fn event(&mut self, event: Event<'_>, cx: &mut Cx<'_>) {
        if self.ws.is_closing() {
            return;
        }
        match event {
            Event::Bytes(input) => self.bytes(input, cx),
            Event::Timeout => self.timeout(cx),
            Event::Answer {
                token,
                answer: Answer::Published { result },
            } => self.answer(token, result, cx),
            Event::Close(why) => self.close(why, cx),
            _ => {}
        }
    }

    fn bytes(&mut self, input: &mut [u8], cx: &mut Cx<'_>) {
        if self.ends {
            return;
        }
        cx.shared.notices.called_by(&self.caller);
        let limits = WsLimits::new(cx.shared.limits.publish_bytes_max + LINE_BYTES_MAX);
        let mut drafts = Vec::new();
        let input = (input, &limits);
        WebSocket::feed((self, |one| &mut one.ws), input, cx, |one, heard, cx| {
            match heard {
                Heard::Alive => one.ws.arm(None, cx),
                Heard::Message { data, .. } => one.message(data, &mut drafts, cx),
            };
        });
        self.order(&mut drafts, cx);
        if self.open.len() >= OPEN_MAX && !self.is_paused {
            self.is_paused = true;
            cx.pause(true);
        }
    }

    /// Takes a message. Its publication is ordered with the others.
    fn message(&mut self, message: &[u8], drafts: &mut Vec<Draft>, cx: &mut Cx<'_>) {
        let refusal = match NewPublication::parse(message) {
            Ok(wanted) if may_touch(&self.caller, Some(&wanted.channel), cx).is_err() => {
                (403, "the API key is not for this channel")
            }
            Ok(wanted) => {
                self.open.push_back(false);
                drafts.push(Draft {
                    idempotency_key: wanted.idempotency_key.map(Into::into),
                    ..Draft::new(wanted.channel, payload_of(wanted.data))
                });
                return;
            }
            Err(fault) => (400, fault.sentence()),
        };
        // It has a number, so those before it are ordered by themselves.
        self.order(drafts, cx);
        self.open.push_back(true);
        let number = self.done + self.open.len() as u64;
        refuse(number, refusal, cx);
        self.pass_answered();
        self.acknowledge(cx);
    }

    /// Orders publications, those of the last messages.
    fn order(&mut self, drafts: &mut Vec<Draft>, cx: &mut Cx<'_>) {
        if drafts.is_empty() {
            return;
        }
        let counters = &cx.shared.counters;
        counters.add(Counter::PublicationsApi, drafts.len() as u64);
        let last = self.done + self.open.len() as u64;
        let first = last - drafts.len() as u64 + 1;
        publish_all(first as u32, std::mem::take(drafts), cx);
    }

    fn answer(&mut self, token: u32, result: PublishOutcome, cx: &mut Cx<'_>) {
        let first = (self.done + 1) as u32;
        let at = token.wrapping_sub(first);
        let Some(place) = self.open.get_mut(at as usize) else {
            return;
        };
        *place = true;
        if let Err(refusal) = result {
            refuse(self.done + 1 + u64::from(at), status_of(refusal), cx);
        }
        self.pass_answered();
        self.acknowledge(cx);
        if self.is_paused && self.open.len() <= OPEN_MAX / 2 {
            self.is_paused = false;
            cx.pause(false);
        }
        if self.ends {
            self.end(cx);
        }
    }

    fn pass_answered(&mut self) {
        while self.open.pop_front_if(|answered| *answered).is_some() {
            self.done += 1;
        }
        if self.open.is_empty() {
            self.open.shrink_to(OPEN_MAX);
        }
    }

    /// Acknowledges answered messages: all if no other is on its way, else in batches.
    fn acknowledge(&mut self, cx: &mut Cx<'_>) {
        let new = self.done - self.acknowledged;
        let is_due = new >= ACK_EVERY || new > 0 && self.open.is_empty();
        if is_due && !self.ws.is_closing() {
            self.acknowledged = self.done;
            let number = self.done;
            // Writing to memory does not fail.
            ws_text(cx.out, |out| _ = write!(out, "{{\"ack\":{number}}}"));
        }
    }

    fn timeout(&mut self, cx: &mut Cx<'_>) {
        beat(&mut self.ws, cx);
        self.ws.arm(None, cx);
    }

    /// The server ends it, once all that it was given is answered.
    fn close(&mut self, why: &CloseReason, cx: &mut Cx<'_>) {
        cx.count(why.counter());
        self.ends = true;
        cx.pause(true);
        self.end(cx);
    }

    fn end(&mut self, cx: &mut Cx<'_>) {
        if self.open.is_empty() {
            self.ws.close(SERVICE_RESTART, "shutdown", cx);
        }
    }
}

/// Writes the refusal of a message.
fn refuse(number: u64, (status, sentence): (u16, &str), cx: &mut Cx<'_>) {
    ws_text(cx.out, |out| {
        _ = write!(
            out,
            "{{\"n\":{number},\"status\":{status},\"error\":\"{sentence}\"}}"
        );
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_a_line_and_the_data() {
        for (message, channel, key, data) in [
            ("a\nb", "a", None, "b"),
            ("a\n", "a", None, ""),
            ("a b:c\tk 1\n\n\t\n", "a b:c", Some("k 1"), "\n\t\n"),
        ] {
            let wanted = NewPublication::parse(message.as_bytes()).unwrap();
            assert_eq!(wanted.channel.as_str(), channel, "{message:?}");
            assert_eq!(wanted.idempotency_key, key, "{message:?}");
            assert_eq!(wanted.data, data.as_bytes(), "{message:?}");
        }
        let (longest, long) = ("x".repeat(255), "x".repeat(256));
        let message = format!("{longest}\t{longest}\n");
        let wanted = NewPublication::parse(message.as_bytes()).unwrap();
        assert_eq!(wanted.idempotency_key, Some(&*longest));
        let key = "the idempotency key is empty, too long, or has a control character";
        for (message, fault, sentence) in [
            (
                String::new(),
                BadPublication::NoLine,
                "the message has no line with its channel",
            ),
            (
                "a".into(),
                BadPublication::NoLine,
                "the message has no line with its channel",
            ),
            (
                "\nb".into(),
                BadPublication::Channel(ChannelError::Empty),
                "the channel name is empty",
            ),
            (
                "a\r\nb".into(),
                BadPublication::Channel(ChannelError::ControlCharacter),
                "the channel name has a control character",
            ),
            (
                format!("{long}\nb"),
                BadPublication::Channel(ChannelError::TooLong),
                "the channel name is too long",
            ),
            ("a\t\nb".into(), BadPublication::Key, key),
            ("a\tk\tl\nb".into(), BadPublication::Key, key),
            (format!("a\t{long}\nb"), BadPublication::Key, key),
        ] {
            let parsed = NewPublication::parse(message.as_bytes());
            assert_eq!(parsed, Err(fault), "{message:?}");
            // It stands in JSON as it is.
            assert_eq!(fault.sentence(), sentence);
        }
        let fault = BadPublication::NotUtf8;
        assert_eq!(NewPublication::parse(b"\xff\nb"), Err(fault));
        assert_eq!(fault.sentence(), "the line with the channel is not UTF-8");
    }
}
