//! One connection to NATS: questions and their answers, messages that were asked for.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use throng_nats_link::{CredentialsFile, Handshake, ServerAddress};
use throng_nats_protocol::{ApiError, Op, write};
use throng_types::Millis;

use super::message::Message;
use super::options::NatsFeedOptions;
use crate::source::{ANSWER_MS, Fault, Setup};

pub(super) use throng_nats_link::ASKED_MAX;

/// Bound of the wait for the last words, in milliseconds.
const LAST_MS: u64 = 500;
/// The number of the subscription for answers; those for messages come behind it.
const ANSWERS: u64 = 1;
/// Bytes that are kept back to be written at once.
const OUT_BYTES_MAX: usize = 64 << 10;

/// The answer to an acknowledgement, or the end of a request for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) number: u64,
    /// Something like HTTP's, if there is no answer proper.
    pub(super) status: Option<u16>,
    pub(super) text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Message(Message),
    Answer(Answer),
}

impl Word {
    fn read(message: &throng_nats_protocol::Message<'_>, channel_header: &str) -> Option<Self> {
        if message.sid != ANSWERS
            && let Some(message) = Message::read(message, channel_header)
        {
            return Some(Self::Message(message));
        }
        Some(Self::Answer(Answer {
            number: message.subject.rsplit('.').next()?.parse().ok()?,
            status: message.headers.status(),
            text: { message.headers.status_text() }
                .unwrap_or_default()
                .to_owned(),
        }))
    }
}

pub(super) struct Link {
    link: throng_nats_link::NatsLink,
    /// `host:port`, for messages about faults.
    at: String,
    channel_header: String,
    /// Begins the subjects of answers.
    inbox: String,
    /// The number of the subscription for messages.
    pulls: u64,
    /// Words that came while an answer was waited for. Bound: what was asked for.
    early: VecDeque<Word>,
}

impl Link {
    /// Connects to the first server that lets us in.
    pub(super) async fn connect(
        options: &NatsFeedOptions,
        setup: &mut Setup,
    ) -> Result<Self, Fault> {
        let mut last = Fault::new("it has no address");
        for target in &options.targets {
            match Self::connect_to(target, options, setup).await {
                Ok(link) => return Ok(link),
                Err(fault) => last = Fault(format!("{}:{}: {fault}", target.host, target.port)),
            }
        }
        Err(last)
    }

    async fn connect_to(
        target: &ServerAddress,
        options: &NatsFeedOptions,
        setup: &mut Setup,
    ) -> Result<Self, Fault> {
        let token: [u8; 12] = setup.rng.bytes();
        let inbox = format!("_INBOX.throng.{}", URL_SAFE_NO_PAD.encode(token));
        let credentials = { options.reads.credentials.clone() }.map(|path| CredentialsFile {
            path,
            read: setup.read_file,
        });
        let handshake = Handshake {
            target,
            credentials: credentials.as_ref(),
            authorities: None,
            timeout_ms: ANSWER_MS,
            replies: &format!("{inbox}.{ANSWERS}."),
        };
        let pulls = ANSWERS + 1;
        let subjects = [ANSWERS, pulls].map(|sid| (format!("{inbox}.{sid}.*"), sid));
        let [answers, messages] = subjects.each_ref().map(|(subject, sid)| (&**subject, *sid));
        let connected = handshake.connect(&setup.net, &[answers, messages]).await;
        let (_, link) = connected.map_err(Fault)?;
        Ok(Self {
            link,
            at: format!("{}:{}", target.host, target.port),
            channel_header: options.reads.channel_header.clone(),
            inbox,
            pulls,
            early: VecDeque::new(),
        })
    }

    /// Asks JetStream, and waits for the answer.
    pub(super) async fn ask(
        &mut self,
        subject: &str,
        body: &str,
    ) -> Result<Result<Value, ApiError>, Fault> {
        let (early, header) = (&mut self.early, &*self.channel_header);
        let answer = self.link.ask(subject, body, |message| {
            early.extend(Word::read(message, header));
        });
        let answer = answer
            .await
            .map_err(|why| Fault(format!("{}: {why}", self.at)))?;
        Ok(throng_nats_protocol::answer(&answer))
    }

    /// Asks for messages; gives the number of the request.
    pub(super) async fn pull(&mut self, subject: &str, body: &str) -> Result<u64, Fault> {
        let replies = format!("{}.{}.", self.inbox, self.pulls);
        let number = self.link.request(&replies, subject, body).await;
        number.map_err(Fault)
    }

    pub(super) const fn next_number(&mut self) -> u64 {
        self.link.next_number()
    }

    /// Withdraws the request at the server: its messages are not read any more.
    pub(super) async fn forget_pulls(&mut self) -> Result<(), Fault> {
        write::unsubscribe(&mut self.link.out, self.pulls);
        self.pulls += 1;
        let subject = format!("{}.{}.*", self.inbox, self.pulls);
        write::subscribe(&mut self.link.out, &subject, self.pulls);
        self.flush().await
    }

    /// Messages that were on their way when the server forgot what was asked for.
    pub(super) async fn last_messages(&mut self) -> Vec<Message> {
        let (words, header) = (&mut self.early, &*self.channel_header);
        let _ = self
            .link
            .ping(LAST_MS, |message| words.extend(Word::read(message, header)))
            .await;
        let message = |word| match word {
            Word::Message(message) => Some(message),
            Word::Answer(_) => None,
        };
        words.drain(..).filter_map(message).collect()
    }

    /// Acknowledges messages; for each of them an answer with its number comes.
    pub(super) async fn acknowledge(
        &mut self,
        replies: &BTreeMap<u64, String>,
    ) -> Result<(), Fault> {
        for (number, reply) in replies {
            let answer = format!("{}.{ANSWERS}.{number}", self.inbox);
            write::publish(&mut self.link.out, reply, Some(&answer), &[], b"+ACK");
        }
        self.flush().await
    }

    /// The message may be given to anybody again; to be flushed.
    pub(super) async fn give_back(&mut self, reply: &str) -> Result<(), Fault> {
        write::publish(&mut self.link.out, reply, None, &[], b"-NAK");
        match self.link.out.len() > OUT_BYTES_MAX {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), Fault> {
        self.link.flush().await.map_err(Fault)
    }

    /// The next word; none if nothing comes until then.
    pub(super) async fn next(&mut self, until: Millis) -> Result<Option<Word>, Fault> {
        if let Some(word) = self.early.pop_front() {
            return Ok(Some(word));
        }
        let header = &*self.channel_header;
        let word = self.link.next(until, |op| match op {
            Op::Message(message) => Word::read(message, header),
            _ => None,
        });
        word.await
            .map_err(|why| Fault(format!("{}: {why}", self.at)))
    }
}
