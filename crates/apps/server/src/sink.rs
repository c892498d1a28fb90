//! Between the hub and the connections: the thin piece that knows both.

use std::net::IpAddr;
use std::sync::Arc;

use throng_engine::{Conns, Delivery, Effects, Kernel, Pieces};
use throng_hub::{Answer, Batch, FormKind, Format, Patch, ReplyTo, Sink};
use throng_metrics::{Counter, Histogram, NamespaceMetric};
use throng_session::{Event, Order, PublishOutcome, Shared, SpanWork, Work};
use throng_types::{
    ChannelName, ConnId, Frame, Frames, Publication, PublicationKind, Slots, SpanContext,
    Unsubscribe,
};

use crate::follow;
use crate::gateways::{Gateways, Session};
use crate::peers::payer;
use crate::sessions::Sessions;
use crate::waiting::FeedBatches;

/// The hub's view of the connections, for the length of one call.
pub(crate) struct HubSink<'a, K: Kernel> {
    pub(crate) conns: &'a mut Conns<Session, K>,
    pub(crate) gateways: &'a mut Gateways,
    pub(crate) rounds: &'a mut FeedBatches,
    pub(crate) shared: &'a Shared,
    /// Addresses of connections, by their tags.
    pub(crate) addresses: &'a Slots<IpAddr>,
    pub(crate) orders: &'a mut Vec<Order>,
}

impl<K: Kernel> Sink for HubSink<'_, K> {
    #[inline]
    fn answer(&mut self, reply_to: ReplyTo, answer: Answer) {
        let ReplyTo { conn, token } = reply_to;
        let (items, addresses, shared) = (answer.items(), self.addresses, self.shared);
        if shared.follow.is_on() {
            follow::answered(shared, conn, self.conns.session(conn), &answer);
        }
        self.with(conn, |sessions, session, effects| {
            let before = effects.out.len();
            sessions.event(conn, session, Event::Answer { token, answer }, effects);
            let work = Work::answer(items, effects.out.len().saturating_sub(before));
            // Answers go to connections that may call the server API.
            if work.cpu_us() > 0 && !matches!(session, Session::Http(_)) {
                let payer = payer(conn, effects.tag, addresses, shared);
                shared.meter.charge_payer(payer, work, effects.now);
            }
        });
    }

    fn fed(&mut self, round: u32, number: u32, result: PublishOutcome) {
        self.rounds.published(round, number, result);
    }

    fn encode(
        &mut self,
        format: Format,
        publication: &Publication,
        patch: Option<Patch<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.gateways.encode(format, publication, patch, out);
    }

    #[inline]
    fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
        match (batch.format.kind(), batch.encoded) {
            // Nothing but comings and goings, of which this subscription does not hear.
            (FormKind::Shared | FormKind::Delta, Some(encoded)) if encoded.frames.is_empty() => {}
            (FormKind::Shared | FormKind::Delta, Some(encoded)) => {
                self.send(
                    index,
                    batch,
                    Pieces::Lazy(&encoded.frames),
                    encoded.frames.bytes(),
                );
            }
            (FormKind::Noted, Some(encoded)) if encoded.has_gaps => {
                self.deliver_mixed(index, batch, encoded.frames.each());
            }
            (FormKind::Noted, Some(encoded)) => {
                let frames = &encoded.frames;
                self.send_noted(index, batch, Pieces::Lazy(frames), frames.bytes());
            }
            (FormKind::Personal, _) => self.deliver_personal(index, batch),
            (FormKind::Shown, _) => {
                for publication in batch.publications {
                    self.show(index, batch.format, publication);
                }
            }
            (FormKind::Shared | FormKind::Noted | FormKind::Delta, None) => {
                debug_assert!(false, "such forms are encoded");
            }
        }
    }

    fn lost(&mut self, conn: ConnId, channel: &ChannelName) {
        let why = Unsubscribe::InsufficientState;
        follow::unsubscribed(self.shared, conn, self.conns.session(conn), (channel, why));
        self.with(conn, |sessions, session, effects| {
            sessions.event(conn, session, Event::Unsubscribed { channel, why }, effects);
        });
    }

    fn published(&mut self, label: u8) {
        let counters = &self.shared.counters;
        counters.add_for(label, NamespaceMetric::Publications, 1);
    }

    fn delivered(&mut self, label: u8, count: u64) {
        let counters = &self.shared.counters;
        counters.add_for(label, NamespaceMetric::Deliveries, count);
    }

    fn counts_members(&self, publication: &Publication) -> bool {
        publication.trace.is_some() || self.shared.follow.has_channels()
    }

    fn reached(&mut self, publication: &Publication, members: u32) {
        if self.shared.follow.has_channels() {
            follow::reached(self.shared, publication, members, self.conns.now());
        }
        let counters = &self.shared.counters;
        if let (Some(tracer), Some(by)) = (&self.shared.tracer, &publication.trace) {
            let since = publication.time_unix_ms.saturating_mul(1000);
            let over = self.conns.unix_us();
            let channel = publication.channel.clone();
            let fanout = SpanWork::Fanout { channel, members };
            tracer.followed(**by, (since, Some(over)), fanout, counters);
            let channel = publication.channel.clone();
            let write = SpanWork::Write { channel };
            tracer.followed(**by, (over, None), write, counters);
        }
    }

    fn broker_replied(
        &mut self,
        by: &SpanContext,
        since: u64,
        channel: &ChannelName,
        is_taken: bool,
    ) {
        if let Some(tracer) = &self.shared.tracer {
            let work = SpanWork::Broker {
                channel: channel.clone(),
                failed: !is_taken,
            };
            let times = (since.saturating_mul(1000), None);
            tracer.followed(*by, times, work, &self.shared.counters);
        }
    }

    fn carried(&mut self, publication: &Publication) {
        if publication.tags.is_some() {
            self.gateways.carried(publication, self.orders);
        }
        if publication.told == PublicationKind::Data {
            let (now, times) = (self.conns.now(), &self.shared.turn_times);
            let lag_ms = now.unix_ms.saturating_sub(publication.time_unix_ms);
            times.note(Histogram::DeliveryLag, lag_ms, &self.shared.counters);
        }
    }
}

impl<K: Kernel> HubSink<'_, K> {
    /// Runs `act` on a connection that is still there.
    #[inline]
    fn with(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut Sessions<'_>, &mut Session, &mut Effects<'_>),
    ) {
        let mut sessions = Sessions {
            gateways: self.gateways,
            shared: self.shared,
            orders: self.orders,
        };
        self.conns.with(conn, |session, effects| {
            act(&mut sessions, session, effects)
        });
    }

    fn send(&mut self, index: u32, batch: &Batch<'_>, frames: Pieces<'_>, joined: &[u8]) {
        let counters = &self.shared.counters;
        counters.add(Counter::Deliveries, frames.len() as u64);
        counters.add(Counter::DeliveryBytes, joined.len() as u64);
        let delivery = Delivery {
            frames,
            joined,
            key: batch.channel_key,
            overflow: batch.overflow,
            gather: batch.gather,
        };
        self.conns.deliver(index, &delivery);
        if self.shared.follow.has_users() {
            self.tell_got(index, batch.publications);
        }
    }

    #[cold]
    fn tell_got(&self, index: u32, publications: &[Arc<Publication>]) {
        if let Some(conn) = self.conns.id(index) {
            follow::got(self.shared, conn, self.conns.session(conn), publications);
        }
    }

    /// Sends a batch and tells the session whether it was taken.
    fn send_noted(&mut self, index: u32, batch: &Batch<'_>, frames: Pieces<'_>, joined: &[u8]) {
        let before = self.conns.stats().deliveries;
        self.send(index, batch, frames, joined);
        let taken = self.conns.stats().deliveries - before;
        self.note(index, batch.publications, taken == frames.len() as u64);
    }

    fn note(&self, index: u32, publications: &[Arc<Publication>], is_taken: bool) {
        let id = self.conns.id(index);
        if let Some(session) = id.and_then(|id| self.conns.session(id)) {
            let now = self.conns.now();
            self.gateways
                .delivered(session, publications, is_taken, now, self.shared);
        }
    }

    /// Delivers publications of which some have no shared bytes: the session looks at these.
    fn deliver_mixed(&mut self, index: u32, batch: &Batch<'_>, frames: &[Frame]) {
        for (publication, frame) in batch.publications.iter().zip(frames) {
            if frame.is_empty() {
                self.show(index, batch.format, publication);
                continue;
            }
            let one = Batch {
                publications: std::slice::from_ref(publication),
                gather: true,
                ..*batch
            };
            let frames = Pieces::Made(std::slice::from_ref(frame));
            self.send_noted(index, &one, frames, frame);
        }
    }

    /// Shows a session a publication that it must look at itself; news if its form has them.
    fn show(&mut self, index: u32, format: Format, publication: &Arc<Publication>) {
        let is_shown = format.has_news() || publication.told == PublicationKind::Data;
        let Some(id) = self.conns.id(index).filter(|_| is_shown) else {
            return;
        };
        let mut bytes = 0;
        self.with(id, |sessions, session, effects| {
            let before = effects.out.len();
            sessions.event(id, session, Event::Publication(publication), effects);
            bytes = effects.out.len() - before;
        });
        if bytes > 0 {
            self.shared.counters.add(Counter::Deliveries, 1);
            let counters = &self.shared.counters;
            counters.add(Counter::DeliveryBytes, bytes as u64);
            self.note(index, std::slice::from_ref(publication), true);
            if self.shared.follow.has_users() {
                self.tell_got(index, std::slice::from_ref(publication));
            }
        }
    }

    /// Delivers frames that a session encodes for itself alone; none while it holds them back.
    fn deliver_personal(&mut self, index: u32, batch: &Batch<'_>) {
        let Some(id) = self.conns.id(index) else {
            return;
        };
        let mut frames = Frames::default();
        self.conns.with(id, |session, _| {
            let mut one = Vec::new();
            let publications = batch.publications.iter();
            for publication in publications.filter(|known| known.told == PublicationKind::Data) {
                one.clear();
                session.encode_personal(publication, &mut one);
                if !one.is_empty() {
                    frames.push(|out| out.extend_from_slice(&one));
                }
            }
        });
        if !frames.is_empty() {
            self.send(index, batch, Pieces::Lazy(&frames), frames.bytes());
        }
    }
}
