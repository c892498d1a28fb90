//! A connection on which one thread asks and reads.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use redis::{Client, ConnectionAddr, RedisError, Value};
use throng_remote::Stream;

use crate::answers::Answers;
use crate::command::command;
use crate::place::Place;

/// Bytes that one answer may keep, where nothing larger is expected. No publication is half as
/// long.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;

/// What Redis is reached by.
trait Wire: Read + Write + Send {
    fn wait_for(&self, timeout: Duration) -> io::Result<()>;
}

impl Wire for Stream {
    fn wait_for(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
}

impl Wire for UnixStream {
    fn wait_for(&self, timeout: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(timeout))
    }
}

/// A connection that has said who it is. After an error nothing is known of what comes on it.
pub struct Link {
    wire: Box<dyn Wire>,
    answers: Answers,
    timeout: Duration,
}

fn error(kind: redis::ErrorKind, what: &'static str, detail: String) -> RedisError {
    RedisError::from((kind, what, detail))
}

impl Link {
    /// Connects in at most `timeout` a step, which is how long an answer may take too. One may
    /// keep `answer_bytes_max` bytes.
    ///
    /// # Errors
    /// What goes wrong; `AuthenticationFailed` if Redis does not take the password.
    pub fn connect(
        client: &Client,
        timeout: Duration,
        authorities: Option<&Path>,
        answer_bytes_max: usize,
    ) -> Result<Self, RedisError> {
        let info = client.get_connection_info();
        let wire: Box<dyn Wire> = match (Place::of(client), info.addr()) {
            (Some(place), _) => {
                let stream = place.connect(timeout, authorities);
                let failed = |why| error(redis::ErrorKind::Io, "no connection", why);
                Box::new(stream.map_err(failed)?)
            }
            (None, ConnectionAddr::Unix(path)) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(timeout))?;
                stream.set_read_timeout(Some(timeout))?;
                Box::new(stream)
            }
            _ => {
                let kind = redis::ErrorKind::InvalidClientConfig;
                return Err((kind, "the address is of a form that is not supported").into());
            }
        };
        let mut link = Self {
            wire,
            answers: Answers::new(answer_bytes_max),
            timeout,
        };
        let settings = info.redis_settings();
        if let Some(password) = settings.password() {
            let mut auth = vec![b"AUTH".as_slice()];
            auth.extend(settings.username().map(str::as_bytes));
            auth.push(password.as_bytes());
            link.send(&auth)?;
            let refused = |why: RedisError| {
                let kind = redis::ErrorKind::AuthenticationFailed;
                error(kind, "Redis does not take the password", why.to_string())
            };
            let answer = link.answers.next(&mut link.wire)?;
            answer.extract_error().map_err(refused)?;
        }
        if settings.db() != 0 {
            link.ask(&[b"SELECT", settings.db().to_string().as_bytes()])?;
        }
        Ok(link)
    }

    /// Sends a command.
    ///
    /// # Errors
    /// If it does not leave in time.
    pub fn send(&mut self, parts: &[&[u8]]) -> Result<(), RedisError> {
        let mut out = Vec::new();
        command(&mut out, parts);
        Ok(self.wire.write_all(&out)?)
    }

    /// Sends a command, and waits for its answer. Nothing else may be on its way.
    ///
    /// # Errors
    /// If none comes in time, if it is too long, and if it is an error.
    pub fn ask(&mut self, parts: &[&[u8]]) -> Result<Value, RedisError> {
        self.send(parts)?;
        self.answers.next(&mut self.wire)?.extract_error()
    }

    /// Waits for what comes next to begin; nothing if it does not in time.
    ///
    /// # Errors
    /// As of [`Self::ask`].
    pub fn next_within(&mut self, wait: Duration) -> Result<Option<Value>, RedisError> {
        // No wait at all would mean for ever.
        self.wire.wait_for(wait.max(Duration::from_millis(1)))?;
        let has_begun = self.answers.has_begun(&mut self.wire);
        self.wire.wait_for(self.timeout)?;
        match has_begun {
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
            Ok(()) => self.answers.next(&mut self.wire)?.extract_error().map(Some),
        }
    }
}
