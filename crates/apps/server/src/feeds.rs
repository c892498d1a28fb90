//! Feeds: what the configuration says, and how their publications reach a shard's hub.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use throng_config::{Config, FeedBegin, FeedKind};
use throng_engine::MailboxSender;
use throng_feeds::{
    Call, Feed, FeedOptions, FeedOrder, FeedsPeer, KafkaFeedOptions, KafkaTopics, NatsFeedOptions,
    NatsStream, PostgresFeedOptions, RedisFeedOptions, Reply, SourceOptions, UrlError,
};
use throng_outward::{CallSender, Host};
use throng_sys::random;

use crate::options::StartError;
use crate::shard::{Message, ShardMail};
use crate::waiting::FeedRound;

/// Bound of the wait for sources that are given back to a successor.
const PAUSED_WITHIN: Duration = Duration::from_secs(10);
/// Bound of the same wait when the server ends: a node that goes on elsewhere waits longer for
/// sources that are not given back.
const ENDED_WITHIN: Duration = Duration::from_secs(1);

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
            is_traced: config.trace.otlp_url.is_some(),
        }))
    };
    config.feeds.iter().map(feed).collect()
}

fn source_of(options: &throng_config::Feed, config: &Config) -> Result<SourceOptions, UrlError> {
    let url = options.url.as_ref().map_or("", |url| url.expose());
    let data_bytes_max = config.limits.message_bytes_max as usize;
    Ok(match options.kind {
        FeedKind::Postgres => SourceOptions::Postgres(PostgresFeedOptions::new(
            url,
            &options.name,
            &options.table,
            options.notify.as_deref(),
            options.poll_ms,
            data_bytes_max,
        )?),
        FeedKind::Kafka => SourceOptions::Kafka(KafkaFeedOptions::new(
            url,
            KafkaTopics {
                feed: options.name.clone(),
                topics: options.topics.clone(),
                group: options.group.clone(),
                channel_header: options.channel_header.clone(),
                begins_with_newest: options.begin == FeedBegin::Newest,
                data_bytes_max,
            },
        )?),
        FeedKind::Redis => SourceOptions::Redis(RedisFeedOptions::new(
            url,
            &options.name,
            options.stream.as_deref().unwrap_or_default(),
            &options.group,
        )?),
        FeedKind::Nats => SourceOptions::Nats(NatsFeedOptions::new(
            url,
            NatsStream {
                feed: options.name.clone(),
                stream: options.stream.clone().unwrap_or_default(),
                subject: options.subject.clone(),
                consumer: options.group.clone(),
                credentials: options.credentials.as_ref().map(PathBuf::from),
                channel_header: options.channel_header.clone(),
                begins_with_newest: options.begin == FeedBegin::Newest,
                data_bytes_max,
            },
        )?),
    })
}

/// All feeds of a server, on one thread; without any there is none.
pub(crate) struct Feeds {
    host: Option<Arc<Host<Call>>>,
}

impl Feeds {
    /// Starts them; they wait until [`Feeds::go_on`].
    pub(crate) fn start(
        feeds: &[Feed],
        mailboxes: &[MailboxSender<ShardMail>],
    ) -> io::Result<Self> {
        if feeds.is_empty() {
            return Ok(Self { host: None });
        }
        let (feeds, shards) = (feeds.to_vec(), mailboxes.len() as u8);
        let make = move || FeedsPeer::new(feeds, shards, random::seed(), crate::files::read);
        let calls = Arc::new(OnceLock::new());
        let deliver = deliver(mailboxes.to_vec(), calls.clone());
        let host = throng_outward::start("feeds", make, Box::new(deliver))?;
        let _ = calls.set(host.calls());
        let host = Some(Arc::new(host));
        Ok(Self { host })
    }

    /// Thread of the feeds, which runs as long as a handle exists.
    pub(crate) fn host(&self) -> Option<Arc<Host<Call>>> {
        self.host.clone()
    }

    pub(crate) fn go_on(&self) {
        self.call(Call::Order(FeedOrder::Go));
    }

    /// Has them give their sources back, and waits until they have, at most ten seconds.
    pub(crate) fn pause(&self) {
        self.call(Call::Order(FeedOrder::Pause));
        self.wait_until_idle(PAUSED_WITHIN);
    }

    /// The server ends: so do they, within about a second.
    pub(crate) fn end(&self) {
        self.call(Call::Order(FeedOrder::End));
    }

    /// Waits for the end, at most a second.
    pub(crate) fn wait(&self) {
        self.wait_until_idle(ENDED_WITHIN);
    }

    /// False if no receiver is left.
    fn call(&self, call: Call) -> bool {
        self.host
            .as_ref()
            .is_some_and(|host| host.calls().send(call))
    }

    fn wait_until_idle(&self, most: Duration) {
        // Bound: always empty, since the sender is only dropped.
        let (who, idle) = channel();
        if self.call(Call::WhenIdle(who)) {
            let _ = idle.recv_timeout(most);
        }
    }
}

/// Takes what feeds say to where it belongs.
fn deliver(
    mailboxes: Vec<MailboxSender<ShardMail>>,
    calls: Arc<OnceLock<CallSender<Call>>>,
) -> impl FnMut(Reply) -> Result<(), Reply> + Send {
    move |reply| {
        let Reply::Round(round) = reply else {
            return Ok(());
        };
        let shard = usize::from(round.id.shard);
        let (Some(mailbox), Some(feeds)) = (mailboxes.get(shard), calls.get()) else {
            return Err(Reply::Round(round));
        };
        let feeds = feeds.clone();
        let message = Message::Feed(Box::new(FeedRound { round, feeds }));
        let sent = mailbox.send(ShardMail(message));
        sent.map_err(|ShardMail(back)| match back {
            Message::Feed(back) => Reply::Round(back.round),
            // A mailbox gives back what it was given.
            _ => unreachable!("another message"),
        })
    }
}
