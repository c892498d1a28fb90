//! Bodies that came whole with their head.

use std::borrow::Cow;

use throng_http1::{BadBody, Body, BodyDecoder, Limits, Request};

/// A body and how many bytes it takes on the wire.
pub(super) type WholeBody<'b> = (Cow<'b, [u8]>, usize);

/// The body, if all of it is in `rest`, and how many bytes it takes there.
pub(super) fn whole_body<'b>(
    request: &Request<'_>,
    rest: &'b [u8],
    limits: &Limits,
) -> Result<Option<WholeBody<'b>>, BadBody> {
    match request.body {
        Body::None => return Ok(Some((Cow::Borrowed(&[]), 0))),
        Body::Length(bytes) => {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            return Ok(rest.get(..bytes).map(|body| (Cow::Borrowed(body), bytes)));
        }
        Body::Chunked => {}
    }
    let mut decoder = BodyDecoder::new(request.body, limits);
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let step = decoder.feed(&rest[at..])?;
        body.extend_from_slice(step.data);
        at += step.consumed;
        if step.done {
            return Ok(Some((Cow::Owned(body), at)));
        }
        if at >= rest.len() {
            return Ok(None);
        }
    }
}
