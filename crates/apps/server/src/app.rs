//! The shard's app as the engine calls it.

use std::net::{IpAddr, SocketAddr};

use throng_broker::Draft;
use throng_engine::{
    Accepted, App, Closed, ConnStats, Conns, Effects, Kernel, LoopStats, TlsEvent,
};
use throng_hub::Command;
use throng_metrics::{Counter, Gauge, Histogram};
use throng_session::{Admission, CloseReason, Event, Http, Order, Port, Reloaded, Sender};
use throng_types::{ConnId, Disconnect, Millis, Now, Payload, PayloadKind, ShardId};

use crate::drain::{Drain, Ports};
use crate::draining;
use crate::follow;
use crate::gateways::Session;
use crate::live::Renewed;
use crate::notices;
use crate::options::ReloadRequest;
use crate::outbox::Note;
use crate::peers::{NO_CLIENT, payer};
use crate::replies;
use crate::sessions::standing;
use crate::shard::{ListenerKind, Message, ShardApp, ShardMail, VISITS_PER_TURN};
use crate::tls;
use crate::waiting::Caller;

/// Between two looks at history and gauges, in milliseconds.
const HOUSEKEEPING_MS: u64 = 1000;
/// Room for orders that stays behind a turn that had more.
const ORDERS_KEPT: usize = 1024;
/// A crowd whose leaving is worth giving memory back to the kernel.
const CROWD: usize = 1024;

impl ShardApp {
    pub(crate) fn carry_out<K: Kernel>(&mut self, conns: &mut Conns<Session, K>, now: Now) {
        if self.orders.is_empty() {
            return;
        }
        let mut taken = std::mem::take(&mut self.spare_orders);
        while !self.orders.is_empty() {
            std::mem::swap(&mut taken, &mut self.orders);
            for order in taken.drain(..) {
                match order {
                    Order::Hub(command) => self.command(command, conns, now),
                    Order::Gateway(place) => self.with_gateways(conns, now, |gateways, host| {
                        gateways.order(place, host);
                    }),
                    Order::Survey { reply_to, survey } => {
                        replies::survey(self, Caller::Here(reply_to), survey, conns, now);
                    }
                    Order::GatewaySurvey { place, survey } => {
                        replies::survey(self, Caller::Gateway(place), survey, conns, now);
                    }
                    Order::Reload(conn) => self.ask_reload(conn, conns),
                }
            }
        }
        taken.shrink_to(ORDERS_KEPT);
        self.orders.shrink_to(ORDERS_KEPT);
        self.spare_orders = taken;
    }

    fn ask_reload<K: Kernel>(&mut self, conn: ConnId, conns: &mut Conns<Session, K>) {
        let ask = self.parts.ask_reload.as_ref();
        if !ask.is_some_and(|ask| ask(ReloadRequest(conn))) {
            self.event(conn, Event::Reloaded(&Reloaded::Unavailable), conns);
        }
    }

    /// Returns how a connection by a port is let in, and its tag; `is_paid` if its arrival was
    /// charged.
    fn let_in(&mut self, (port, peer): (Port, IpAddr), is_paid: bool, now: Now) -> (Http, u32) {
        match port {
            Port::Client => self.admit(peer, is_paid, now),
            Port::Api | Port::Own { .. } => (Http::new(port, peer, Admission::Welcome), NO_CLIENT),
        }
    }

    /// Makes the session of a connection that was let in as `http`.
    fn welcome(
        &mut self,
        (port, peer): (Port, IpAddr),
        (http, tag): (Http, u32),
        is_proxied: bool,
        now: Now,
    ) -> Accepted<Session> {
        let own = match port {
            Port::Own { gateway, port } => self.gateways.accept(gateway, port, peer),
            Port::Client | Port::Api => None,
        };
        let session = own.unwrap_or_else(|| {
            Session::Http(match is_proxied {
                true => http.behind_proxy(),
                false => http,
            })
        });
        self.sessions().count(&session);
        Accepted {
            session,
            tag,
            deadline: Some(now.mono + self.parts.shared.limits.head_timeout_ms),
        }
    }

    /// Runs once a second.
    pub(crate) fn housekeeping<K: Kernel>(&mut self, conns: &mut Conns<Session, K>, now: Now) {
        self.housekeeping_at = now.mono + HOUSEKEEPING_MS;
        self.is_expiring = true;
        self.give_memory_back(conns.len());
        notices::write_suppressed(self);
        self.parts.shared.follow.next_second();
        notices::warn_of_harm(self, conns.stats().crowded, now);
        self.with_gateways(conns, now, |gateways, host| gateways.tick(host));
        let (shared, nodes) = (&self.parts.shared, &self.parts.nodes);
        // What stays behind in an upgrade has the name of the process that goes on.
        if let Some(nodes) = nodes
            .as_ref()
            .filter(|_| !shared.draining && self.parts.shard.0 == 0)
        {
            let words = self.parts.peers.words(&shared.node.name(), now.mono);
            words.iter().for_each(|word| nodes.tell_everybody(word));
        }
        let watched = self.parts.ticker.channel();
        let interest = self.parts.hub.broker.interest(watched);
        let watch = &self.parts.observatory.watch;
        let shard = self.parts.shard.index();
        watch.set_watched(shard, interest > 0);
        if watch.is_watched() {
            let watchers = self.parts.hub.member_count(watched);
            watch.set_watchers(shard, watchers.into());
        }
        let draining = self.parts.shared.draining;
        if let Some(command) = self.parts.ticker.tick(interest > 0, draining, now) {
            self.command(command, conns, now);
        }
    }

    /// Publishes what followers are told in this turn, each line in the channel of its follower.
    #[cold]
    fn publish_lines<K: Kernel>(&mut self, conns: &mut Conns<Session, K>, now: Now) {
        for line in self.parts.shared.follow.take() {
            let feed = line.feed.clone();
            let payload = Payload {
                bytes: line.at(now.unix_ms).into(),
                kind: PayloadKind::Json,
            };
            let draft = Draft {
                skip_history: true,
                ..Draft::new(feed, payload)
            };
            self.command(Command::Announce { draft }, conns, now);
        }
    }

    /// Ends what connections of this shard follow: other API keys hold from now on.
    fn end_follows<K: Kernel>(&mut self, conns: &mut Conns<Session, K>) {
        if !self.parts.shared.follow.is_on() {
            return;
        }
        for conn in self.parts.shared.follow.connections() {
            let why = CloseReason::Because(Disconnect::ForceReconnect);
            self.parts.shared.follow.gone(conn);
            self.event(conn, Event::Close(&why), conns);
        }
    }

    /// After half of a crowd has left, small holes are all over the heap; the allocator keeps
    /// them unless it is asked.
    fn give_memory_back(&mut self, connections: usize) {
        self.peak = self.peak.max(connections);
        if self.peak >= CROWD && connections <= self.peak / 2 {
            self.peak = connections;
            throng_sys::memory::trim();
        }
    }
}

impl<K: Kernel> App<K> for ShardApp {
    type Session = Session;
    type Mail = ShardMail;

    fn accept(&mut self, listener: u8, peer: SocketAddr, now: Now) -> Option<Accepted<Session>> {
        let ListenerKind {
            port,
            is_proxied,
            is_tls,
        } = *self.parts.listeners.get(usize::from(listener))?;
        let peer = peer.ip().to_canonical();
        if is_proxied && !self.parts.shared.forwarded.trusts(peer) {
            self.counters().count(Counter::RefusedUntrustedProxy);
            tracing::debug!(target: "throng::refused", %peer, "no trusted proxy");
            return None;
        }
        if is_tls && port == Port::Client && !tls::may_shake_hands(self, peer, now) {
            self.counters().count(Counter::RefusedHandshakes);
            return None;
        }
        let accepted = self.let_in((port, peer), is_tls, now);
        Some(self.welcome((port, peer), accepted, is_proxied, now))
    }

    /// The connection's arrival was paid for; its allowance pays for the stream's request, and its
    /// address will.
    fn accept_stream(
        &mut self,
        carrier: &mut Session,
        fx: &mut Effects<'_>,
    ) -> Option<Accepted<Session>> {
        let Session::Http(carrier) = carrier else {
            return None;
        };
        let (port, peer) = carrier.origin();
        let (http, tag) = self.let_in((port, peer), true, fx.now);
        let shared = &self.parts.shared;
        let http = http.carried_by(carrier, shared, &mut fx.actions, fx.now);
        Some(self.welcome((port, peer), (http, tag), false, fx.now))
    }

    fn bytes(
        &mut self,
        id: ConnId,
        session: &mut Session,
        input: &mut [u8],
        effects: &mut Effects<'_>,
    ) {
        let shared = &self.parts.shared;
        let payer = payer(id, effects.tag, &self.addresses, shared);
        shared.meter.pays(payer);
        self.sessions()
            .event(id, session, Event::Bytes(input), effects);
    }

    fn timeout(&mut self, id: ConnId, session: &mut Session, effects: &mut Effects<'_>) {
        self.sessions().event(id, session, Event::Timeout, effects);
    }

    fn drained(
        &mut self,
        id: ConnId,
        session: &mut Session,
        dropped: u32,
        effects: &mut Effects<'_>,
    ) {
        self.gateways.drained(session, id);
        if dropped > 0 {
            self.sessions()
                .event(id, session, Event::Drained { dropped }, effects);
        }
    }

    fn slow(&mut self, id: ConnId, session: &mut Session, effects: &mut Effects<'_>) {
        notices::tell_slow(self, id, session, effects.tag, effects.now);
        let slow = CloseReason::Because(Disconnect::Slow);
        let counted = self.counters().counter(slow.counter());
        self.sessions()
            .event(id, session, Event::Close(&slow), effects);
        // Requests, and streams in whose bytes no word of ours has a place, do not count it.
        if self.counters().counter(slow.counter()) == counted {
            self.counters().count(slow.counter());
        }
        if self.parts.shared.follow.is_on() {
            let parts = (&self.parts.shared, &self.parts.hub);
            follow::too_slow(parts, id, session);
        }
        // Nothing more is delivered to it, however long its last word takes.
        self.parts.hub.gone(id, effects.now);
    }

    fn closed(&mut self, id: ConnId, session: Session, tag: u32, why: Closed, now: Now) {
        if self.parts.shared.follow.is_on() {
            let parts = (&self.parts.shared, &self.parts.hub);
            follow::left(parts, id, &session, "the connection has ended");
        }
        self.parts.hub.gone(id, now);
        if self.parts.shared.draining {
            self.parts.hub.hurry();
        }
        self.parts.shared.forwarded.gone(id);
        self.parts.shared.users.gone(id);
        self.parts.shared.follow.gone(id);
        // By its tag: a dashboard's stream came by the API port, whatever it has become.
        self.clients -= usize::from(tag != NO_CLIENT);
        let (standing, shared) = (standing(&session, tag), &self.parts.shared);
        standing.uncount(shared);
        let name = || self.gateways.client(id, &session, shared);
        standing.tell(shared, (id, true), name);
        shared.client_traces.gone(id);
        match why {
            Closed::ByPeer | Closed::Error(_) => self.counters().count(Counter::ClosedClient),
            // Counted with its reason when the session ended it, or when its queue was full.
            Closed::ByApp | Closed::Slow => {}
        }
        self.leave(tag);
        self.ended.push((id, session));
    }

    fn mail(
        &mut self,
        from: Option<usize>,
        mail: ShardMail,
        conns: &mut Conns<Session, K>,
        now: Now,
    ) {
        // What comes for a connection that has gone finds its gateway told so.
        if !self.ended.is_empty() {
            self.tell_ended(conns, now);
        }
        let sender = from.map(|from| ShardId(from as u8));
        match mail.0 {
            Message::Hub(mail) => {
                if let Some(from) = sender {
                    self.with_hub(conns, |hub, sink| hub.mail(from, mail, now, sink));
                }
            }
            Message::Note(Note::Survey { ticket, survey }) => {
                let reply = replies::reply(self, survey, conns, now);
                if let Some(from) = sender {
                    self.outboxes
                        .push(from, Note::SurveyReply { ticket, reply });
                }
            }
            Message::Note(Note::SurveyReply { ticket, reply }) => {
                replies::surveyed(self, ticket, reply, conns);
            }
            Message::Note(Note::Gone(gone)) => self.ends.note(gone),
            Message::Note(Note::Gateway(mail)) | Message::Driver(mail) => {
                let sender = sender.map_or(Sender::Driver, Sender::Shard);
                self.with_gateways(conns, now, |them, host| them.mail(sender, mail, host));
            }
            Message::Feed(round) => {
                let command = self.rounds.begin(*round);
                self.command(command, conns, now);
            }
            Message::Renew(renewed) => {
                let Renewed {
                    live,
                    mail,
                    webhooks,
                    done,
                } = *renewed;
                let has_other_keys = self.parts.shared.api_keys != live.api_keys;
                self.parts.renew(&live, conns, now);
                if has_other_keys {
                    self.end_follows(conns);
                }
                if self.parts.webhooks.is_none() {
                    self.parts.tell(webhooks);
                }
                for mail in mail {
                    self.with_gateways(conns, now, |them, host| {
                        them.mail(Sender::Driver, mail, host);
                    });
                }
                self.gateways.renew();
                drop(done);
            }
            Message::Reloaded(conn, what) => self.event(conn, Event::Reloaded(&what), conns),
            Message::Drain(options) => draining::begin(self, (options, Ports::Clients), conns, now),
            Message::HandOver(order) => {
                // The loop looks at this flag anyway.
                self.stopped = true;
                self.hand_over = Some(order);
            }
            Message::Stop => self.stopped = true,
        }
    }

    fn wants_mail(&self) -> bool {
        self.parts.hub.wants_mail()
    }

    fn take_mail(&mut self, to: usize) -> Option<ShardMail> {
        if let Some(note) = self.outboxes.pop(to) {
            return Some(ShardMail(Message::Note(note)));
        }
        let mail = self.parts.hub.broker.take_mail(ShardId(to as u8))?;
        Some(ShardMail(Message::Hub(mail)))
    }

    fn turn(&mut self, conns: &mut Conns<Session, K>, now: Now) -> bool {
        self.now = now;
        notices::write_notices(self, conns, now);
        self.tell_ended(conns, now);
        if self.drain.is_some() {
            draining::step(self, conns, now);
        }
        let mut more = false;
        if self.parts.nodes.is_some() || self.parts.is_stored {
            more = self.with_hub(conns, |hub, sink| hub.poll(now, sink));
        }
        if self.parts.nodes.is_some() {
            replies::hear_nodes(self, conns, now);
        }
        self.carry_out(conns, now);
        if self.parts.is_stored {
            more |= self.parts.hub.broker.write_down(now);
        }
        if now.mono >= self.housekeeping_at {
            self.housekeeping(conns, now);
        }
        if self.is_expiring {
            more |= self.expire(now);
        }
        more |= self.with_gateways(conns, now, |them, host| them.turn(VISITS_PER_TURN, host));
        self.carry_out(conns, now);
        if self.parts.shared.follow.has_lines() {
            self.publish_lines(conns, now);
        }
        more
    }

    fn deliver(&mut self, conns: &mut Conns<Session, K>, now: Now) -> bool {
        let more = self.with_hub(conns, |hub, sink| hub.fan_out(VISITS_PER_TURN, now, sink));
        let has_lines = self.parts.shared.follow.has_lines();
        more || has_lines || !self.orders.is_empty() || !self.ended.is_empty()
    }

    fn deadline(&self) -> Option<Millis> {
        let drain = self.drain.as_ref().map(Drain::deadline);
        // Gateways have yet to hear of connections that ended after the last turn's work.
        let ended = (!self.ended.is_empty()).then_some(self.now.mono);
        let others = [
            drain,
            ended,
            self.gateways.deadline(),
            self.parts.hub.deadline(),
        ];
        let earlier = |next: Millis, other: Option<Millis>| other.map_or(next, |at| at.min(next));
        Some(others.into_iter().fold(self.housekeeping_at, earlier))
    }

    fn finished(&self, _conns: &Conns<Session, K>) -> bool {
        let drained = self.drain.as_ref();
        self.stopped
            || drained.is_some_and(|drain| {
                drain.is_over(&self.ends, self.parts.shards.into(), self.now.mono)
            })
    }

    /// Operators and publishers get in when clients have taken every other descriptor.
    fn may_use_spares(&self, listener: u8) -> bool {
        let known = self.parts.listeners.get(usize::from(listener));
        known.is_some_and(|known| known.port != Port::Client)
    }

    fn tls(&mut self, event: &TlsEvent) {
        tls::note(self, event);
    }

    fn accept_paused(&mut self, paused: bool) {
        self.counters().set(Gauge::AcceptPaused, u64::from(paused));
        let shard = self.parts.shard.0;
        if paused {
            self.counters().count(Counter::RefusedDescriptors);
            tracing::warn!(
                shard,
                "out of file descriptors: new connections wait until one is freed; raise nofile \
                 (`throng doctor` says how)"
            );
        } else {
            tracing::info!(shard, "accepting connections again");
        }
    }
}

/// Totals at the end of the last turn, so that only the difference is added.
#[derive(Default)]
pub(crate) struct Observer {
    turns: LoopStats,
    conns: ConnStats,
    news_dropped: u64,
    conflated: u64,
}

impl Observer {
    pub(crate) fn observe<K: Kernel>(
        &mut self,
        app: &ShardApp,
        conns: &Conns<Session, K>,
        turns: LoopStats,
    ) {
        let counters = &app.parts.shared.counters;
        let hub = app.parts.hub.stats();
        let (now, last) = (turns, std::mem::replace(&mut self.turns, turns));
        let (sent, sent_last) = (
            conns.stats(),
            std::mem::replace(&mut self.conns, conns.stats()),
        );
        let news_dropped = std::mem::replace(&mut self.news_dropped, hub.news_dropped);
        let conflated = std::mem::replace(&mut self.conflated, hub.conflated);
        let lagged = sent.slow + sent.lagged;
        for (counter, now, before) in [
            (Counter::Turns, now.turns, last.turns),
            (Counter::Sleeps, now.sleeps, last.sleeps),
            (Counter::Mail, now.mail, last.mail),
            (Counter::Wakes, now.wakes, last.wakes),
            (Counter::ConnectionsAccepted, now.accepted, last.accepted),
            (Counter::BytesIn, now.read_bytes, last.read_bytes),
            (Counter::BytesOut, sent.sent_bytes, sent_last.sent_bytes),
            (Counter::Writes, sent.writes, sent_last.writes),
            (
                Counter::DroppedOldest,
                sent.dropped_oldest,
                sent_last.dropped_oldest,
            ),
            (
                Counter::DroppedLatestOnly,
                sent.dropped_latest_only,
                sent_last.dropped_latest_only,
            ),
            (Counter::DroppedClose, sent.slow, sent_last.slow),
            (
                Counter::SlowConsumers,
                lagged,
                sent_last.slow + sent_last.lagged,
            ),
            (Counter::CrowdedOut, sent.crowded, sent_last.crowded),
            (Counter::PresenceDropped, hub.news_dropped, news_dropped),
            (Counter::Conflated, hub.conflated, conflated),
        ] {
            counters.add(counter, now - before);
        }
        counters.record(Histogram::TurnDuration, turns.last_turn_us);
        let times = &app.parts.shared.turn_times;
        times.end_turn(turns.last_turn_us, counters);
        if let (Some(traces), Some(tracer)) = (&app.parts.traces, &app.parts.shared.tracer) {
            let end_unix_us = conns.now().unix_ms * 1000 + turns.last_turn_us;
            traces.take(tracer, end_unix_us, counters);
        }
        for (gauge, now) in [
            (Gauge::Channels, hub.home.streams),
            (Gauge::Subscriptions, hub.subscriptions),
            (Gauge::PresenceMembers, hub.home.members),
            (Gauge::HistoryBytes, hub.home.history_bytes),
            (Gauge::HistoryPublications, hub.home.history_publications),
        ] {
            counters.set(gauge, now as u64);
        }
    }
}
