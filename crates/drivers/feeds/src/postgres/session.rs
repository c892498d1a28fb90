//! One session with PostgreSQL: who we are, queries and their rows, notifications.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use throng_postgres_protocol::{Auth, Decoder, Message, ServerError, write};
use throng_remote::Stream;
use throng_tls::Trust;

use super::options::{PostgresOptions, SslMode};
use crate::scram::{self, Hash, Scram};
use crate::source::{ANSWER, Fault};

const READ_BYTES: usize = 64 << 10;
const MECHANISM: &str = "SCRAM-SHA-256";

/// What the statements of one query gave.
#[derive(Default)]
pub(super) struct Rows {
    /// The types of the last statement's columns.
    pub(super) types: Vec<u32>,
    /// Bound: the session's `rows_max`.
    pub(super) rows: Vec<Vec<Option<Vec<u8>>>>,
}

pub(super) struct Session {
    stream: Stream,
    decoder: Decoder,
    out: Vec<u8>,
    is_notified: bool,
    /// No query asks for more.
    rows_max: usize,
}

impl Session {
    pub(super) fn connect(options: &PostgresOptions, rows_max: usize) -> Result<Self, Fault> {
        let (host, port) = (&options.host, options.port);
        let stream = Stream::connect(host, port, ANSWER);
        let mut stream = stream.map_err(|error| Fault(format!("{host}:{port}: {error}")))?;
        if options.ssl != SslMode::Disable {
            stream = secured(stream, options)?;
        }
        let mut session = Self {
            stream,
            decoder: Decoder::new(options.row_bytes_max()),
            out: Vec::new(),
            is_notified: false,
            rows_max,
        };
        let parameters = [
            ("user", options.user.as_str()),
            ("database", &options.database),
            ("application_name", "throng"),
            ("client_encoding", "UTF8"),
            ("standard_conforming_strings", "on"),
            ("bytea_output", "hex"),
        ];
        write::startup(&parameters, &mut session.out);
        session.flush()?;
        session.introduce(options)?;
        Ok(session)
    }

    /// Says who we are, until the server is ready.
    fn introduce(&mut self, options: &PostgresOptions) -> Result<(), Fault> {
        let password = || {
            let none = || Fault::new("it wants a password, and the URL has none");
            options.password.as_deref().ok_or_else(none)
        };
        let mut scram = None;
        let mut is_proven = true;
        loop {
            match self.message()? {
                Message::Ready if is_proven => return Ok(()),
                Message::Ready => return Err(Fault::new("it did not prove itself")),
                Message::Error(error) => return Err(said(&error)),
                Message::Auth(Auth::Password) => {
                    if !matches!(self.stream, Stream::Tls(_)) {
                        return Err(Fault::new(
                            "it wants the password in clear text without TLS: use scram-sha-256",
                        ));
                    }
                    write::password(password()?, &mut self.out);
                }
                Message::Auth(Auth::Sasl(mechanisms)) => {
                    if !mechanisms.iter().any(|name| name == MECHANISM) {
                        return Err(Fault(format!("it offers no {MECHANISM}")));
                    }
                    let nonce = scram::nonce().ok_or_else(|| Fault::new("no random bytes"))?;
                    let started = Scram::new(Hash::Sha256, "", password()?, nonce);
                    let first = started.first();
                    write::sasl_initial(MECHANISM, first.as_bytes(), &mut self.out);
                    scram = Some(started);
                    is_proven = false;
                }
                Message::Auth(Auth::SaslContinue(data)) => {
                    let last = scram.as_mut().and_then(|scram| scram.last(&data));
                    let last = last.ok_or_else(|| Fault::new("its SCRAM makes no sense"))?;
                    write::sasl(last.as_bytes(), &mut self.out);
                }
                Message::Auth(Auth::SaslFinal(data)) => {
                    is_proven = scram.as_ref().is_some_and(|scram| scram.is_proven(&data));
                }
                Message::Auth(Auth::Other(number)) => {
                    return Err(Fault(format!(
                        "it wants authentication {number} (5 is md5): use scram-sha-256"
                    )));
                }
                _ => {}
            }
            self.flush()?;
        }
    }

    /// Asks, and waits for everything that follows.
    pub(super) fn ask(&mut self, sql: &str) -> Result<Rows, Fault> {
        write::query(sql, &mut self.out);
        self.flush()?;
        let mut found = Rows::default();
        let mut failed = None;
        loop {
            match self.message()? {
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

    /// Waits for a notification; true if one has come since the last wait.
    pub(super) fn wait(&mut self, wait: Duration) -> Result<bool, Fault> {
        let until = Instant::now() + wait;
        while !self.is_notified {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            self.read(left)?;
            while let Some(message) = self.decoded()? {
                if let Message::Error(error) = message {
                    return Err(said(&error));
                }
            }
        }
        Ok(std::mem::take(&mut self.is_notified))
    }

    /// The next message that is no notification.
    fn message(&mut self) -> Result<Message, Fault> {
        loop {
            if let Some(message) = self.decoded()? {
                return Ok(message);
            }
            if !self.read(ANSWER)? {
                return Err(Fault::new("it does not answer"));
            }
        }
    }

    fn decoded(&mut self) -> Result<Option<Message>, Fault> {
        loop {
            let message = self.decoder.next_message();
            let message = message.map_err(|fault| match fault {
                throng_postgres_protocol::Fault::Length => {
                    Fault::new("a message of it is longer than any row that was asked for")
                }
                throng_postgres_protocol::Fault::Short => {
                    Fault::new("it does not speak like PostgreSQL")
                }
            })?;
            match message {
                Some(Message::Notified) => self.is_notified = true,
                message => return Ok(message),
            }
        }
    }

    /// Reads once; false if nothing comes in time.
    fn read(&mut self, wait: Duration) -> Result<bool, Fault> {
        let mut bytes = [0; READ_BYTES];
        let count = self.stream.read_within(wait, &mut bytes)?;
        self.decoder.feed(&bytes[..count.unwrap_or_default()]);
        Ok(count.is_some())
    }

    fn flush(&mut self) -> Result<(), Fault> {
        self.stream.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        write::terminate(&mut self.out);
        let _ = self.flush();
    }
}

fn said(error: &ServerError) -> Fault {
    Fault(format!("it says: {} ({})", error.message, error.code))
}

/// Asks for TLS, which the server may not speak.
fn secured(mut stream: Stream, options: &PostgresOptions) -> Result<Stream, Fault> {
    let mut ask = Vec::new();
    write::ask_tls(&mut ask);
    stream.write_all(&ask)?;
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    match (answer, options.ssl) {
        ([b'S'], mode) => {
            let trust = match mode {
                SslMode::VerifyFull => throng_remote::trust(None).map_err(Fault)?,
                _ => Trust::Anybody,
            };
            stream.secure(&options.host, &trust).map_err(Fault)
        }
        ([b'N'], SslMode::Prefer) => Ok(stream),
        ([b'N'], _) => Err(Fault::new("it does not speak TLS, and sslmode wants it")),
        _ => Err(Fault::new("it does not answer like PostgreSQL")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";

    #[test]
    fn rows_without_end_are_a_fault() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let server = thread::spawn(move || {
            let (mut client, _) = listener.accept().expect("a client");
            let _ = client.read(&mut [0; 1000]).expect("a first message");
            client.write_all(LET_IN).expect("a client");
            let rows = b"D\0\0\0\x06\0\0".repeat(1000);
            while client.write_all(&rows).is_ok() {}
        });
        let url = format!("postgres://me@127.0.0.1:{port}/db?sslmode=disable");
        let poll = Duration::from_secs(1);
        let options = PostgresOptions::new(&url, "f", "t", None, poll, 10).expect("a URL");
        let mut session = Session::connect(&options, 3).expect("a session");
        let fault = session.ask("SELECT 1").err().expect("a fault");
        assert_eq!(fault.0, "it sends more rows than were asked for");
        drop(session);
        server.join().expect("a server");
    }
}
