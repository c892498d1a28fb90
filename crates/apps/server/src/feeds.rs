//! Feeds: what the configuration says, and how their publications reach a shard's hub.

use std::sync::Arc;
use std::time::Duration;

use throng_config::{Config, FeedBegin, FeedKind};
use throng_engine::MailboxSender;
use throng_feeds::{
    Feed, FeedOptions, Inlet, KafkaOptions, KafkaTopics, NatsOptions, NatsStream, PostgresOptions,
    RedisOptions, Round, SourceOptions, UrlError,
};

use crate::options::StartError;
use crate::shard::{Letter, Mail};

/// The feeds of a configuration, before they start.
pub(crate) fn feeds_of(config: &Config) -> Result<Vec<Feed>, StartError> {
    let feed = |options: &throng_config::Feed| {
        let source = source_of(options, config).map_err(|error| {
            let name = &options.name;
            StartError::Feed(format!(
                "the url of the feed {name:?} cannot be used: {error}"
            ))
        })?;
        Ok(Feed::new(FeedOptions {
            name: options.name.clone(),
            source,
            channel: options.channel.clone(),
            data_bytes_max: config.limits.message_bytes_max as usize,
            batch_max: options.batch as usize,
            is_on_disk: crate::history::folder(config).is_some(),
        }))
    };
    config.feeds.iter().map(feed).collect()
}

fn source_of(options: &throng_config::Feed, config: &Config) -> Result<SourceOptions, UrlError> {
    let url = options.url.as_ref().map_or("", |url| url.expose());
    let poll = Duration::from_millis(options.poll_ms);
    let data_bytes_max = config.limits.message_bytes_max as usize;
    Ok(match options.kind {
        FeedKind::Postgres => SourceOptions::Postgres(PostgresOptions::new(
            url,
            &options.name,
            &options.table,
            options.notify.as_deref(),
            poll,
            data_bytes_max,
        )?),
        FeedKind::Redis => SourceOptions::Redis(RedisOptions::new(
            url,
            &options.name,
            options.stream.as_deref().unwrap_or_default(),
            &options.group,
        )?),
        FeedKind::Kafka => SourceOptions::Kafka(KafkaOptions::new(
            url,
            &KafkaTopics {
                feed: &options.name,
                topics: &options.topics,
                group: &options.group,
                channel_header: &options.channel_header,
                begins_with_newest: options.begin == FeedBegin::Newest,
                data_bytes_max,
            },
        )?),
        FeedKind::Nats => SourceOptions::Nats(NatsOptions::new(
            url,
            &NatsStream {
                feed: &options.name,
                stream: options.stream.as_deref().unwrap_or_default(),
                subject: options.subject.as_deref(),
                consumer: &options.group,
                credentials: options.credentials.as_deref(),
                channel_header: &options.channel_header,
                begins_with_newest: options.begin == FeedBegin::Newest,
                data_bytes_max,
            },
        )?),
    })
}

/// The mailboxes of all shards, as feeds see them.
pub(crate) struct Shards<M>(pub(crate) Vec<MailboxSender<Mail<M>>>);

impl<M: Send + 'static> Inlet for Shards<M> {
    fn shards(&self) -> u8 {
        self.0.len() as u8
    }

    fn send(&self, shard: u8, round: Round) -> Result<(), Round> {
        let Some(mailbox) = self.0.get(usize::from(shard)) else {
            return Err(round);
        };
        let sent = mailbox.send(Mail(Letter::Feed(Box::new(round))));
        sent.map_err(|Mail(back)| match back {
            Letter::Feed(round) => *round,
            // A mailbox gives back what it was given.
            _ => unreachable!("another letter"),
        })
    }
}

/// All shards' mailboxes, for any feed.
pub(crate) fn inlet<M: Send + 'static>(mailboxes: &[MailboxSender<Mail<M>>]) -> Arc<dyn Inlet> {
    Arc::new(Shards(mailboxes.to_vec()))
}
