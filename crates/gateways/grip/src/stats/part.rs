//! A shard's part in statistics.

use std::sync::Arc;

use throng_broker::Draft;
use throng_grip::item::Item;
use throng_grip::stats::SubscriptionMode;
use throng_session::{Flow, Sender};
use throng_types::{ConnId, Millis, Save as _, Saved, ShardId};

use super::book::Book;
use super::collector::Collector;
use super::{StatsEvent, StatsMail, bit};
use crate::GripShard;
use crate::event::Session;
use crate::order::Mail;
use crate::shared::GripShared;

/// The shard that adds everything up.
const COLLECTOR: ShardId = ShardId(0);

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
        shard: &mut impl GripShard,
    ) {
        self.readers.push(conn);
        self.tell_readers(own, shard);
    }

    /// Handles the end of a connection, which may have been a reader's.
    pub(crate) fn closed(&mut self, conn: ConnId, own: &GripShared, shard: &mut impl GripShard) {
        let before = self.readers.len();
        self.readers.retain(|known| *known != conn);
        if self.readers.len() < before {
            self.tell_readers(own, shard);
        }
    }

    fn tell_readers(&mut self, own: &GripShared, shard: &mut impl GripShard) {
        let is_read = !self.readers.is_empty();
        if shard.this() == COLLECTOR {
            self.reads(COLLECTOR, is_read, own, shard);
        } else {
            shard.mail(COLLECTOR, Mail::Stats(StatsMail::Reads(is_read)));
        }
    }

    fn reads(&mut self, from: ShardId, is_read: bool, own: &GripShared, shard: &impl GripShard) {
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
        shard: &mut impl GripShard,
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

    fn collector(&mut self, own: &GripShared, shard: &impl GripShard) -> Option<&mut Collector> {
        let options = own.options.stats?;
        if shard.this() != COLLECTOR {
            return None;
        }
        Some(self.collector.get_or_insert_with(|| {
            let from = format!("throng_{:016x}", shard.shared().node.number());
            Collector::new(options, from, shard.now().mono)
        }))
    }

    fn add(&mut self, news: Vec<StatsEvent>, own: &GripShared, shard: &impl GripShard) {
        let now = shard.now().mono;
        if let Some(collector) = self.collector(own, shard) {
            for news in news {
                collector.add(news, now);
            }
        }
    }

    /// Sends news and due packets, once a turn.
    pub(crate) fn run(&mut self, own: &GripShared, shard: &mut impl GripShard) {
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

    fn send(&self, packets: &[Vec<u8>], shard: &mut impl GripShard) {
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
    fn stats_news(&self, now: Millis) -> Option<Vec<StatsEvent>> {
        let mut book = self.book_of_clients.as_ref()?.borrow_mut();
        book.step(now);
        Some(book.take())
    }

    /// Returns the time of the next repeated reports.
    pub(crate) fn stats_deadline(&self) -> Option<Millis> {
        self.book_of_clients.as_ref()?.borrow().deadline()
    }
}

/// News of an item that is about to be published; none without statistics.
pub(crate) fn published(draft: &Draft, own: &GripShared) -> Option<StatsEvent> {
    own.book_of_clients.as_ref()?;
    let item = Item::decode(&draft.channel, &draft.payload.bytes)?;
    let forms = [
        (SubscriptionMode::Response, item.http_response.is_some()),
        (SubscriptionMode::Stream, item.http_stream.is_some()),
        (SubscriptionMode::WebSocket, item.ws_message.is_some()),
    ];
    let bits = forms.map(|(mode, is_there)| u8::from(is_there) * bit(mode));
    Some(StatsEvent::Published {
        channel: draft.channel.clone(),
        id: item.id.map(Into::into),
        transports: bits.iter().sum(),
    })
}
