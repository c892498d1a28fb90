//! Statistics on a shard: news go to the first one, packets to all that have readers.

use std::sync::Arc;

use throng_broker::Draft;
use throng_grip::item::Item;
use throng_session::{Flow, Sender, Shard};
use throng_types::{ChannelName, ConnId, Millis, Save as _, Saved, ShardId};

use crate::grip::Grip;
use crate::mail::Mail;
use crate::session::Session;
use crate::shared::GripShared;
use crate::stats::{Book, Collector, News, StatsMail, transports};

/// Where everything is added up.
const COLLECTOR: ShardId = ShardId(0);

impl Grip {
    /// Adds a reader of statistics.
    pub(crate) fn read_stats(&mut self, conn: ConnId, shard: &mut impl Shard<Self>) {
        self.statistics.readers.push(conn);
        self.tell_readers(shard);
    }

    /// Handles the end of a connection, which may have been a reader's.
    pub(crate) fn stats_reader_left(&mut self, conn: ConnId, shard: &mut impl Shard<Self>) {
        let readers = &mut self.statistics.readers;
        let before = readers.len();
        readers.retain(|known| *known != conn);
        if readers.len() < before {
            self.tell_readers(shard);
        }
    }

    fn tell_readers(&mut self, shard: &mut impl Shard<Self>) {
        let is_read = !self.statistics.readers.is_empty();
        if shard.this() == COLLECTOR {
            self.reads(COLLECTOR, is_read, shard);
        } else {
            shard.mail(COLLECTOR, Mail::Stats(StatsMail::Reads(is_read)));
        }
    }

    fn reads(&mut self, from: ShardId, is_read: bool, shard: &impl Shard<Self>) {
        let bit = 1 << from.0;
        match is_read {
            true => self.statistics.read_on |= bit,
            false => self.statistics.read_on &= !bit,
        }
        let is_read = self.statistics.read_on != 0;
        if let Some(collector) = self.collector(shard) {
            collector.is_read = is_read;
        }
    }

    pub(crate) fn stats_mail(
        &mut self,
        from: Sender,
        mail: StatsMail,
        shard: &mut impl Shard<Self>,
    ) {
        match mail {
            StatsMail::News(news) => self.hear_news(news, shard),
            StatsMail::Reads(is_read) => {
                if let Sender::Shard(from) = from {
                    self.reads(from, is_read, shard);
                }
            }
            StatsMail::Packets(packets) => self.send_packets(&packets, shard),
        }
    }

    /// The collector, on the shard that has it.
    fn collector(&mut self, shard: &impl Shard<Self>) -> Option<&mut Collector> {
        let options = *self.shared.options.stats.as_ref()?;
        if shard.this() != COLLECTOR {
            return None;
        }
        let collector = self.statistics.collector.get_or_insert_with(|| {
            let from = format!("throng_{:016x}", shard.shared().node.number());
            Collector::new(options, from, shard.now().mono)
        });
        Some(collector)
    }

    fn hear_news(&mut self, news: Vec<News>, shard: &impl Shard<Self>) {
        let now = shard.now().mono;
        if let Some(collector) = self.collector(shard) {
            for news in news {
                collector.hear(news, now);
            }
        }
    }

    /// Sends news and due packets, once a turn.
    pub(crate) fn run_statistics(&mut self, shard: &mut impl Shard<Self>) {
        let now = shard.now().mono;
        let Some(news) = self.shared.stats_news(now) else {
            return;
        };
        if shard.this() != COLLECTOR {
            if !news.is_empty() {
                shard.mail(COLLECTOR, Mail::Stats(StatsMail::News(news)));
            }
            return;
        }
        self.hear_news(news, shard);
        let Some(collector) = self.collector(shard) else {
            return;
        };
        collector.step(now);
        let packets = collector.take();
        if packets.is_empty() {
            return;
        }
        let packets = Arc::new(packets);
        for to in (0..shard.shards()).map(ShardId) {
            if to != COLLECTOR && self.statistics.read_on & 1 << to.0 != 0 {
                let packets = packets.clone();
                shard.mail(to, Mail::Stats(StatsMail::Packets(packets)));
            }
        }
        self.send_packets(&packets, shard);
    }

    fn send_packets(&self, packets: &[Vec<u8>], shard: &mut impl Shard<Self>) {
        for &conn in &self.statistics.readers {
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

    /// Reads it back. Without statistics here it is of no use.
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
    transports: u8,
}

impl Published {
    pub(crate) fn of(draft: &Draft, shared: &GripShared) -> Option<Self> {
        shared.book_of_clients.as_ref()?;
        let item = Item::decode(&draft.channel, &draft.payload.bytes)?;
        Some(Self {
            channel: draft.channel.clone(),
            transports: transports(&item),
            id: item.id,
        })
    }

    pub(crate) fn tell(self, shared: &GripShared) {
        shared.stats(|book| book.published(self.channel, self.id, self.transports));
    }
}
