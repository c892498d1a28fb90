//! A client that a backend holds: a stream of items.
//!
//! The head leaves when the client is a member of all its channels, so that whoever sees it can
//! publish to it. The backend's own body follows; what is published meanwhile waits behind it. A
//! stream without filters, sequence and links is then served from bytes that all share, and owns a
//! place in its channels, a deadline and a few words here.
//!
//! Invariants
//! - While `fetch` is there, an exchange with the backend is under way, and publications that
//!   are shown to the session wait in it.
//! - While `early` is there, nothing has left.
//! - `follow` is there exactly for streams that have filters, ids or links.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use throng_grip::exchange::OriginEvent;
use throng_grip::filters::Filtered;
use throng_grip::hold::keep_alive_at;
use throng_grip::instruct::{Instruct, KeepAlive, KeepAliveMode};
use throng_grip::item::HttpStreamItem;
use throng_http1::LAST_CHUNK;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{ChannelName, ConnId, Millis, Now, Publication};

use super::GripDesk;
use super::asked::Asked;
use super::follow::{Due, Following};
use super::forms::{GRIP_CHUNKS, GRIP_OWN, GRIP_RAW, stream_bytes};
use super::home::LastItem;
use super::link::{Fetch, Follow};
use crate::Desk;
use crate::effects::{End, Fx};

/// See the module's head.
pub(crate) struct Held {
    /// When something was last sent, in milliseconds of the monotonic clock, the low half. In
    /// a cell, because deliveries from shared bytes only touch it.
    sent_at: Cell<u32>,
    /// Of the exchange whose events are waited for.
    pub(super) token: u32,
    pub(super) is_chunked: bool,
    pub(super) closing: bool,
    pub(super) state: Box<State>,
}

/// What is not looked at for each delivery.
pub(super) struct State {
    pub(super) keep_alive: Option<Rc<KeepAlive>>,
    /// When the next keep-alive is due, unless something is sent before.
    beat_at: Millis,
    pub(super) fetch: Option<Box<Fetch>>,
    pub(super) follow: Option<Box<Follow>>,
    early: Option<Box<Early>>,
}

/// What waits until the client is a member of its channels: as long as mail takes between shards.
struct Early {
    /// Channels that have not answered.
    left: usize,
    bytes: Vec<u8>,
}

impl Held {
    /// A client with the head of its answer; the body follows as events with this token.
    pub(super) fn new(
        id: ConnId,
        asked: Asked,
        (token, is_chunked): (u32, bool),
        (head, instruct): (Vec<u8>, Instruct),
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Self {
        let prefix = &asked.route.channel_prefix;
        let following = Following::new(prefix, &instruct.channels, instruct.meta);
        let is_plain = following.is_plain();
        let form = match (is_plain, is_chunked) {
            (false, _) => GRIP_OWN,
            (true, true) => GRIP_CHUNKS,
            (true, false) => GRIP_RAW,
        };
        following.subscribe(id, form, fx);
        if is_plain {
            fx.hold = Some(true);
        }
        let needs_more = !is_plain || instruct.next.is_some() || instruct.gone.is_some();
        let fetch = Fetch::first(&following);
        let early = Early {
            left: following.channels.len(),
            bytes: head,
        };
        let follow = needs_more.then(|| {
            let links = (instruct.next, instruct.gone);
            Box::new(Follow::new(
                asked,
                following,
                links,
                is_plain,
                instruct.hold,
            ))
        });
        let grip = desk.grip.as_ref();
        let keep_alive = instruct.keep_alive.zip(grip);
        let mut held = Self {
            sent_at: Cell::new(fx.now.mono.0 as u32),
            token,
            is_chunked,
            closing: false,
            state: Box::new(State {
                keep_alive: keep_alive.map(|(keep_alive, grip)| grip.keep_alive(keep_alive)),
                beat_at: Millis::default(),
                fetch: Some(Box::new(fetch)),
                follow,
                early: Some(Box::new(early)),
            }),
        };
        held.begin_if_member(fx);
        held
    }

    /// Lets go what waited for the channels, if all have answered.
    fn begin_if_member(&mut self, fx: &mut Fx<'_>) {
        if self
            .state
            .early
            .as_ref()
            .is_some_and(|early| early.left == 0)
        {
            self.begin(fx);
        }
    }

    fn begin(&mut self, fx: &mut Fx<'_>) {
        if let Some(early) = self.state.early.take() {
            fx.out.extend_from_slice(&early.bytes);
            self.release(fx);
        }
    }

    /// Deliveries may leave once the head and the backend's own body have.
    fn release(&self, fx: &mut Fx<'_>) {
        if self.state.early.is_none() && self.state.fetch.is_none() {
            fx.hold = Some(false);
        }
    }

    /// The whole body of the backend's answer.
    pub(super) fn body_is_here(&mut self, id: ConnId, body: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
        self.body(body, fx);
        self.body_ended(id, desk, fx);
    }

    pub(crate) fn origin(
        &mut self,
        id: ConnId,
        token: u32,
        event: OriginEvent,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        if token != self.token || self.closing || self.state.fetch.is_none() {
            return;
        }
        match event {
            OriginEvent::Head(head) => self.link_head(id, head, desk, fx),
            OriginEvent::Body(bytes) => self.link_body(&bytes, desk, fx),
            OriginEvent::End => self.link_ended(id, desk, fx),
            // Nothing follows its requests.
            OriginEvent::Taken(_) => {}
            OriginEvent::Failed(_) => {
                desk.board.count(Counter::GripOriginFailures);
                self.link_failed(desk, fx);
            }
        }
    }

    /// Writes a piece of the backend's own body.
    pub(super) fn body(&mut self, bytes: &[u8], fx: &mut Fx<'_>) {
        let Some(fetch) = self.state.fetch.as_mut() else {
            return;
        };
        let bytes = fetch.render(bytes);
        self.write(&bytes, fx);
    }

    /// The backend's own body is whole: what waited leaves, and the client is held.
    pub(super) fn body_ended(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(mut fetch) = self.state.fetch.take() else {
            return;
        };
        let rest = fetch.take_rest();
        self.write(&rest, fx);
        if self.state.follow.as_ref().is_some_and(|follow| follow.ends) {
            return self.finish(fx);
        }
        self.release(fx);
        self.touch(fx.now);
        let chance = desk.grip.as_ref().map_or(0, GripDesk::chance);
        if let Some(keep_alive) = &self.state.keep_alive {
            self.state.beat_at = keep_alive_at(keep_alive, fx.now.mono, chance);
        }
        if let Some(follow) = self.state.follow.as_mut() {
            follow.schedule(fx.now, chance);
            if fetch.is_first {
                follow.following.ask_last_ids(id, fx);
            }
        }
        self.catch_up(id, fetch.waiting, desk, fx);
        self.arm(fx);
    }

    /// A publication that is for this session's eyes.
    pub(crate) fn publication(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        if self.closing {
            return;
        }
        if let Some(fetch) = self.state.fetch.as_mut() {
            if !fetch.wait(publication) {
                // The client comes back with what it has, and misses nothing.
                desk.board.count(Counter::GripWaitingFull);
                self.cut(fx);
            }
            return;
        }
        self.take(id, publication, &[], desk, fx);
        self.arm(fx);
    }

    /// Does what an item says. `others` wait behind it.
    pub(super) fn take(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        others: &[Arc<Publication>],
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let Some(grip) = desk.grip.as_ref() else {
            return;
        };
        let item = grip.item(publication);
        let (content, content_filters) = match &item.http_stream {
            None | Some(HttpStreamItem::Nothing) => return,
            Some(HttpStreamItem::Close) => return self.finish(fx),
            Some(HttpStreamItem::Hint) => return self.fetch_link(id, desk, fx),
            Some(HttpStreamItem::Send {
                content,
                content_filters,
            }) => (content, content_filters),
        };
        let Some(follow) = self.state.follow.as_mut().filter(|follow| !follow.is_plain) else {
            return;
        };
        let Some(at) = follow.following.find(&publication.channel) else {
            return;
        };
        match follow.following.due(at, &item) {
            Due::Known => return,
            Due::Gap if follow.may_mend(at, others, grip) => {
                self.fetch_link(id, desk, fx);
                if let Some(fetch) = self.state.fetch.as_mut() {
                    fetch.wait(publication);
                }
                return;
            }
            Due::Gap if follow.is_old(at, others, grip) => return,
            Due::Gap => follow.accept_gap(at, &item),
            Due::Next => follow.gaps = 0,
        }
        let filters = follow.following.channels[at].filters;
        if !filters.match_content_filters(content_filters.as_deref()) {
            return;
        }
        match follow.following.filter(at, &item, content) {
            Ok(Filtered::Send(content)) => {
                let content = content.into_owned();
                self.write(&content, fx);
            }
            Ok(Filtered::Drop) => {}
            Err(_) => desk.board.count(Counter::GripFilterFaults),
        }
    }

    /// What went out last in a channel of which the client has said what it has.
    pub(crate) fn last_item(
        &mut self,
        id: ConnId,
        channel: &ChannelName,
        last: &LastItem,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let is_free = self.state.fetch.is_none();
        let Some(follow) = self.state.follow.as_mut().filter(|_| is_free) else {
            return;
        };
        match last {
            LastItem::Id(last) if follow.following.has_other_than(channel, last) => {
                self.fetch_link(id, desk, fx);
            }
            LastItem::Unknown => follow.ask_soon(fx.now, desk),
            LastItem::Id(_) | LastItem::Quiet => return,
        }
        self.arm(fx);
    }

    /// Everybody is to ask their backends.
    pub(crate) fn recover(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if !self.closing && self.state.fetch.is_none() {
            self.fetch_link(id, desk, fx);
            self.arm(fx);
        }
    }

    pub(crate) fn answer(&mut self, answer: &Answer, desk: &Desk, fx: &mut Fx<'_>) {
        let Answer::Subscribed { result, .. } = answer else {
            return;
        };
        if result.is_err() {
            desk.board.count(Counter::GripWaitingFull);
            return self.cut(fx);
        }
        if let Some(early) = &mut self.state.early {
            early.left = early.left.saturating_sub(1);
        }
        self.begin_if_member(fx);
    }

    /// Something was delivered past the session.
    pub(crate) fn touch(&self, now: Now) {
        self.sent_at.set(now.mono.0 as u32);
    }

    fn idle_ms(&self, now: Now) -> u64 {
        u64::from((now.mono.0 as u32).wrapping_sub(self.sent_at.get()))
    }

    pub(super) fn write(&mut self, content: &[u8], fx: &mut Fx<'_>) {
        if !content.is_empty() {
            let early = self.state.early.as_mut().map(|early| &mut early.bytes);
            stream_bytes(self.is_chunked, content, early.unwrap_or(fx.out));
            self.touch(fx.now);
        }
    }

    pub(crate) fn timeout(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        self.keep_alive(desk, fx);
        let idle_ms = self.idle_ms(fx.now);
        let is_due = match self.state.follow.as_mut() {
            Some(follow) if self.state.fetch.is_none() => follow.is_due(idle_ms, fx.now),
            _ => false,
        };
        if is_due {
            self.fetch_link(id, desk, fx);
        }
        self.arm(fx);
    }

    fn keep_alive(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(keep_alive) = self.state.keep_alive.clone() else {
            return;
        };
        if fx.now.mono < self.state.beat_at || self.state.fetch.is_some() {
            return;
        }
        let period_ms = u64::from(keep_alive.timeout_s) * 1000;
        let idle_ms = self.idle_ms(fx.now);
        // Something was sent since the deadline was set: the silence began later.
        let slack_ms = throng_grip::hold::KEEP_ALIVE_SPREAD_MS.min(period_ms / 2);
        if keep_alive.mode == KeepAliveMode::Idle && idle_ms + slack_ms < period_ms {
            self.state.beat_at = fx.now.mono + (period_ms - idle_ms);
            return;
        }
        desk.board.count(Counter::Pings);
        self.write(&keep_alive.data, fx);
        let chance = desk.grip.as_ref().map_or(0, GripDesk::chance);
        self.state.beat_at = keep_alive_at(&keep_alive, fx.now.mono, chance);
    }

    /// Sets the deadline to what is due first.
    pub(super) fn arm(&self, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        let state = &self.state;
        let beat = state.keep_alive.is_some() && state.fetch.is_none();
        let beat = beat.then_some(state.beat_at);
        let link = state.follow.as_ref().filter(|_| state.fetch.is_none());
        let link = link.and_then(|follow| follow.link_at());
        fx.deadline = Some([beat, link].into_iter().flatten().min());
    }

    /// Ends the stream in order.
    pub(super) fn finish(&mut self, fx: &mut Fx<'_>) {
        if self.closing {
            return;
        }
        self.begin(fx);
        if self.is_chunked {
            fx.out.extend_from_slice(LAST_CHUNK);
        }
        self.cut(fx);
        // Nothing may follow the last chunk: what is held back stays behind.
        fx.hold = None;
    }

    /// Ends the stream so that the client sees that there would have been more.
    pub(super) fn cut(&mut self, fx: &mut Fx<'_>) {
        self.begin(fx);
        self.closing = true;
        fx.hold = Some(false);
        fx.deadline = Some(None);
        fx.end(End::Flush);
    }

    pub(crate) fn farewell(&mut self, fx: &mut Fx<'_>) {
        self.finish(fx);
    }

    /// The client has gone: its backend is told, if it wants to know.
    pub(crate) fn gone(&self, desk: &Desk, fx: &mut Fx<'_>) {
        if let (Some(follow), Some(grip)) = (&self.state.follow, desk.grip.as_ref()) {
            follow.tell_gone(grip, fx);
        }
    }
}
