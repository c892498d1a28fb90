//! One shard's Appwrite connections: who subscribed to what, and the way of events to them.
//!
//! Owns the index, the past and what is held back. Never: sockets, threads, clocks; connections are
//! reached through [`Wire`].
//!
//! An event is matched once, when its turn comes: its receivers and their ids are written down, and
//! the frames made from that, some in each turn of the shard. The next event waits until all of
//! one's frames are queued, so every connection gets events in the feed's order.
//!
//! When the feed says that a user's roles have changed, events for that user's connections are held
//! back until Appwrite has told the new roles, and then matched with those; so nothing reaches them
//! that they may not see any more, and nothing is lost. Rule for "full": a connection for which too
//! many are held is ended, and comes back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_appwrite::{
    EncodedEvent, Fault, FeedMessage, IdentityChange, Index, IndexError, Layout, Matches, NewEvent,
    Phase, Rebind, Response, Subscribed, Subscription,
};
use throng_types::{ConnId, Frame, Millis, Now, Position};
use throng_ws::{Masking, Opcode, encode_header};

use super::past::Past;
use super::{Order, RoomOptions, Wanted, Wire};
use crate::format::ws_text;

/// Events held back for one connection whose roles are being asked for.
const HELD_MAX: usize = 256;
/// Between two events of the channel `tests`, on which other people's tests depend.
const TEST_EVENT_MS: u64 = 5_000;

/// An event on its way: receivers in order, each with the end of its ids.
struct Fanout {
    shared: Shared,
    receivers: Vec<(ConnId, u32)>,
    ids: Vec<u8>,
    next: usize,
}

/// The parts of an event's frames that its receivers share.
struct Shared {
    head: Box<[u8]>,
    tail: Frame,
    position: Position,
}

/// A connection whose roles are being asked for, and what happened since.
struct Held {
    project: Box<str>,
    events: Vec<(Arc<FeedMessage>, Position)>,
}

/// See the module's head.
pub struct Room {
    index: Index,
    connections: usize,
    past: Past,
    fanout: Option<Fanout>,
    held: BTreeMap<u32, Held>,
    /// Connections whose events carry positions.
    positioned: BTreeSet<u32>,
    test_event_at: Millis,
    matches: Matches,
    head: Vec<u8>,
}

impl Room {
    /// An empty room.
    #[must_use]
    pub fn new(options: RoomOptions) -> Self {
        Self {
            index: Index::new(options.seed),
            connections: 0,
            past: Past::new(options.history_ms, options.history_bytes_max),
            fanout: None,
            held: BTreeMap::new(),
            positioned: BTreeSet::new(),
            test_event_at: Millis::default(),
            matches: Matches::default(),
            head: Vec::new(),
        }
    }

    /// Connections in the room.
    #[must_use]
    pub const fn connections(&self) -> usize {
        self.connections
    }

    /// Whether frames of an event are still to be made: the next one must wait.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.fanout.is_some()
    }

    // ---- orders ----

    /// Carries out a session's order. Orders of connections that have gone are without effect.
    pub fn handle(&mut self, order: Order, wire: &mut impl Wire) {
        let (Order::Enter { conn, .. }
        | Order::Subscribe { conn, .. }
        | Order::Unsubscribe { conn, .. }
        | Order::SetRoles { conn, .. }
        | Order::Recover { conn, .. }) = &order;
        if wire.id(conn.index()) != Some(*conn) {
            return;
        }
        match order {
            Order::Enter {
                conn,
                project,
                roles,
                subscriptions,
                positions,
            } => {
                let entered = self.index.insert(conn.index(), &project, &roles);
                self.connections += usize::from(entered.is_ok());
                if positions {
                    self.positioned.insert(conn.index());
                }
                let result = entered.and_then(|()| self.subscribe(conn, &subscriptions));
                if let Err(error) = result {
                    wire.refuse(conn, &error.into(), Phase::Open);
                }
            }
            Order::Subscribe { conn, items } => self.subscribe_and_tell(conn, &items, wire),
            Order::Unsubscribe { conn, ids } => {
                let index = &mut self.index;
                let removed: Vec<(&str, bool)> = ids
                    .iter()
                    .map(|id| (id.as_str(), index.unsubscribe(conn.index(), id)))
                    .collect();
                say(conn, &Response::Unsubscribe(&removed), wire);
            }
            Order::SetRoles {
                conn,
                roles,
                from,
                to,
                settled,
            } => {
                let rebind = Rebind {
                    from: &from,
                    to: &to,
                };
                self.index.set_roles(conn.index(), &roles, Some(rebind));
                if settled {
                    self.release(conn, wire);
                }
            }
            Order::Recover { conn, since } => self.recover(conn, since, wire),
        }
    }

    fn subscribe(&mut self, conn: ConnId, items: &[Wanted]) -> Result<(), IndexError> {
        let subscriptions: Vec<Subscription<'_>> = items
            .iter()
            .map(|item| Subscription {
                id: &item.id,
                channels: &item.channels,
                filter: &item.filter,
            })
            .collect();
        self.index.subscribe(conn.index(), &subscriptions)
    }

    fn subscribe_and_tell(&mut self, conn: ConnId, items: &[Wanted], wire: &mut impl Wire) {
        if let Err(error) = self.subscribe(conn, items) {
            return wire.refuse(conn, &error.into(), Phase::Message);
        }
        let told: Vec<Subscribed<'_>> = items
            .iter()
            .map(|item| Subscribed {
                id: &item.id,
                channels: &item.channels,
                queries: item.filter.text(),
            })
            .collect();
        say(conn, &Response::Subscribe(&told), wire);
    }

    /// A connection is gone.
    pub fn leave(&mut self, index: u32) {
        self.connections -= usize::from(self.index.remove(index));
        self.held.remove(&index);
        self.positioned.remove(&index);
    }

    // ---- events ----

    /// Counting begins anew: events may have been lost.
    pub fn begin(&mut self, position: Position) {
        self.past.begin(position);
    }

    /// Takes the next event. Not while the room [is busy](Self::is_busy).
    pub fn event(
        &mut self,
        event: &Arc<FeedMessage>,
        position: Position,
        now: Now,
        wire: &mut impl Wire,
    ) {
        self.past.push(event, position, now.mono);
        if let Some(change) = event.identity_change() {
            self.hold_back(&event.project, &change, wire);
        }
        self.hold(event, position, wire);
        self.spread(event, position, wire);
    }

    /// Finds an event's receivers and writes them down.
    fn spread(&mut self, event: &Arc<FeedMessage>, position: Position, wire: &mut impl Wire) {
        debug_assert!(!self.is_busy(), "events go one after the other");
        self.index.matches(event, &mut self.matches);
        let mut receivers = Vec::with_capacity(self.matches.receivers.len());
        let mut ids = Vec::new();
        for found in &self.matches.receivers {
            if !self.held.is_empty() && self.held.contains_key(&found.connection) {
                continue;
            }
            if let Some(conn) = wire.id(found.connection) {
                self.index.write_ids(&self.matches, found, &mut ids);
                receivers.push((conn, ids.len() as u32));
            }
        }
        wire.matched(receivers.len());
        if !receivers.is_empty() {
            self.fanout = Some(Fanout {
                shared: Shared::new(event, position),
                receivers,
                ids,
                next: 0,
            });
        }
        // What a crowd needed is not kept for the few of the next event.
        if self.matches.receivers.capacity() > 1 << 16 {
            self.matches = Matches::default();
        }
    }

    /// Makes at most so many frames of the event at hand, and says how many.
    pub fn fan_out(&mut self, frames_max: usize, wire: &mut impl Wire) -> usize {
        let Some(fanout) = self.fanout.as_mut() else {
            return 0;
        };
        let begin = fanout.next;
        let end = fanout.receivers.len().min(fanout.next + frames_max);
        let mut from = match fanout.next.checked_sub(1) {
            Some(last) => fanout.receivers[last].1 as usize,
            None => 0,
        };
        for &(conn, to) in &fanout.receivers[fanout.next..end] {
            let ids = &fanout.ids[from..to as usize];
            from = to as usize;
            let positioned = !self.positioned.is_empty() && self.positioned.contains(&conn.index());
            fanout.shared.head(ids, positioned, &mut self.head);
            wire.deliver(conn, &self.head, &fanout.shared.tail);
        }
        fanout.next = end;
        if end == fanout.receivers.len() {
            self.fanout = None;
        }
        end - begin
    }

    /// Once in a while: the past fades, and the channel `tests` has its event.
    pub fn tick(&mut self, now: Now, wire: &mut impl Wire) {
        self.past.forget(now.mono);
        if self.connections == 0 || self.is_busy() || now.mono < self.test_event_at {
            return;
        }
        self.test_event_at = now.mono + TEST_EVENT_MS;
        let mut message = Vec::new();
        let event = NewEvent {
            project: throng_appwrite::CONSOLE,
            roles: &[throng_appwrite::GUESTS],
            names: &["test.event"],
            channels: &["tests"],
            time_unix_ms: now.unix_ms,
            payload: r#"{"response":"WS:/v1/realtime:passed"}"#,
        };
        event.encode(&mut message);
        if let Ok(event) = FeedMessage::parse(&message, message.len()) {
            self.spread(&Arc::new(event), self.past.position(), wire);
        }
    }

    // ---- roles that change ----

    /// Holds events back for a user's connections and lets them ask for their roles.
    fn hold_back(&mut self, project: &str, change: &IdentityChange, wire: &mut impl Wire) {
        let (IdentityChange::Reload { user_id }
        | IdentityChange::SessionEnded { user_id, .. }
        | IdentityChange::UserDeleted { user_id }) = change;
        let mut theirs = Vec::new();
        self.index
            .with_role(project, &format!("user:{user_id}"), &mut theirs);
        for index in theirs {
            let Some(conn) = wire.id(index) else { continue };
            self.held.entry(index).or_insert_with(|| Held {
                project: project.into(),
                events: Vec::new(),
            });
            wire.reload(conn);
        }
    }

    fn hold(&mut self, event: &Arc<FeedMessage>, position: Position, wire: &mut impl Wire) {
        let mut too_many = Vec::new();
        for (&index, held) in &mut self.held {
            if held.project != event.project {
                continue;
            }
            if held.events.len() < HELD_MAX {
                held.events.push((event.clone(), position));
            } else {
                too_many.push(index);
            }
        }
        for index in too_many {
            // Without its roles it hears nothing more, whether or not it closes at once.
            self.index.set_roles::<&str>(index, &[], None);
            self.held.remove(&index);
            if let Some(conn) = wire.id(index) {
                wire.refuse(conn, &Fault::Server, Phase::Open);
            }
        }
    }

    /// The roles are known: matches what was held back with them.
    fn release(&mut self, conn: ConnId, wire: &mut impl Wire) {
        if let Some(held) = self.held.remove(&conn.index()) {
            for (event, position) in held.events {
                self.tell(conn, &event, position, wire);
            }
        }
    }

    // ---- what was missed ----

    fn recover(&mut self, conn: ConnId, since: Option<Position>, wire: &mut impl Wire) {
        let missed = since.and_then(|since| self.past.since(since));
        let Position { epoch, offset } = self.past.position();
        let recovered = missed.is_some();
        let mut out = Vec::new();
        ws_text(&mut out, |text| {
            let frame = format!(
                r#"{{"type":"recovery","data":{{"position":"{epoch}-{offset}","recovered":{recovered}}}}}"#
            );
            text.extend_from_slice(frame.as_bytes());
        });
        wire.say(conn, &out);
        if since.is_some() {
            wire.recovered(recovered);
        }
        for (event, position) in missed.unwrap_or_default() {
            self.tell(conn, &event, position, wire);
        }
    }

    /// Tells one connection alone of an event, if it is for it.
    fn tell(
        &mut self,
        conn: ConnId,
        event: &Arc<FeedMessage>,
        position: Position,
        wire: &mut impl Wire,
    ) {
        self.index
            .matches_for(conn.index(), event, &mut self.matches);
        let Some(found) = self.matches.receivers.first() else {
            return;
        };
        let mut ids = Vec::new();
        self.index.write_ids(&self.matches, found, &mut ids);
        wire.matched(1);
        let shared = Shared::new(event, position);
        let positioned = self.positioned.contains(&conn.index());
        shared.head(&ids, positioned, &mut self.head);
        wire.deliver(conn, &self.head, &shared.tail);
    }
}

impl Shared {
    fn new(event: &FeedMessage, position: Position) -> Self {
        let encoded = EncodedEvent::new(event, Layout::IdsFirst);
        Self {
            head: encoded.head,
            tail: Frame::new(&encoded.tail),
            position,
        }
    }

    /// A frame's own part: the WebSocket header, and everything up to the shared part.
    fn head(&self, ids: &[u8], positioned: bool, out: &mut Vec<u8>) {
        out.clear();
        let (before, after) = self.head.split_at(if positioned { DATA.len() } else { 0 });
        let position = match positioned {
            true => format!(
                r#""position":"{}-{}","#,
                self.position.epoch, self.position.offset
            ),
            false => String::new(),
        };
        let bytes = self.head.len() + position.len() + ids.len() + self.tail.len();
        encode_header(Masking::Server, Opcode::Text, bytes, out);
        for part in [before, position.as_bytes(), after, ids] {
            out.extend_from_slice(part);
        }
    }
}

/// How an event's head begins, up to where more fields may stand.
const DATA: &[u8] = br#"{"type":"event","data":{"#;

fn say(conn: ConnId, response: &Response<'_>, wire: &mut impl Wire) {
    let mut out = Vec::new();
    ws_text(&mut out, |text| response.encode(text));
    wire.say(conn, &out);
}
