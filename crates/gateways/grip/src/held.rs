//! A client that a backend holds: a stream of items.
//!
//! The head leaves when the client is a member of all its channels, so that a publisher that sees
//! it can publish to it. The backend's own body follows; publications meanwhile wait behind it. A
//! stream without filters, sequence and links is then served from shared bytes, and owns a place in
//! its channels, a deadline and a few words here.
//!
//! Invariants
//! - While `fetch` is there, an exchange with the backend is under way, and publications that
//!   are shown to the session wait in it.
//! - While `early` is there, nothing has left.
//! - `follow` is there exactly for streams that have filters, ids or links.
//!
//! A stream that ends in order leaves its connection to the next request, if no other bytes have
//! come on it. Nothing may follow the last chunk but that answer: deliveries are held back from
//! then on, and dropped when the client has left its channels.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;

use throng_grip::hold::keep_alive_at;
use throng_grip::instruct::{Instruct, KeepAlive, KeepAliveMode};
use throng_grip::item::HttpStreamItem;
use throng_http1::LAST_CHUNK;
use throng_http1::origin::OriginEvent;
use throng_hub::Answer;
use throng_metrics::Counter;
use throng_types::{ChannelName, End, Millis, Now, Publication, Save};

use crate::Cx;
use crate::following::{Due, Fetch, Follow, Following, Step};
use crate::forms::{stream_bytes, stream_form};
use crate::order::Order;
use crate::request::BackendRequest;
use crate::sequencer::LastItem;

/// A client that its backend holds on a stream.
#[derive(Save)]
pub struct Held {
    /// When something was last sent, in milliseconds of the monotonic clock, the low half. In
    /// a cell, because deliveries from shared bytes only touch it.
    sent_at: Cell<u32>,
    /// Token of the exchange whose events are awaited.
    pub(crate) token: u32,
    pub(crate) is_chunked: bool,
    #[save(skip)]
    pub(crate) closing: bool,
    /// The stream has ended in order, and its connection waits for the next request.
    #[save(skip)]
    pub(crate) has_left: bool,
    pub(crate) next: NextRequest,
    pub(crate) state: Box<State>,
}

/// State that a delivery need not touch.
#[derive(Save)]
pub(crate) struct State {
    pub(crate) keep_alive: Option<Rc<KeepAlive>>,
    /// When the next keep-alive is due, unless something is sent before.
    pub(crate) beat_at: Millis,
    #[save(skip)]
    pub(crate) fetch: Option<Box<Fetch>>,
    pub(crate) follow: Option<Box<Follow>>,
    #[save(skip)]
    pub(crate) early: Option<Box<Early>>,
}

/// An item for a stream that looks at it.
pub(crate) struct ShownItem<'a> {
    pub(crate) publication: &'a Arc<Publication>,
    /// Publications that wait behind it.
    pub(crate) others: &'a [Arc<Publication>],
    /// The backend was asked since it came, and has answered.
    pub(crate) is_covered: bool,
}

/// Bytes that wait until the client is a member of its channels: as long as mail takes between
/// shards.
pub(crate) struct Early {
    /// Channels that have not answered.
    left: usize,
    bytes: Vec<u8>,
}

impl Held {
    /// A client with the head of its answer; the body follows as events with this token.
    pub(crate) fn new(
        asked: BackendRequest,
        (token, is_chunked, next): (u32, bool, NextRequest),
        (head, instruct): (Vec<u8>, Instruct),
        cx: &mut Cx<'_>,
    ) -> Self {
        let prefix = &asked.route.channel_prefix;
        let following = Following::new(prefix, &instruct.channels, instruct.meta);
        let is_plain = following.is_plain();
        following.subscribe(stream_form(is_plain, is_chunked), cx);
        if is_plain {
            cx.hold(true);
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
        let mut held = Self {
            sent_at: Cell::new(cx.now.mono.0 as u32),
            token,
            is_chunked,
            closing: false,
            has_left: false,
            next,
            state: Box::new(State {
                keep_alive: instruct
                    .keep_alive
                    .map(|keep_alive| cx.own.keep_alive(keep_alive)),
                beat_at: Millis::default(),
                fetch: Some(Box::new(fetch)),
                follow,
                early: Some(Box::new(early)),
            }),
        };
        held.begin_if_member(cx);
        held
    }

    /// Whether another process can go on with it: nothing is under way, and it is not about to end.
    pub(crate) fn moves(&self) -> bool {
        let is_still = self.state.fetch.is_none() && self.state.early.is_none();
        is_still && !self.closing && !self.has_left
    }

    /// Sends waiting bytes once all channels have answered.
    fn begin_if_member(&mut self, cx: &mut Cx<'_>) {
        if self
            .state
            .early
            .as_ref()
            .is_some_and(|early| early.left == 0)
        {
            self.begin(cx);
        }
    }

    pub(crate) fn begin(&mut self, cx: &mut Cx<'_>) {
        if let Some(early) = self.state.early.take() {
            cx.out.extend_from_slice(&early.bytes);
            self.release(cx);
        }
    }

    /// Deliveries may leave once the head and the backend's own body have.
    fn release(&self, cx: &mut Cx<'_>) {
        if self.state.early.is_none() && self.state.fetch.is_none() {
            cx.hold(false);
        }
    }

    /// The whole body of the backend's answer.
    pub(crate) fn body_is_here(&mut self, body: &[u8], cx: &mut Cx<'_>) {
        self.body(body, cx);
        self.body_ended(cx);
    }

    pub(crate) fn origin(&mut self, token: u32, event: OriginEvent, cx: &mut Cx<'_>) {
        if token != self.token || self.closing || self.state.fetch.is_none() {
            return;
        }
        match event {
            OriginEvent::Head(head) => self.link_head(head, cx),
            OriginEvent::Body(bytes) => self.link_body(&bytes, cx),
            OriginEvent::End => self.link_ended(cx),
            // Nothing follows its requests.
            OriginEvent::Taken(_) => {}
            OriginEvent::Failed(_) => {
                cx.count(Counter::GripOriginFailures);
                self.link_failed(cx);
            }
        }
    }

    /// Writes a piece of the backend's own body.
    pub(crate) fn body(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        let Some(fetch) = self.state.fetch.as_mut() else {
            return;
        };
        let bytes = fetch.render(bytes);
        self.write(&bytes, cx);
    }

    /// Handles the end of the backend's body: waiting publications leave, and the client is held.
    pub(crate) fn body_ended(&mut self, cx: &mut Cx<'_>) {
        let Some(mut fetch) = self.state.fetch.take() else {
            return;
        };
        let rest = std::mem::take(&mut fetch.rest);
        self.write(&rest, cx);
        if self.state.follow.as_ref().is_some_and(|follow| follow.ends) {
            return self.finish(cx);
        }
        self.release(cx);
        self.touch(cx.now);
        let chance = cx.own.chance();
        if let Some(keep_alive) = &self.state.keep_alive {
            self.state.beat_at = keep_alive_at(keep_alive, cx.now.mono, chance);
        }
        if let Some(follow) = self.state.follow.as_mut() {
            follow.schedule(cx.now, chance);
            if fetch.is_first {
                follow.following.ask_last_ids(cx);
            }
        }
        self.catch_up((fetch.waiting, fetch.covered), cx);
        self.arm(cx);
    }

    /// A publication that is for this session's eyes.
    pub(crate) fn publication(&mut self, publication: &Arc<Publication>, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        if let Some(fetch) = self.state.fetch.as_mut() {
            if !fetch.wait(publication) {
                // The client reconnects with its last ids, and misses nothing.
                cx.count(Counter::GripWaitingFull);
                self.cut(cx);
            }
            return;
        }
        let news = ShownItem {
            publication,
            others: &[],
            is_covered: false,
        };
        self.take(&news, cx);
        self.arm(cx);
    }

    /// Handles an item. One that does not follow the client's last item makes the server fetch the
    /// next link; if it does not follow then either, the backend has answered with the current
    /// state, and the item is late or will be fetched with the next one (as in Pushpin).
    pub(crate) fn take(&mut self, news: &ShownItem<'_>, cx: &mut Cx<'_>) {
        let ShownItem {
            publication,
            others,
            is_covered,
        } = *news;
        let grip = cx.own;
        let item = grip.item(publication);
        let (content, content_filters) = match &item.http_stream {
            None | Some(HttpStreamItem::Nothing) => return,
            Some(HttpStreamItem::Close) => return self.finish(cx),
            Some(HttpStreamItem::Hint) => return self.fetch_link(cx),
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
            Due::Gap if follow.next.is_none() => follow.accept_gap(at, &item),
            Due::Gap if is_covered || follow.is_old(at, others, grip) => return,
            Due::Gap => {
                self.fetch_link(cx);
                if let Some(fetch) = self.state.fetch.as_mut() {
                    fetch.cover(publication);
                }
                return;
            }
            Due::Next => {}
        }
        let content = (content.as_slice(), content_filters.as_deref());
        if let Some(content) = follow.following.content_for(at, &item, content, cx) {
            let content = content.into_owned();
            self.write(&content, cx);
        }
    }

    /// Number of channels that publishers had been told of before the backend was asked; `None` for
    /// a plain stream.
    pub(crate) fn topics_told(&self) -> Option<u64> {
        let follow = self.state.follow.as_ref()?;
        Some(follow.asked.topics_told)
    }

    /// Handles the answer about the last item of a channel: fetches the link if the client has
    /// another one.
    pub(crate) fn last_item(&mut self, channel: &ChannelName, last: &LastItem, cx: &mut Cx<'_>) {
        let is_free = self.state.fetch.is_none();
        let Some(follow) = self.state.follow.as_mut().filter(|_| is_free) else {
            return;
        };
        match last {
            LastItem::Id(last) if follow.following.has_other_than(channel, last) => {
                self.fetch_link(cx);
            }
            LastItem::Unknown => follow.ask_soon(cx.now, cx),
            LastItem::Id(_) | LastItem::Quiet => return,
        }
        self.arm(cx);
    }

    /// Fetches the next link, for a publisher that asks all sessions to recover.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        if !self.closing && self.state.fetch.is_none() {
            self.fetch_link(cx);
            self.arm(cx);
        }
    }

    pub(crate) fn answer(&mut self, answer: &Answer, cx: &mut Cx<'_>) {
        let Answer::Subscribed { result, .. } = answer else {
            return;
        };
        if result.is_err() {
            cx.count(Counter::GripWaitingFull);
            return self.cut(cx);
        }
        if let Some(early) = &mut self.state.early {
            early.left = early.left.saturating_sub(1);
        }
        self.begin_if_member(cx);
    }

    /// Something was delivered past the session.
    pub(crate) fn touch(&self, now: Now) {
        self.sent_at.set(now.mono.0 as u32);
    }

    pub(crate) fn idle_ms(&self, now: Now) -> u64 {
        u64::from((now.mono.0 as u32).wrapping_sub(self.sent_at.get()))
    }

    pub(crate) fn write(&mut self, content: &[u8], cx: &mut Cx<'_>) {
        if !content.is_empty() {
            let early = self.state.early.as_mut().map(|early| &mut early.bytes);
            stream_bytes(self.is_chunked, content, early.unwrap_or(cx.out));
            self.touch(cx.now);
        }
    }

    /// Handles the end of the connection: notifies the backend, if it asked for that.
    pub(crate) fn gone(&self, cx: &mut Cx<'_>) {
        if let Some(follow) = &self.state.follow {
            follow.tell_gone(cx.own, cx);
        }
    }

    /// Handles bytes from the client, which get no answer.
    pub(crate) const fn said(&mut self) {
        self.next = NextRequest::Never;
    }

    /// Returns the client's address if the stream has ended and its connection waits for the next
    /// request.
    pub(crate) fn left(&self, cx: &Cx<'_>) -> Option<IpAddr> {
        match self.next {
            _ if !self.has_left => None,
            NextRequest::Never => None,
            NextRequest::OfV4(peer) => Some(peer.into()),
            NextRequest::OfV6 => cx.own.take_peer(cx.id),
        }
    }

    /// Ends the stream in order.
    pub(crate) fn finish(&mut self, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        // A channel that has not answered would be left before it is joined.
        let is_member = self.state.early.is_none();
        self.begin(cx);
        if self.is_chunked {
            cx.out.extend_from_slice(LAST_CHUNK);
        }
        if is_member && self.next != NextRequest::Never && !cx.shared.draining {
            self.closing = true;
            self.has_left = true;
            cx.set_deadline(None);
            cx.forget_held();
            cx.hold(true);
            return cx.order(Order::Leave { conn: cx.id });
        }
        self.cut(cx);
    }

    /// Ends the stream so that the client sees that there would have been more.
    pub(crate) fn cut(&mut self, cx: &mut Cx<'_>) {
        self.begin(cx);
        self.closing = true;
        // Deliveries held back would come behind the last chunk, or behind a piece of a body.
        cx.actions.hold = None;
        cx.set_deadline(None);
        cx.end(End::Flush);
    }

    /// The server ends it. Of a body that is not whole the client sees that something is missing.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        let fetch = self.state.fetch.as_ref();
        match fetch.is_some_and(|fetch| matches!(fetch.step, Step::Body)) {
            true if !self.closing => self.cut(cx),
            _ => self.finish(cx),
        }
    }

    pub(crate) fn timeout(&mut self, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        self.keep_alive(cx);
        let idle_ms = self.idle_ms(cx.now);
        let is_due = match self.state.follow.as_mut() {
            Some(follow) if self.state.fetch.is_none() => follow.is_due(idle_ms, cx.now),
            _ => false,
        };
        if is_due {
            self.fetch_link(cx);
        }
        self.arm(cx);
    }

    fn keep_alive(&mut self, cx: &mut Cx<'_>) {
        let Some(keep_alive) = self.state.keep_alive.clone() else {
            return;
        };
        if cx.now.mono < self.state.beat_at || self.state.fetch.is_some() {
            return;
        }
        let period_ms = u64::from(keep_alive.timeout_s) * 1000;
        let idle_ms = self.idle_ms(cx.now);
        // Something was sent since the deadline was set: the silence began later.
        let slack_ms = throng_grip::hold::KEEP_ALIVE_SPREAD_MS.min(period_ms / 2);
        if keep_alive.mode == KeepAliveMode::Idle && idle_ms + slack_ms < period_ms {
            self.state.beat_at = cx.now.mono + (period_ms - idle_ms);
            return;
        }
        cx.count(Counter::Pings);
        cx.own.stats(|book| book.beat(cx.id));
        self.write(&keep_alive.data, cx);
        let chance = cx.own.chance();
        self.state.beat_at = keep_alive_at(&keep_alive, cx.now.mono, chance);
    }

    /// Sets the deadline to the earliest timer.
    pub(crate) fn arm(&self, cx: &mut Cx<'_>) {
        if self.closing {
            return;
        }
        let state = &self.state;
        let beat = state.keep_alive.is_some() && state.fetch.is_none();
        let beat = beat.then_some(state.beat_at);
        let link = state.follow.as_ref().filter(|_| state.fetch.is_none());
        let link = link.and_then(|follow| follow.link_at);
        cx.set_deadline([beat, link].into_iter().flatten().min());
    }
}

/// Whether the connection serves another request when the stream has ended, and the client's
/// address. Fits into the few bytes that a session has to spare; IPv6 addresses are kept by the
/// shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
pub(crate) enum NextRequest {
    Never,
    OfV4(Ipv4Addr),
    OfV6,
}

impl NextRequest {
    pub(crate) fn after(peer: IpAddr, cx: &Cx<'_>) -> Self {
        match peer {
            IpAddr::V4(peer) => Self::OfV4(peer),
            IpAddr::V6(peer) => {
                cx.own.keep_peer(cx.id, peer);
                Self::OfV6
            }
        }
    }
}
