//! A drain carried out on a shard.

use throng_engine::{Conns, Kernel};
use throng_session::{CloseReason, Event, Port, Transport};
use throng_types::{ConnId, Disconnect, Now, ShardId};

use crate::drain::{Drain, DrainOptions, Ports, Stage};
use crate::list::GatewayList;
use crate::outbox::Note;
use crate::shard::ShardApp;

impl<L: GatewayList> ShardApp<L> {
    pub(crate) fn begin_drain<K: Kernel>(
        &mut self,
        (options, ports): (DrainOptions, Ports),
        conns: &mut Conns<L::Session, K>,
        now: Now,
    ) {
        if self.drain.is_some() {
            return;
        }
        self.parts.shared.draining = true;
        for (number, port) in self.parts.ports.iter().enumerate() {
            if *port == Port::Client || ports == Ports::All {
                conns.stop_listening(number as u8);
            }
        }
        let clients = conns
            .sessions()
            .filter(|(_, session)| L::class(session).is_client);
        let clients: Vec<ConnId> = clients.map(|(id, _)| id).collect();
        let seed = self.parts.seed;
        self.drain = Some(Drain::new(clients, options, now.mono, seed));
    }

    pub(crate) fn step_drain<K: Kernel>(&mut self, conns: &mut Conns<L::Session, K>, now: Now) {
        let Some(drain) = self.drain.as_mut() else {
            return;
        };
        for (conn, reconnect_ms) in drain.step(now.mono) {
            let why = CloseReason::Drain { reconnect_ms };
            self.event(conn, Event::Close(&why), conns);
        }
        self.turn_to_callers(conns, now);
        let is_due = { self.drain.as_mut() }.is_some_and(|drain| drain.looks(now.mono));
        if is_due && self.has_gone(conns) {
            self.tell_gone();
            self.turn_to_callers(conns, now);
        }
    }

    /// Whether no client is left on this shard for whom the drain waits.
    fn has_gone<K: Kernel>(&mut self, conns: &mut Conns<L::Session, K>) -> bool {
        match self.drain.as_ref().map(Drain::stage) {
            Some(Stage::Clients) => {
                // Clients that came while the port was being closed, and said nothing.
                let is_late = |session: &L::Session| {
                    let class = L::class(session);
                    class.is_client && class.transport == Transport::Http
                };
                self.close_those(is_late, conns);
                !conns.sessions().any(|(_, one)| L::class(one).is_client)
            }
            Some(Stage::Callers) => {
                self.close_those(|one| L::class(one).transport == Transport::Http, conns);
                conns.all_have_left()
            }
            Some(Stage::OtherShards | Stage::Over) | None => false,
        }
    }

    fn tell_gone(&mut self) {
        let Some(gone) = self.drain.as_mut().and_then(Drain::is_left) else {
            return;
        };
        self.ends.note(gone);
        let others = (0..self.parts.shards).filter(|shard| *shard != self.parts.shard.0);
        for shard in others {
            self.outboxes.push(ShardId(shard), Note::Gone(gone));
        }
    }

    /// Publishers and operators are served until the last client of all shards has gone; then those
    /// that are idle are closed, and the others when they have their answer.
    fn turn_to_callers<K: Kernel>(&mut self, conns: &mut Conns<L::Session, K>, now: Now) {
        let (ends, shards) = (&self.ends, self.parts.shards.into());
        let is_next = { self.drain.as_mut() }
            .is_some_and(|drain| drain.turns_to_callers(ends, shards, now.mono));
        if is_next {
            for number in 0..self.parts.ports.len() {
                conns.stop_listening_when_empty(number as u8);
            }
            self.close_those(|one| L::class(one).transport != Transport::Http, conns);
        }
    }

    /// Closes connections that are not on their way out. Those that serve a request are left to
    /// finish it.
    fn close_those<K: Kernel>(
        &mut self,
        which: impl Fn(&L::Session) -> bool,
        conns: &mut Conns<L::Session, K>,
    ) {
        let those = conns.staying().filter(|(_, session)| which(session));
        let those: Vec<ConnId> = those.map(|(id, _)| id).collect();
        for conn in those {
            let why = CloseReason::Because(Disconnect::Shutdown);
            self.event(conn, Event::Close(&why), conns);
        }
    }
}
