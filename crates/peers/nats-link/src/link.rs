//! One connection: commands that leave on it, and operations that come.

use std::path::{Path, PathBuf};

use throng_nats_protocol::{
    Credentials, Decoder, Limits, Message, Op, ServerAddress, ServerInfo, introduce, write,
};
use throng_peer::task::{self, Either, Net, first};
use throng_peer::{Dial, DialTls, Ended};
use throng_types::Millis;

/// Tries of a request that JetStream does not answer: while a leader is chosen, or the
/// same stream is made for another client, the request has no receiver. Each time has its part of
/// the timeout.
pub const ASKED_MAX: u32 = 4;
pub(crate) const LATE: &str = "NATS does not answer";

pub(crate) fn fault(why: Ended) -> String {
    match why {
        Ended::ByPeer => "NATS has closed the connection".to_owned(),
        Ended::Unreachable(why) | Ended::Broken(why) => why,
    }
}

/// A connection that one task has. It answers the server's pings while it waits.
pub struct NatsLink {
    net: Net,
    link: task::Link,
    decoder: Decoder,
    /// Commands that are not written yet; see [`Self::flush`].
    pub out: Vec<u8>,
    timeout_ms: u64,
    replies: Box<str>,
    /// Requests so far: each has an answer of its own.
    asked: u64,
}

impl NatsLink {
    pub(crate) fn new(net: Net, link: task::Link, timeout_ms: u64, replies: &str) -> Self {
        Self {
            net,
            link,
            decoder: Decoder::new(Limits::SERVER),
            out: Vec::new(),
            timeout_ms,
            replies: replies.into(),
            asked: 0,
        }
    }

    /// Begins TLS. A server sends only `INFO` before that; other bytes are refused.
    pub(crate) async fn secure(&mut self, tls: DialTls) -> Result<(), String> {
        if !self.decoder.is_empty() {
            return Err("NATS sent bytes before the TLS handshake".to_owned());
        }
        let secured = self.net.timeout(self.timeout_ms, self.link.secure(tls));
        secured.await.map_err(|_| LATE)?.map_err(fault)
    }

    /// Waits until then for something that `take` accepts; nothing if it does not come. What `take`
    /// does not want is forgotten.
    ///
    /// # Errors
    /// The connection cannot be used any more, or NATS refuses something; a sentence.
    pub async fn next<T>(
        &mut self,
        until: Millis,
        mut take: impl FnMut(&Op<'_>) -> Option<T>,
    ) -> Result<Option<T>, String> {
        loop {
            while let Some(op) = self.decoder.next_op().map_err(|error| error.to_string())? {
                match op {
                    Op::Ping => {
                        write::pong(&mut self.out);
                        self.flush().await?;
                    }
                    Op::Error(why) => {
                        let why = String::from_utf8_lossy(why);
                        return Err(format!("NATS refuses: {why}"));
                    }
                    op => {
                        if let Some(it) = take(&op) {
                            return Ok(Some(it));
                        }
                    }
                }
            }
            // The end of the wait comes first: a busy subject does not put it off.
            match first(self.net.sleep_until(until), self.link.read()).await {
                Either::Left(()) => return Ok(None),
                Either::Right(input) => self.decoder.feed(&input.map_err(fault)?),
            }
        }
    }

    /// Pings, and gives away messages until the pong; false if that does not come in time.
    ///
    /// # Errors
    /// Those of [`Self::next`].
    pub async fn ping(
        &mut self,
        wait_ms: u64,
        mut message: impl FnMut(&Message<'_>),
    ) -> Result<bool, String> {
        write::ping(&mut self.out);
        self.flush().await?;
        let pong = self.next(self.net.now().mono + wait_ms, |op| match op {
            Op::Pong => Some(()),
            Op::Message(it) => {
                message(it);
                None
            }
            _ => None,
        });
        Ok(pong.await?.is_some())
    }

    /// Sends JetStream a request, and waits for the answer's payload. Messages that come meanwhile
    /// are given away.
    ///
    /// # Errors
    /// Those of [`Self::next`], or if no answer comes.
    pub async fn ask(
        &mut self,
        subject: &str,
        body: &str,
        mut other: impl FnMut(&Message<'_>),
    ) -> Result<Box<[u8]>, String> {
        let replies = self.replies.clone();
        let first = self.asked + 1;
        for _ in 0..ASKED_MAX {
            self.request(&replies, subject, body).await?;
            let until = self.net.now().mono + self.timeout_ms / u64::from(ASKED_MAX);
            let answer = self.next(until, |op| {
                let Op::Message(message) = op else {
                    return None;
                };
                let number = message.subject.strip_prefix(&*replies);
                let number = number.and_then(|number| number.parse::<u64>().ok());
                if number.is_some_and(|number| number >= first) {
                    return Some((message.headers.status(), message.payload.into()));
                }
                other(message);
                None
            });
            match answer.await? {
                Some((None, payload)) => return Ok(payload),
                Some(_) => return Err("JetStream does not answer; is it enabled?".to_owned()),
                None => {}
            }
        }
        Err(format!("JetStream does not answer {subject}"))
    }

    /// Publishes a request; its answer comes on the subject of `replies` and the number.
    ///
    /// # Errors
    /// Those of [`Self::flush`].
    pub async fn request(
        &mut self,
        replies: &str,
        subject: &str,
        body: &str,
    ) -> Result<u64, String> {
        let number = self.next_number();
        let reply = format!("{replies}{number}");
        write::publish(&mut self.out, subject, Some(&reply), &[], body.as_bytes());
        self.flush().await?;
        Ok(number)
    }

    pub const fn next_number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Writes what waits, and waits until the kernel has taken it.
    ///
    /// # Errors
    /// A sentence.
    pub async fn flush(&mut self) -> Result<(), String> {
        if self.out.is_empty() {
            return Ok(());
        }
        self.link.write(std::mem::take(&mut self.out));
        let written = self.net.timeout(self.timeout_ms, self.link.written());
        written.await.map_err(|_| LATE)?.map_err(fault)
    }

    /// Takes it apart: the link, and what was read of it and not taken.
    #[must_use]
    pub fn into_parts(self) -> (task::Link, Decoder) {
        (self.link, self.decoder)
    }
}

/// A file with the credentials of a user, as `nsc` writes it, or with nothing but a seed.
#[derive(Clone, Debug)]
pub struct CredentialsFile {
    pub path: PathBuf,
    /// Reads a file, for each connection anew. Errors name the file.
    pub read: fn(&Path) -> Result<String, String>,
}

impl CredentialsFile {
    fn credentials(&self) -> Result<Credentials, String> {
        let text = (self.read)(&self.path)?;
        let at = self.path.display();
        Credentials::read(&text).ok_or_else(|| format!("{at} has no user seed (SU...)"))
    }
}

#[derive(Clone, Copy)]
pub struct Handshake<'a> {
    /// The server, and the user and password for it.
    pub target: &'a ServerAddress,
    /// Credentials in place of the URL's user.
    pub credentials: Option<&'a CredentialsFile>,
    /// A PEM file with the authorities that are trusted; without one, those of this machine.
    pub authorities: Option<&'a Path>,
    /// Bound of each step, of each answer afterwards, and of each write.
    pub timeout_ms: u64,
    /// Begins the subjects of answers to [`NatsLink::ask`], before their numbers. A subscription
    /// must cover them.
    pub replies: &'a str,
}

impl Handshake<'_> {
    /// Connects, authenticates and subscribes to subjects by their numbers. The server has
    /// confirmed both when this ends.
    ///
    /// # Errors
    /// A sentence.
    pub async fn connect(
        &self,
        net: &Net,
        subscriptions: &[(&str, u64)],
    ) -> Result<(ServerInfo, NatsLink), String> {
        let (target, timeout_ms) = (self.target, self.timeout_ms);
        let dial = Dial {
            host: target.host.clone(),
            port: target.port,
            // Follows `INFO`.
            tls: None,
            timeout_ms,
        };
        let dialled = net.dial(dial).await.map_err(fault)?;
        let mut link = NatsLink::new(net.clone(), dialled, timeout_ms, self.replies);
        let until = net.now().mono + timeout_ms;
        let info = link.next(until, |op| match op {
            Op::Info(info) => Some(ServerInfo::read(info)),
            _ => None,
        });
        let info = info.await?.ok_or(LATE)?;
        let info = info.ok_or("NATS is older than 2.9, or has no headers")?;
        if target.is_tls || info.wants_tls {
            let tls = DialTls {
                name: target.host.clone(),
                insecure: false,
                authorities: self.authorities.map(Path::to_owned),
                http2: false,
            };
            link.secure(tls).await?;
        }
        let credentials = self.credentials.map(CredentialsFile::credentials);
        let credentials = credentials.transpose()?;
        introduce(&mut link.out, &info, target, credentials.as_ref());
        for (subject, sid) in subscriptions {
            write::subscribe(&mut link.out, subject, *sid);
        }
        match link.ping(timeout_ms, |_| {}).await? {
            true => Ok((info, link)),
            false => Err(LATE.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
