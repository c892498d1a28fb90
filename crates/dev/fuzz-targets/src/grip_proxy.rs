//! Requests on their way to a backend, and links on their way back: a client cannot pass for the
//! proxy, and a link on the same origin is a path without dots.
//!
//! Input: the rule for `X-Forwarded-For`, a link, then a request's head, with NUL bytes between
//! them.

use throng_grip::headers::is_grip;
use throng_grip::hold::{LinkTarget, resolve_link};
use throng_grip::proxy::{RequestRules, XffRule, apply_cors, is_response_hop, request_headers};
use throng_grip::publish::PublishRequest;
use throng_grip::sig::{KeyText, is_pem};
use throng_http1::field::{Header, HeaderRef};
use throng_http1::{HttpLimits, parse_request};

use crate::pieces::parts;

pub(crate) fn grip_proxy(input: &[u8]) {
    let [rule, link, wire] = parts::<3>(input);
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    key(rule);
    let Ok(Some((request, _))) = parse_request(wire, &HttpLimits::default()) else {
        return;
    };
    links(request.target, text(link));
    let fields: Vec<HeaderRef<'_>> = request.headers().collect();
    let rules = RequestRules {
        is_trusted: false,
        grip: true,
        orig_headers: false,
        sig: Some("ours"),
        last_ids: &[("channel", "id")],
        forwarded_proto: Some("https"),
        strip_route: true,
        xff: forwarded(text(rule)),
        peer_address: "9.9.9.9",
        host: Some("origin"),
        headers: &[],
        cdn_loop: "throng",
    };
    to_backend(&request_headers(&fields, &rules), rules.xff);
    let trusted = RequestRules {
        is_trusted: true,
        orig_headers: true,
        ..rules
    };
    let trusted = request_headers(&fields, &trusted);
    assert!(trusted.iter().all(|header| !is_hop(&header.name)));

    let mut response: Vec<Header> = Vec::new();
    apply_cors(&fields, &mut response);
    for (at, header) in response.iter().enumerate() {
        assert!(!response[..at].iter().any(|other| other.is(&header.name)));
    }
    let _ = PublishRequest::read(request.method, request.path(), &fields, b"");
}

/// The rule that a text such as `truncate:1,append` asks for.
fn forwarded(text: &str) -> XffRule {
    let (truncate, append) = text.split_once(',').unwrap_or((text, text));
    XffRule {
        truncate: { truncate.strip_prefix("truncate:") }.and_then(|keep| keep.parse().ok()),
        append: append == "append",
    }
}

fn is_hop(name: &str) -> bool {
    is_response_hop(name, false)
        || ["Accept-Encoding", "Expect", "TE", "Trailer"]
            .iter()
            .any(|other| other.eq_ignore_ascii_case(name))
}

/// Checks that a backend sees no GRIP fields but the proxy's own.
fn to_backend(headers: &[Header], xff: XffRule) {
    let values = |name: &str| -> Vec<&[u8]> {
        let all = headers.iter().filter(|header| header.is(name));
        all.map(|header| header.value.as_slice()).collect()
    };
    assert_eq!(
        headers
            .iter()
            .filter(|header| is_grip(&header.name))
            .count(),
        3
    );
    assert_eq!(values("Grip-Sig"), [b"ours"]);
    assert_eq!(values("Grip-Last"), [b"channel; last-id=id"]);
    assert_eq!(values("Host"), [b"origin"]);
    assert_eq!(values("X-Forwarded-Proto"), [b"https"]);
    assert!(values("X-Forwarded-Protocol").is_empty());
    let is_marked = |header: &Header| header.name.to_ascii_lowercase().starts_with("eb9bf0f5-");
    assert!(
        headers
            .iter()
            .all(|header| !is_hop(&header.name) && !is_marked(header))
    );
    for name in ["X-Forwarded-For", "CDN-Loop"] {
        assert!(values(name).len() <= 1);
    }
    let forwarded = values("X-Forwarded-For").concat();
    assert!(!xff.append || forwarded.ends_with(b"9.9.9.9"));
    if xff.truncate == Some(0) {
        assert_eq!(forwarded, if xff.append { &b"9.9.9.9"[..] } else { b"" });
    }
}

fn links(target: &str, link: &str) {
    match resolve_link(target, link) {
        Some(LinkTarget::Path(whole)) => {
            let path = whole.split('?').next().unwrap_or_default();
            assert!(path.starts_with('/'), "{whole}");
            assert!(
                path.split('/').all(|step| step != "." && step != ".."),
                "{whole}"
            );
            // Once resolved is resolved.
            if !whole.starts_with("//") && !whole.contains("://") && !whole.contains('#') {
                assert_eq!(resolve_link(target, &whole), Some(LinkTarget::Path(whole)));
            }
        }
        Some(LinkTarget::Absolute(uri)) => {
            assert!(uri.to_ascii_lowercase().starts_with("http"), "{uri}");
        }
        Some(LinkTarget::SameScheme(_)) | None => {}
    }
}

fn key(text: &[u8]) {
    let key = KeyText::of_file(text);
    assert!(key.len() <= text.len());
    assert_eq!(is_pem(&key), is_pem(text.trim_ascii()));
    if let Ok(text) = std::str::from_utf8(text)
        && let Ok(key) = KeyText::parse(text)
    {
        assert_eq!(key.is_none(), text.is_empty());
    }
}
