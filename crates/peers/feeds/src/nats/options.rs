//! Options of a feed from NATS: addresses of servers, credentials, subjects.

use std::path::PathBuf;

use throng_nats_link::{Target, targets};

use crate::url::UrlError;

/// Stream and subjects that a feed reads, and how.
#[derive(Clone, Copy, Debug)]
pub struct NatsStream<'a> {
    pub feed: &'a str,
    pub stream: &'a str,
    /// The subjects in it, with `*` and `>`; without, all.
    pub subject: Option<&'a str>,
    /// The durable consumer's name.
    pub consumer: &'a str,
    /// File with credentials, in place of those in the URL.
    pub credentials: Option<&'a str>,
    /// The header that names a message's channel.
    pub channel_header: &'a str,
    /// Whether a consumer that is made begins with what comes from then on.
    pub begins_with_newest: bool,
    /// The longest data, in bytes.
    pub data_bytes_max: usize,
}

/// Subjects of a stream, and where they are.
#[derive(Clone)]
pub struct NatsOptions {
    /// Servers of one cluster.
    pub(super) targets: Vec<Target>,
    pub(super) credentials: Option<PathBuf>,
    pub(super) stream: String,
    pub(super) subject: Option<String>,
    pub(super) consumer: String,
    /// Begins the places of messages.
    pub(super) name: String,
    pub(super) channel_header: String,
    pub(super) begins_with_newest: bool,
    pub(super) data_bytes_max: usize,
}

impl NatsOptions {
    /// `url` is `nats://user:password@host:port` or `nats://token@host:port`, several behind
    /// commas, with `tls://` where TLS must be spoken.
    ///
    /// # Errors
    /// [`UrlError`] with the reason.
    pub fn new(url: &str, reads: &NatsStream<'_>) -> Result<Self, UrlError> {
        let unread = UrlError("it is not of the form nats://user:password@host:port");
        Ok(Self {
            targets: targets(url).map_err(|_| unread)?,
            credentials: reads.credentials.map(PathBuf::from),
            stream: reads.stream.to_owned(),
            subject: reads.subject.map(str::to_owned),
            consumer: reads.consumer.to_owned(),
            name: format!("nats {} {}", reads.feed, reads.stream),
            channel_header: reads.channel_header.to_owned(),
            begins_with_newest: reads.begins_with_newest,
            data_bytes_max: reads.data_bytes_max,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) const READS: NatsStream<'_> = NatsStream {
        feed: "f",
        stream: "S",
        subject: None,
        consumer: "c",
        credentials: None,
        channel_header: "channel",
        begins_with_newest: false,
        data_bytes_max: 10,
    };

    #[test]
    fn addresses() {
        let options = NatsOptions::new("nats://me:secret@a,nats://b", &READS).unwrap();
        assert_eq!(options.targets.len(), 2);
        assert!(NatsOptions::new("redis://a", &READS).is_err());
    }
}
