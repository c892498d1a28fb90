//! Options of the broker on Redis.

use std::path::Path;

use throng_peer::task::Net;
use throng_redis_link::{Place, RedisSource};
use throng_remote::RemoteOptions;

use crate::answer::reason;
use crate::cluster::{self, Part};

#[derive(Clone)]
pub struct RedisOptions {
    /// `redis://user:password@host:port/db`, `rediss://` where TLS is spoken, or
    /// `redis+sentinel://user:password@sentinel:port,sentinel:port/master/db`, or one of those that
    /// [`servers`] makes of `redis+cluster://user:password@host:port,host:port`.
    pub url: String,
    pub remote: RemoteOptions,
}

/// The URLs of several servers, with commas between, one for each driver: a cluster has several. A
/// comma within an address of Sentinels or of a cluster has no URL behind it.
#[must_use]
pub fn servers(urls: &str) -> Vec<String> {
    let mut servers: Vec<String> = Vec::new();
    for part in urls.split(',') {
        match servers.last_mut() {
            Some(last) if !part.contains("://") => {
                last.push(',');
                last.push_str(part);
            }
            _ => servers.push(part.trim().to_owned()),
        }
    }
    let each = servers.into_iter().flat_map(|url| {
        if cluster::is_cluster(&url) {
            cluster::parts(&url).collect()
        } else {
            vec![url]
        }
    });
    each.collect()
}

/// Why a URL names no broker: it is malformed, a Unix socket, or a cluster written otherwise.
#[derive(Debug, thiserror::Error)]
pub enum BrokerUrlError {
    #[error(transparent)]
    Malformed(#[from] throng_redis_link::RedisUrlError),
    #[error("the broker is reached by redis://, rediss:// or redis+sentinel://, not by a socket")]
    NotSupported,
    #[error("the address of a cluster is redis+cluster://user:password@host:port,host:port")]
    NoCluster,
}

#[derive(Clone)]
pub(crate) enum Target {
    One(RedisSource),
    Part(Part),
}

/// The commands by which publications go around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verbs {
    pub(crate) publish: &'static str,
    pub(crate) subscribe: &'static str,
    pub(crate) unsubscribe: &'static str,
    /// Form in which `PUBSUB` counts subscribers by name; those by pattern are none of ours.
    pub(crate) numsub: &'static str,
}

const EVERYWHERE: Verbs = Verbs {
    publish: "PUBLISH",
    subscribe: "SUBSCRIBE",
    unsubscribe: "UNSUBSCRIBE",
    numsub: "NUMSUB",
};

/// Within one slot of a cluster.
const WITHIN_A_SLOT: Verbs = Verbs {
    publish: "SPUBLISH",
    subscribe: "SSUBSCRIBE",
    unsubscribe: "SUNSUBSCRIBE",
    numsub: "SHARDNUMSUB",
};

impl Target {
    pub(crate) fn new(url: &str) -> Result<Self, BrokerUrlError> {
        if cluster::is_cluster(url) {
            return Part::new(url)
                .map(Self::Part)
                .ok_or(BrokerUrlError::NoCluster);
        }
        let source = RedisSource::new(url)?;
        match &source {
            RedisSource::Direct(place) if place.host.starts_with('/') => {
                Err(BrokerUrlError::NotSupported)
            }
            _ => Ok(Self::One(source)),
        }
    }

    /// Whether only others know that it is somewhere else. A server of a cluster says so itself.
    pub(crate) const fn may_move(&self) -> bool {
        match self {
            Self::One(RedisSource::Sentinels { .. }) => true,
            Self::One(RedisSource::Direct(_)) | Self::Part(_) => false,
        }
    }

    pub(crate) const fn verbs(&self) -> Verbs {
        match self {
            Self::One(_) => EVERYWHERE,
            Self::Part(_) => WITHIN_A_SLOT,
        }
    }

    /// Beginning of all names, where the configuration says `prefix`.
    pub(crate) fn prefix(&self, prefix: &str) -> String {
        match self {
            Self::One(_) => prefix.to_owned(),
            Self::Part(part) => format!("{prefix}:{{{}}}", part.tag),
        }
    }

    pub(crate) async fn find(
        &self,
        net: &Net,
        timeout_ms: u64,
        authorities: Option<&Path>,
    ) -> Result<Place, String> {
        match self {
            Self::One(source) => { source.find(net, timeout_ms, authorities).await }
                .map_err(|error| format!("no Sentinel names a master: {}", reason(error))),
            Self::Part(part) => part.find(net, timeout_ms, authorities).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_servers_have_commas_between() {
        let urls = "redis://a,redis+sentinel://b:1,c:2/main, rediss://d";
        let all = ["redis://a", "redis+sentinel://b:1,c:2/main", "rediss://d"];
        assert_eq!(servers(urls), all);
        assert_eq!(servers("redis+cluster://a:1,b:2/").len(), 12);
    }

    #[test]
    fn a_url_names_a_server_a_user_and_a_database() {
        let place = |url| match Target::new(url) {
            Ok(Target::One(RedisSource::Direct(place))) => place,
            _ => panic!("{url}"),
        };
        let wanted = Place {
            host: "redis.example".to_owned(),
            port: 7000,
            is_tls: false,
            user: Some("ann".to_owned()),
            password: Some("p@ss".to_owned()),
            db: 3,
        };
        assert_eq!(place("redis://ann:p%40ss@redis.example:7000/3"), wanted);
        assert!(place("rediss://a:1").is_tls);
        assert!(Target::new("redis+sentinel://a:1,b/main").is_ok_and(|it| it.may_move()));
        for wrong in ["", "x", "http://a", "unix:///a", "rediss://a:1/#insecure"] {
            assert!(Target::new(wrong).is_err(), "{wrong}");
        }
    }
}
