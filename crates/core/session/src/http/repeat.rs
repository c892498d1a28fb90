//! Requests equal to the one before on the same connection.
//!
//! A publisher sends the same path and the same field lines with each publication. Once such a
//! request was carried out, the next one like it needs neither parsing nor judging: sender,
//! permission and owner of the path follow from the equal parts. Only the query and the length of
//! the body may differ, and the gateway reads both anew.
//!
//! Owns nothing: the known request is in the connection's `Pipeline`.
//!
//! Invariants
//! - On the API port alone, where nothing but the field lines and the path has a say in these
//!   questions. A key in the query is not remembered.
//! - Nothing is remembered beyond a reload, which may have taken the key away.

use std::sync::Arc;

use throng_http1::{Body, KnownHead, Request};

use super::body::limits;
use super::habit::{PATIENCE, Repeat};
use super::later::waiting_bytes_max;
use super::serve::reject_with;
use super::{Http, Incoming, Router};
use crate::port::Port;
use crate::route::Claim;
use crate::{Context, Opened};

impl Http {
    /// Remembers a request whose publications were ordered.
    pub(super) fn learn(
        &mut self,
        head: &[u8],
        request: &Request<'_>,
        (gateway, claim): (u8, Claim),
        cx: &Context<'_>,
    ) {
        let has_key = cx.shared.api_keys.is_empty()
            || request
                .header("x-api-key")
                .is_some_and(|key| !key.is_empty());
        let is_usual = self.port == Port::Api
            && claim.pipelines
            && has_key
            && request.method == "POST"
            && request.keep_alive()
            && !request.expects_continue();
        let client = self.client_of(request, cx.shared);
        let Some(pipeline) = self.pipeline.as_mut().filter(|_| is_usual) else {
            return;
        };
        let habit = &mut pipeline.habit;
        if habit.patience > 0 {
            habit.patience -= 1;
            habit.known = KnownHead::of(head, request).map(|head| Repeat {
                head,
                gateway,
                claim,
                client,
                keys: cx.shared.api_keys.clone(),
            });
        }
    }

    /// Carries out the request at the start of `input`, if it is whole and like the one that is
    /// known; gives how long it was.
    pub(super) fn repeat<R: Router>(
        &mut self,
        input: &[u8],
        router: &mut R,
        cx: &mut Context<'_>,
    ) -> Option<usize> {
        // The answer has to say that the connection ends.
        let pipeline = self.pipeline.as_mut().filter(|_| !cx.shared.draining)?;
        let judged = &pipeline.habit.known.as_ref()?.keys;
        if !Arc::ptr_eq(judged, &cx.shared.api_keys) {
            pipeline.habit.known = None;
            return None;
        }
        let Repeat {
            head,
            gateway,
            claim,
            client,
            ..
        } = pipeline.habit.known.as_ref()?;
        let (claim, place, client) = (*claim, *gateway, *client);
        let limits = limits(self.port, Some(&claim), cx);
        let (request, head_bytes) = head.read(input, &limits)?;
        let Body::Length(body_bytes) = request.body else {
            return None;
        };
        let bytes = head_bytes.checked_add(usize::try_from(body_bytes).ok()?)?;
        let body = input.get(head_bytes..bytes)?;
        let waiting_max = waiting_bytes_max(cx);
        if !pipeline.is_empty() && !pipeline.has_room(waiting_max) {
            return None;
        }
        pipeline.habit.patience = PATIENCE.min(pipeline.habit.patience + 1);
        let incoming = Incoming {
            port: self.port,
            peer: self.peer,
            is_tls: cx.shared.is_tls.get(),
            client,
            allowance: self.allowance,
            request: &request,
            body,
            is_open: false,
            first_token: pipeline.next_token(),
        };
        cx.shared.notices.comes_from(client);
        let start = cx.out.len();
        let opened = router.open((place, &claim), &incoming, cx);
        let opened = opened.unwrap_or_else(|reject| {
            reject_with(reject, claim.preflight, &incoming, true, cx);
            Opened::Answered { keep_alive: true }
        });
        let session = self.opened(opened, (start, bytes), cx);
        debug_assert!(session.is_none(), "such claims open no session");
        Some(bytes)
    }
}
