//! Statistics as Pushpin publishes them, for readers by ZeroMQ.
//!
//! Each shard keeps a [`Book`] of its clients and sends its news to the first shard, whose
//! [`Collector`] adds them up and makes packets. The packets go to every shard with readers.
//! Without the socket nothing of this is there.

mod book;
mod collector;
mod lap;
mod reader;

use std::net::IpAddr;
use std::sync::Arc;

use throng_broker::Draft;
use throng_grip::item::Item;
use throng_grip::stats::{StatsFormat, SubscriptionMode};
use throng_session::{ClientId, Flow, Sender, Shard};
use throng_types::{ChannelName, ConnId, Millis, Save as _, Saved, ShardId};

use crate::event::Session;
use crate::mail::Mail;
use crate::shard::Grip;
use crate::shared::GripShared;

pub(crate) use book::{Book, NewClient};
use collector::Collector;
pub(crate) use reader::StatsReader;

/// The shard that adds everything up.
const COLLECTOR: ShardId = ShardId(0);

/// Options of statistics, from the configuration.
#[derive(Clone, Copy, Debug)]
pub struct StatsOptions {
    pub format: StatsFormat,
    /// Between two reports, in milliseconds; 0 for none.
    pub report_interval_ms: u64,
    pub sends_connections: bool,
    /// Milliseconds that readers remember a connection.
    pub connection_ttl_ms: u64,
    /// Milliseconds that readers remember a channel's subscribers.
    pub subscription_ttl_ms: u64,
    /// Milliseconds that a channel of long polls is reported with subscribers after the last one
    /// was answered: mostly the client asks again.
    pub linger_ms: u64,
}

/// Mail about statistics, between shards.
#[derive(Debug)]
pub enum StatsMail {
    /// News from a shard, for the collector.
    News(Vec<News>),
    /// Whether the sending shard has readers.
    Reads(bool),
    /// Packets for the readers of the receiving shard.
    Packets(Arc<Vec<Vec<u8>>>),
}

/// A route's id; empty for all routes that have none.
type RouteId = Arc<str>;

/// Forms of an item, as bits by [`SubscriptionMode`].
type Transports = u8;

/// Report of a shard to the collector.
#[derive(Clone, Debug)]
pub enum News {
    Connected(Box<Connected>),
    /// A connection has closed.
    Gone {
        id: Box<ClientId>,
        route: RouteId,
        /// Minutes of it that began since the last report.
        minutes: u64,
    },
    /// A sign of life on a route.
    Active {
        route: RouteId,
    },
    /// A connection has subscribed to a channel.
    Subscribed(Subscriber),
    /// A connection has left a channel.
    Left(Subscriber),
    Published {
        channel: ChannelName,
        id: Option<Box<str>>,
        transports: Transports,
    },
}

/// Connection as reported to the collector.
#[derive(Clone, Debug)]
pub struct Connected {
    id: ClientId,
    route: RouteId,
    peer: IpAddr,
    is_websocket: bool,
    is_tls: bool,
    /// Whether this is its first report.
    is_new: bool,
    /// Minutes of it that began since the last report.
    minutes: u64,
}

/// A connection's interest in a channel.
#[derive(Clone, Debug)]
pub struct Subscriber {
    channel: ChannelName,
    mode: SubscriptionMode,
    route: RouteId,
}

const fn bit(mode: SubscriptionMode) -> Transports {
    1 << mode as u8
}

const fn transports(item: &Item) -> Transports {
    let mut out = 0;
    if item.http_response.is_some() {
        out |= bit(SubscriptionMode::Response);
    }
    if item.http_stream.is_some() {
        out |= bit(SubscriptionMode::Stream);
    }
    if item.ws_message.is_some() {
        out |= bit(SubscriptionMode::WebSocket);
    }
    out
}

/// A shard's part in statistics, beside its book of clients.
#[derive(Default)]
pub(crate) struct Statistics {
    /// On the first shard, if statistics are configured.
    collector: Option<Collector>,
    /// Bound: the connections to this shard's socket.
    pub(crate) readers: Vec<ConnId>,
    /// On the first shard: the shards that have readers, as bits.
    pub(crate) read_on: u64,
}

impl Statistics {
    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.collector.as_ref()?.deadline()
    }

    pub(crate) fn reader_came(
        &mut self,
        conn: ConnId,
        own: &GripShared,
        shard: &mut impl Shard<Grip>,
    ) {
        self.readers.push(conn);
        self.tell_readers(own, shard);
    }

    /// Handles the end of a connection, which may have been a reader's.
    pub(crate) fn closed(&mut self, conn: ConnId, own: &GripShared, shard: &mut impl Shard<Grip>) {
        let before = self.readers.len();
        self.readers.retain(|known| *known != conn);
        if self.readers.len() < before {
            self.tell_readers(own, shard);
        }
    }

    fn tell_readers(&mut self, own: &GripShared, shard: &mut impl Shard<Grip>) {
        let is_read = !self.readers.is_empty();
        if shard.this() == COLLECTOR {
            self.reads(COLLECTOR, is_read, own, shard);
        } else {
            shard.mail(COLLECTOR, Mail::Stats(StatsMail::Reads(is_read)));
        }
    }

    fn reads(&mut self, from: ShardId, is_read: bool, own: &GripShared, shard: &impl Shard<Grip>) {
        let bit = 1 << from.0;
        match is_read {
            true => self.read_on |= bit,
            false => self.read_on &= !bit,
        }
        let is_read = self.read_on != 0;
        if let Some(collector) = self.collector(own, shard) {
            collector.is_read = is_read;
        }
    }

    pub(crate) fn mail(
        &mut self,
        from: Sender,
        mail: StatsMail,
        own: &GripShared,
        shard: &mut impl Shard<Grip>,
    ) {
        match mail {
            StatsMail::News(news) => self.add(news, own, shard),
            StatsMail::Reads(is_read) => {
                if let Sender::Shard(from) = from {
                    self.reads(from, is_read, own, shard);
                }
            }
            StatsMail::Packets(packets) => self.send(&packets, shard),
        }
    }

    fn collector(&mut self, own: &GripShared, shard: &impl Shard<Grip>) -> Option<&mut Collector> {
        let options = own.options.stats?;
        if shard.this() != COLLECTOR {
            return None;
        }
        Some(self.collector.get_or_insert_with(|| {
            let from = format!("throng_{:016x}", shard.shared().node.number());
            Collector::new(options, from, shard.now().mono)
        }))
    }

    fn add(&mut self, news: Vec<News>, own: &GripShared, shard: &impl Shard<Grip>) {
        let now = shard.now().mono;
        if let Some(collector) = self.collector(own, shard) {
            for news in news {
                collector.add(news, now);
            }
        }
    }

    /// Sends news and due packets, once a turn.
    pub(crate) fn run(&mut self, own: &GripShared, shard: &mut impl Shard<Grip>) {
        let now = shard.now().mono;
        let Some(news) = own.stats_news(now) else {
            return;
        };
        if shard.this() != COLLECTOR {
            if !news.is_empty() {
                shard.mail(COLLECTOR, Mail::Stats(StatsMail::News(news)));
            }
            return;
        }
        self.add(news, own, shard);
        let Some(collector) = self.collector(own, shard) else {
            return;
        };
        collector.step(now);
        let packets = collector.take();
        if packets.is_empty() {
            return;
        }
        let packets = Arc::new(packets);
        for to in (0..shard.shards()).map(ShardId) {
            if to != COLLECTOR && self.read_on & 1 << to.0 != 0 {
                let packets = packets.clone();
                shard.mail(to, Mail::Stats(StatsMail::Packets(packets)));
            }
        }
        self.send(&packets, shard);
    }

    fn send(&self, packets: &[Vec<u8>], shard: &mut impl Shard<Grip>) {
        for &conn in &self.readers {
            let waiting_bytes = shard.queued_bytes(conn);
            shard.with(conn, |session, cx| {
                if let Session::Stats(reader) = session {
                    reader.packets(packets, waiting_bytes, cx);
                }
                Flow::Stay
            });
        }
    }
}

impl GripShared {
    /// Lets the shard's book of clients be changed; nothing happens without statistics.
    pub(crate) fn stats(&self, change: impl FnOnce(&mut Book)) {
        if let Some(book) = &self.book_of_clients {
            change(&mut book.borrow_mut());
        }
    }

    /// Appends a client's state in statistics.
    pub(crate) fn save_known(&self, conn: ConnId, out: &mut Vec<u8>) {
        match &self.book_of_clients {
            Some(book) => book.borrow().save(conn, out),
            None => false.save(out),
        }
    }

    /// Reads a client's state, which is dropped if there are no statistics here.
    pub(crate) fn load_known(&self, conn: ConnId, from: &mut Saved<'_>) -> Option<()> {
        match &self.book_of_clients {
            Some(book) => book.borrow_mut().load(conn, from),
            None => Book::new(0).load(conn, from),
        }
    }

    /// Takes the news since the last call; `None` without statistics.
    fn stats_news(&self, now: Millis) -> Option<Vec<News>> {
        let mut book = self.book_of_clients.as_ref()?.borrow_mut();
        book.step(now);
        Some(book.take())
    }

    /// Returns the time of the next repeated reports.
    pub(crate) fn stats_deadline(&self) -> Option<Millis> {
        self.book_of_clients.as_ref()?.borrow().deadline()
    }
}

/// An item that is about to be published, for [`Book::published`]; none without statistics.
pub(crate) struct Published {
    channel: ChannelName,
    id: Option<String>,
    transports: Transports,
}

impl Published {
    pub(crate) fn of(draft: &Draft, own: &GripShared) -> Option<Self> {
        own.book_of_clients.as_ref()?;
        let item = Item::decode(&draft.channel, &draft.payload.bytes)?;
        Some(Self {
            channel: draft.channel.clone(),
            transports: transports(&item),
            id: item.id,
        })
    }

    pub(crate) fn tell(self, own: &GripShared) {
        own.stats(|book| book.published(self.channel, self.id, self.transports));
    }
}
