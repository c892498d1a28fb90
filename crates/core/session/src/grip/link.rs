//! Links of a held stream: where it goes on when something is missing, or after a while.
//!
//! Rule for "full": publications that come while a link is fetched wait, at most
//! [`LINK_QUEUE_MAX`]; one more ends the stream, and the client comes back with what it has.

use std::sync::Arc;

use throng_grip::exchange::OriginHead;
use throng_grip::filters::{BuiltId, Filter};
use throng_grip::hold::{LINK_QUEUE_MAX, link_retry_at};
use throng_grip::instruct::{
    Hold, INSTRUCT_BODY_BYTES_MAX, Instruct, NextLink, ReplyBody, ResponseHead,
};
use throng_grip::item::Item;
use throng_hub::Command;
use throng_types::{ConnId, Millis, Now, Publication};

use super::GripDesk;
use super::asked::Asked;
use super::follow::Following;
use super::forms::{GRIP_CHUNKS, GRIP_OWN, GRIP_RAW};
use super::held::Held;
use super::order::GripOrder;
use super::proxied::instruct_of;
use crate::Desk;
use crate::effects::{Fx, Order};

/// Fetches in a row that leave a gap open, before the item behind it goes out all the same.
const GAPS_MAX: u8 = 3;

/// How long after the first subscription to a channel the link is fetched, in milliseconds, and how
/// far a crowd is spread (Pushpin: a second).
const FIRST_ASK_MS: u64 = 1000;

/// An exchange with the backend about this stream.
pub(super) struct Fetch {
    /// It is the one that began the stream.
    pub(super) is_first: bool,
    step: Step,
    pub(super) waiting: Vec<Arc<Publication>>,
    /// Writes ids into the body, if a filter says so.
    built_id: Option<BuiltId>,
    /// The start of a mark that was cut.
    rest: Vec<u8>,
}

enum Step {
    Head,
    /// Instructions that stand in the body.
    Document {
        head: OriginHead,
        body: Vec<u8>,
    },
    Body,
}

impl Fetch {
    pub(super) fn first(following: &Following) -> Self {
        let mut fetch = Self::new(Step::Body);
        fetch.is_first = true;
        fetch.follow(following);
        fetch
    }

    fn new(step: Step) -> Self {
        Self {
            is_first: false,
            step,
            waiting: Vec::new(),
            built_id: None,
            rest: Vec::new(),
        }
    }

    fn follow(&mut self, following: &Following) {
        let mut channels = following.channels.iter();
        let builds = channels.any(|followed| {
            followed
                .filters
                .iter()
                .any(|filter| filter == Filter::BuildId)
        });
        // An id that cannot be built leaves the body as it is.
        self.built_id = builds
            .then(|| following.with_context(|context| BuiltId::new(context).ok()))
            .flatten();
    }

    /// Keeps a publication; false if there is no room.
    pub(super) fn wait(&mut self, publication: &Arc<Publication>) -> bool {
        let has_room = self.waiting.len() < LINK_QUEUE_MAX;
        if has_room {
            self.waiting.push(publication.clone());
        }
        has_room
    }

    /// A piece of the body as the client gets it.
    pub(super) fn render(&mut self, bytes: &[u8]) -> Vec<u8> {
        let Some(built_id) = &self.built_id else {
            return bytes.to_vec();
        };
        let mut piece = std::mem::take(&mut self.rest);
        piece.extend_from_slice(bytes);
        let mut out = Vec::new();
        match built_id.render_piece(&piece, &mut out) {
            Ok(done) => {
                self.rest = piece.split_off(done);
                out
            }
            // A mark that means nothing: the body stays what it is.
            Err(_) => piece,
        }
    }

    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }
}

/// What a stream with filters, ids or links keeps.
pub(super) struct Follow {
    asked: Asked,
    pub(super) following: Following,
    /// Deliveries come from shared bytes.
    pub(super) is_plain: bool,
    next: Option<NextLink>,
    gone: Option<String>,
    link_at: Option<Millis>,
    /// Failed fetches in a row; the next one is due whatever was sent since.
    retries: u32,
    /// The same, because something may have been missed.
    must_ask: bool,
    /// Fetches in a row that left a gap open.
    pub(super) gaps: u8,
    /// The stream ends with the body that is being sent.
    pub(super) ends: bool,
    /// The next link is fetched when the body is whole.
    pages: bool,
}

impl Follow {
    pub(super) fn new(
        asked: Asked,
        following: Following,
        (next, gone): (Option<NextLink>, Option<String>),
        is_plain: bool,
        hold: Hold,
    ) -> Self {
        Self {
            asked,
            following,
            is_plain,
            next,
            gone,
            link_at: None,
            retries: 0,
            must_ask: false,
            gaps: 0,
            ends: false,
            pages: hold == Hold::None,
        }
    }

    /// Sets when the link is fetched if nothing happens. Up to a quarter comes early, so that
    /// a crowd that came together does not ask together.
    pub(super) fn schedule(&mut self, now: Now, chance: u64) {
        self.retries = 0;
        self.link_at = self.next.as_ref().map(|next| {
            let period_ms = u64::from(next.timeout_s) * 1000;
            if self.pages {
                return now.mono;
            }
            now.mono + (period_ms - chance % (period_ms / 4 + 1)).max(1)
        });
    }

    /// Has the link fetched after a moment, in which whoever looks at subscriptions learns of this
    /// one.
    pub(super) fn ask_soon(&mut self, now: Now, desk: &Desk) {
        if self.next.is_some() && !self.must_ask {
            self.must_ask = true;
            let chance = desk.grip.as_ref().map_or(0, GripDesk::chance);
            let soon = now.mono + FIRST_ASK_MS + chance % FIRST_ASK_MS;
            self.link_at = Some(self.link_at.map_or(soon, |at| at.min(soon)));
        }
    }

    pub(super) const fn link_at(&self) -> Option<Millis> {
        self.link_at
    }

    /// Whether the link is to be fetched; after something was sent its time begins anew.
    pub(super) fn is_due(&mut self, idle_ms: u64, now: Now) -> bool {
        let (Some(at), Some(next)) = (self.link_at, &self.next) else {
            return false;
        };
        if now.mono < at {
            return false;
        }
        let period_ms = u64::from(next.timeout_s) * 1000;
        let early_ms = period_ms / 4 + 1;
        let may_wait = self.retries == 0 && !self.pages && !self.must_ask;
        if may_wait && idle_ms + early_ms < period_ms {
            self.link_at = Some(now.mono + (period_ms - idle_ms));
            return false;
        }
        true
    }

    /// Whether a gap is worth a fetch.
    pub(super) fn may_mend(&self, at: usize, others: &[Arc<Publication>], grip: &GripDesk) -> bool {
        self.next.is_some() && self.gaps < GAPS_MAX && !self.is_old(at, others, grip)
    }

    /// Whether something that waits follows on what the client has: then what does not is older.
    pub(super) fn is_old(&self, at: usize, others: &[Arc<Publication>], grip: &GripDesk) -> bool {
        let Some(followed) = self.following.channels.get(at) else {
            return false;
        };
        let last = followed.last_id.as_deref();
        others.iter().any(|other| {
            let item = grip.item(other);
            let follows = item.prev_id.as_deref() == last || item.id.as_deref() == last;
            other.channel == followed.channel && follows
        })
    }

    /// Goes on behind a gap that cannot be mended.
    pub(super) fn accept_gap(&mut self, at: usize, item: &Item) {
        self.gaps = 0;
        if let Some(followed) = self.following.channels.get_mut(at) {
            followed.last_id = item.id.as_deref().map(Into::into);
        }
    }

    pub(super) fn tell_gone(&self, grip: &GripDesk, fx: &mut Fx<'_>) {
        let Some(uri) = &self.gone else { return };
        let last_ids = self.following.last_ids();
        if let Some(request) = self.asked.link("POST", uri, &last_ids, grip, fx.now) {
            fx.orders.push(Order::Grip(GripOrder::Tell { request }));
        }
    }
}

impl Held {
    /// Fetches the next link, if there is one and none is being fetched.
    pub(super) fn fetch_link(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let (Some(follow), Some(grip)) = (self.state.follow.as_mut(), desk.grip.as_ref()) else {
            return;
        };
        let Some(next) = follow.next.as_ref().filter(|_| self.state.fetch.is_none()) else {
            return;
        };
        let last_ids = follow.following.last_ids();
        let Some(request) = follow.asked.link("GET", &next.uri, &last_ids, grip, fx.now) else {
            return self.cut(fx);
        };
        follow.link_at = None;
        follow.must_ask = false;
        follow.gaps = follow.gaps.saturating_add(1);
        self.token += 1;
        self.state.fetch = Some(Box::new(Fetch::new(Step::Head)));
        let token = self.token;
        let order = GripOrder::Ask {
            conn: id,
            token,
            request,
        };
        fx.orders.push(Order::Grip(order));
    }

    pub(super) fn link_head(&mut self, id: ConnId, head: OriginHead, desk: &Desk, fx: &mut Fx<'_>) {
        let (Some(fetch), Some(follow)) = (self.state.fetch.as_mut(), self.state.follow.as_mut())
        else {
            return;
        };
        if !(200..300).contains(&head.code) {
            fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
            return self.link_failed(desk, fx);
        }
        let fields = head.fields();
        let response = ResponseHead {
            code: head.code,
            reason: &head.reason,
            headers: &fields,
        };
        if !response.is_grip() {
            // A last page.
            follow.ends = true;
            fetch.step = Step::Body;
            return;
        }
        if response.is_document() {
            let body = Vec::new();
            fetch.step = Step::Document { head, body };
            return;
        }
        match instruct_of(&head, b"", desk) {
            Ok(instruct) => self.go_on(id, instruct, desk, fx),
            Err(_) => {
                fx.orders.push(Order::Grip(GripOrder::Forget { conn: id }));
                self.cut(fx);
            }
        }
    }

    pub(super) fn link_body(&mut self, bytes: &[u8], desk: &Desk, fx: &mut Fx<'_>) {
        match self.state.fetch.as_mut().map(|fetch| &mut fetch.step) {
            Some(Step::Document { body, .. }) => {
                body.extend_from_slice(bytes);
                if body.len() > INSTRUCT_BODY_BYTES_MAX {
                    self.link_failed(desk, fx);
                }
            }
            Some(Step::Body) => self.body(bytes, fx),
            Some(Step::Head) | None => {}
        }
    }

    pub(super) fn link_ended(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(fetch) = self.state.fetch.as_mut() else {
            return;
        };
        if let Step::Document { head, body } = std::mem::replace(&mut fetch.step, Step::Body) {
            let Ok(instruct) = instruct_of(&head, &body, desk) else {
                return self.cut(fx);
            };
            let body = match &instruct.reply.body {
                ReplyBody::Replaced(body) => body.clone(),
                ReplyBody::AsReceived => body,
            };
            self.go_on(id, instruct, desk, fx);
            if self.closing {
                return;
            }
            self.body(&body, fx);
        }
        self.body_ended(id, desk, fx);
    }

    /// Takes over what a link's answer says.
    fn go_on(&mut self, id: ConnId, instruct: Instruct, desk: &Desk, fx: &mut Fx<'_>) {
        let state = &mut *self.state;
        let (Some(fetch), Some(follow), Some(grip)) =
            (&mut state.fetch, &mut state.follow, desk.grip.as_ref())
        else {
            return;
        };
        if instruct.hold == Hold::Response {
            return self.cut(fx);
        }
        fetch.step = Step::Body;
        follow.ends = instruct.hold == Hold::None && instruct.next.is_none();
        follow.pages = instruct.hold == Hold::None;
        follow.next = instruct.next;
        follow.gone = instruct.gone.or_else(|| follow.gone.take());
        let mut meta = std::mem::take(&mut follow.following.meta);
        for (key, value) in instruct.meta {
            meta.retain(|(known, _)| *known != key);
            meta.push((key, value));
        }
        let prefix = &follow.asked.route.channel_prefix;
        let new = Following::new(prefix, &instruct.channels, meta);
        let is_plain = new.is_plain();
        let form = match (is_plain, self.is_chunked) {
            (false, _) => GRIP_OWN,
            (true, true) => GRIP_CHUNKS,
            (true, false) => GRIP_RAW,
        };
        if is_plain != follow.is_plain {
            follow.following.leave(id, fx);
            new.subscribe(id, form, fx);
        } else {
            for old in &follow.following.channels {
                if new.find(&old.channel).is_none() {
                    let (conn, channel) = (id, old.channel.clone());
                    fx.hub(Command::Unsubscribe { conn, channel });
                }
            }
            // Who subscribes already stays as it is.
            new.subscribe_those(
                id,
                form,
                |channel| follow.following.find(channel).is_none(),
                fx,
            );
        }
        fetch.follow(&new);
        follow.is_plain = is_plain;
        follow.following = new;
        if let Some(keep_alive) = instruct.keep_alive {
            state.keep_alive = Some(grip.keep_alive(keep_alive));
        }
    }

    /// Tries again after a while, or ends the stream.
    pub(super) fn link_failed(&mut self, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(fetch) = self.state.fetch.take() else {
            return;
        };
        let has_begun = matches!(fetch.step, Step::Body);
        let Some(follow) = self.state.follow.as_mut().filter(|_| !has_begun) else {
            return self.cut(fx);
        };
        let chance = desk.grip.as_ref().map_or(0, GripDesk::chance);
        let Some(at) = link_retry_at(fx.now.mono, follow.retries, chance) else {
            return self.cut(fx);
        };
        follow.retries += 1;
        follow.link_at = Some(at);
        // What waited finds its gap again with the next item; the ids were not moved on.
        self.arm(fx);
    }

    /// What waited while a body was sent.
    pub(super) fn catch_up(
        &mut self,
        id: ConnId,
        waiting: Vec<Arc<Publication>>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        for (at, publication) in waiting.iter().enumerate() {
            if self.closing {
                return;
            }
            if let Some(fetch) = self.state.fetch.as_mut() {
                fetch.wait(publication);
                continue;
            }
            self.take(id, publication, &waiting[at + 1..], desk, fx);
        }
    }
}
