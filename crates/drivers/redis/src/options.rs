//! What the driver is made of.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use throng_broker::{Namespaces, ReplyLimit};
use throng_metrics::Counters;

/// What the driver is made of.
#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://user:password@host:port/db`.
    pub url: String,
    /// Begins every name in Redis: nodes with the same one are one cluster.
    pub prefix: String,
    /// The options of channels; the same on every node.
    pub namespaces: Arc<Namespaces>,
    /// How much one reply may carry.
    pub reply: ReplyLimit,
    /// How long a stream that nobody touches remembers its position, in milliseconds. Nodes touch
    /// those of their subscribers.
    pub position_ttl_ms: u64,
    /// How long Redis may take to answer, and to be connected to, in milliseconds. Who subscribes
    /// while there is no connection waits as long.
    pub timeout_ms: u64,
    /// Any number; differs from node to node and from start to start. Epochs follow from it.
    pub seed: u64,
    /// Where the driver counts; nobody else may.
    pub counters: Arc<Counters>,
    /// The time in Unix milliseconds, in the place of Redis's clock; zero but in tests, in which
    /// time passes faster.
    pub clock_ms: Arc<AtomicU64>,
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
