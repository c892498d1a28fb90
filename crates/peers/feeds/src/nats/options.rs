//! Options of a feed from NATS: addresses of servers, credentials, subjects.

use std::path::PathBuf;

use throng_nats_link::{ServerAddress, targets};

use crate::url::UrlError;

/// Stream and subjects that a feed reads, and how.
#[derive(Clone, Debug)]
pub struct NatsStream {
    pub feed: String,
    pub stream: String,
    /// The subjects in it, with `*` and `>`; without, all.
    pub subject: Option<String>,
    pub consumer: String,
    /// File with credentials, in place of those in the URL.
    pub credentials: Option<PathBuf>,
    /// The header that names a message's channel.
    pub channel_header: String,
    /// Whether a consumer that is made begins with what comes from then on.
    pub begins_with_newest: bool,
    pub data_bytes_max: usize,
}

#[derive(Clone)]
pub struct NatsFeedOptions {
    pub(super) targets: Vec<ServerAddress>,
    pub(super) reads: NatsStream,
}

impl NatsFeedOptions {
    /// `url` is `nats://user:password@host:port` or `nats://token@host:port`, several behind
    /// commas, with `tls://` where TLS must be spoken.
    ///
    /// # Errors
    /// [`UrlError`] with the reason.
    pub fn new(url: &str, reads: NatsStream) -> Result<Self, UrlError> {
        let unread = UrlError("it is not of the form nats://user:password@host:port");
        let targets = targets(url).map_err(|_| unread)?;
        Ok(Self { targets, reads })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn reads(subject: Option<&str>, begins_with_newest: bool) -> NatsStream {
        NatsStream {
            feed: "f".to_owned(),
            stream: "S".to_owned(),
            subject: subject.map(str::to_owned),
            consumer: "c".to_owned(),
            credentials: None,
            channel_header: "channel".to_owned(),
            begins_with_newest,
            data_bytes_max: 10,
        }
    }

    #[test]
    fn addresses() {
        let options = |url| NatsFeedOptions::new(url, reads(None, false));
        let good = options("nats://me:secret@a,nats://b").ok().unwrap();
        assert_eq!(good.targets.len(), 2);
        assert!(options("redis://a").is_err());
    }
}
