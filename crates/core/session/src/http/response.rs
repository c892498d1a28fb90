//! Whole answers.

use throng_http1::{encode_response, encode_response_start};

use crate::Context;

/// Headers of all answers of the API port, for a browser that shows them: the content has its
/// declared type, runs no script, is shown in no frame of another page, and sends no referrer.
pub const SAFE: [(&str, &str); 4] = [
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Content-Security-Policy", POLICY),
];

/// The policy of documents that need nothing (Content Security Policy Level 3).
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'";

/// [`SAFE`], with a document's own policy if it has one.
pub(crate) fn safe(policy: Option<&str>) -> [(&str, &str); 4] {
    let [sniffing, frames, referrer, (name, usual)] = SAFE;
    [sniffing, frames, referrer, (name, policy.unwrap_or(usual))]
}

/// Answers, with the date.
pub fn respond<S, O>(
    status: u16,
    headers: &[(&str, &str)],
    body: &[u8],
    keep_alive: bool,
    cx: &mut Context<'_, S, O>,
) {
    let date = cx.shared.dates.at(cx.now);
    encode_response(status, date.as_str(), headers, body, keep_alive, cx.out);
}

/// Answers a call of the server API with JSON.
pub fn respond_json<S, O>(status: u16, body: &[u8], keep_alive: bool, cx: &mut Context<'_, S, O>) {
    let [a, b, c, d] = SAFE;
    let headers = [("Content-Type", "application/json"), a, b, c, d];
    if (status, keep_alive) != (200, true) {
        return respond(status, &headers, body, keep_alive, cx);
    }
    // Publishers get hardly any other: it is the same for a second, but for its body.
    let out = (body, &mut *cx.out);
    cx.shared.dates.usual(cx.now, out, |date, start| {
        encode_response_start(status, date, &headers, start);
    });
}

pub fn answer_text<S, O>(
    status: u16,
    sentence: &str,
    headers: &[(&str, &str)],
    keep_alive: bool,
    cx: &mut Context<'_, S, O>,
) {
    let mut all = vec![("Content-Type", "text/plain; charset=utf-8")];
    all.extend_from_slice(headers);
    let mut body = sentence.as_bytes().to_vec();
    if !sentence.ends_with('\n') {
        body.push(b'\n');
    }
    respond(status, &all, &body, keep_alive, cx);
}

/// Adds the headers of CORS that let a page read the answer.
pub fn allow_origin<'a>(origin: Option<&'a str>, headers: &mut Vec<(&'a str, &'a str)>) {
    if let Some(origin) = origin {
        headers.push(("Access-Control-Allow-Origin", origin));
        headers.push(("Access-Control-Allow-Credentials", "true"));
        headers.push(("Vary", "Origin"));
    }
}

/// The answer to HEAD is that to GET without its body (RFC 9110 section 9.3.2).
pub(crate) fn keep_head(start: usize, out: &mut Vec<u8>) {
    const END: &[u8] = b"\r\n\r\n";
    let answer = out.get(start..).unwrap_or_default();
    if let Some(at) = answer.windows(END.len()).position(|window| window == END) {
        out.truncate(start + at + END.len());
    }
}
