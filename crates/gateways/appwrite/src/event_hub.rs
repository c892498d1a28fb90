//! One shard's Appwrite connections: their subscriptions, and the delivery of events to them.
//!
//! Why this is not [`throng_hub`]: Appwrite's events have no channel that a client could name
//! beforehand. Each event has roles and several channel names, a subscription has queries, and the
//! receivers are decided when the event happens, by the roles that each connection has then. An
//! event has one place in one feed that all shards get whole, so there is no home shard and no
//! position per channel. Nothing of the broker's contract is left but order, which the feed gives.
//!
//! Owns the index, the history and held-back events. Never: sockets, threads, clocks; connections
//! are reached through [`Connections`].
//!
//! An event is matched once, when its turn comes: its receivers and their ids are written down, and
//! the frames made from that, some in each turn of the shard. The next event waits until all of
//! one's frames are queued, so every connection gets events in the feed's order.
//!
//! When the feed names a user's new roles, a change of memberships takes effect before its event is
//! matched, as in Appwrite. A change of the account takes effect behind its event, so that a user
//! gets the event that ends its own rights, and nothing after it. When the feed only reports that
//! roles have changed, events for that user's connections are held back (see [`Held`]) until
//! Appwrite has answered with the new roles, and then matched with those; so nothing reaches them
//! that they may not see any more, and nothing is lost.
//!
//! When events may have been lost, so may have changes: every signed-in connection is looked up
//! again, a few at a time (see `recheck`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use throng_appwrite::{
    ConnectionPhase, EVENT_HEAD, FeedMessage, GUESTS, IdentityChange, Index, IndexError,
    IndexedSubscription, Matches, NewEvent, RealtimeError, Rebind, Response, RoleChange,
    SubscriptionEntry,
};
use throng_session::encode::ws_text;
use throng_types::{ConnId, Frame, Load, Millis, Now, Position, Save, Saved};
use throng_ws::{Masking, Opcode, encode_header};

use crate::held::{Held, Verdict, Waiting};
use crate::history::History;
use crate::order::{Connections, EventHubOptions, Order, SubscriptionOrder};
use crate::overlap::Overlap;
use crate::recheck::Rechecks;

/// Between two events of the channel `tests`, on which other people's tests depend.
const TEST_EVENT_MS: u64 = 5_000;

/// One shard's subscriptions to events, and events on their way.
pub struct EventHub {
    pub(crate) index: Index,
    pub(crate) connections: usize,
    history: History,
    fanout: Option<Fanout>,
    /// A project, and a change in it that takes effect when all frames of its event are queued.
    behind: Option<(Box<str>, IdentityChange)>,
    /// Bound: the shard's connections.
    pub(crate) held: BTreeMap<u32, Held>,
    pub(crate) rechecks: Rechecks,
    /// Connections whose events carry positions. Bound: the shard's.
    pub(crate) positioned: BTreeSet<u32>,
    /// Connections that have heard more on another shard than this one has yet taken, with the
    /// position up to which they have. Bound: the shard's.
    ahead: BTreeMap<u32, Position>,
    pub(crate) overlap: Overlap,
    test_event_at: Millis,
    pub(crate) matches: Matches,
    head: Vec<u8>,
}

impl EventHub {
    #[must_use]
    pub fn new(options: EventHubOptions) -> Self {
        Self {
            index: Index::new(options.seed),
            connections: 0,
            history: History::new(options.history_ms, options.history_bytes_max),
            fanout: None,
            behind: None,
            held: BTreeMap::new(),
            rechecks: Rechecks::default(),
            positioned: BTreeSet::new(),
            ahead: BTreeMap::new(),
            overlap: Overlap::default(),
            test_event_at: Millis::default(),
            matches: Matches::default(),
            head: Vec::new(),
        }
    }

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
    pub fn handle(&mut self, order: Order, connections: &mut impl Connections) {
        let (Order::Enter { conn, .. }
        | Order::Subscribe { conn, .. }
        | Order::Unsubscribe { conn, .. }
        | Order::SetRoles { conn, .. }
        | Order::Change { conn, .. }
        | Order::Recover { conn, .. }) = &order;
        if connections.id(conn.index()) != Some(*conn) {
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
                    connections.refuse(conn, &error.into(), ConnectionPhase::Open);
                }
            }
            Order::Subscribe { conn, items } => self.subscribe_and_tell(conn, &items, connections),
            Order::Unsubscribe { conn, ids } => {
                let index = &mut self.index;
                let removed: Vec<(&str, bool)> = ids
                    .iter()
                    .map(|id| (id.as_str(), index.unsubscribe(conn.index(), id)))
                    .collect();
                say(conn, &Response::Unsubscribe(&removed), connections);
            }
            Order::SetRoles {
                conn,
                roles,
                from,
                to,
            } => {
                self.set_roles(conn.index(), &roles, &from, &to);
                self.settle(conn, connections);
            }
            Order::Change { conn, change } => {
                self.apply(conn.index(), &change);
                self.settle(conn, connections);
            }
            Order::Recover { conn, since } => self.recover(conn, since, connections),
        }
    }

    fn subscribe(&mut self, conn: ConnId, items: &[SubscriptionOrder]) -> Result<(), IndexError> {
        let subscriptions: Vec<IndexedSubscription<'_>> = items
            .iter()
            .map(|item| IndexedSubscription {
                id: &item.id,
                channels: &item.channels,
                filter: &item.filter,
            })
            .collect();
        self.index.subscribe(conn.index(), &subscriptions)
    }

    fn subscribe_and_tell(
        &mut self,
        conn: ConnId,
        items: &[SubscriptionOrder],
        connections: &mut impl Connections,
    ) {
        if let Err(error) = self.subscribe(conn, items) {
            return connections.refuse(conn, &error.into(), ConnectionPhase::Message);
        }
        let told: Vec<SubscriptionEntry<'_>> = items
            .iter()
            .map(|item| SubscriptionEntry {
                id: &item.id,
                channels: &item.channels,
                queries: item.filter.text(),
            })
            .collect();
        say(conn, &Response::Subscribe(&told), connections);
    }

    pub fn leave(&mut self, index: u32) {
        self.connections -= usize::from(self.index.remove(index));
        self.held.remove(&index);
        self.rechecks.done(index);
        self.positioned.remove(&index);
        self.ahead.remove(&index);
    }

    /// Appends the hub's state of a connection; false if that cannot move now.
    pub(crate) fn save_conn(&self, index: u32, out: &mut Vec<u8>) -> bool {
        self.positioned.contains(&index).save(out);
        self.index.save(index, out) && !self.held.contains_key(&index) && !self.is_busy()
    }

    /// Takes a connection in that was saved. Gives its project.
    pub(crate) fn load_conn(&mut self, index: u32, from: &mut Saved<'_>) -> Option<Box<str>> {
        let is_positioned = bool::load(from)?;
        let project = self.index.load(index, from)?;
        self.connections += 1;
        if is_positioned {
            self.positioned.insert(index);
        }
        Some(project)
    }

    // ---- events ----

    /// Counting begins anew: events may have been lost, and changes of users among them.
    pub fn begin(&mut self, position: Position) {
        self.history.begin(position);
        self.ahead.clear();
        self.rechecks.begin(self.index.end());
    }

    /// Lets some connections ask for their roles that [`begin`](Self::begin) has put in question;
    /// true if more can be done at once.
    pub fn recheck_some(&mut self, connections: &mut impl Connections) -> bool {
        let index = &self.index;
        self.rechecks.some(|slot| {
            let conn = connections.id(slot).filter(|_| index.contains(slot));
            conn.is_some_and(|conn| connections.recheck(conn))
        })
    }

    /// Takes the next event. Not while the hub [is busy](Self::is_busy).
    pub fn event(
        &mut self,
        event: &Arc<FeedMessage>,
        position: Position,
        now: Now,
        connections: &mut impl Connections,
    ) {
        self.history.push(event, position, now.mono);
        self.ahead
            .retain(|_, at| at.epoch == position.epoch && at.offset >= position.offset);
        let fingerprint = event.fingerprint();
        self.overlap.take(fingerprint, now.mono);
        if self.overlap.is_taken(fingerprint) {
            return;
        }
        let mut change = event.identity_change();
        if let Some(before) = change.take_if(|_| event.permissions_changed) {
            self.change(&event.project, &before, connections);
        }
        self.hold(event, position, change.as_ref(), connections);
        self.spread(event, position, connections);
        self.behind = change.map(|change| (event.project.clone(), change));
        self.change_behind(connections);
    }

    /// Carries out the change of the last event, unless frames of it are still to be made.
    fn change_behind(&mut self, connections: &mut impl Connections) {
        if !self.is_busy()
            && let Some((project, change)) = self.behind.take()
        {
            self.change(&project, &change, connections);
        }
    }

    fn spread(
        &mut self,
        event: &Arc<FeedMessage>,
        position: Position,
        connections: &mut impl Connections,
    ) {
        debug_assert!(!self.is_busy(), "events go one after the other");
        self.index.matches(event, &mut self.matches);
        let mut receivers = Vec::with_capacity(self.matches.receivers.len());
        let mut ids = Vec::new();
        for found in &self.matches.receivers {
            if self.ahead.contains_key(&found.connection) {
                continue;
            }
            let held = (!self.held.is_empty()).then(|| self.held.get(&found.connection));
            if held.flatten().is_some_and(|held| !held.passes) {
                continue;
            }
            if let Some(conn) = connections.id(found.connection) {
                self.index.write_ids(&self.matches, found, &mut ids);
                receivers.push((conn, ids.len() as u32));
            }
        }
        connections.matched(receivers.len());
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

    /// Builds up to `frames_max` frames of the current event, and returns their number.
    pub fn fan_out(&mut self, frames_max: usize, connections: &mut impl Connections) -> usize {
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
            connections.deliver(conn, &self.head, &fanout.shared.tail);
        }
        fanout.next = end;
        if end == fanout.receivers.len() {
            self.fanout = None;
            self.change_behind(connections);
        }
        end - begin
    }

    /// Once in a while: the history fades, and the channel `tests` has its event.
    pub fn tick(&mut self, now: Now, connections: &mut impl Connections) {
        self.history.forget(now.mono);
        self.overlap.forget(now.mono);
        if self.connections == 0 || self.is_busy() || now.mono < self.test_event_at {
            return;
        }
        self.test_event_at = now.mono + TEST_EVENT_MS;
        if let Some(event) = test_event(now) {
            self.spread(&Arc::new(event), self.history.last, connections);
        }
    }

    // ---- what was missed ----

    fn recover(
        &mut self,
        conn: ConnId,
        since: Option<Position>,
        connections: &mut impl Connections,
    ) {
        let (missed, position) = match since {
            Some(since) if self.history.lags(since) => {
                self.ahead.insert(conn.index(), since);
                (Some(Vec::new()), since)
            }
            Some(since) => (self.history.since(since), self.history.last),
            None => (None, self.history.last),
        };
        let Position { epoch, offset } = position;
        let recovered = missed.is_some();
        let mut out = Vec::new();
        ws_text(&mut out, |text| {
            let frame = format!(
                "{{\"type\":\"recovery\",\"data\":{{\"position\":\"{epoch}-{offset}\",\
                 \"recovered\":{recovered}}}}}"
            );
            text.extend_from_slice(frame.as_bytes());
        });
        connections.say(conn, &out);
        if since.is_some() {
            connections.recovered(recovered);
        }
        for (event, position) in missed.unwrap_or_default() {
            self.tell(conn, &event, position, connections);
        }
    }

    pub(crate) fn tell(
        &mut self,
        conn: ConnId,
        event: &Arc<FeedMessage>,
        position: Position,
        connections: &mut impl Connections,
    ) {
        if let Some(ids) = self.ids_of(conn.index(), event) {
            self.tell_as(conn, event, position, &ids, connections);
        }
    }

    /// The ids of a connection's subscriptions that match an event, as they stand in its frame.
    pub(crate) fn ids_of(&mut self, index: u32, event: &FeedMessage) -> Option<Vec<u8>> {
        self.index.matches_for(index, event, &mut self.matches);
        let found = self.matches.receivers.first()?;
        let mut ids = Vec::new();
        self.index.write_ids(&self.matches, found, &mut ids);
        Some(ids)
    }

    pub(crate) fn tell_as(
        &mut self,
        conn: ConnId,
        event: &Arc<FeedMessage>,
        position: Position,
        ids: &[u8],
        connections: &mut impl Connections,
    ) {
        connections.matched(1);
        let shared = Shared::new(event, position);
        let positioned = self.positioned.contains(&conn.index());
        shared.head(ids, positioned, &mut self.head);
        connections.deliver(conn, &self.head, &shared.tail);
    }
}

fn say(conn: ConnId, response: &Response<'_>, connections: &mut impl Connections) {
    let mut out = Vec::new();
    ws_text(&mut out, |text| response.encode(text));
    connections.say(conn, &out);
}

impl EventHub {
    /// Applies a change of a user: gives the user's connections their new roles, or holds events
    /// back for them until those are known.
    pub(crate) fn change(
        &mut self,
        project: &str,
        change: &IdentityChange,
        connections: &mut impl Connections,
    ) {
        let mut theirs = Vec::new();
        self.index
            .with_role(project, &format!("user:{}", change.user_id), &mut theirs);
        for index in theirs {
            let Some(conn) = connections.id(index) else {
                continue;
            };
            if !self.apply(index, change) {
                let is_positioned = self.positioned.contains(&index);
                self.held
                    .entry(index)
                    .or_insert_with(|| Held::new(project, &change.user_id, is_positioned));
            }
            if let Some(held) = self.held.get_mut(&index) {
                held.learn(&change.what);
            }
            connections.changed(conn, &change.what);
        }
    }

    /// Gives a connection the roles that a change names; false if it names none.
    pub(crate) fn apply(&mut self, index: u32, change: &IdentityChange) -> bool {
        let user_id = &change.user_id;
        match change.what.outcome(user_id, &self.index.roles(index)) {
            RoleChange::Same => true,
            RoleChange::Roles(roles) => {
                self.index.set_roles(index, &roles, None);
                true
            }
            RoleChange::Guest => {
                self.set_roles(index, &[GUESTS], user_id, "");
                true
            }
            RoleChange::Unknown => false,
        }
    }

    pub(crate) fn set_roles<S: AsRef<str>>(
        &mut self,
        index: u32,
        roles: &[S],
        from: &str,
        to: &str,
    ) {
        self.index
            .set_roles(index, roles, Some(Rebind { from, to }));
    }

    /// Checks an event for all connections that wait for their roles; `change` is its change of an
    /// account.
    pub(crate) fn hold(
        &mut self,
        event: &Arc<FeedMessage>,
        position: Position,
        change: Option<&IdentityChange>,
        connections: &mut impl Connections,
    ) {
        let ends = change.filter(|change| change.what.ends_rights());
        let (mut too_many, mut ending) = (Vec::new(), Vec::new());
        for (&index, held) in &mut self.held {
            if self.ahead.contains_key(&index) {
                continue;
            }
            match held.take(event, position) {
                Verdict::Full => too_many.push(index),
                Verdict::Waits if ends.is_some_and(|ends| held.is_of(&ends.user_id)) => {
                    ending.push(index);
                }
                _ => {}
            }
        }
        // Matched now: when its turn comes, there are no rights any more to match it with.
        for index in ending {
            let ids = self.ids_of(index, event);
            let held = self.held.get_mut(&index);
            if let Some(last) = held.and_then(|held| held.events.last_mut()) {
                last.ids = ids;
            }
        }
        for index in too_many {
            // Without its roles it gets nothing more, whether or not it closes at once.
            self.index.set_roles::<&str>(index, &[], None);
            self.held.remove(&index);
            if let Some(conn) = connections.id(index) {
                connections.refuse(conn, &RealtimeError::Server, ConnectionPhase::Open);
            }
        }
    }

    /// Sets the roles, and matches held-back events with them.
    pub(crate) fn settle(&mut self, conn: ConnId, connections: &mut impl Connections) {
        self.rechecks.done(conn.index());
        if let Some(held) = self.held.remove(&conn.index()) {
            for Waiting {
                event,
                position,
                ids,
            } in held.events
            {
                match ids {
                    Some(ids) => self.tell_as(conn, &event, position, &ids, connections),
                    None => self.tell(conn, &event, position, connections),
                }
            }
        }
    }
}

/// An event on its way: receivers in order, each with the end of its ids.
pub(crate) struct Fanout {
    pub(crate) shared: Shared,
    pub(crate) receivers: Vec<(ConnId, u32)>,
    pub(crate) ids: Vec<u8>,
    pub(crate) next: usize,
}

/// The parts of an event's frames that its receivers share.
pub(crate) struct Shared {
    pub(crate) tail: Frame,
    position: Position,
}

impl Shared {
    pub(crate) fn new(event: &FeedMessage, position: Position) -> Self {
        Self {
            tail: Frame::new(&event.encode_tail()),
            position,
        }
    }

    /// A frame's own part: the WebSocket header, and everything up to the shared part.
    pub(crate) fn head(&self, ids: &[u8], positioned: bool, out: &mut Vec<u8>) {
        out.clear();
        let (before, after) = EVENT_HEAD.split_at(if positioned { DATA.len() } else { 0 });
        let position = match positioned {
            true => format!(
                r#""position":"{}-{}","#,
                self.position.epoch, self.position.offset
            ),
            false => String::new(),
        };
        let bytes = EVENT_HEAD.len() + position.len() + ids.len() + self.tail.len();
        encode_header(Masking::Server, Opcode::Text, bytes, out);
        for part in [before, position.as_bytes(), after, ids] {
            out.extend_from_slice(part);
        }
    }
}

/// Start of an event's frame, up to where more fields may stand.
const DATA: &[u8] = br#"{"type":"event","data":{"#;

/// The event of the channel `tests`, on which other people's tests depend.
pub(crate) fn test_event(now: Now) -> Option<FeedMessage> {
    let mut message = Vec::new();
    let event = NewEvent {
        project: throng_appwrite::CONSOLE,
        roles: &[GUESTS],
        names: &["test.event"],
        channels: &["tests"],
        time_unix_ms: now.unix_ms,
        payload: r#"{"response":"WS:/v1/realtime:passed"}"#,
    };
    event.encode(&mut message);
    FeedMessage::parse(&message, message.len()).ok()
}
