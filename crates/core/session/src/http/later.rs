//! Requests that wait for their answers, and those behind them.
//!
//! Owns nothing: waiting requests are in the connection's [`Pipeline`].

use throng_broker::Draft;
use throng_http1::Request;
use throng_hub::Answer;

use super::pipeline::{Later, Pipeline, WriteAnswer};
use super::request::Incoming;
use super::{Becomes, Http, Router};
use crate::publishing::{publish, publish_all};
use crate::route::Claim;
use crate::{Context, Opened};

impl Later {
    /// Orders a publication of the hub. Once it is answered, `write` makes the answer; it is given
    /// `style` back.
    pub fn publish<S, O>(
        draft: Draft,
        incoming: &Incoming<'_, '_>,
        write: (WriteAnswer, u8),
        cx: &mut Context<'_, S, O>,
    ) -> Self {
        publish(incoming.first_token, draft, cx);
        Self::new(1, incoming, write)
    }

    /// Orders one publication or more as one batch with one answer.
    pub fn publish_all<S, O>(
        drafts: Vec<Draft>,
        incoming: &Incoming<'_, '_>,
        write: (WriteAnswer, u8),
        cx: &mut Context<'_, S, O>,
    ) -> Self {
        debug_assert_ne!(drafts.len(), 0, "nobody would answer");
        let later = Self::new(drafts.len(), incoming, write);
        publish_all(incoming.first_token, drafts, cx);
        later
    }
}

/// Bytes of requests that may be without an answer: as many as two of the longest have.
pub(super) fn waiting_bytes_max(cx: &Context<'_>) -> usize {
    let limits = &cx.shared.limits;
    2 * (limits.head_bytes_max + limits.publish_bytes_max)
}

impl Http {
    /// Records the outcome of a request. `start` is where its answer begins, if that is written;
    /// `bytes` is the length of the request.
    pub(super) fn opened<S>(
        &mut self,
        opened: Opened<S>,
        (start, bytes): (usize, usize),
        cx: &mut Context<'_>,
    ) -> Option<S> {
        match opened {
            Opened::Session(session) => {
                debug_assert!(!self.is_waiting(), "it waits for those before it");
                return Some(session);
            }
            Opened::Answered { keep_alive } => self.written((start, keep_alive), cx),
            Opened::Later(later) => {
                self.has_served = true;
                // The client has done its part.
                cx.set_deadline(None);
                self.pipeline.get_or_insert_default().push(later, bytes);
            }
        }
        None
    }

    /// An answer was written from `start` on; it leaves behind those that are not known yet.
    pub(super) fn written(&mut self, (start, keep_alive): (usize, bool), cx: &mut Context<'_>) {
        match self.pipeline.as_mut().filter(|known| !known.is_empty()) {
            None => self.answered(keep_alive, cx),
            Some(pipeline) => {
                cx.set_deadline(None);
                let answer = cx.out.split_off(start.min(cx.out.len()));
                pipeline.push_written(answer, keep_alive);
            }
        }
    }

    /// Whether further input is ignored.
    pub(super) fn takes_nothing(&self, cx: &Context<'_>) -> bool {
        cx.has_ended() || self.waiting().is_some_and(|pipeline| pipeline.ends)
    }

    /// Whether a request before has no answer yet.
    pub(super) fn is_waiting(&self) -> bool {
        self.waiting().is_some()
    }

    /// The pipeline, if a request in it has no answer yet.
    fn waiting(&self) -> Option<&Pipeline> {
        let pipeline = self.pipeline.as_deref();
        pipeline.filter(|pipeline| !pipeline.is_empty())
    }

    /// Whether a request may be carried out while others before it have no answer.
    pub(super) fn may_pipeline(
        &self,
        request: &Request<'_>,
        claim: Option<&(u8, Claim)>,
        cx: &Context<'_>,
    ) -> bool {
        let bytes_max = waiting_bytes_max(cx);
        let has_room = |pipeline: &Pipeline| pipeline.has_room(bytes_max);
        claim.is_some_and(|(_, claim)| claim.pipelines)
            && !request.expects_continue()
            && self.pipeline.as_deref().is_some_and(has_room)
    }

    /// Leaves input where it is until every request before it is answered.
    pub(super) fn wait_with<S>(&mut self, input: &[u8], cx: &mut Context<'_>) -> Becomes<S> {
        self.pipeline.get_or_insert_default().put_behind(input);
        cx.pause(true);
        None
    }

    /// Handles the hub's answer to a publication. Finished answers leave, and input left behind is
    /// taken once nothing waits.
    pub fn answer<R: Router>(
        &mut self,
        token: u32,
        answer: &Answer,
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Becomes<R::Session> {
        let pipeline = self.pipeline.as_mut().filter(|known| !known.is_empty())?;
        pipeline.answer(token, answer, cx);
        if !pipeline.is_empty() {
            return None;
        }
        let (ends, behind) = (pipeline.ends, pipeline.take_behind());
        self.answered(!ends, cx);
        if self.pending.is_some() && !ends {
            // The next request has begun to come.
            cx.deadline_at(cx.now.mono + cx.shared.limits.head_timeout_ms);
        }
        if behind.is_empty() || cx.has_ended() {
            return None;
        }
        cx.pause(false);
        self.requests(&behind, 0, router, cx)
    }
}
