//! Answers of a status and a sentence.

use throng_http1::encode_response;

use crate::effects::{End, Fx};

/// Answers with a status and a sentence, and ends the connection: after a fault nobody
/// knows where the next request begins.
pub(crate) fn refuse(status: u16, sentence: &str, fx: &mut Fx<'_>) {
    answer_text(status, sentence, &[], false, fx);
    fx.end(End::Flush);
}

/// Answers with a status and a sentence.
pub(crate) fn answer_text(
    status: u16,
    sentence: &str,
    headers: &[(&str, &str)],
    keep_alive: bool,
    fx: &mut Fx<'_>,
) {
    let mut all = vec![("Content-Type", "text/plain; charset=utf-8")];
    all.extend_from_slice(headers);
    let mut body = sentence.as_bytes().to_vec();
    if !sentence.ends_with('\n') {
        body.push(b'\n');
    }
    encode_response(status, &all, &body, keep_alive, fx.out);
}
