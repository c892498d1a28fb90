//! Bodies: those that came whole with their head, and those that are still coming.

use std::borrow::Cow;

use throng_http1::{BadBody, Body, BodyDecoder, HttpLimits, Request};
use throng_types::{Millis, Now, Save};

use crate::close::Port;
use crate::route::Claim;
use crate::{Context, SessionLimits};

/// A body that is not whole yet.
#[derive(Save)]
pub(super) struct Coming {
    decoder: BodyDecoder,
    /// Bytes received so far. Bound: the decoder's limit.
    pub(super) body: Vec<u8>,
    began: Millis,
}

impl Coming {
    /// Creates the decoder for a body whose head has just arrived.
    pub(super) fn new(body: Body, limits: &HttpLimits, now: Now) -> Self {
        Self {
            decoder: BodyDecoder::new(body, limits),
            body: Vec::new(),
            began: now.mono,
        }
    }

    /// Takes bytes; once the body is whole, returns the rest.
    pub(super) fn feed<'b>(&mut self, mut input: &'b [u8]) -> Result<Option<&'b [u8]>, BadBody> {
        loop {
            let step = self.decoder.feed(input)?;
            self.body.extend_from_slice(step.data);
            input = &input[step.consumed..];
            if step.done {
                return Ok(Some(input));
            }
            if input.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Returns the time at which more must have arrived. Each byte buys the time that it may take
    /// at the slowest rate, so a steady upload is not cut, and a dripping one is.
    pub(super) fn due_at(&self, limits: &SessionLimits) -> Millis {
        let bought_ms = self.body.len() as u64 * 1000 / limits.body_bytes_per_s_min.max(1);
        self.began + limits.head_timeout_ms + bought_ms
    }
}

/// A body and how many bytes it takes on the wire.
pub(super) type WholeBody<'b> = (Cow<'b, [u8]>, usize);

/// The body, if all of it is in `rest`, and how many bytes it takes there.
pub(super) fn whole_body<'b>(
    request: &Request<'_>,
    rest: &'b [u8],
    limits: &HttpLimits,
) -> Result<Option<WholeBody<'b>>, BadBody> {
    match request.body {
        Body::None => return Ok(Some((Cow::Borrowed(&[]), 0))),
        Body::Length(bytes) => {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            return Ok(rest.get(..bytes).map(|body| (Cow::Borrowed(body), bytes)));
        }
        Body::Chunked => {}
    }
    let mut coming = Coming::new(request.body, limits, Now::default());
    let left = coming.feed(rest)?.map(<[u8]>::len);
    Ok(left.map(|left| (Cow::Owned(coming.body), rest.len() - left)))
}

/// The limits of a request by a port, with the claim to it if there is one.
pub(super) fn limits<S, O>(
    port: Port,
    claim: Option<&Claim>,
    cx: &Context<'_, S, O>,
) -> HttpLimits {
    let limits = &cx.shared.limits;
    let own = match port {
        Port::Client => limits.message_bytes_max,
        Port::Api | Port::Own { .. } => limits.publish_bytes_max,
    };
    let claimed = claim.and_then(|claim| claim.body_bytes_max);
    let streams = claim.is_some_and(|claim| claim.streams_body);
    HttpLimits {
        head_bytes_max: limits.head_bytes_max,
        body_bytes_max: match streams {
            // A longer length may overflow a signed number elsewhere.
            true => i64::MAX as u64,
            false => claimed.unwrap_or(own) as u64,
        },
        ..HttpLimits::default()
    }
}
