//! What the driver is made of.

use throng_remote::RemoteOptions;

/// What the driver is made of.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://user:password@host:port/db`.
    pub url: String,
    /// What all drivers are made of.
    pub remote: RemoteOptions,
}

/// Why a URL is not one of Redis that can be used.
#[derive(Debug, thiserror::Error)]
pub enum RedisUrlError {
    /// It cannot be read.
    #[error("it is not a URL of the form redis://user:password@host:port/db")]
    Malformed,
    /// What it asks for is not there yet.
    #[error("only redis://host:port is supported, without TLS, sockets and Sentinel")]
    NotSupported,
}

/// Where Redis is, and who we are there.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) db: i64,
}

impl Target {
    pub(crate) fn new(url: &str) -> Result<Self, RedisUrlError> {
        let client = redis::Client::open(url).map_err(|_| RedisUrlError::Malformed)?;
        let info = client.get_connection_info();
        let redis::ConnectionAddr::Tcp(host, port) = info.addr() else {
            return Err(RedisUrlError::NotSupported);
        };
        let settings = info.redis_settings();
        Ok(Self {
            host: host.clone(),
            port: *port,
            user: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            db: settings.db(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server_a_user_and_a_database() {
        let target = Target::new("redis://ann:p%40ss@redis.example:7000/3").expect("a URL");
        assert_eq!((&*target.host, target.port), ("redis.example", 7000));
        assert_eq!(target.user.as_deref(), Some("ann"));
        assert_eq!(target.password.as_deref(), Some("p@ss"));
        assert_eq!(target.db, 3);
        for wrong in ["", "x", "http://a", "rediss://a:1", "unix:///a"] {
            assert!(Target::new(wrong).is_err(), "{wrong}");
        }
    }
}
