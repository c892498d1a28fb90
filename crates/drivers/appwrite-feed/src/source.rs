//! Where Appwrite's Redis is: an address, a socket on this machine, or whatever a Sentinel names.
//!
//! `redis://` and `rediss://` (TLS; the system's certificates, or those that `SSL_CERT_FILE`
//! names), `unix:///path`, and `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`,
//! where the credentials are the master's. Sentinels are asked without any, one after the other,
//! before each connection.

use std::time::Duration;

use redis::{Client, Connection, RedisError};

/// How an address of Sentinels begins.
const SENTINEL: &str = "redis+sentinel://";
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

/// One way to Appwrite's Redis.
pub(crate) enum Source {
    Direct(Client),
    Sentinels {
        sentinels: Vec<Client>,
        master: String,
        /// What stands before the `@` of the master's address, with it.
        credentials: String,
        db: String,
    },
}

impl Source {
    pub(crate) fn new(url: &str) -> Result<Self, RedisUrlError> {
        let Some(rest) = url.strip_prefix(SENTINEL) else {
            return Ok(Self::Direct(open(url)?));
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
            Some((_, port)) if !port.ends_with(']') => open(&format!("redis://{host}")),
            _ => open(&format!("redis://{host}:{SENTINEL_PORT}")),
        });
        let sentinels: Result<_, _> = sentinels.collect();
        // What comes of it later must be readable now.
        open(&format!("redis://{credentials}host:1/{db}"))?;
        Ok(Self::Sentinels {
            sentinels: sentinels?,
            master: master.to_owned(),
            credentials: credentials.to_owned(),
            db: db.to_owned(),
        })
    }

    /// Connects; each step may take so long.
    pub(crate) fn connect(&self, timeout: Duration) -> Result<Connection, RedisError> {
        match self {
            Self::Direct(client) => client.get_connection_with_timeout(timeout),
            Self::Sentinels {
                sentinels,
                master,
                credentials,
                db,
            } => {
                let (host, port) = ask(sentinels, master, timeout)?;
                let host = if host.contains(':') {
                    format!("[{host}]")
                } else {
                    host
                };
                let url = format!("redis://{credentials}{host}:{port}/{db}");
                Client::open(url)?.get_connection_with_timeout(timeout)
            }
        }
    }
}

/// Where the master is, from the first Sentinel that says so.
fn ask(sentinels: &[Client], master: &str, timeout: Duration) -> Result<(String, u16), RedisError> {
    let mut last = RedisError::from((redis::ErrorKind::InvalidClientConfig, "no Sentinel"));
    for sentinel in sentinels {
        let asked = sentinel
            .get_connection_with_timeout(timeout)
            .and_then(|mut connection| {
                connection.set_read_timeout(Some(timeout))?;
                redis::cmd("SENTINEL")
                    .arg("get-master-addr-by-name")
                    .arg(master)
                    .query::<(String, u16)>(&mut connection)
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
