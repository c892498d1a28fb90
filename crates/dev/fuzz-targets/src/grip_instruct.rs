//! Backends' responses as instructions: limits hold, nothing of GRIP reaches the client, and no
//! field breaks out of its line.
//!
//! Input: a response, with its body behind it.

use throng_grip::headers::is_grip;
use throng_grip::instruct::{Instruct, ResponseHead, TIMEOUT_MIN_S};
use throng_http1::field::{HeaderRef, write_field};
use throng_http1::{HttpLimits, parse_response};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"HTTP/1.1 200 OK\r\nGrip-Hold: stream\r\nGrip-Channel: a; prev-id=7; filter=skip-self, \
      \"b\"; filter=build-id\r\nGrip-Keep-Alive: \\n\\x41; format=cstring; timeout=20; \
      mode=interval\r\nGrip-Set-Meta: user=u, id_format=\"%(a)s\"\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nGrip-Hold: response\r\nGrip-Channel: c\r\nGrip-Timeout: \
      3\r\nGrip-Status: 404 Gone\r\nGrip-Link: </n?a=b>; rel=next; timeout=5, <http://x/>; \
      rel=gone\r\nGrip-Last: c; last-id=5\r\nGrip-Expose-Headers: a, B\r\nA: b\r\nC: d\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/grip-instruct\r\n\r\n\
      {\"hold\":{\"mode\":\"stream\",\"channels\":[{\"name\":\"a\",\"prev-id\":\"1\",\
      \"filters\":[\"var-subst\"]}],\"timeout\":9,\"keep-alive\":{\"content-bin\":\"Cg==\",\
      \"timeout\":1},\"meta\":{\"user\":\"u\"}},\"response\":{\"code\":202,\"reason\":\"R\",\
      \"headers\":{\"A\":\"b\"},\"body\":\"x\"}}",
    b"HTTP/1.1 200 OK\r\nGrip-Keep-Alive: AAEC; format=base64\r\n\
      Content-Type: application/grip-instruct; charset=utf-8\r\n\r\n\
      {\"response\":{\"headers\":[[\"A\",\"b\\r\\nc: d\"]],\"body-bin\":\"AP8=\"}}",
];

/// Fewer than the seeds name, so that the cut is seen.
const CHANNELS_MAX: usize = 2;

/// Runs one input of this target; panics if the target finds a fault.
pub fn grip_instruct(input: &[u8]) {
    let Ok(Some((response, head_bytes))) = parse_response(input, &HttpLimits::default(), false)
    else {
        return;
    };
    let fields: Vec<HeaderRef<'_>> = response.headers().collect();
    let head = ResponseHead {
        code: response.status,
        reason: "OK",
        headers: &fields,
    };
    let Ok(instruct) = Instruct::from_response(head, &input[head_bytes..], CHANNELS_MAX) else {
        return;
    };
    assert!(instruct.channels.len() <= CHANNELS_MAX);
    assert!(instruct.timeout_s >= TIMEOUT_MIN_S);
    assert!(
        instruct
            .keep_alive
            .is_none_or(|keep_alive| keep_alive.timeout_s >= 1)
    );
    for (at, (key, _)) in instruct.meta.iter().enumerate() {
        assert!(instruct.meta[..at].iter().all(|(other, _)| other != key));
    }
    for uri in instruct.next.iter().map(|next| &next.uri) {
        assert!(!uri.is_empty() && !uri.contains(|c: char| c <= ' ' || c == '\x7f'));
    }
    assert!(instruct.reply.code <= 999);
    let is_document = head.is_document();
    for header in &instruct.reply.headers {
        // A document is taken at its word; what is written drops `Grip-*` there.
        assert!(is_document || !is_grip(&header.name));
        let mut line = Vec::new();
        write_field(&header.name, &header.value, &mut line);
        let ends = line.iter().filter(|&&byte| byte == b'\n').count();
        assert!(ends == 1 && line.ends_with(b"\r\n"), "a line more");
    }
}
