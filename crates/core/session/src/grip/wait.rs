//! Long polls: a client that is held until something is published, or its time is over.

use std::sync::Arc;

use throng_grip::filters::Filtered;
use throng_grip::instruct::{Instruct, Reply};
use throng_grip::item::{HttpResponseItem, Item, ResponseItem};
use throng_types::{ChannelName, ConnId, Publication};

use super::follow::{Due, Following};
use super::forms::GRIP_OWN;
use super::home::LastItem;
use super::proxied::{Becomes, Proxied, Stage};
use crate::Desk;
use crate::effects::Fx;

/// A held response.
pub(super) struct Wait {
    following: Following,
    /// What the client gets when its time is over.
    reply: Reply,
    body: Vec<u8>,
}

impl Wait {
    /// What the client gets when nothing was published.
    pub(super) fn into_answer(self) -> (Reply, Vec<u8>) {
        (self.reply, self.body)
    }
}

impl Proxied {
    /// Holds the client.
    pub(super) fn wait(
        &mut self,
        id: ConnId,
        instruct: Instruct,
        body: Vec<u8>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let _ = desk;
        let prefix = &self.asked.route.channel_prefix;
        let following = Following::new(prefix, &instruct.channels, instruct.meta);
        following.subscribe(id, GRIP_OWN, fx);
        following.ask_last_ids(id, fx);
        fx.deadline_at(fx.now.mono + u64::from(instruct.timeout_s) * 1000);
        self.stage = Stage::Waiting(Box::new(Wait {
            following,
            reply: instruct.reply,
            body,
        }));
    }

    pub(super) fn wait_is_over(
        &mut self,
        id: ConnId,
        wait: Wait,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        wait.following.leave(id, fx);
        let (reply, body) = wait.into_answer();
        self.respond(reply, &body, desk, fx)
    }

    pub(super) fn leave_channels(&self, id: ConnId, fx: &mut Fx<'_>) {
        if let Stage::Waiting(wait) = &self.stage {
            wait.following.leave(id, fx);
        }
    }

    /// Another item went out last than the client has: it is asked again what there is.
    pub(crate) fn last_item(
        &mut self,
        id: ConnId,
        channel: &ChannelName,
        last: &LastItem,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) {
        let (Stage::Waiting(wait), LastItem::Id(last)) = (&self.stage, last) else {
            return;
        };
        let known = wait.following.find(channel);
        let known = known.and_then(|at| wait.following.channels[at].last_id.as_deref());
        // Asked once: a backend that insists on its id is ahead of what was published.
        let is_news = known.is_some_and(|known| *known != **last);
        if is_news && self.token == 1 {
            self.recover(id, desk, fx);
        }
    }

    /// Asks the backend again, telling it what the client has.
    pub(crate) fn recover(&mut self, id: ConnId, desk: &Desk, fx: &mut Fx<'_>) {
        let Some(grip) = desk.grip.as_ref() else {
            return;
        };
        match std::mem::replace(&mut self.stage, Stage::Asking) {
            Stage::Waiting(wait) => {
                wait.following.leave(id, fx);
                fx.deadline = Some(None);
                self.ask_again(id, &wait.following.last_ids(), grip, fx);
            }
            stage => self.stage = stage,
        }
    }

    pub(crate) fn publication(
        &mut self,
        id: ConnId,
        publication: &Arc<Publication>,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        let grip = desk.grip.as_ref()?;
        let Stage::Waiting(wait) = &mut self.stage else {
            return None;
        };
        let at = wait.following.find(&publication.channel)?;
        let item = grip.item(publication);
        match &item.http_response {
            None | Some(HttpResponseItem::Nothing) => None,
            Some(HttpResponseItem::Hint) => {
                self.recover(id, desk, fx);
                None
            }
            Some(HttpResponseItem::Send(response)) => match wait.following.due(at, &item) {
                Due::Known => None,
                Due::Gap => {
                    self.recover(id, desk, fx);
                    None
                }
                Due::Next => self.publish(id, at, &item, response, desk, fx),
            },
        }
    }

    fn publish(
        &mut self,
        id: ConnId,
        at: usize,
        item: &Item,
        response: &ResponseItem,
        desk: &Desk,
        fx: &mut Fx<'_>,
    ) -> Becomes {
        let Stage::Waiting(wait) = &self.stage else {
            return None;
        };
        let filters = wait.following.channels[at].filters;
        if !filters.match_content_filters(response.content_filters.as_deref()) {
            return None;
        }
        let composed = response.compose(&wait.reply, &wait.body);
        // What a filter cannot render is not for this client.
        let Ok(Filtered::Send(body)) = wait.following.filter(at, item, &composed.body) else {
            return None;
        };
        let reply = Reply {
            code: composed.code,
            reason: composed.reason,
            headers: composed.headers,
            ..wait.reply.clone()
        };
        wait.following.leave(id, fx);
        self.respond(reply, &body, desk, fx)
    }
}
