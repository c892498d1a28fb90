//! Where a Redis is: an address, a socket on this machine, or whatever a Sentinel names.
//!
//! `redis://` and `rediss://` (TLS), `unix:///path`, and
//! `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, where the credentials are the
//! master's (`rediss+sentinel://` where all of them speak TLS). Sentinels are asked without any,
//! one after the other, before each connection.

use std::path::Path;
use std::time::Duration;

use redis::{Client, RedisError};

use crate::link::{ANSWER_BYTES_MAX, Link};

/// How an address of Sentinels begins, and that of what it leads to.
const SENTINELS: [(&str, &str); 2] = [
    ("redis+sentinel://", "redis://"),
    ("rediss+sentinel://", "rediss://"),
];
/// The port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;

/// The address of Redis is not one that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RedisUrlError {
    /// It does not parse. The text is not shown, because it may hold a password.
    #[error("the address of Redis cannot be read: {0}")]
    Malformed(String),
    /// Sentinels without a name to ask for.
    #[error("the address has no master: write redis+sentinel://HOST:PORT,HOST:PORT/MASTER")]
    NoMaster,
}

/// One way to a Redis.
#[derive(Clone)]
pub struct Source {
    way: Way,
}

#[derive(Clone)]
enum Way {
    Direct(Client),
    Sentinels {
        /// Their addresses.
        sentinels: Vec<String>,
        master: String,
        scheme: &'static str,
        /// What stands before the `@` of the master's address, with it.
        credentials: String,
        db: String,
    },
}

impl Source {
    /// Reads an address.
    ///
    /// # Errors
    /// [`RedisUrlError`].
    pub fn new(url: &str) -> Result<Self, RedisUrlError> {
        let sentinels = { SENTINELS.iter() }
            .find_map(|(begins, scheme)| Some((url.strip_prefix(begins)?, *scheme)));
        let Some((rest, scheme)) = sentinels else {
            let way = Way::Direct(open(url)?);
            return Ok(Self { way });
        };
        let (authority, path) = rest.split_once('/').ok_or(RedisUrlError::NoMaster)?;
        let (credentials, hosts) = match authority.rfind('@') {
            Some(at) => authority.split_at(at + 1),
            None => ("", authority),
        };
        let (master, db) = path.split_once('/').unwrap_or((path, "0"));
        if master.is_empty() {
            return Err(RedisUrlError::NoMaster);
        }
        let sentinels = hosts.split(',').map(|host| match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => format!("{scheme}{host}"),
            _ => format!("{scheme}{host}:{SENTINEL_PORT}"),
        });
        let sentinels: Vec<String> = sentinels.collect();
        // What comes of it later must be readable now.
        sentinels.iter().try_for_each(|url| open(url).map(drop))?;
        open(&format!("{scheme}{credentials}host:1/{db}"))?;
        let way = Way::Sentinels {
            sentinels,
            master: master.to_owned(),
            scheme,
            credentials: credentials.to_owned(),
            db: db.to_owned(),
        };
        Ok(Self { way })
    }

    /// Whether it may be somewhere else tomorrow.
    #[must_use]
    pub const fn is_named_by_sentinels(&self) -> bool {
        matches!(self.way, Way::Sentinels { .. })
    }

    /// Where it is now. Sentinels are asked, each within `timeout`; those that speak TLS must have
    /// a certificate of the `authorities` in this file, or of those that this machine believes.
    ///
    /// # Errors
    /// The last Sentinel's reason.
    pub fn find(
        &self,
        timeout: Duration,
        authorities: Option<&Path>,
    ) -> Result<Client, RedisError> {
        match &self.way {
            Way::Direct(client) => Ok(client.clone()),
            Way::Sentinels {
                sentinels,
                master,
                scheme,
                credentials,
                db,
            } => {
                let (host, port) = ask(sentinels, master, timeout, authorities)?;
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host
                };
                Client::open(format!("{scheme}{credentials}{host}:{port}/{db}"))
            }
        }
    }
}

/// Where the master is, from the first Sentinel that says so.
fn ask(
    sentinels: &[String],
    master: &str,
    timeout: Duration,
    authorities: Option<&Path>,
) -> Result<(String, u16), RedisError> {
    let mut last = RedisError::from((redis::ErrorKind::InvalidClientConfig, "no Sentinel"));
    for sentinel in sentinels {
        let asked = Client::open(&**sentinel)
            .and_then(|client| Link::connect(&client, timeout, authorities, ANSWER_BYTES_MAX))
            .and_then(|mut link| {
                let name = b"get-master-addr-by-name";
                let answer = link.ask(&[b"SENTINEL", name, master.as_bytes()])?;
                Ok(redis::from_redis_value::<(String, u16)>(answer)?)
            });
        match asked {
            Ok(address) => return Ok(address),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn open(url: &str) -> Result<Client, RedisUrlError> {
    Client::open(url).map_err(|error| {
        let detail = error
            .detail()
            .unwrap_or("it is not a URL of the form redis://host:port/db");
        RedisUrlError::Malformed(detail.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in [
            "redis://127.0.0.1:6379/0",
            "rediss://user:password@host:6379",
            "unix:///run/redis/redis.sock?db=1",
            "redis+sentinel://a:1,b,[::1]:3/mymaster",
            "redis+sentinel://user:p%40ss@a:1/mymaster/2",
            "rediss+sentinel://a:1,b:2/mymaster",
        ] {
            assert!(Source::new(good).is_ok(), "{good}");
        }
        for wrong in [
            "x",
            "redis+sentinel://a:1",
            "redis+sentinel://a:1/",
            "redis+sentinel://a:x/mymaster",
            "redis+sentinel://a:1/mymaster/x",
        ] {
            assert!(Source::new(wrong).is_err(), "{wrong}");
        }
    }
}
