//! One connection to NATS: made, introduced and read on a thread of its own.
//!
//! The thread ends with the connection. What it reads waits in an [`throng_remote::Inbox`] until
//! the driver takes it; while that is full nothing more is read, and NATS keeps the rest or ends
//! the connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use throng_nats_link::{Door, Link, Target};
use throng_nats_protocol::Op;
use throng_remote::{Dial, DialInbox, Event};

use crate::api::{self, OTHER_CONFIG, StreamSpec};
use crate::version;

/// Between two looks whether a stream is made.
const AGAIN: Duration = Duration::from_millis(20);
/// The number of the subscription for answers to requests.
pub(crate) const ANSWERS: u64 = 1;
/// Of what is for this node.
pub(crate) const NODE: u64 = 2;
/// Of what is for every node.
pub(crate) const EVERYBODY: u64 = 3;
/// Of what is for this node by its name.
pub(crate) const NAMED: u64 = 4;
/// The first for a channel.
pub(crate) const CHANNELS: u64 = 16;

/// How to connect.
pub(crate) struct NatsDial {
    pub(crate) target: Target,
    /// The file with who we are, in place of what the URL says.
    pub(crate) credentials: Option<PathBuf>,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) timeout: Duration,
    /// Subjects for [`ANSWERS`], [`NODE`] and [`EVERYBODY`].
    pub(crate) subjects: [String; 3],
    /// Number of servers that keep each stream.
    pub(crate) replicas: u8,
    /// Streams that must be there.
    pub(crate) streams: Vec<StreamSpec>,
}

/// A connection that stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Established {
    /// Which server process stores, as far as that matters; see the head of the crate.
    pub(crate) server: u64,
    /// Followers answer too, and may be behind.
    pub(crate) is_clustered: bool,
    /// The longest message that NATS takes.
    pub(crate) payload_max: usize,
}

/// A message for a subscription.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) sid: u64,
    pub(crate) subject: Box<str>,
    /// 503 if nobody takes the request, 404 if there is no such message.
    pub(crate) status: Option<u16>,
    /// Of a message of a stream.
    pub(crate) seq: u64,
    /// The token of its idempotency key.
    pub(crate) key: Option<Box<str>>,
    pub(crate) payload: Box<[u8]>,
}

/// What NATS says.
#[derive(Debug)]
pub(crate) enum Word {
    Ping,
    Pong,
    Message(Message),
    /// In words.
    Refused(String),
}

impl Word {
    fn new(op: &Op<'_>) -> Option<Self> {
        Some(match *op {
            Op::Info(_) | Op::Okay => return None,
            Op::Ping => Self::Ping,
            Op::Pong => Self::Pong,
            Op::Error(text) => Self::Refused(String::from_utf8_lossy(text).into_owned()),
            Op::Message(it) => Self::Message(Message {
                sid: it.sid,
                subject: it.subject.into(),
                status: it.headers.status(),
                seq: { it.headers.get("Nats-Sequence") }
                    .and_then(|seq| seq.parse().ok())
                    .unwrap_or_default(),
                key: it.headers.get(api::KEY).map(Into::into),
                payload: it.payload.into(),
            }),
        })
    }

    const fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Message(message) => message.subject.len() + message.payload.len(),
                _ => 0,
            }
    }
}

impl Dial for NatsDial {
    type Hello = Established;
    type Word = Word;

    fn run(self, link: u64, inbox: &Arc<DialInbox<Self>>) -> String {
        let ends = match self.connect() {
            Ok((established, made)) => made.split().map(|ends| (established, ends)),
            Err(why) => Err(format!("{}:{}: {why}", self.target.host, self.target.port)),
        };
        let (established, (mut incoming, writer)) = match ends {
            Ok(ends) => ends,
            Err(why) => return why,
        };
        if !inbox.put(link, Event::Up((established, writer))) {
            return String::new();
        }
        loop {
            match incoming.next(Word::new) {
                Ok(word) => {
                    let bytes = word.bytes();
                    if !inbox.put(link, Event::Word(word, bytes)) {
                        incoming.shut_down();
                        return String::new();
                    }
                }
                Err(why) => return why,
            }
        }
    }
}

impl NatsDial {
    fn connect(&self) -> Result<(Established, Link), String> {
        let [answers, node, everybody] = &self.subjects;
        let door = Door {
            target: &self.target,
            credentials: self.credentials.as_deref(),
            authorities: self.authorities.as_deref(),
            timeout: self.timeout,
            // Not a number, as those of the driver's own requests are.
            replies: &answers.replace('*', "dial-"),
        };
        let subjects = [(&**answers, ANSWERS), (node, NODE), (everybody, EVERYBODY)];
        let (info, mut link) = door.connect(&subjects)?;
        version::check(&info.version, self.replicas)?;
        for stream in &self.streams {
            self.make(&mut link, stream)?;
        }
        let established = Established {
            server: if info.is_clustered { 1 } else { hash(&info.id) },
            is_clustered: info.is_clustered,
            payload_max: info.payload_max,
        };
        Ok((established, link))
    }

    /// Makes a stream, or makes it what it is to be.
    fn make(&self, link: &mut Link, stream: &StreamSpec) -> Result<(), String> {
        if self.stands(link, stream)? {
            return Ok(());
        }
        let config = stream.config();
        let mut made = Ok(());
        for verb in ["CREATE", "UPDATE"] {
            let subject = format!("$JS.API.STREAM.{verb}.{}", stream.name);
            made = api::done(&link.ask(&subject, &config, |_| {})?);
            if !matches!(&made, Err(error) if error.code == OTHER_CONFIG) {
                break;
            }
        }
        // Another node may have made it at the same time, or may not be done yet.
        if self.stands(link, stream)? {
            return Ok(());
        }
        made.map_err(|error| format!("stream {}: {}", stream.name, error.text))
    }

    /// Whether a stream is there as it is wanted. Waits for one that is still being made: it is
    /// told of and has no storage yet, and a question for its subjects ends the whole server
    /// (nats-server 2.9.10, `jsStreamInfoRequest`).
    fn stands(&self, link: &mut Link, stream: &StreamSpec) -> Result<bool, String> {
        let info = format!("$JS.API.STREAM.INFO.{}", stream.name);
        let begun = Instant::now();
        loop {
            let answer = link.ask(&info, "", |_| {})?;
            if !api::is_being_made(&answer) {
                return Ok(stream.is_as_wanted(&answer));
            }
            if begun.elapsed() > self.timeout {
                return Err(format!("stream {} is being made for too long", stream.name));
            }
            thread::sleep(AGAIN);
        }
    }
}

/// FNV-1a, of 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
