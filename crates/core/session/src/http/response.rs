//! Answers of a status and a sentence.

use throng_http1::encode_response;
use throng_types::End;

use crate::Context;

/// Answers with a status and a sentence, and ends the connection: after a fault nobody
/// knows where the next request begins.
pub fn refuse<S, O>(status: u16, sentence: &str, cx: &mut Context<'_, S, O>) {
    answer_text(status, sentence, &[], false, cx.out);
    cx.end(End::Flush);
}

/// Answers with a status and a sentence.
pub fn answer_text(
    status: u16,
    sentence: &str,
    headers: &[(&str, &str)],
    keep_alive: bool,
    out: &mut Vec<u8>,
) {
    let mut all = vec![("Content-Type", "text/plain; charset=utf-8")];
    all.extend_from_slice(headers);
    let mut body = sentence.as_bytes().to_vec();
    if !sentence.ends_with('\n') {
        body.push(b'\n');
    }
    encode_response(status, &all, &body, keep_alive, out);
}
