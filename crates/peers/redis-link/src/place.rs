//! A server of Redis.

use std::path::Path;

use redis::{Client, ConnectionAddr};
use throng_peer::{Dial, DialTls};

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
                http2: false,
            }),
            timeout_ms,
        }
    }
}

/// The parts of an address of several servers: `BEGIN` `CREDENTIALS@` `HOST,HOST` `/PATH`.
#[derive(Clone, Copy, Debug)]
pub struct Servers<'u> {
    /// Beginning of an address of one of them.
    pub scheme: &'static str,
    /// With the `@` behind them; empty without any.
    pub credentials: &'u str,
    pub hosts: &'u str,
    pub path: &'u str,
}

impl<'u> Servers<'u> {
    /// Splits an address that begins with the first of a pair; the second is its scheme. `None`
    /// for any other address.
    #[must_use]
    pub fn read(url: &'u str, schemes: &[(&str, &'static str)]) -> Option<Self> {
        let mut schemes = schemes.iter();
        let (rest, scheme) =
            schemes.find_map(|(begins, scheme)| Some((url.strip_prefix(begins)?, *scheme)))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let hosts = authority.rfind('@').map_or(0, |at| at + 1);
        let (credentials, hosts) = authority.split_at(hosts);
        Some(Self {
            scheme,
            credentials,
            hosts,
            path,
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::RedisSource;

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
            assert!(RedisSource::new(good).is_ok(), "{good}");
        }
        for wrong in [
            "x",
            "redis+sentinel://a:1",
            "redis+sentinel://a:1/",
            "redis+sentinel://a:x/mymaster",
            "redis+sentinel://a:1/mymaster/x",
            "rediss://a:1/#insecure",
        ] {
            assert!(RedisSource::new(wrong).is_err(), "{wrong}");
        }
    }
}
