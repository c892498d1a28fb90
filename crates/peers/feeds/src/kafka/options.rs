//! Options of a feed from Kafka: addresses of brokers, credentials, topics.

use crate::scram::Hash;
use crate::url::{Url, UrlError};

/// Beside its data a record may have a key and headers of so many bytes.
const BESIDE_BYTES_MAX: usize = 128 << 10;
const PORT: u16 = 9092;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    Scram(Hash),
}

impl Mechanism {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Hash::Sha512) => "SCRAM-SHA-512",
        }
    }
}

#[derive(Clone)]
pub(super) struct Login {
    pub(super) mechanism: Mechanism,
    pub(super) user: String,
    pub(super) password: String,
}

#[derive(Clone, Debug)]
pub struct KafkaTopics {
    pub feed: String,
    pub topics: Vec<String>,
    pub group: String,
    /// The header that names a record's channel.
    pub channel_header: String,
    /// Whether a group that has read nothing begins with what comes from now on.
    pub begins_with_newest: bool,
    pub data_bytes_max: usize,
}

#[derive(Clone)]
pub struct KafkaFeedOptions {
    /// Brokers that know all others.
    pub(super) hosts: Vec<(String, u16)>,
    pub(super) is_secure: bool,
    pub(super) login: Option<Login>,
    pub(super) reads: KafkaTopics,
}

impl KafkaFeedOptions {
    /// `url` is `kafka://user:password@host:port,host:port`, with `kafkas://` for TLS and
    /// `?sasl=plain`, `scram-sha-256` or `scram-sha-512` (the default) for clients with a password.
    ///
    /// # Errors
    /// [`UrlError`] with the reason.
    pub fn new(url: &str, reads: KafkaTopics) -> Result<Self, UrlError> {
        let url = Url::read(url)?;
        let is_secure = match url.scheme.as_str() {
            "kafka" => false,
            "kafkas" => true,
            _ => return Err(UrlError("it does not begin with kafka:// or kafkas://")),
        };
        if !url.path.is_empty() {
            return Err(UrlError("it has a path; topics are named by `topics`"));
        }
        let mechanism = match url.option("sasl") {
            None | Some("scram-sha-512") => Mechanism::Scram(Hash::Sha512),
            Some("scram-sha-256") => Mechanism::Scram(Hash::Sha256),
            Some("plain") if is_secure => Mechanism::Plain,
            Some("plain") => {
                return Err(UrlError(
                    "SASL PLAIN sends the password in clear text: use kafkas://",
                ));
            }
            Some(_) => {
                return Err(UrlError("sasl is plain, scram-sha-256 or scram-sha-512"));
            }
        };
        let login = match (url.user.clone(), url.password.clone()) {
            (Some(user), Some(password)) => Some(Login {
                mechanism,
                user,
                password,
            }),
            (None, None) if url.option("sasl").is_none() => None,
            _ => return Err(UrlError("it needs both a user and a password, or neither")),
        };
        let hosts = url.hosts.into_iter();
        Ok(Self {
            hosts: hosts
                .map(|(host, port)| (host, port.unwrap_or(PORT)))
                .collect(),
            is_secure,
            login,
            reads,
        })
    }

    /// Length of the longest record that is read whole.
    pub(super) fn record_bytes_max(&self) -> usize {
        self.reads.data_bytes_max + BESIDE_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(url: &str) -> Result<KafkaFeedOptions, UrlError> {
        let reads = KafkaTopics {
            feed: "f".to_owned(),
            topics: vec!["t".to_owned()],
            group: "g".to_owned(),
            channel_header: "channel".to_owned(),
            begins_with_newest: false,
            data_bytes_max: 10,
        };
        KafkaFeedOptions::new(url, reads)
    }

    #[test]
    fn urls() {
        let good = options("kafka://a,b:1").unwrap();
        let hosts = [("a".to_owned(), 9092), ("b".to_owned(), 1)];
        assert_eq!(good.hosts, hosts);
        assert!(!good.is_secure && good.login.is_none());
        for (url, mechanism) in [
            ("kafkas://me:secret@a?sasl=plain", "PLAIN"),
            ("kafka://me:secret@a?sasl=scram-sha-256", "SCRAM-SHA-256"),
            ("kafka://me:secret@a", "SCRAM-SHA-512"),
        ] {
            let good = options(url).unwrap();
            assert_eq!(good.login.unwrap().mechanism.name(), mechanism, "{url}");
        }
        for wrong in [
            "redis://a",
            "kafka://",
            "kafka://a/topic",
            "kafka://me@a",
            "kafka://a?sasl=scram-sha-512",
            "kafka://me:secret@a?sasl=plain",
            "kafkas://me:secret@a?sasl=gssapi",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
