//! A drain carried out on a shard.

use throng_engine::{Conns, Kernel};
use throng_session::{CloseReason, Event, Port};
use throng_types::{ConnId, Disconnect, Now};

use crate::drain::{Drain, DrainOptions, Ports};
use crate::list::GatewayList;
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
        let step = drain.step(now.mono);
        let last = drain.all_told();
        for (conn, reconnect_ms) in step {
            let why = CloseReason::Drain { reconnect_ms };
            self.event(conn, Event::Close(&why), conns);
        }
        if last {
            // Idle connections of the API port have nothing to wait for; busy ones are left to
            // finish.
            let api = conns
                .sessions()
                .filter(|(_, session)| !L::class(session).is_client);
            let api: Vec<ConnId> = api.map(|(id, _)| id).collect();
            for conn in api {
                let why = CloseReason::Because(Disconnect::Shutdown);
                self.event(conn, Event::Close(&why), conns);
            }
        }
    }
}
