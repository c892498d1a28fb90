//! Links of a held stream: its continuation when an item is missing, or after a while.

use std::sync::Arc;

use throng_grip::hold::link_retry_at;
use throng_grip::instruct::{Hold, INSTRUCT_BODY_BYTES_MAX, Instruct, ResponseHead};
use throng_http1::field::fields;
use throng_http1::origin::OriginHead;
use throng_types::Publication;

use crate::Cx;
use crate::following::{Following, Step, leave_channel};
use crate::forms::stream_form;
use crate::held::{Held, ShownItem};
use crate::order::Order;
use crate::proxied::instruct_of;

impl Held {
    /// Fetches the next link, if there is one and none is being fetched.
    pub(crate) fn fetch_link(&mut self, cx: &mut Cx<'_>) {
        let grip = cx.own;
        let Some(follow) = self.state.follow.as_mut() else {
            return;
        };
        let Some(next) = follow.next.as_ref().filter(|_| self.state.fetch.is_none()) else {
            return;
        };
        let last_ids = follow.following.last_ids();
        let Some(request) = follow.asked.link("GET", &next.uri, &last_ids, grip, cx.now) else {
            return self.cut(cx);
        };
        follow.link_at = None;
        follow.must_ask = false;
        self.token += 1;
        self.state.fetch = Some(Box::default());
        let token = self.token;
        let order = Order::Ask {
            conn: cx.id,
            token,
            request,
        };
        cx.order(order);
    }

    pub(crate) fn link_head(&mut self, head: OriginHead, cx: &mut Cx<'_>) {
        let (Some(fetch), Some(follow)) = (self.state.fetch.as_mut(), self.state.follow.as_mut())
        else {
            return;
        };
        if !(200..300).contains(&head.code) {
            cx.order(Order::Forget { conn: cx.id });
            return self.link_failed(cx);
        }
        let fields = fields(&head.headers);
        let response = ResponseHead::of(&head, &fields);
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
        match instruct_of(&head, b"", cx) {
            Ok(instruct) => self.go_on(instruct, cx),
            Err(_) => {
                cx.order(Order::Forget { conn: cx.id });
                self.cut(cx);
            }
        }
    }

    pub(crate) fn link_body(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        match self.state.fetch.as_mut().map(|fetch| &mut fetch.step) {
            Some(Step::Document { body, .. }) => {
                body.extend_from_slice(bytes);
                if body.len() > INSTRUCT_BODY_BYTES_MAX {
                    self.link_failed(cx);
                }
            }
            Some(Step::Body) => self.body(bytes, cx),
            Some(Step::Head) | None => {}
        }
    }

    pub(crate) fn link_ended(&mut self, cx: &mut Cx<'_>) {
        let Some(fetch) = self.state.fetch.as_mut() else {
            return;
        };
        if let Step::Document { head, body } = std::mem::replace(&mut fetch.step, Step::Body) {
            let Ok(mut instruct) = instruct_of(&head, &body, cx) else {
                return self.cut(cx);
            };
            let body = instruct.reply.body.take().unwrap_or(body);
            self.go_on(instruct, cx);
            if self.closing {
                return;
            }
            self.body(&body, cx);
        }
        self.body_ended(cx);
    }

    /// Applies the instructions of a link's answer.
    fn go_on(&mut self, instruct: Instruct, cx: &mut Cx<'_>) {
        let state = &mut *self.state;
        let (Some(fetch), Some(follow), Some(grip)) =
            (&mut state.fetch, &mut state.follow, Some(cx.own))
        else {
            return;
        };
        if instruct.hold == Hold::Response {
            return self.cut(cx);
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
        let form = stream_form(is_plain, self.is_chunked);
        if is_plain != follow.is_plain {
            follow.following.leave(cx);
            new.subscribe(form, cx);
        } else {
            for old in &follow.following.channels {
                if new.find(&old.channel).is_none() {
                    leave_channel(old.channel.clone(), cx);
                }
            }
            // Who subscribes already stays as it is.
            new.subscribe_those(form, |channel| follow.following.find(channel).is_none(), cx);
        }
        fetch.follow(&new);
        follow.is_plain = is_plain;
        follow.following = new;
        if let Some(keep_alive) = instruct.keep_alive {
            state.keep_alive = Some(grip.keep_alive(keep_alive));
        }
    }

    /// Tries again after a while, or ends the stream.
    pub(crate) fn link_failed(&mut self, cx: &mut Cx<'_>) {
        let Some(fetch) = self.state.fetch.take() else {
            return;
        };
        let has_begun = matches!(fetch.step, Step::Body);
        let Some(follow) = self.state.follow.as_mut().filter(|_| !has_begun) else {
            return self.cut(cx);
        };
        let chance = cx.own.chance();
        let Some(at) = link_retry_at(cx.now.mono, follow.retries, chance) else {
            return self.cut(cx);
        };
        follow.retries += 1;
        follow.link_at = Some(at);
        // Waiting items find their gap again with the next one; the ids were not moved on.
        self.arm(cx);
    }

    /// Handles publications that waited while a body was sent; the first `covered` came before the
    /// backend was asked.
    pub(crate) fn catch_up(
        &mut self,
        (waiting, covered): (Vec<Arc<Publication>>, usize),
        cx: &mut Cx<'_>,
    ) {
        for (at, publication) in waiting.iter().enumerate() {
            if self.closing {
                return;
            }
            if let Some(fetch) = self.state.fetch.as_mut() {
                fetch.cover(publication);
                continue;
            }
            let news = ShownItem {
                publication,
                others: &waiting[at + 1..],
                is_covered: at < covered,
            };
            self.take(&news, cx);
        }
    }
}
