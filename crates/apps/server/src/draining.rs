//! A drain carried out on a shard.

use throng_engine::{Conns, Kernel};
use throng_session::{CloseReason, Event, Port, Transport};
use throng_types::{ConnId, Disconnect, Now, ShardId};

use crate::drain::{Drain, DrainOptions, Ports, Stage};
use crate::gateways::Session;
use crate::outbox::Note;
use crate::shard::ShardApp;

/// Begins to drain a shard, whose ports take no more connections.
pub(crate) fn begin<K: Kernel>(
    app: &mut ShardApp,
    (options, ports): (DrainOptions, Ports),
    conns: &mut Conns<Session, K>,
    now: Now,
) {
    if app.drain.is_some() {
        return;
    }
    app.parts.shared.draining = true;
    for (number, known) in app.parts.listeners.iter().enumerate() {
        if known.port == Port::Client || ports == Ports::All {
            conns.stop_listening(number as u8);
        }
    }
    let clients = conns
        .sessions()
        .filter(|(_, session)| session.class().is_client);
    let clients: Vec<ConnId> = clients.map(|(id, _)| id).collect();
    let seed = app.parts.seed;
    app.drain = Some(Drain::new(clients, options, now.mono, seed));
}

pub(crate) fn step<K: Kernel>(app: &mut ShardApp, conns: &mut Conns<Session, K>, now: Now) {
    let Some(drain) = app.drain.as_mut() else {
        return;
    };
    for (conn, reconnect_ms) in drain.step(now.mono) {
        let why = CloseReason::Drain { reconnect_ms };
        app.event(conn, Event::Close(&why), conns);
    }
    turn_to_callers(app, conns, now);
    let is_due = { app.drain.as_mut() }.is_some_and(|drain| drain.looks(now.mono));
    if is_due && has_gone(app, conns) {
        tell_gone(app);
        turn_to_callers(app, conns, now);
    }
}

/// Whether nothing is left on this shard that the drain waits for: clients, then callers and what
/// is on its way to the broker.
fn has_gone<K: Kernel>(app: &mut ShardApp, conns: &mut Conns<Session, K>) -> bool {
    match app.drain.as_ref().map(Drain::stage) {
        Some(Stage::Clients) => {
            // Clients that came while the port was being closed, and said nothing.
            let is_late = |session: &Session| {
                let class = session.class();
                class.is_client && class.transport == Transport::Http
            };
            close_those(app, is_late, conns);
            !conns.sessions().any(|(_, one)| one.class().is_client)
        }
        Some(Stage::Callers) => {
            close_those(app, |one| one.class().transport == Transport::Http, conns);
            conns.all_have_left() && app.parts.hub.has_all_replies()
        }
        Some(Stage::OtherShards | Stage::Over) | None => false,
    }
}

fn tell_gone(app: &mut ShardApp) {
    let Some(gone) = app.drain.as_mut().and_then(Drain::is_left) else {
        return;
    };
    app.ends.note(gone);
    let others = (0..app.parts.shards).filter(|shard| *shard != app.parts.shard.0);
    for shard in others {
        app.outboxes.push(ShardId(shard), Note::Gone(gone));
    }
}

/// Publishers and operators are served until the last client of all shards has gone; then those
/// that are idle are closed, and the others when they have their answer.
fn turn_to_callers<K: Kernel>(app: &mut ShardApp, conns: &mut Conns<Session, K>, now: Now) {
    let (ends, shards) = (&app.ends, app.parts.shards.into());
    let is_next =
        { app.drain.as_mut() }.is_some_and(|drain| drain.turns_to_callers(ends, shards, now.mono));
    if is_next {
        for number in 0..app.parts.listeners.len() {
            conns.stop_listening_when_empty(number as u8);
        }
        close_those(app, |one| one.class().transport != Transport::Http, conns);
    }
}

/// Closes connections that are not on their way out. Those that serve a request are left to
/// finish it.
fn close_those<K: Kernel>(
    app: &mut ShardApp,
    which: impl Fn(&Session) -> bool,
    conns: &mut Conns<Session, K>,
) {
    let those = conns.staying().filter(|(_, session)| which(session));
    let those: Vec<ConnId> = those.map(|(id, _)| id).collect();
    for conn in those {
        let why = CloseReason::Because(Disconnect::Shutdown);
        app.event(conn, Event::Close(&why), conns);
    }
}
