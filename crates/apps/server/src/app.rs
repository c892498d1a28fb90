//! The shard's app as the engine calls it.

use std::net::SocketAddr;

use throng_engine::{Accepted, App, Closed, Conns, Effects, Kernel, TlsEvent};
use throng_metrics::{Counter, Gauge};
use throng_session::{Admission, CloseReason, Event, Http, Port, Sender};
use throng_types::{ConnId, Disconnect, Millis, Now, ShardId};

use crate::drain::{Drain, Ports};
use crate::list::GatewayList;
use crate::live::Renewed;
use crate::outbox::Note;
use crate::shard::{Letter, Mail, ShardApp, VISITS_PER_TURN};
use crate::standing::{standing, uncount};
use crate::tags::{NO_CLIENT, payer};

impl<L: GatewayList> ShardApp<L> {
    /// Whether publications wait for others, for their channel's `max_delay`.
    #[must_use]
    pub fn is_gathering(&self) -> bool {
        self.parts.hub.deadline().is_some()
    }
}

impl<L: GatewayList, K: Kernel> App<K> for ShardApp<L> {
    type Session = L::Session;
    type Mail = Mail<L::Mail>;

    fn accept(&mut self, listener: u8, peer: SocketAddr, now: Now) -> Option<Accepted<L::Session>> {
        let port = *self.parts.ports.get(usize::from(listener))?;
        let peer = peer.ip().to_canonical();
        let is_proxied = self.parts.proxied.get(usize::from(listener)) == Some(&true);
        if is_proxied && !self.parts.shared.forwarded.trusts(peer) {
            self.counters().count(Counter::RefusedUntrustedProxy);
            tracing::debug!(target: "throng::refused", %peer, "no trusted proxy");
            return None;
        }
        let is_tls = self.parts.secure.get(usize::from(listener)) == Some(&true);
        if is_tls && port == Port::Client && !self.may_shake_hands(peer, now) {
            self.counters().count(Counter::RefusedHandshakes);
            return None;
        }
        let front_door = |http: Http| {
            L::http(if is_proxied {
                http.behind_proxy()
            } else {
                http
            })
        };
        let (session, tag) = match port {
            Port::Client => {
                let (http, tag) = self.admit(peer, is_tls, now);
                (front_door(http), tag)
            }
            Port::Api => (
                front_door(Http::new(port, peer, Admission::Welcome)),
                NO_CLIENT,
            ),
            Port::Own { gateway, port: own } => {
                let session = self.list.accept(gateway, own, peer);
                let http = || L::http(Http::new(port, peer, Admission::Welcome));
                (session.unwrap_or_else(http), NO_CLIENT)
            }
        };
        self.sessions().count(&session);
        Some(Accepted {
            session,
            tag,
            deadline: Some(now.mono + self.parts.shared.limits.head_timeout_ms),
        })
    }

    fn bytes(
        &mut self,
        id: ConnId,
        session: &mut L::Session,
        input: &mut [u8],
        effects: &mut Effects<'_>,
    ) {
        let shared = &self.parts.shared;
        let payer = payer(id, effects.tag, &self.addresses, shared);
        shared.meter.pays(payer);
        self.sessions()
            .event(id, session, Event::Bytes(input), effects);
    }

    fn timeout(&mut self, id: ConnId, session: &mut L::Session, effects: &mut Effects<'_>) {
        self.sessions().event(id, session, Event::Timeout, effects);
    }

    fn drained(
        &mut self,
        id: ConnId,
        session: &mut L::Session,
        dropped: u32,
        effects: &mut Effects<'_>,
    ) {
        self.list.drained(session, id);
        if dropped > 0 {
            self.sessions()
                .event(id, session, Event::Drained { dropped }, effects);
        }
    }

    fn slow(&mut self, id: ConnId, session: &mut L::Session, effects: &mut Effects<'_>) {
        self.tell_slow(id, session, effects.tag, effects.now);
        let slow = CloseReason::Because(Disconnect::Slow);
        let counted = self.counters().counter(slow.counter());
        self.sessions()
            .event(id, session, Event::Close(&slow), effects);
        // Requests, and streams in whose bytes no word of ours has a place, do not count it.
        if self.counters().counter(slow.counter()) == counted {
            self.counters().count(slow.counter());
        }
        // Nothing more is delivered to it, however long its last word takes.
        self.parts.hub.gone(id, effects.now);
    }

    fn closed(&mut self, id: ConnId, session: L::Session, tag: u32, why: Closed, now: Now) {
        self.parts.hub.gone(id, now);
        self.parts.shared.forwarded.gone(id);
        // By its tag: a dashboard's stream came by the API port, whatever it has become.
        self.clients -= usize::from(tag != NO_CLIENT);
        uncount(&self.parts.shared, standing::<L>(&session));
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
        mail: Mail<L::Mail>,
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) {
        // What comes for a connection that has gone finds its gateway told so.
        if !self.ended.is_empty() {
            self.tell_ended(conns, now);
        }
        let sender = from.map(|from| ShardId(from as u8));
        match mail.0 {
            Letter::Hub(mail) => {
                if let Some(from) = sender {
                    self.with_hub(conns, |hub, outlet| hub.mail(from, mail, now, outlet));
                }
            }
            Letter::Note(Note::Survey { ticket, survey }) => {
                let reply = self.reply(survey, conns, now);
                if let Some(from) = sender {
                    self.outboxes
                        .push(from, Note::SurveyReply { ticket, reply });
                }
            }
            Letter::Note(Note::SurveyReply { ticket, reply }) => {
                self.surveyed(ticket, reply, conns);
            }
            Letter::Note(Note::Gone(gone)) => self.ends.note(gone),
            Letter::Note(Note::Gateway(mail)) | Letter::Driver(mail) => {
                let sender = sender.map_or(Sender::Driver, Sender::Shard);
                self.with_list(conns, now, |list, host| list.mail(sender, mail, host));
            }
            Letter::Feed(letter) => {
                let command = self.rounds.begin(*letter);
                self.command(command, conns, now);
            }
            Letter::Renew(renewed) => {
                let Renewed { live, mail, done } = *renewed;
                self.renew(&live, conns, now);
                for mail in mail {
                    self.with_list(conns, now, |list, host| {
                        list.mail(Sender::Driver, mail, host)
                    });
                }
                self.list.renew();
                drop(done);
            }
            Letter::Reloaded(conn, what) => self.event(conn, Event::Reloaded(&what), conns),
            Letter::Drain(options) => self.begin_drain((options, Ports::Clients), conns, now),
            Letter::HandOver(giving) => {
                // The loop looks at this flag anyway.
                self.stopped = true;
                self.giving = Some(giving);
            }
            Letter::Stop => self.stopped = true,
        }
    }

    fn wants_mail(&self) -> bool {
        self.parts.hub.wants_mail()
    }

    fn take_mail(&mut self, to: usize) -> Option<Mail<L::Mail>> {
        if let Some(note) = self.outboxes.pop(to) {
            return Some(Mail(Letter::Note(note)));
        }
        let mail = self.parts.hub.take_mail(ShardId(to as u8))?;
        Some(Mail(Letter::Hub(mail)))
    }

    fn turn(&mut self, conns: &mut Conns<L::Session, K>, now: Now) -> bool {
        self.now = now;
        self.write_notices(conns, now);
        self.tell_ended(conns, now);
        if self.drain.is_some() {
            self.step_drain(conns, now);
        }
        let mut more = false;
        if self.parts.nodes.is_some() || self.parts.is_stored {
            more = self.with_hub(conns, |hub, outlet| hub.poll(now, outlet));
        }
        if self.parts.nodes.is_some() {
            self.hear_nodes(conns, now);
        }
        self.carry_out(conns, now);
        if self.parts.is_stored {
            more |= self.parts.hub.write_down(now);
        }
        if now.mono >= self.housekeeping_at {
            self.housekeeping(conns, now);
        }
        if self.is_expiring {
            more |= self.expire(conns, now);
        }
        more |= self.with_list(conns, now, |list, host| list.turn(VISITS_PER_TURN, host));
        self.carry_out(conns, now);
        more
    }

    fn deliver(&mut self, conns: &mut Conns<L::Session, K>, now: Now) -> bool {
        let more = self.with_hub(conns, |hub, outlet| {
            hub.fan_out(VISITS_PER_TURN, now, outlet)
        });
        more || !self.orders.is_empty() || !self.ended.is_empty()
    }

    fn deadline(&self) -> Option<Millis> {
        let drain = self.drain.as_ref().map(Drain::deadline);
        // Gateways have yet to hear of connections that ended after the last turn's work.
        let ended = (!self.ended.is_empty()).then_some(self.now.mono);
        let others = [
            drain,
            ended,
            self.list.deadline(),
            self.parts.hub.deadline(),
        ];
        let earlier = |next: Millis, other: Option<Millis>| other.map_or(next, |at| at.min(next));
        Some(others.into_iter().fold(self.housekeeping_at, earlier))
    }

    fn finished(&self, _conns: &Conns<L::Session, K>) -> bool {
        let drained = self.drain.as_ref();
        self.stopped
            || drained.is_some_and(|drain| {
                drain.is_over(&self.ends, self.parts.shards.into(), self.now.mono)
            })
    }

    /// Operators and publishers get in when clients have taken every other descriptor.
    fn may_use_spares(&self, listener: u8) -> bool {
        let port = self.parts.ports.get(usize::from(listener));
        port.is_some_and(|port| *port != Port::Client)
    }

    fn tls(&mut self, event: &TlsEvent) {
        self.note_tls(event);
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
