//! One connection to NATS: made, introduced and read on a thread of its own.
//!
//! The thread ends with the connection. What it reads waits in an [`throng_remote::Inbox`] until
//! the driver takes it; while that is full nothing more is read, and NATS keeps the rest or ends
//! the connection.

use std::io::{self, ErrorKind, Read, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use throng_nats_protocol::{Limits, Op, decode, write};
use throng_remote::{Dial, DialInbox, Event, Reader, Stream};

use crate::api::{self, OTHER_CONFIG, StreamSpec};
use crate::credentials::Credentials;
use crate::options::Target;

/// The most that NATS may say at once.
const LIMITS: Limits = Limits {
    line_bytes_max: 256 << 10,
    message_bytes_max: 64 << 20,
};
/// Bytes of one read.
const READ: usize = 64 << 10;
/// How often a request is made that JetStream does not answer; each time it has its part of the
/// timeout.
const ASKED_MAX: u32 = 4;
/// The number of the subscription for answers to requests.
pub(crate) const ANSWERS: u64 = 1;
/// Of what is for this node.
pub(crate) const NODE: u64 = 2;
/// Of what is for every node.
pub(crate) const EVERYBODY: u64 = 3;
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
            Op::Message {
                subject,
                sid,
                headers,
                payload,
            } => Self::Message(Message {
                sid,
                subject: subject.into(),
                status: headers.status(),
                seq: { headers.get("Nats-Sequence") }
                    .and_then(|seq| seq.parse().ok())
                    .unwrap_or_default(),
                payload: payload.into(),
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

/// Why nothing was read.
enum Unread {
    /// Nothing came in time; something may still come.
    Late,
    /// The connection cannot be used any more, in words.
    Over(String),
}

impl From<Unread> for String {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Late => "NATS does not answer".to_owned(),
            Unread::Over(why) => why,
        }
    }
}

/// What comes from NATS, on a connection or on its end that is read.
struct Incoming<S> {
    stream: S,
    /// Bytes that were read, from `taken` on. Bound: one operation and one read.
    bytes: Vec<u8>,
    taken: usize,
}

impl<S: Read> Incoming<S> {
    /// Reads the next thing that NATS says.
    fn next<T>(&mut self, mut take: impl FnMut(&Op<'_>) -> Option<T>) -> Result<T, Unread> {
        loop {
            let rest = self.bytes.get(self.taken..).unwrap_or_default();
            match decode(rest, LIMITS).map_err(|error| Unread::Over(error.to_string()))? {
                Some((op, taken)) => {
                    self.taken += taken;
                    if let Some(it) = take(&op) {
                        return Ok(it);
                    }
                }
                None => {
                    self.bytes.drain(..self.taken);
                    self.taken = 0;
                    let had = self.bytes.len();
                    self.bytes.resize(had + READ, 0);
                    let room = self.bytes.get_mut(had..).unwrap_or_default();
                    let read = self.stream.read(room);
                    self.bytes.truncate(had + *read.as_ref().unwrap_or(&0));
                    match read {
                        Ok(0) => {
                            let why = "NATS has closed the connection";
                            return Err(Unread::Over(why.to_owned()));
                        }
                        Ok(_) => {}
                        Err(error) => match error.kind() {
                            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                                return Err(Unread::Late);
                            }
                            _ => return Err(Unread::Over(error.to_string())),
                        },
                    }
                }
            }
        }
    }
}

/// A connection that is being made.
struct Making {
    incoming: Incoming<Stream>,
    /// Requests so far: each answer comes to a subject of its own.
    asked: u32,
}

impl Making {
    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let written = self.incoming.stream.write_all(bytes);
        written.map_err(|error| error.to_string())
    }

    /// Waits for one thing; any other one but a ping is not waited for.
    fn expect<T>(&mut self, take: impl Fn(&Word) -> Option<T>) -> Result<T, Unread> {
        loop {
            match self.incoming.next(Word::new)? {
                Word::Ping => self.write(b"PONG\r\n").map_err(Unread::Over)?,
                Word::Refused(why) => return Err(Unread::Over(format!("NATS refuses: {why}"))),
                word => {
                    if let Some(it) = take(&word) {
                        return Ok(it);
                    }
                }
            }
        }
    }

    /// Asks JetStream, and once more if no answer comes: a server may lose a request while it makes
    /// the same stream for somebody else, and those that are made here may be made twice.
    fn ask(&mut self, dial: &NatsDial, subject: &str, body: &str) -> Result<Box<[u8]>, String> {
        self.incoming
            .stream
            .set_read_timeout(dial.timeout / ASKED_MAX)
            .map_err(|error| error.to_string())?;
        for _ in 0..ASKED_MAX {
            self.asked += 1;
            // Not a number, as those of the driver's own requests are.
            let reply = dial.subjects[0].replace('*', &format!("dial-{}", self.asked));
            let mut out = Vec::new();
            write::publish(&mut out, subject, Some(&reply), &[], body.as_bytes());
            self.write(&out)?;
            let answer = self.expect(|word| match word {
                Word::Message(message) if *message.subject == *reply => {
                    Some((message.status, message.payload.clone()))
                }
                _ => None,
            });
            match answer {
                Ok((None, payload)) => return Ok(payload),
                Ok((Some(_), _)) => {
                    return Err("JetStream does not answer; is it enabled?".to_owned());
                }
                Err(Unread::Late) => tracing::debug!(subject, "JetStream did not answer"),
                Err(Unread::Over(why)) => return Err(why),
            }
        }
        Err(format!("JetStream does not answer {subject}"))
    }
}

impl Dial for NatsDial {
    type Hello = Established;
    type Word = Word;

    fn run(self, link: u64, inbox: &Arc<DialInbox<Self>>) -> String {
        match self.connect() {
            Ok((established, made)) => read(link, established, made.incoming, inbox),
            Err(why) => format!("{}:{}: {why}", self.target.host, self.target.port),
        }
    }
}

fn read(
    link: u64,
    established: Established,
    made: Incoming<Stream>,
    inbox: &DialInbox<NatsDial>,
) -> String {
    let (reader, writer) = match made.stream.split() {
        Ok(ends) => ends,
        Err(error) => return error.to_string(),
    };
    let mut incoming: Incoming<Reader> = Incoming {
        stream: reader,
        bytes: made.bytes,
        taken: made.taken,
    };
    if !inbox.put(link, Event::Up((established, writer))) {
        return String::new();
    }
    loop {
        match incoming.next(Word::new) {
            Ok(word) => {
                let bytes = word.bytes();
                if !inbox.put(link, Event::Word(word, bytes)) {
                    incoming.stream.shut_down();
                    return String::new();
                }
            }
            Err(why) => return why.into(),
        }
    }
}

impl NatsDial {
    fn connect(&self) -> Result<(Established, Making), String> {
        let fail = |error: io::Error| error.to_string();
        let target = &self.target;
        let stream = Stream::connect(&target.host, target.port, self.timeout).map_err(fail)?;
        let mut incoming = Incoming {
            stream,
            bytes: Vec::new(),
            taken: 0,
        };
        let info = incoming.next(|op| match op {
            Op::Info(info) => Some(serde_json::from_slice::<Value>(info).unwrap_or_default()),
            _ => None,
        })?;
        if info["headers"] != true {
            return Err("NATS is older than 2.9, or has no headers".to_owned());
        }
        if target.is_tls || info["tls_required"] == true {
            // Nobody may have said more before TLS than NATS does.
            if incoming.bytes.len() > incoming.taken {
                return Err("NATS said something before TLS".to_owned());
            }
            let trust = throng_remote::trust(self.authorities.as_deref())?;
            incoming.stream = incoming.stream.secure(&target.host, &trust)?;
        }
        let mut made = Making { incoming, asked: 0 };
        let options = self.introduction(&info)?;
        let mut out = Vec::new();
        write::connect(&mut out, &options.to_string());
        for (subject, sid) in self.subjects.iter().zip([ANSWERS, NODE, EVERYBODY]) {
            write::subscribe(&mut out, subject, sid);
        }
        write::ping(&mut out);
        made.write(&out)?;
        made.expect(|word| matches!(word, Word::Pong).then_some(()))?;
        for stream in &self.streams {
            self.make(&mut made, stream)?;
        }
        let is_clustered = info["cluster"].is_string();
        let id = info["server_id"].as_str().unwrap_or_default();
        let established = Established {
            server: if is_clustered { 1 } else { hash(id) },
            is_clustered,
            payload_max: info["max_payload"].as_u64().unwrap_or(1 << 20) as usize,
        };
        Ok((established, made))
    }

    /// What `CONNECT` says of us, who we are among it.
    fn introduction(&self, info: &Value) -> Result<Value, String> {
        let mut options = json!({
            "verbose": false, "pedantic": false, "headers": true, "no_responders": true,
            "protocol": 1, "lang": "rust", "name": "throng", "version": env!("CARGO_PKG_VERSION"),
        });
        if let Some(path) = &self.credentials {
            let at = path.display();
            let text = std::fs::read_to_string(path).map_err(|error| format!("{at}: {error}"))?;
            let ours = Credentials::read(&text);
            let ours = ours.ok_or_else(|| format!("{at} has no seed of a user (SU...)"))?;
            let nonce = info["nonce"].as_str().unwrap_or_default();
            options["sig"] = json!(ours.sign(nonce));
            match ours.jwt {
                Some(jwt) => options["jwt"] = json!(jwt),
                None => options["nkey"] = json!(ours.public()),
            }
            return Ok(options);
        }
        match (&self.target.user, &self.target.secret) {
            (Some(user), Some(password)) => {
                options["user"] = json!(user);
                options["pass"] = json!(password);
            }
            (None, Some(token)) => options["auth_token"] = json!(token),
            _ => {}
        }
        Ok(options)
    }

    /// Makes a stream, or makes it what it is to be.
    fn make(&self, reader: &mut Making, stream: &StreamSpec) -> Result<(), String> {
        let info = format!("$JS.API.STREAM.INFO.{}", stream.name);
        if stream.is_as_wanted(&reader.ask(self, &info, "")?) {
            return Ok(());
        }
        let config = stream.config();
        let mut made = Ok(());
        for verb in ["CREATE", "UPDATE"] {
            let subject = format!("$JS.API.STREAM.{verb}.{}", stream.name);
            made = api::done(&reader.ask(self, &subject, &config)?);
            if !matches!(&made, Err(error) if error.code == OTHER_CONFIG) {
                break;
            }
        }
        // Another node may have made it at the same time.
        if made.is_err() && stream.is_as_wanted(&reader.ask(self, &info, "")?) {
            return Ok(());
        }
        made.map_err(|error| format!("stream {}: {}", stream.name, error.text))
    }
}

/// FNV-1a, of 64 bits.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
