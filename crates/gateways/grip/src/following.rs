//! Channels of a held client: last ids, filters, meta.
//!
//! Rule for "full": publications that come while a link is fetched wait, at most
//! [`LINK_QUEUE_MAX`]; one more ends the stream, and the client reconnects with its last ids.

use std::borrow::Cow;
use std::sync::Arc;

use throng_grip::filters::{BuiltId, Filter, FilterContext, Filtered, Filters};
use throng_grip::hold::LINK_QUEUE_MAX;
use throng_grip::instruct::{Hold, HoldChannel, NextLink};
use throng_grip::item::Item;
use throng_http1::origin::OriginHead;
use throng_metrics::Counter;
use throng_session::{Form, OPENING};
use throng_types::{ChannelName, Millis, Now, Publication, Save};

use crate::Cx;
use crate::forms::{hub_channel, own_name};
use crate::order::Order;
use crate::request::BackendRequest;
use crate::shared::GripShared;

/// One channel of a held client.
#[derive(Save)]
pub(crate) struct Followed {
    pub(crate) channel: ChannelName,
    /// Bytes of the route's prefix in front of the backend's name.
    pub(crate) prefix_bytes: u16,
    pub(crate) last_id: Option<Box<str>>,
    pub(crate) filters: Filters,
}

impl Followed {
    /// Name of the channel at the backend, without the route's prefix.
    pub(crate) fn name(&self) -> &str {
        let name = own_name(&self.channel);
        name.get(usize::from(self.prefix_bytes)..).unwrap_or(name)
    }
}

/// A held client's channels, and the values for filters.
#[derive(Save)]
pub(crate) struct Following {
    /// Bound: `channels_max` of a WebSocket; for a stream, the channels that one answer names.
    pub(crate) channels: Vec<Followed>,
    pub(crate) meta: Vec<(String, String)>,
}

/// Outcome of an item for one client.
pub(crate) enum Due {
    Known,
    /// Something is missing before it.
    Gap,
    /// The item is next; its id is noted.
    Next,
}

impl Following {
    /// Those channels that have a name that a hub can have.
    pub(crate) fn new(prefix: &str, channels: &[HoldChannel], meta: Vec<(String, String)>) -> Self {
        let mut following = Self {
            channels: Vec::new(),
            meta,
        };
        for wanted in channels {
            let Some(channel) = hub_channel(prefix, &wanted.name) else {
                continue;
            };
            if following.find(&channel).is_none() {
                following.channels.push(Followed {
                    channel,
                    prefix_bytes: prefix.len() as u16,
                    last_id: wanted.prev_id.as_deref().map(Into::into),
                    filters: wanted.filters,
                });
            }
        }
        following
    }

    /// Whether anything here asks for a look at each item.
    pub(crate) fn is_plain(&self) -> bool {
        let plain = |followed: &Followed| followed.last_id.is_none() && followed.filters.is_empty();
        self.channels.iter().all(plain)
    }

    pub(crate) fn find(&self, channel: &ChannelName) -> Option<usize> {
        self.channels
            .iter()
            .position(|followed| followed.channel == *channel)
    }

    /// Whether it has a last id in a channel, and another one.
    pub(crate) fn has_other_than(&self, channel: &ChannelName, last: &str) -> bool {
        let known = self.find(channel).and_then(|at| self.channels.get(at));
        let known = known.and_then(|followed| followed.last_id.as_deref());
        known.is_some_and(|known| known != last)
    }

    pub(crate) fn subscribe(&self, form: Form, cx: &mut Cx<'_>) {
        self.subscribe_those(form, |_| true, cx);
    }

    pub(crate) fn subscribe_those(
        &self,
        form: Form,
        wanted: impl Fn(&ChannelName) -> bool,
        cx: &mut Cx<'_>,
    ) {
        for followed in self
            .channels
            .iter()
            .filter(|followed| wanted(&followed.channel))
        {
            cx.subscribe(OPENING, followed.channel.clone(), form, None);
        }
    }

    pub(crate) fn leave(&self, cx: &mut Cx<'_>) {
        for followed in &self.channels {
            leave_channel(followed.channel.clone(), cx);
        }
    }

    /// Asks for the last items of channels for which the client has named its own.
    pub(crate) fn ask_last_ids(&self, cx: &mut Cx<'_>) {
        for followed in self
            .channels
            .iter()
            .filter(|followed| followed.last_id.is_some())
        {
            let (conn, channel) = (cx.id, followed.channel.clone());
            cx.order(Order::LastId { conn, channel });
        }
    }

    pub(crate) fn last_ids(&self) -> Vec<(&str, &str)> {
        let channels = self.channels.iter();
        channels
            .filter_map(|followed| Some((followed.name(), followed.last_id.as_deref()?)))
            .collect()
    }

    /// Decides whether an item is the next one in its channel.
    pub(crate) fn due(&mut self, at: usize, item: &Item) -> Due {
        let Some(followed) = self.channels.get_mut(at) else {
            return Due::Known;
        };
        let Some(last) = followed.last_id.as_deref() else {
            return Due::Next;
        };
        if item.id.as_deref() == Some(last) {
            return Due::Known;
        }
        if item.prev_id.as_deref() != Some(last) {
            return Due::Gap;
        }
        followed.last_id = item.id.as_deref().map(Into::into);
        Due::Next
    }

    /// Runs a channel's filters over content that is for subscriptions with these content filters.
    /// `None` if it is not for this client, or cannot be rendered.
    pub(crate) fn content_for<'c>(
        &self,
        at: usize,
        item: &Item,
        (content, content_filters): (&'c [u8], Option<&[String]>),
        cx: &Cx<'_>,
    ) -> Option<Cow<'c, [u8]>> {
        let filters = self.channels.get(at)?.filters;
        if !filters.match_content_filters(content_filters) {
            return None;
        }
        match self.with_context(&item.meta, |context| filters.apply(context, content)) {
            Ok(Filtered::Send(content)) => Some(content),
            Ok(Filtered::Drop) => None,
            Err(_) => {
                cx.count(Counter::GripFilterFaults);
                None
            }
        }
    }

    /// Runs with the context of an item with this meta, or of content that belongs to none.
    fn with_context<R>(
        &self,
        pub_meta: &[(String, String)],
        run: impl FnOnce(&FilterContext<'_>) -> R,
    ) -> R {
        let channels = self.channels.iter();
        let channels: Vec<(&str, Option<&str>)> = channels
            .map(|followed| (followed.name(), followed.last_id.as_deref()))
            .collect();
        run(&FilterContext {
            sub_meta: &self.meta,
            pub_meta,
            channels: &channels,
        })
    }
}

/// A client gets no more of a channel.
pub(crate) fn leave_channel(channel: ChannelName, cx: &mut Cx<'_>) {
    cx.own.stats(|book| book.left(cx.id, &channel));
    cx.unsubscribe(channel);
}

/// Milliseconds until the link is fetched after the first subscription to a channel, and the range
/// over which a crowd is spread (Pushpin: a second).
const FIRST_ASK_MS: u64 = 1000;

/// An exchange with the backend about this stream.
#[derive(Default)]
pub(crate) struct Fetch {
    /// Whether this exchange began the stream.
    pub(crate) is_first: bool,
    pub(crate) step: Step,
    /// Publications that come before the body does. Bound: [`LINK_QUEUE_MAX`].
    pub(crate) waiting: Vec<Arc<Publication>>,
    /// Number of them that came before the backend was asked: it knows of them.
    pub(crate) covered: usize,
    /// Writes ids into the body, if a filter says so.
    pub(crate) built_id: Option<BuiltId>,
    /// The start of a mark that was cut.
    pub(crate) rest: Vec<u8>,
}

/// Progress of an exchange with the backend.
#[derive(Default)]
pub(crate) enum Step {
    #[default]
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
        let mut fetch = Self {
            is_first: true,
            step: Step::Body,
            ..Self::default()
        };
        fetch.follow(following);
        fetch
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
            .then(|| following.with_context(&[], |context| BuiltId::new(context).ok()))
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
}

/// State of a stream with filters, ids or links.
#[derive(Save)]
pub(crate) struct Follow {
    pub(crate) asked: BackendRequest,
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
        asked: BackendRequest,
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

#[cfg(test)]
mod tests {
    use throng_grip::item::zmq_pull_item;

    use super::*;

    #[test]
    fn an_item_is_known_or_next_or_behind_a_gap() {
        let channel = hub_channel("", "a").unwrap();
        let item = |id: &str, prev: &str| {
            let ids = format!(r#""id":"{id}","prev-id":"{prev}""#);
            let json = format!(r#"J{{"channel":"a",{ids},"http-stream":{{"content":"x"}}}}"#);
            zmq_pull_item(&[json.into_bytes()]).unwrap()
        };
        let mut following = Following {
            channels: vec![Followed {
                channel,
                prefix_bytes: 0,
                last_id: Some("2".into()),
                filters: Filters::default(),
            }],
            meta: Vec::new(),
        };
        assert!(matches!(following.due(0, &item("2", "1")), Due::Known));
        assert!(matches!(following.due(0, &item("4", "3")), Due::Gap));
        assert!(matches!(following.due(0, &item("3", "2")), Due::Next));
        assert!(matches!(following.due(0, &item("4", "3")), Due::Next));
    }
}
