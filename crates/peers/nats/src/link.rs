//! One connection to NATS: made and introduced by a task, and what comes on it afterwards.

use std::path::PathBuf;

use throng_nats_link::{CredentialsFile, Handshake, NatsLink, ServerAddress};
use throng_nats_protocol::{Decoder, Op};
use throng_peer::task::{self, Net};
use throng_remote::{Connector, Messages};
use throng_types::fnv1a;

use crate::api::{self, OTHER_CONFIG, StreamSpec};

/// Between two looks whether a stream is made, in milliseconds.
const AGAIN_MS: u64 = 20;
/// The most copies of a stream, and the first version that is right for so many.
const FIRST: [(u8, [u64; 3]); 2] = [(1, [2, 9, 0]), (u8::MAX, [2, 9, 25])];
/// The number of the subscription for answers to requests.
pub(crate) const ANSWERS: u64 = 1;
/// The one for messages to this node.
pub(crate) const NODE: u64 = 2;
/// The one for messages to every node.
pub(crate) const EVERYBODY: u64 = 3;
/// The one for messages to this node by its name.
pub(crate) const NAMED: u64 = 4;
/// The first for a channel.
pub(crate) const CHANNELS: u64 = 16;

pub struct NatsConnector {
    pub(crate) target: ServerAddress,
    /// Credentials in place of the URL's user.
    pub(crate) credentials: Option<CredentialsFile>,
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) timeout_ms: u64,
    /// Subjects for [`ANSWERS`], [`NODE`] and [`EVERYBODY`].
    pub(crate) subjects: [String; 3],
    /// Number of servers that keep each stream.
    pub(crate) replicas: u8,
    /// Streams that must be there.
    pub(crate) streams: Vec<StreamSpec>,
}

#[derive(Clone, Copy, Debug)]
pub struct NatsServer {
    /// Server process that stores, as far as that matters; see the head of the crate.
    pub(crate) server: u64,
    /// Followers answer too, and may be behind.
    pub(crate) is_clustered: bool,
    /// The longest message that NATS takes.
    pub(crate) payload_max: usize,
}

#[derive(Debug)]
pub struct Message {
    pub(crate) sid: u64,
    pub(crate) subject: Box<str>,
    /// 503 if the request has no receiver, 404 if there is no such message.
    pub(crate) status: Option<u16>,
    /// Sequence of a message of a stream; otherwise 0.
    pub(crate) seq: u64,
    /// The token of its idempotency key.
    pub(crate) key: Option<Box<str>>,
    /// Value of the header [`api::TRACES`], if it is there.
    pub(crate) traces: Option<Box<str>>,
    pub(crate) payload: Box<[u8]>,
}

#[derive(Debug)]
pub enum NatsMessage {
    Ping,
    Pong,
    Message(Message),
    /// Error that NATS sends, between quotes.
    Refused(String),
}

impl NatsMessage {
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
                traces: it.headers.get(api::TRACES).map(Into::into),
                payload: it.payload.into(),
            }),
        })
    }
}

pub struct NatsMessages(Decoder);

impl Messages for NatsMessages {
    type Message = NatsMessage;

    fn feed(&mut self, bytes: &[u8]) {
        self.0.feed(bytes);
    }

    fn next(&mut self) -> Result<Option<NatsMessage>, String> {
        while let Some(op) = self.0.next_op().map_err(|error| error.to_string())? {
            if let Some(incoming) = NatsMessage::new(&op) {
                return Ok(Some(incoming));
            }
        }
        Ok(None)
    }
}

impl Connector for NatsConnector {
    type Handshake = NatsServer;
    type Messages = NatsMessages;

    async fn connect(
        &mut self,
        net: &Net,
    ) -> Result<(NatsServer, task::Link, NatsMessages), String> {
        let at = format!("{}:{}", self.target.host, self.target.port);
        let made = self.introduce(net).await;
        let (established, link) = made.map_err(|why| format!("{at}: {why}"))?;
        let (link, decoder) = link.into_parts();
        Ok((established, link, NatsMessages(decoder)))
    }
}

impl NatsConnector {
    async fn introduce(&self, net: &Net) -> Result<(NatsServer, NatsLink), String> {
        let [answers, node, everybody] = &self.subjects;
        let handshake = Handshake {
            target: &self.target,
            credentials: self.credentials.as_ref(),
            authorities: self.authorities.as_deref(),
            timeout_ms: self.timeout_ms,
            // Not a number, as those of the driver's own requests are.
            replies: &answers.replace('*', "dial-"),
        };
        let subjects = [(&**answers, ANSWERS), (node, NODE), (everybody, EVERYBODY)];
        let (info, mut link) = handshake.connect(net, &subjects).await?;
        check(&info.version, self.replicas)?;
        for stream in &self.streams {
            self.make(net, &mut link, stream).await?;
        }
        let established = NatsServer {
            server: if info.is_clustered {
                1
            } else {
                fnv1a(&info.id)
            },
            is_clustered: info.is_clustered,
            payload_max: info.payload_max,
        };
        Ok((established, link))
    }

    /// Makes a stream, or makes it what it is to be.
    async fn make(
        &self,
        net: &Net,
        link: &mut NatsLink,
        stream: &StreamSpec,
    ) -> Result<(), String> {
        if self.stands(net, link, stream).await? {
            return Ok(());
        }
        let config = stream.config();
        let mut made = Ok(());
        for verb in ["CREATE", "UPDATE"] {
            let subject = format!("$JS.API.STREAM.{verb}.{}", stream.name);
            made = api::done(&link.ask(&subject, &config, |_| {}).await?);
            if !matches!(&made, Err(error) if error.code == OTHER_CONFIG) {
                break;
            }
        }
        // Another node may have made it at the same time, or may not be done yet.
        if self.stands(net, link, stream).await? {
            return Ok(());
        }
        made.map_err(|error| format!("stream {}: {}", stream.name, error.text))
    }

    /// Whether a stream is there as it is wanted. Waits for one that is still being made: it is
    /// told of and has no storage yet, and a question for its subjects ends the whole server
    /// (nats-server 2.9.10, `jsStreamInfoRequest`).
    async fn stands(
        &self,
        net: &Net,
        link: &mut NatsLink,
        stream: &StreamSpec,
    ) -> Result<bool, String> {
        let info = format!("$JS.API.STREAM.INFO.{}", stream.name);
        let begun = net.now().mono;
        loop {
            let answer = link.ask(&info, "", |_| {}).await?;
            if !api::is_being_made(&answer) {
                return Ok(stream.is_as_wanted(&answer));
            }
            if net.now().mono - begun > self.timeout_ms {
                return Err(format!("stream {} is being made for too long", stream.name));
            }
            net.sleep(AGAIN_MS).await;
        }
    }
}

/// Refuses a server that does not keep what the broker rests on.
///
/// With one copy of a stream, `Nats-Expected-Last-Subject-Sequence` is compared where the message
/// is stored. With several, old servers compare it before they agree on the message: of three that
/// expect one sequence, two are often acknowledged (2.9.10: in 143 of 200 rounds; 2.9.25, 2.10.0
/// and 2.10.29: in none of 200).
fn check(version: &str, replicas: u8) -> Result<(), String> {
    let least = FIRST.iter().find(|(most, _)| replicas <= *most);
    let Some((_, least)) = least else {
        return Ok(());
    };
    // `2.12.0-RC.1` is 2.12.0.
    let number = version.split('-').next().unwrap_or_default();
    let mut numbers = number.split('.').map(|it| it.parse::<u64>().ok());
    let numbers = [(); 3].map(|()| numbers.next().flatten().unwrap_or_default());
    if numbers >= *least {
        return Ok(());
    }
    let [major, minor, patch] = least;
    let least = format!("{major}.{minor}.{patch}");
    Err(match replicas {
        1 => format!("NATS is version {version:?}, and {least} is the oldest that Throng can use"),
        _ => format!(
            "NATS is version {version:?}, which loses acknowledged publications where \
             broker.replicas is {replicas}: use NATS {least} or later on all of its servers, or \
             one server and broker.replicas = 1"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn versions_are_right_for_so_many_copies() {
        for (version, one, three) in [
            ("2.8.4", false, false),
            ("2.9.0", true, false),
            ("2.9.10", true, false),
            ("2.9.24", true, false),
            ("2.9.25", true, true),
            ("2.10.0", true, true),
            ("2.12.0-RC.1", true, true),
            ("3.0.0", true, true),
            ("", false, false),
            ("x", false, false),
        ] {
            let right = [1, 3].map(|replicas| check(version, replicas).is_ok());
            assert_eq!(right, [one, three], "{version}");
        }
        let why = check("2.9.10", 3).unwrap_err();
        assert!(
            why.contains("2.9.25") && why.contains("broker.replicas"),
            "{why}"
        );
    }
}
