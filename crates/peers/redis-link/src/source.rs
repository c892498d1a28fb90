//! Ways to a Redis: an address, a socket on this machine, or whatever a Sentinel names.
//!
//! `redis://` and `rediss://` (TLS), `unix:///path`, and
//! `redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/MASTER/DB`, where the credentials are the
//! master's (`rediss+sentinel://` where all of them speak TLS). Sentinels are asked without any,
//! one after the other, before each connection.

use std::path::Path;

use redis::RedisError;
use throng_peer::task::Net;

use crate::link::{ANSWER_BYTES_MAX, Link};
use crate::place::{Place, RedisUrlError};

/// Beginning of an address of Sentinels, and that of what it leads to.
const SENTINELS: [(&str, &str); 2] = [
    ("redis+sentinel://", "redis://"),
    ("rediss+sentinel://", "rediss://"),
];
/// Port of a Sentinel that names none.
const SENTINEL_PORT: u16 = 26379;

/// One way to a Redis.
#[derive(Clone)]
pub enum Source {
    /// Address that does not move.
    Direct(Place),
    /// A master that Sentinels name, which may move.
    Sentinels {
        /// Places of Sentinels, in the order in which they are asked.
        sentinels: Vec<Place>,
        /// Name of the master.
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
