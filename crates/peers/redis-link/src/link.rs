//! A connection on which one task asks and reads, and the ways to it: an address, a socket on this
//! machine, or whatever a Sentinel names.
//!
//! `redis://` and `rediss://` (TLS), `unix:///path`, and
//! `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, where the credentials are the
//! master's (`rediss+sentinel://` where all of them speak TLS). Sentinels are asked without any,
//! one after the other, before each connection.

use std::path::Path;

use redis::{ErrorKind, RedisError, Value};
use throng_peer::Ended;
use throng_peer::task::{Late, Link as Wire, Net};

use crate::answers::{Answers, command};
use crate::place::{Place, RedisUrlError, Servers};

/// Bytes that one answer may keep, where nothing larger is expected. No publication is half as
/// long.
pub const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Beginning of an address of Sentinels, and that of what it leads to.
const SENTINELS: [(&str, &str); 2] = [
    ("redis+sentinel://", "redis://"),
    ("rediss+sentinel://", "rediss://"),
];
/// Port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;

/// A connection. After an error nothing is known of what comes on it.
pub struct RedisLink {
    net: Net,
    wire: Wire,
    answers: Answers,
    timeout_ms: u64,
}

fn failed(detail: String) -> RedisError {
    RedisError::from((ErrorKind::Io, "no connection", detail))
}

impl RedisLink {
    /// Connects and says nothing. Connecting may take `timeout_ms`, and so may each wait for bytes
    /// of an answer, which may keep `answer_bytes_max` bytes.
    ///
    /// # Errors
    /// The reason why there is no connection.
    pub async fn open(
        net: &Net,
        place: &Place,
        timeout_ms: u64,
        authorities: Option<&Path>,
        answer_bytes_max: usize,
    ) -> Result<Self, RedisError> {
        let wire = net.dial(place.dial(timeout_ms, authorities)).await;
        Ok(Self {
            net: net.clone(),
            wire: wire.map_err(|why| failed(why.to_string()))?,
            answers: Answers::new(answer_bytes_max),
            timeout_ms,
        })
    }

    /// Connects as [`Self::open`] does, and logs in to the database.
    ///
    /// # Errors
    /// The reason; `AuthenticationFailed` if Redis does not take the password.
    pub async fn connect(
        net: &Net,
        place: &Place,
        timeout_ms: u64,
        authorities: Option<&Path>,
        answer_bytes_max: usize,
    ) -> Result<Self, RedisError> {
        let mut link = Self::open(net, place, timeout_ms, authorities, answer_bytes_max).await?;
        if let Some(password) = &place.password {
            let mut auth = vec![b"AUTH".as_slice()];
            auth.extend(place.user.as_deref().map(str::as_bytes));
            auth.push(password.as_bytes());
            link.send(&auth);
            let refused = |why: RedisError| {
                let what = "Redis does not take the password";
                RedisError::from((ErrorKind::AuthenticationFailed, what, why.to_string()))
            };
            let answer = link.answer().await?;
            answer.extract_error().map_err(refused)?;
        }
        link.select(place.db).await?;
        Ok(link)
    }

    /// Chooses a database; number 0 is chosen already.
    ///
    /// # Errors
    /// As of [`Self::ask`].
    pub async fn select(&mut self, db: i64) -> Result<(), RedisError> {
        if db != 0 {
            self.ask(&[b"SELECT", db.to_string().as_bytes()]).await?;
        }
        Ok(())
    }

    /// Sends a command; its answer comes by [`Self::next_within`].
    pub fn send(&mut self, parts: &[&[u8]]) {
        let mut out = Vec::new();
        command(&mut out, parts);
        self.wire.write(out);
    }

    /// Sends a command, and waits for its answer. Nothing else may be on its way.
    ///
    /// # Errors
    /// If none comes in time, if it is too long, and if it is an error.
    pub async fn ask(&mut self, parts: &[&[u8]]) -> Result<Value, RedisError> {
        self.send(parts);
        self.answer().await?.extract_error()
    }

    async fn answer(&mut self) -> Result<Value, RedisError> {
        let answer = self.read_within(self.timeout_ms).await?;
        answer.ok_or_else(|| failed(format!("no answer for {} ms", self.timeout_ms)))
    }

    /// Waits for what comes next to begin; `None` if it does not in time. Dropping the future loses
    /// nothing.
    ///
    /// # Errors
    /// As of [`Self::ask`].
    pub async fn next_within(&mut self, wait_ms: u64) -> Result<Option<Value>, RedisError> {
        let next = self.read_within(wait_ms).await?;
        next.map(Value::extract_error).transpose()
    }

    async fn read_within(&mut self, wait_ms: u64) -> Result<Option<Value>, RedisError> {
        loop {
            if let Some(value) = self.answers.take().map_err(failed)? {
                return Ok(Some(value));
            }
            let has_begun = self.answers.has_begun();
            let wait_ms = if has_begun { self.timeout_ms } else { wait_ms };
            match self.net.timeout(wait_ms, self.wire.read()).await {
                Ok(Ok(bytes)) => self.answers.feed(&bytes),
                Ok(Err(Ended::ByPeer)) => return Err(failed("it ended the connection".into())),
                Ok(Err(why)) => return Err(failed(why.to_string())),
                Err(Late) if has_begun => {
                    return Err(failed(format!("an answer stopped for {wait_ms} ms")));
                }
                Err(Late) => return Ok(None),
            }
        }
    }

    /// Gives the connection up to another reader, with what was read and not taken.
    #[must_use]
    pub fn into_parts(self) -> (Wire, Answers) {
        (self.wire, self.answers)
    }
}

#[derive(Clone)]
pub enum RedisSource {
    /// Address that does not move.
    Direct(Place),
    /// A master that Sentinels name, which may move.
    Sentinels {
        /// Places of Sentinels, in the order in which they are asked.
        sentinels: Vec<Place>,
        master: String,
        /// The master's credentials, at no address.
        there: Place,
    },
}

impl RedisSource {
    /// Reads an address.
    ///
    /// # Errors
    /// [`RedisUrlError`].
    pub fn new(url: &str) -> Result<Self, RedisUrlError> {
        let Some(Servers {
            scheme,
            credentials,
            hosts,
            path,
        }) = Servers::read(url, &SENTINELS)
        else {
            return Ok(Self::Direct(Place::new(url)?));
        };
        let (master, db) = path.split_once('/').unwrap_or((path, "0"));
        if master.is_empty() {
            return Err(RedisUrlError::NoMaster);
        }
        let sentinels = hosts.split(',').map(|host| match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => Place::new(&format!("{scheme}{host}")),
            _ => Place::new(&format!("{scheme}{host}:{SENTINEL_PORT}")),
        });
        Ok(Self::Sentinels {
            sentinels: sentinels.collect::<Result<_, _>>()?,
            master: master.to_owned(),
            there: Place::new(&format!("{scheme}{credentials}host:1/{db}"))?,
        })
    }

    /// Finds its place now. Sentinels are asked, each within `timeout_ms`; those that speak TLS
    /// must have a certificate of the `authorities` in this file, or of this machine's.
    ///
    /// # Errors
    /// The last Sentinel's reason.
    pub async fn find(
        &self,
        net: &Net,
        timeout_ms: u64,
        authorities: Option<&Path>,
    ) -> Result<Place, RedisError> {
        let (sentinels, master, there) = match self {
            Self::Direct(place) => return Ok(place.clone()),
            Self::Sentinels {
                sentinels,
                master,
                there,
            } => (sentinels, master, there),
        };
        let mut last = RedisError::from((ErrorKind::InvalidClientConfig, "no Sentinel"));
        for sentinel in sentinels {
            match ask(net, sentinel, master, timeout_ms, authorities).await {
                Ok((host, port)) => return Ok(there.at(host, port)),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Address of the master, by one Sentinel.
async fn ask(
    net: &Net,
    sentinel: &Place,
    master: &str,
    timeout_ms: u64,
    authorities: Option<&Path>,
) -> Result<(String, u16), RedisError> {
    let connecting = RedisLink::connect(net, sentinel, timeout_ms, authorities, ANSWER_BYTES_MAX);
    let mut link = connecting.await?;
    let name = b"get-master-addr-by-name";
    let answer = link.ask(&[b"SENTINEL", name, master.as_bytes()]).await?;
    Ok(redis::from_redis_value(answer)?)
}

#[cfg(test)]
mod tests;
