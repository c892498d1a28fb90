//! One connection to NATS: questions and their answers, messages that were asked for.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write as _;
use std::time::{Duration, Instant};

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use throng_nats_link::{Door, Incoming, Target, Unread};
use throng_nats_protocol::{Op, write};
use throng_remote::Stream;

use super::message::Message;
use super::options::NatsOptions;
use crate::source::{ANSWER, Fault};

/// How long the last words may take.
const LAST: Duration = Duration::from_millis(500);
/// The number of the subscription for answers; those for messages come behind it.
const ANSWERS: u64 = 1;
/// Bytes that are kept back to be written at once.
const OUT_BYTES_MAX: usize = 64 << 10;
/// How often something is said that JetStream does not answer: while a leader is chosen, nobody
/// hears it. Each time has its part of [`ANSWER`].
pub(super) const ASKED_MAX: u32 = 4;

/// An answer, or the end of a request for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The number of the question.
    pub(super) number: u64,
    /// Something like HTTP's, if there is no answer proper.
    pub(super) status: Option<u16>,
    /// In words.
    pub(super) text: String,
    payload: Vec<u8>,
}

/// What is said to us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Message(Message),
    Answer(Answer),
}

/// What comes.
enum Heard {
    Word(Word),
    Ping,
    Pong,
    Refused(String),
}

pub(super) struct Link {
    incoming: Incoming<Stream>,
    /// `host:port`, for those who read faults.
    at: String,
    channel_header: String,
    /// Begins the subjects of answers.
    inbox: String,
    /// Questions so far: each has an answer of its own.
    asked: u64,
    /// The number of the subscription for messages.
    pulls: u64,
    /// What came while an answer was waited for. Bound: what was asked for.
    early: VecDeque<Word>,
    /// Bound: [`OUT_BYTES_MAX`] and one command.
    out: Vec<u8>,
}

impl Link {
    /// Connects to the first server that lets us in.
    pub(super) fn connect(options: &NatsOptions) -> Result<Self, Fault> {
        let mut last = Fault::new("it has no address");
        for target in &options.targets {
            match Self::connect_to(target, options) {
                Ok(link) => return Ok(link),
                Err(fault) => last = Fault(format!("{}:{}: {fault}", target.host, target.port)),
            }
        }
        Err(last)
    }

    fn connect_to(target: &Target, options: &NatsOptions) -> Result<Self, Fault> {
        let door = Door {
            target,
            credentials: options.credentials.as_deref(),
            authorities: None,
            timeout: ANSWER,
        };
        let (_, incoming) = door.connect().map_err(Fault)?;
        let mut token = [0; 12];
        rand::fill(&mut token).map_err(|_| Fault::new("no random bytes"))?;
        let mut link = Self {
            incoming,
            at: format!("{}:{}", target.host, target.port),
            channel_header: options.channel_header.clone(),
            inbox: format!("_INBOX.throng.{}", URL_SAFE_NO_PAD.encode(token)),
            asked: 0,
            pulls: ANSWERS + 1,
            early: VecDeque::new(),
            out: Vec::new(),
        };
        for sid in [ANSWERS, link.pulls] {
            write::subscribe(&mut link.out, &format!("{}.{sid}.*", link.inbox), sid);
        }
        write::ping(&mut link.out);
        link.flush()?;
        loop {
            match link.hear(ANSWER)? {
                Some(Heard::Pong) => return Ok(link),
                Some(Heard::Refused(why)) => return Err(Fault(why)),
                Some(_) => {}
                None => return Err(Fault::new("it does not answer")),
            }
        }
    }

    /// Asks JetStream, and waits for the answer.
    pub(super) fn ask(&mut self, subject: &str, body: &str) -> Result<Value, Fault> {
        let first = self.asked + 1;
        for _ in 0..ASKED_MAX {
            self.request(ANSWERS, subject, body)?;
            let until = Instant::now() + ANSWER / ASKED_MAX;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match self.read(left)? {
                    Some(Word::Answer(answer)) if answer.number >= first => {
                        if answer.status.is_some() {
                            return Err(Fault::new("JetStream does not answer; is it enabled?"));
                        }
                        let read = serde_json::from_slice(&answer.payload);
                        return read.map_err(|_| Fault::new("it does not speak like JetStream"));
                    }
                    Some(word) => self.early.push_back(word),
                    None => break,
                }
            }
        }
        Err(Fault(format!("{}: it does not answer", self.at)))
    }

    /// Asks for messages; gives the number of the request.
    pub(super) fn pull(&mut self, subject: &str, body: &str) -> Result<u64, Fault> {
        self.request(self.pulls, subject, body)
    }

    fn request(&mut self, sid: u64, subject: &str, body: &str) -> Result<u64, Fault> {
        let number = self.next_number();
        let reply = format!("{}.{sid}.{number}", self.inbox);
        write::publish(&mut self.out, subject, Some(&reply), &[], body.as_bytes());
        self.flush()?;
        Ok(number)
    }

    /// A number for a question.
    pub(super) const fn next_number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// The server forgets what was asked for: nobody hears it any more.
    pub(super) fn forget_pulls(&mut self) -> Result<(), Fault> {
        write::unsubscribe(&mut self.out, self.pulls);
        self.pulls += 1;
        let subject = format!("{}.{}.*", self.inbox, self.pulls);
        write::subscribe(&mut self.out, &subject, self.pulls);
        self.flush()
    }

    /// What was on its way when the server forgot what was asked for.
    pub(super) fn last_messages(&mut self) -> Vec<Message> {
        let mut words: Vec<Word> = self.early.drain(..).collect();
        write::ping(&mut self.out);
        if self.flush().is_ok() {
            let until = Instant::now() + LAST;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                match self.hear(left) {
                    Ok(Some(Heard::Word(word))) => words.push(word),
                    Ok(Some(Heard::Ping)) => {}
                    _ => break,
                }
            }
        }
        let message = |word| match word {
            Word::Message(message) => Some(message),
            Word::Answer(_) => None,
        };
        words.into_iter().filter_map(message).collect()
    }

    /// Acknowledges messages; for each of them an answer with its number comes.
    pub(super) fn acknowledge(&mut self, replies: &BTreeMap<u64, String>) -> Result<(), Fault> {
        for (number, reply) in replies {
            let answer = format!("{}.{ANSWERS}.{number}", self.inbox);
            write::publish(&mut self.out, reply, Some(&answer), &[], b"+ACK");
        }
        self.flush()
    }

    /// The message may be given to anybody again; to be flushed.
    pub(super) fn give_back(&mut self, reply: &str) -> Result<(), Fault> {
        write::publish(&mut self.out, reply, None, &[], b"-NAK");
        match self.out.len() > OUT_BYTES_MAX {
            true => self.flush(),
            false => Ok(()),
        }
    }

    /// Writes what waits.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        self.incoming.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// The next word; none if nothing comes in time.
    pub(super) fn next(&mut self, wait: Duration) -> Result<Option<Word>, Fault> {
        match self.early.pop_front() {
            Some(word) => Ok(Some(word)),
            None => self.read(wait),
        }
    }

    fn read(&mut self, wait: Duration) -> Result<Option<Word>, Fault> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.hear(left)? {
                Some(Heard::Word(word)) => return Ok(Some(word)),
                Some(Heard::Ping) => {
                    write::pong(&mut self.out);
                    self.flush()?;
                }
                Some(Heard::Pong) => {}
                Some(Heard::Refused(why)) => return Err(Fault(format!("{}: {why}", self.at))),
                None => return Ok(None),
            }
        }
    }

    fn hear(&mut self, wait: Duration) -> Result<Option<Heard>, Fault> {
        let header = self.channel_header.as_str();
        self.incoming.stream.set_read_timeout(wait)?;
        match self.incoming.next(|op| heard(op, header)) {
            Ok(heard) => Ok(Some(heard)),
            Err(Unread::Late) => Ok(None),
            Err(Unread::Over(why)) => Err(Fault(format!("{}: {why}", self.at))),
        }
    }
}

/// What concerns us of what a server says.
fn heard(op: &Op<'_>, channel_header: &str) -> Option<Heard> {
    let (subject, sid, reply, headers, payload) = match *op {
        Op::Ping => return Some(Heard::Ping),
        Op::Pong => return Some(Heard::Pong),
        Op::Error(why) => {
            let why = String::from_utf8_lossy(why);
            return Some(Heard::Refused(format!("it refuses: {why}")));
        }
        Op::Info(_) | Op::Okay => return None,
        Op::Message {
            subject,
            sid,
            reply,
            headers,
            payload,
        } => (subject, sid, reply, headers, payload),
    };
    if sid != ANSWERS
        && let Some(reply) = reply
        && let Some(message) = Message::read(subject, reply, headers, payload, channel_header)
    {
        return Some(Heard::Word(Word::Message(message)));
    }
    let number = subject.rsplit('.').next()?.parse().ok()?;
    Some(Heard::Word(Word::Answer(Answer {
        number,
        status: headers.status(),
        text: headers.status_text().unwrap_or_default().to_owned(),
        payload: payload.to_vec(),
    })))
}
