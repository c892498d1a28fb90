//! Connections of a shard, and the items of its hub, as bytes.

use std::net::IpAddr;

use throng_engine::{Conns, Kernel, SavedConn};
use throng_types::{ConnId, Load, Save, Saved, SpanContext};

use crate::gateways::Session;
use crate::peers::{NO_CLIENT, UNCOUNTED};
use crate::sessions::standing;
use crate::shard::ShardApp;

/// Client for which a connection counts.
#[derive(Save)]
enum Counted {
    /// No client: the connection came by another port.
    NoClient,
    /// Not counted: a proxy's connection, or one that was refused.
    Nobody,
    Address(IpAddr),
}

/// Takes a piece of the hub's items.
pub(super) fn load_piece(app: &mut ShardApp, piece: &[u8]) -> Option<()> {
    let mut from = Saved::new(piece);
    while !from.is_empty() {
        let kind = u8::load(&mut from)?;
        app.parts.hub.load(kind, &mut from)?;
    }
    Some(())
}

/// Appends a connection; `None` if it cannot move, and what was appended is of no use.
pub(super) fn save_conn<K: Kernel>(
    app: &ShardApp,
    id: ConnId,
    conns: &Conns<Session, K>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (session, tag) = (conns.session(id)?, conns.tag(id)?);
    conns.save(id, out);
    counted(app, id, tag, conns).save(out);
    app.parts.shared.forwarded.client_of(id).save(out);
    app.parts.shared.users.counted_as(id).save(out);
    app.parts.shared.client_traces.of(id).save(out);
    let moves = app.gateways.save(id, session, out) && app.parts.hub.save_subscriptions(id, out);
    moves.then_some(())
}

fn counted<K: Kernel>(app: &ShardApp, id: ConnId, tag: u32, conns: &Conns<Session, K>) -> Counted {
    if tag == NO_CLIENT {
        return Counted::NoClient;
    }
    if tag == UNCOUNTED {
        return Counted::Nobody;
    }
    let known = app.addresses.get(tag).copied();
    known
        .or_else(|| conns.peer(id))
        .map_or(Counted::Nobody, Counted::Address)
}

/// Puts a connection into its place, with its session and subscriptions; with the next of the
/// sockets if it has one.
pub(super) fn load_conn<K: Kernel>(
    app: &mut ShardApp,
    from: &mut Saved<'_>,
    sockets: &mut dyn Iterator<Item = K::Socket>,
    conns: &mut Conns<Session, K>,
) -> Option<()> {
    let saved = SavedConn::load(from)?;
    let socket = match saved.has_socket() {
        true => Some(sockets.next()?),
        false => None,
    };
    let counted = Counted::load(from)?;
    let forwarded = Option::<IpAddr>::load(from)?;
    let user = Option::<Box<str>>::load(from)?;
    let trace = Option::<SpanContext>::load(from)?;
    let session = app.gateways.load(saved.id(conns)?, from)?;
    let tag = match counted {
        Counted::NoClient => NO_CLIENT,
        Counted::Nobody => UNCOUNTED,
        // It was counted before, so there is room.
        Counted::Address(address) => app.enter(address).0,
    };
    app.clients += usize::from(tag != NO_CLIENT);
    standing(&session, tag).count(&app.parts.shared);
    let id = conns.adopt(saved, socket, tag, session)?;
    if tag == NO_CLIENT {
        conns.prefer(id);
    }
    if let Some(client) = forwarded {
        // It was counted before, so there is room.
        let _ = app.parts.shared.forwarded.belongs_to(id, client);
    }
    if let Some(user) = user {
        app.parts.shared.users.take_over(id, &user);
    }
    // A new configuration may have turned traces off.
    if let Some(trace) = trace.filter(|_| app.parts.shared.tracer.is_some()) {
        app.parts.shared.client_traces.note(id, trace);
    }
    app.parts.hub.load_subscriptions(id, from)
}

/// Takes a connection out that was saved, with all that is known of it here, and gives its
/// socket, if it has one; `None` if it has gone.
pub(super) fn take_out<K: Kernel>(
    app: &mut ShardApp,
    id: ConnId,
    conns: &mut Conns<Session, K>,
) -> Option<Option<K::Socket>> {
    let tag = conns.tag(id)?;
    let (socket, session) = conns.take_out(id)?;
    standing(&session, tag).uncount(&app.parts.shared);
    app.gateways.give_up(id, session);
    app.parts.hub.give_up_subscriptions(id);
    app.parts.shared.forwarded.gone(id);
    app.parts.shared.users.gone(id);
    app.parts.shared.client_traces.gone(id);
    app.clients -= usize::from(tag != NO_CLIENT);
    app.leave(tag);
    Some(socket)
}
