//! Long polls: a client that is held until something is published, or its time is over.

use std::sync::Arc;

use throng_grip::filters::Filtered;
use throng_grip::instruct::{HeldReply, Instruct};
use throng_grip::item::{HttpResponseItem, Item, ResponseItem};
use throng_metrics::Counter;
use throng_types::{ChannelName, Publication};

use crate::Cx;
use crate::following::{Due, Following};
use crate::forms::GRIP_OWN;
use crate::proxied::{Becomes, Proxied, Stage, Wait};
use crate::sequencer::LastItem;

impl Proxied {
    /// Holds the client until something is published or its timeout.
    pub(crate) fn wait(&mut self, instruct: Instruct, body: Vec<u8>, cx: &mut Cx<'_>) {
        let prefix = &self.asked.route.channel_prefix;
        let following = Following::new(prefix, &instruct.channels, instruct.meta);
        following.subscribe(GRIP_OWN, cx);
        following.ask_last_ids(cx);
        cx.deadline_at(cx.now.mono + u64::from(instruct.timeout_s) * 1000);
        self.stage = Stage::Waiting(Box::new(Wait {
            following,
            reply: instruct.reply,
            body,
        }));
    }

    pub(crate) fn wait_is_over(&mut self, wait: Wait, cx: &mut Cx<'_>) -> Becomes {
        wait.following.leave(cx);
        let (reply, body) = wait.into_answer();
        self.respond(reply, &body, cx)
    }

    pub(crate) fn leave_channels(&self, cx: &mut Cx<'_>) {
        if let Stage::Waiting(wait) = &self.stage {
            wait.following.leave(cx);
        }
    }

    /// Handles the last item of a channel: asks the backend again if the client has another one.
    pub(crate) fn last_item(&mut self, channel: &ChannelName, last: &LastItem, cx: &mut Cx<'_>) {
        let (Stage::Waiting(wait), LastItem::Id(last)) = (&self.stage, last) else {
            return;
        };
        let known = wait.following.find(channel);
        let known = known.and_then(|at| wait.following.channels[at].last_id.as_deref());
        // Asked once: a backend that insists on its id is ahead of the publications.
        let is_news = known.is_some_and(|known| *known != **last);
        if is_news && self.token == 1 {
            self.recover(cx);
        }
    }

    /// Asks the backend again, with the client's last ids.
    pub(crate) fn recover(&mut self, cx: &mut Cx<'_>) {
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Waiting(wait) => {
                wait.following.leave(cx);
                cx.set_deadline(None);
                self.ask_again(&wait.following.last_ids(), cx);
            }
            stage => self.stage = stage,
        }
    }

    pub(crate) fn publication(
        &mut self,
        publication: &Arc<Publication>,
        cx: &mut Cx<'_>,
    ) -> Becomes {
        let grip = cx.own;
        let Stage::Waiting(wait) = &mut self.stage else {
            return None;
        };
        let at = wait.following.find(&publication.channel)?;
        let item = grip.item(publication);
        match &item.http_response {
            None | Some(HttpResponseItem::Nothing) => None,
            Some(HttpResponseItem::Hint) => {
                self.recover(cx);
                None
            }
            Some(HttpResponseItem::Send(response)) => match wait.following.due(at, &item) {
                Due::Known => None,
                Due::Gap => {
                    self.recover(cx);
                    None
                }
                Due::Next => self.publish(at, (publication, &item), response, cx),
            },
        }
    }

    fn publish(
        &mut self,
        at: usize,
        (publication, item): (&Publication, &Item),
        response: &ResponseItem,
        cx: &mut Cx<'_>,
    ) -> Becomes {
        let Stage::Waiting(wait) = &self.stage else {
            return None;
        };
        let filters = wait.following.channels[at].filters;
        if !filters.match_content_filters(response.content_filters.as_deref()) {
            return None;
        }
        let composed = response.compose(&wait.reply, &wait.body);
        // A body that a filter cannot render is not for this client.
        let Ok(Filtered::Send(body)) = wait.following.filter(at, item, &composed.body) else {
            return None;
        };
        let reply = HeldReply {
            code: composed.code,
            reason: composed.reason,
            headers: composed.headers,
            ..wait.reply.clone()
        };
        wait.following.leave(cx);
        // Counted here: the connection may serve the next request before anybody looks.
        cx.own.took(publication);
        cx.count(Counter::GripDeliveries);
        self.respond(reply, &body, cx)
    }
}
