//! Ways to a Redis: an address, a socket on this machine, or whatever a Sentinel names.
//!
//! `redis://` and `rediss://` (TLS), `unix:///path`, and
//! `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, where the credentials are the
//! master's (`rediss+sentinel://` where all of them speak TLS). Sentinels are asked without any,
//! one after the other, before each connection.

use std::path::Path;

use redis::{Client, ConnectionAddr, RedisError};
use throng_peer::task::Net;
use throng_peer::{Dial, DialTls};

use crate::link::{ANSWER_BYTES_MAX, Link};

/// Beginning of an address of Sentinels, and that of what it leads to.
const SENTINELS: [(&str, &str); 2] = [
    ("redis+sentinel://", "redis://"),
    ("rediss+sentinel://", "rediss://"),
];
/// Port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;

/// Faults of an address of Redis.
#[derive(Debug, thiserror::Error)]
pub enum RedisUrlError {
    /// Does not parse. The text is not shown, because it may hold a password.
    #[error("the address of Redis cannot be read: {0}")]
    Malformed(String),
    /// Sentinels without a name to ask for.
    #[error("the address has no master: write redis+sentinel://HOST:PORT,HOST:PORT/MASTER")]
    NoMaster,
}

/// Address of a Redis, and the credentials there.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// A name, an address, or the path of a socket, which begins with `/`.
    pub host: String,
    /// Unused for a socket.
    pub port: u16,
    pub is_tls: bool,
    /// Without one, a password is the default user's.
    pub user: Option<String>,
    /// Nothing where none is asked for.
    pub password: Option<String>,
    pub db: i64,
}

impl std::fmt::Debug for Place {
    /// Shows all but the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}/{}", self.host, self.port, self.db)
    }
}

impl Place {
    /// Reads an address.
    ///
    /// # Errors
    /// [`RedisUrlError::Malformed`]; so is one whose certificate is not to be checked.
    pub fn new(url: &str) -> Result<Self, RedisUrlError> {
        let malformed = |why: &str| RedisUrlError::Malformed(why.to_owned());
        let client = Client::open(url).map_err(|error| {
            let form = "it is not a URL of the form redis://host:port/db";
            malformed(error.detail().unwrap_or(form))
        })?;
        let info = client.get_connection_info();
        let (host, port, is_tls) = match info.addr() {
            ConnectionAddr::Tcp(host, port) => (host.clone(), *port, false),
            ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                ..
            } => (host.clone(), *port, true),
            ConnectionAddr::Unix(path) if path.is_absolute() => {
                (path.to_string_lossy().into_owned(), 0, false)
            }
            _ => return Err(malformed("its form is not supported")),
        };
        let settings = info.redis_settings();
        Ok(Self {
            host,
            port,
            is_tls,
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
        })
    }

    /// Same credentials on another server.
    #[must_use]
    pub fn at(&self, host: String, port: u16) -> Self {
        Self {
            host,
            port,
            ..self.clone()
        }
    }

    /// The way there. Certificates are checked against the authorities in this file, or this
    /// machine's.
    #[must_use]
    pub fn dial(&self, timeout_ms: u64, authorities: Option<&Path>) -> Dial {
        Dial {
            host: self.host.clone(),
            port: self.port,
            tls: self.is_tls.then(|| DialTls {
                name: self.host.clone(),
                insecure: false,
                authorities: authorities.map(Path::to_owned),
            }),
            timeout_ms,
        }
    }
}

/// One way to a Redis.
#[derive(Clone)]
pub enum Source {
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

impl Source {
    /// Reads an address.
    ///
    /// # Errors
    /// [`RedisUrlError`].
    pub fn new(url: &str) -> Result<Self, RedisUrlError> {
        let sentinels = { SENTINELS.iter() }
            .find_map(|(begins, scheme)| Some((url.strip_prefix(begins)?, *scheme)));
        let Some((rest, scheme)) = sentinels else {
            return Ok(Self::Direct(Place::new(url)?));
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
        let mut last = RedisError::from((redis::ErrorKind::InvalidClientConfig, "no Sentinel"));
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
    let connecting = Link::connect(net, sentinel, timeout_ms, authorities, ANSWER_BYTES_MAX);
    let mut link = connecting.await?;
    let name = b"get-master-addr-by-name";
    let answer = link.ask(&[b"SENTINEL", name, master.as_bytes()]).await?;
    Ok(redis::from_redis_value(answer)?)
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
            "rediss://a:1/#insecure",
        ] {
            assert!(Source::new(wrong).is_err(), "{wrong}");
        }
    }
}
