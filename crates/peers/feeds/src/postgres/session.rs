//! One session with PostgreSQL: who we are, queries and their rows, notifications.

use throng_peer::task::{Late, Link, Net};
use throng_peer::{Dial, DialTls};
use throng_postgres_protocol::{Auth, Decoder, Message, ServerError, write};
use throng_types::Rng;

use super::options::{PostgresFeedOptions, SslMode};
use crate::scram::{self, Hash, Scram};
use crate::source::{ANSWER_MS, Fault};

const MECHANISM: &str = "SCRAM-SHA-256";

/// Rows that the last statement of a query gave.
#[derive(Default)]
pub(super) struct Rows {
    /// The types of the last statement's columns.
    pub(super) types: Vec<u32>,
    /// Bound: the session's `rows_max`.
    pub(super) rows: Vec<Vec<Option<Vec<u8>>>>,
}

pub(super) struct Session {
    net: Net,
    link: Link,
    is_secure: bool,
    decoder: Decoder,
    is_notified: bool,
    /// No query asks for more.
    rows_max: usize,
}

impl Session {
    /// Reaches the server, by TLS where it is to be so.
    pub(super) async fn connect(
        net: &Net,
        options: &PostgresFeedOptions,
        rows_max: usize,
    ) -> Result<Self, Fault> {
        let (host, port) = (&options.host, options.port);
        let dial = Dial {
            host: host.clone(),
            port,
            tls: None,
            timeout_ms: ANSWER_MS,
        };
        let link = net.dial(dial).await;
        let mut link = link.map_err(|why| Fault(format!("{host}:{port}: {why}")))?;
        let is_secure = options.ssl != SslMode::Disable && secure(net, &mut link, options).await?;
        Ok(Self {
            net: net.clone(),
            link,
            is_secure,
            decoder: Decoder::new(options.row_bytes_max()),
            is_notified: false,
            rows_max,
        })
    }

    /// Authenticates, until the server is ready.
    pub(super) async fn introduce(
        &mut self,
        options: &PostgresFeedOptions,
        rng: &mut Rng,
    ) -> Result<(), Fault> {
        let parameters = [
            ("user", options.user.as_str()),
            ("database", &options.database),
            ("application_name", "throng"),
            ("client_encoding", "UTF8"),
            ("standard_conforming_strings", "on"),
            ("bytea_output", "hex"),
        ];
        self.say(|out| write::startup(&parameters, out));
        let password = || {
            let none = || Fault::new("the server asks for a password, and the URL has none");
            options.password.as_deref().ok_or_else(none)
        };
        let mut scram = None;
        let mut is_proven = true;
        loop {
            match self.message().await? {
                Message::Ready if is_proven => return Ok(()),
                Message::Ready => return Err(Fault::new("it did not prove itself")),
                Message::Error(error) => return Err(said(&error)),
                Message::Auth(Auth::Password) => {
                    if !self.is_secure {
                        return Err(Fault::new(
                            "the server asks for the password in clear text without TLS: use \
                             scram-sha-256",
                        ));
                    }
                    let password = password()?;
                    self.say(|out| write::password(password, out));
                }
                Message::Auth(Auth::Sasl(mechanisms)) => {
                    if !mechanisms.iter().any(|name| name == MECHANISM) {
                        return Err(Fault(format!("it offers no {MECHANISM}")));
                    }
                    let nonce = scram::nonce(rng);
                    let started = Scram::new(Hash::Sha256, "", password()?, nonce);
                    let first = started.first();
                    self.say(|out| write::sasl_initial(MECHANISM, first.as_bytes(), out));
                    scram = Some(started);
                    is_proven = false;
                }
                Message::Auth(Auth::SaslContinue(data)) => {
                    let last = scram.as_mut().and_then(|scram| scram.last(&data));
                    let last = last.ok_or_else(|| Fault::new("its SCRAM makes no sense"))?;
                    self.say(|out| write::sasl(last.as_bytes(), out));
                }
                Message::Auth(Auth::SaslFinal(data)) => {
                    is_proven = scram.as_ref().is_some_and(|scram| scram.is_proven(&data));
                }
                Message::Auth(Auth::Other(number)) => {
                    return Err(Fault(format!(
                        "the server asks for authentication {number} (5 is md5): use scram-sha-256"
                    )));
                }
                _ => {}
            }
        }
    }

    pub(super) async fn ask(&mut self, sql: &str) -> Result<Rows, Fault> {
        self.say(|out| write::query(sql, out));
        let mut found = Rows::default();
        let mut failed = None;
        loop {
            match self.message().await? {
                Message::Ready => break,
                Message::Columns(types) => {
                    found = Rows {
                        types,
                        rows: Vec::new(),
                    };
                }
                Message::Row(_) if found.rows.len() >= self.rows_max => {
                    return Err(Fault::new("it sends more rows than were asked for"));
                }
                Message::Row(row) => found.rows.push(row),
                Message::Error(error) => failed = Some(said(&error)),
                _ => {}
            }
        }
        failed.map_or(Ok(found), Err)
    }

    /// Waits for a notification, or until something else is said; true if one has come since the
    /// last wait.
    pub(super) async fn wait(&mut self, ms: u64) -> Result<bool, Fault> {
        if !self.is_notified && self.read(ms).await? {
            while let Some(message) = self.decoded()? {
                if let Message::Error(error) = message {
                    return Err(said(&error));
                }
            }
        }
        Ok(std::mem::take(&mut self.is_notified))
    }

    async fn message(&mut self) -> Result<Message, Fault> {
        loop {
            if let Some(message) = self.decoded()? {
                return Ok(message);
            }
            if !self.read(ANSWER_MS).await? {
                return Err(Late.into());
            }
        }
    }

    fn decoded(&mut self) -> Result<Option<Message>, Fault> {
        loop {
            let message = self.decoder.next_message();
            let message = message.map_err(|fault| match fault {
                throng_postgres_protocol::MessageError::Length => {
                    Fault::new("a message of it is longer than any row that was asked for")
                }
                throng_postgres_protocol::MessageError::Short => {
                    Fault::new("it does not speak like PostgreSQL")
                }
            })?;
            match message {
                Some(Message::Notified) => self.is_notified = true,
                message => return Ok(message),
            }
        }
    }

    async fn read(&mut self, ms: u64) -> Result<bool, Fault> {
        let Ok(bytes) = self.net.timeout(ms, self.link.read()).await else {
            return Ok(false);
        };
        self.decoder.feed(&bytes?);
        Ok(true)
    }

    fn say(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut out = Vec::new();
        write(&mut out);
        self.link.write(out);
    }

    /// Ends the session behind its Terminate message.
    pub(super) fn terminate(mut self) {
        self.say(write::terminate);
        self.link.finish();
    }
}

fn said(error: &ServerError) -> Fault {
    Fault(format!(
        "the server reports: {} ({})",
        error.message, error.code
    ))
}

/// Asks for TLS, which the server may not speak; gives whether it does.
async fn secure(net: &Net, link: &mut Link, options: &PostgresFeedOptions) -> Result<bool, Fault> {
    let mut ask = Vec::new();
    write::ask_tls(&mut ask);
    link.write(ask);
    let answer = net.timeout(ANSWER_MS, link.read()).await??;
    match (&*answer, options.ssl) {
        (b"S", mode) => {
            let tls = DialTls {
                name: options.host.clone(),
                insecure: mode != SslMode::VerifyFull,
                authorities: None,
                http2: false,
            };
            net.timeout(ANSWER_MS, link.secure(tls)).await??;
            Ok(true)
        }
        (b"N", SslMode::Prefer) => Ok(false),
        (b"N", _) => Err(Fault::new(
            "the server does not support TLS, and sslmode requires it",
        )),
        _ => Err(Fault::new("it does not answer like PostgreSQL")),
    }
}

#[cfg(test)]
mod tests;
