//! State of a held stream that continues by links: the followed channels, and an exchange under
//! way.
//!
//! Rule for "full": publications that come while a link is fetched wait, at most
//! [`LINK_QUEUE_MAX`]; one more ends the stream, and the client reconnects with its last ids.

use std::sync::Arc;

use throng_grip::exchange::OriginHead;
use throng_grip::filters::{BuiltId, Filter};
use throng_grip::hold::LINK_QUEUE_MAX;
use throng_grip::instruct::{Hold, NextLink};
use throng_grip::item::Item;
use throng_types::{Millis, Now, Publication, Save};

use crate::context::Cx;
use crate::following::Following;
use crate::order::Order;
use crate::request::Asked;
use crate::shared::GripShared;

/// Milliseconds until the link is fetched after the first subscription to a channel, and the range
/// over which a crowd is spread (Pushpin: a second).
const FIRST_ASK_MS: u64 = 1000;

/// An exchange with the backend about this stream.
pub(crate) struct Fetch {
    /// Whether this exchange began the stream.
    pub(crate) is_first: bool,
    pub(crate) step: Step,
    pub(crate) waiting: Vec<Arc<Publication>>,
    /// Number of them that came before the backend was asked: it knows of them.
    pub(crate) covered: usize,
    /// Writes ids into the body, if a filter says so.
    pub(crate) built_id: Option<BuiltId>,
    /// The start of a mark that was cut.
    pub(crate) rest: Vec<u8>,
}

/// Progress of an exchange with the backend.
pub(crate) enum Step {
    Head,
    /// Instructions that stand in the body.
    Document {
        head: OriginHead,
        body: Vec<u8>,
    },
    Body,
}

impl Fetch {
    pub(crate) fn first(following: &Following) -> Self {
        let mut fetch = Self::new(Step::Body);
        fetch.is_first = true;
        fetch.follow(following);
        fetch
    }

    pub(crate) fn new(step: Step) -> Self {
        Self {
            is_first: false,
            step,
            waiting: Vec::new(),
            covered: 0,
            built_id: None,
            rest: Vec::new(),
        }
    }

    pub(crate) fn follow(&mut self, following: &Following) {
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

    /// Keeps a publication that came before the backend was asked.
    pub(crate) fn cover(&mut self, publication: &Arc<Publication>) {
        self.covered += usize::from(self.wait(publication));
    }

    /// Keeps a publication; false if there is no room.
    pub(crate) fn wait(&mut self, publication: &Arc<Publication>) -> bool {
        let has_room = self.waiting.len() < LINK_QUEUE_MAX;
        if has_room {
            self.waiting.push(publication.clone());
        }
        has_room
    }

    /// A piece of the body as the client gets it.
    pub(crate) fn render(&mut self, bytes: &[u8]) -> Vec<u8> {
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
            // A mark without meaning: the body stays as it is.
            Err(_) => piece,
        }
    }

    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.rest)
    }
}

/// State of a stream with filters, ids or links.
#[derive(Save)]
pub(crate) struct Follow {
    pub(crate) asked: Asked,
    pub(crate) following: Following,
    /// Deliveries come from shared bytes.
    pub(crate) is_plain: bool,
    pub(crate) next: Option<NextLink>,
    pub(crate) gone: Option<String>,
    pub(crate) link_at: Option<Millis>,
    /// Failed fetches in a row; the next one is due whatever was sent since.
    pub(crate) retries: u32,
    /// Whether the next fetch is due whatever was sent since, because something may have been
    /// missed.
    pub(crate) must_ask: bool,
    /// The stream ends with the body that is being sent.
    pub(crate) ends: bool,
    /// The next link is fetched when the body is whole.
    pub(crate) pages: bool,
}

impl Follow {
    pub(crate) fn new(
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
            ends: false,
            pages: hold == Hold::None,
        }
    }

    /// Sets when the link is fetched if nothing happens. Up to a quarter comes early, so that
    /// a crowd that came together does not ask together.
    pub(crate) fn schedule(&mut self, now: Now, chance: u64) {
        self.retries = 0;
        self.link_at = self.next.as_ref().map(|next| {
            let period_ms = u64::from(next.timeout_s) * 1000;
            if self.pages {
                return now.mono;
            }
            now.mono + (period_ms - chance % (period_ms / 4 + 1)).max(1)
        });
    }

    /// Schedules the next fetch after a moment, in which publishers that look at subscriptions
    /// learn of this one.
    pub(crate) fn ask_soon(&mut self, now: Now, cx: &Cx<'_>) {
        if self.next.is_some() && !self.must_ask {
            self.must_ask = true;
            let chance = cx.own.chance();
            let soon = now.mono + FIRST_ASK_MS + chance % FIRST_ASK_MS;
            self.link_at = Some(self.link_at.map_or(soon, |at| at.min(soon)));
        }
    }

    pub(crate) const fn link_at(&self) -> Option<Millis> {
        self.link_at
    }

    /// Whether the link is to be fetched; after something was sent its time begins anew.
    pub(crate) fn is_due(&mut self, idle_ms: u64, now: Now) -> bool {
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

    /// Whether a waiting item directly follows the client's last one: then an item that does not is
    /// older.
    pub(crate) fn is_old(&self, at: usize, others: &[Arc<Publication>], grip: &GripShared) -> bool {
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
    pub(crate) fn accept_gap(&mut self, at: usize, item: &Item) {
        if let Some(followed) = self.following.channels.get_mut(at) {
            followed.last_id = item.id.as_deref().map(Into::into);
        }
    }

    pub(crate) fn tell_gone(&self, grip: &GripShared, cx: &mut Cx<'_>) {
        let Some(uri) = &self.gone else { return };
        let last_ids = self.following.last_ids();
        if let Some(request) = self.asked.link("POST", uri, &last_ids, grip, cx.now) {
            cx.order(Order::Tell { request });
        }
    }
}
