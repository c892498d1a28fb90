//! One shard's part of the gateway: orders of sessions and mail of other shards, carried out, and
//! events of backends on their way to sessions, also to those whose connection has closed.

use std::collections::BTreeMap;
use std::rc::Rc;

use throng_broker::home_of;
use throng_http1::origin::{OriginEvent, OriginRequest};
use throng_metrics::{Counter, Gauge};
use throng_session::{Event, Flow, Sender};
use throng_types::{ChannelName, ConnId, End, Millis};

use crate::event::Session;
use crate::exchanges::{Exchanges, OriginClient};
use crate::following::leave_channel;
use crate::forms::hub_channel;
use crate::order::{ItemProgress, Mail, Order};
use crate::publishing::{ItemQueue, answer};
use crate::sequencer::LastItem;
use crate::shared::GripShared;
use crate::stats::Statistics;
use crate::topics::Topics;
use crate::{Cx, GripShard, look};

const MINUTE_MS: u64 = 60_000;
/// Between two looks at sessions without a connection, in milliseconds.
const GONE_MS: u64 = 1000;

/// One shard's clients and publishers of GRIP.
pub struct Grip {
    pub(crate) shared: Rc<GripShared>,
    pub(crate) backends: Box<dyn OriginClient>,
    pub(crate) exchanges: Exchanges,
    pub(crate) items: ItemQueue,
    /// Sessions whose connection has closed, and whose backends are still to be notified. Bound:
    /// the shard's connections.
    pub(crate) gone: BTreeMap<ConnId, Session>,
    pub(crate) gone_at: Millis,
    pub(crate) topics: Topics,
    pub(crate) statistics: Statistics,
    /// Milliseconds of clients that are not a minute yet, and up to when they were counted.
    pub(crate) connected_ms: u64,
    pub(crate) counted_at: Millis,
}

impl Grip {
    #[must_use]
    pub fn new(shared: GripShared, backends: Box<dyn OriginClient>) -> Self {
        let shared = Rc::new(shared);
        Self {
            backends,
            exchanges: Exchanges::default(),
            items: ItemQueue::new(shared.clone()),
            shared,
            gone: BTreeMap::new(),
            gone_at: Millis::default(),
            topics: Topics::default(),
            statistics: Statistics::default(),
            connected_ms: 0,
            counted_at: Millis::default(),
        }
    }

    pub(crate) fn carry_out(&mut self, order: Order, shard: &mut impl GripShard) {
        match order {
            Order::Ask {
                conn,
                token,
                request,
            } => self.ask(conn, token, *request, shard),
            Order::Tell { request } => self.tell(*request, shard),
            Order::Send { conn, bytes } => self.exchanges.send(conn, bytes),
            Order::Finish { conn } => self.exchanges.finish(conn),
            Order::Forget { conn } => self.exchanges.remove(conn),
            Order::Leave { conn } => leave(conn, shard),
            Order::Left { conn } => {
                shard.with(conn, |session, cx| session.left(cx));
            }
            Order::Publish {
                reply_to,
                item,
                patient,
                counts,
                trace,
            } => self
                .items
                .publish((reply_to, counts), (item, trace), patient, shard),
            Order::Carried { receipt, count } => {
                self.items
                    .report(receipt, ItemProgress::Count(count), shard);
            }
            Order::Listen { conn } => self.topics.listen(conn, shard),
            Order::ReadStats { conn } => self.statistics.reader_came(conn, &self.shared, shard),
            Order::Subscribed { channel } => self.topics.subscribed(&channel, &self.shared, shard),
            Order::Refresh { channel } => refresh(&channel, shard),
            Order::Look(look) => look::look(look, shard),
            Order::LastId { conn, channel } => self.ask_last_item(conn, channel, shard),
            Order::Recover => {
                shard.mail_all(|| Mail::Recover);
                recover(shard);
            }
        }
    }

    pub(crate) fn take_mail(&mut self, from: Sender, mail: Mail, shard: &mut impl GripShard) {
        match mail {
            Mail::Origin { conn, token, event } => self.backend_event(conn, token, event, shard),
            Mail::Publish(offer) => self.items.offer(offer, shard),
            Mail::Receipt { number, progress } => self.items.reported(number, progress, shard),
            Mail::Topic { channel, is_wanted } => {
                if let Sender::Shard(from) = from {
                    let own = &self.shared;
                    self.topics.told(from, &channel, is_wanted, own, shard);
                }
            }
            Mail::Published { reply_to, result } => answer(reply_to, result, shard),
            Mail::LastId { conn, channel } => {
                let last = self.items.sequencer.last_item(&channel, shard.now().mono);
                if let Sender::Shard(from) = from {
                    let mail = Mail::LastIs {
                        conn,
                        channel,
                        last,
                    };
                    shard.mail(from, mail);
                }
            }
            Mail::LastIs {
                conn,
                channel,
                last,
            } => self.tell_last_item(conn, &channel, last, shard),
            Mail::Stats(mail) => self.statistics.mail(from, mail, &self.shared, shard),
            Mail::Routes(book) => self.shared.replace(book),
            Mail::Recover => recover(shard),
            Mail::Refresh { channel } => refresh_here(&channel, shard),
            Mail::Look(look) => {
                let (asker, found) = (look.asker, look::find(look.command, &look.conns, shard));
                let found = Some(found);
                shard.mail(asker.0.shard(), Mail::Found { asker, found });
            }
            Mail::Found { asker, found } => look::answer(asker, found, shard),
        }
    }

    /// Once a turn; true if something waits.
    pub(crate) fn run_turn(&mut self, shard: &mut impl GripShard) -> bool {
        let is_more = self.exchanges.settle(|conn| shard.queued_bytes(conn));
        self.topics.forget(&self.shared, shard);
        self.wake_gone(shard);
        let is_behind = self.items.run(shard);
        self.statistics.run(&self.shared, shard);
        is_behind || is_more
    }

    /// Adds up how long clients have been connected; once a second.
    pub(crate) fn count_minutes(&mut self, shard: &impl GripShard) {
        let (now, counters) = (shard.now(), &shard.shared().counters);
        let since = std::mem::replace(&mut self.counted_at, now.mono);
        let connections = counters.gauge(Gauge::GripConnections);
        self.connected_ms += connections * now.mono.0.saturating_sub(since.0);
        let minutes = self.connected_ms / MINUTE_MS;
        counters.add(Counter::GripConnectionMinutes, minutes);
        self.connected_ms %= MINUTE_MS;
    }

    /// Ends clients that take none of their backend's bytes; once a second.
    pub(crate) fn end_stuck(&mut self, shard: &mut impl GripShard) {
        let now = shard.now().mono;
        let stuck = self.exchanges.stuck(now, |conn| shard.queued_bytes(conn));
        for conn in stuck {
            shard.with(conn, |_, cx| {
                cx.end(End::Now);
                Flow::Stay
            });
        }
    }

    fn ask_last_item(&mut self, conn: ConnId, channel: ChannelName, shard: &mut impl GripShard) {
        let home = home_of(&channel, shard.shards());
        if home == shard.this() {
            let last = self.items.sequencer.last_item(&channel, shard.now().mono);
            self.tell_last_item(conn, &channel, last, shard);
        } else {
            shard.mail(home, Mail::LastId { conn, channel });
        }
    }

    /// A publisher that looks at subscriptions has published to a channel since it was told of it,
    /// so a backend that was asked after that knew of all that went past this server. The news
    /// comes before the client asks, or it does not: no clock has a say in it.
    fn tell_last_item(
        &self,
        conn: ConnId,
        channel: &ChannelName,
        mut last: LastItem,
        shard: &mut impl GripShard,
    ) {
        let topics = &self.topics;
        shard.with(conn, |session, cx| {
            let asked_at = session.topics_told().unwrap_or_default();
            if last == LastItem::Unknown && topics.was_told(channel, asked_at) {
                last = LastItem::Quiet;
            }
            session.last_item(channel, &last, cx);
            Flow::Stay
        });
    }

    // ---- requests to backends ----

    pub(crate) fn ask(
        &mut self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
        shard: &mut impl GripShard,
    ) {
        shard.shared().counters.count(Counter::GripRequests);
        match self.backends.submit(conn, token, request) {
            Ok(ticket) => self.exchanges.begin(conn, token, ticket),
            Err(failure) => {
                self.exchanges.remove(conn);
                let event = OriginEvent::Failed(failure);
                self.backend_event(conn, token, event, shard);
            }
        }
    }

    pub(crate) fn tell(&self, request: OriginRequest, shard: &impl GripShard) {
        let counters = &shard.shared().counters;
        counters.count(Counter::GripRequests);
        if self.backends.tell(request).is_err() {
            counters.count(Counter::GripOriginFailures);
        }
    }

    /// A backend has done something.
    pub(crate) fn backend_event(
        &mut self,
        conn: ConnId,
        token: u32,
        event: OriginEvent,
        shard: &mut impl GripShard,
    ) {
        let bytes = match &event {
            OriginEvent::Body(bytes) => bytes.len(),
            _ => 0,
        };
        let is_last = matches!(event, OriginEvent::End | OriginEvent::Failed(_));
        if shard.is_connected(conn) {
            shard.with(conn, |session, cx| session.origin(token, event, cx));
        } else {
            self.with_gone(conn, shard, |session, cx| {
                let _ = session.origin(token, event, cx);
            });
        }
        if is_last {
            self.exchanges.end(conn, token);
        } else if bytes > 0 {
            let queued_bytes = shard.queued_bytes(conn);
            self.exchanges.pay(conn, token, bytes, queued_bytes);
        }
    }

    /// Handles the end of a connection. Its session stays while its backend still has to be
    /// notified.
    pub(crate) fn connection_closed(
        &mut self,
        conn: ConnId,
        mut session: Session,
        shard: &mut impl GripShard,
    ) {
        self.topics.left(conn);
        self.statistics.closed(conn, &self.shared, shard);
        let now = shard.now().mono;
        self.shared.stats(|book| book.closed(conn, now));
        let mut goes_on = false;
        shard.with_gone(conn, &mut session, |session, cx| {
            goes_on = session.connection_gone(cx);
        });
        if goes_on {
            self.gone.insert(conn, session);
        } else {
            self.exchanges.remove(conn);
        }
    }

    /// Lets a session go on that has no connection any more, if there is one.
    fn with_gone<S: GripShard>(
        &mut self,
        conn: ConnId,
        shard: &mut S,
        act: impl FnOnce(&mut Session, &mut Cx<'_>),
    ) {
        let Some(session) = self.gone.get_mut(&conn) else {
            return;
        };
        shard.with_gone(conn, session, act);
        if session.is_over() {
            self.gone.remove(&conn);
            self.exchanges.remove(conn);
        }
    }

    pub(crate) fn wake_gone(&mut self, shard: &mut impl GripShard) {
        let now = shard.now().mono;
        if self.gone.is_empty() || now < self.gone_at {
            return;
        }
        self.gone_at = now + GONE_MS;
        let all: Vec<ConnId> = self.gone.keys().copied().collect();
        for conn in all {
            self.with_gone(conn, shard, |session, cx| {
                let _ = session.event(Event::Timeout, cx);
            });
        }
    }
}

/// Removes a client whose stream has ended from its channels.
fn leave(conn: ConnId, shard: &mut impl GripShard) {
    let channels: Vec<ChannelName> = shard.hub().channels_of(conn).cloned().collect();
    shard.with(conn, |_, cx| {
        for channel in channels {
            leave_channel(channel, cx);
        }
        cx.order(Order::Left { conn });
        Flow::Stay
    });
}

fn recover(shard: &mut impl GripShard) {
    for conn in shard.sessions() {
        shard.with(conn, |session, cx| {
            session.recover(cx);
            Flow::Stay
        });
    }
}

fn refresh(channel: &str, shard: &mut impl GripShard) {
    if let Some(channel) = hub_channel("", channel) {
        shard.mail_all(|| Mail::Refresh {
            channel: channel.clone(),
        });
        refresh_here(&channel, shard);
    }
}

fn refresh_here(channel: &ChannelName, shard: &mut impl GripShard) {
    for conn in shard.sessions() {
        if shard.hub().is_subscribed(conn, channel) {
            shard.with(conn, |session, cx| {
                session.refresh(cx);
                Flow::Stay
            });
        }
    }
}
