//! The rules for header fields between client and origin, and CORS.
//!
//! Owns: which fields go, come and change. Never: sends anything; `Grip-Sig` is signed
//! elsewhere and passed in.

use crate::filters::Filter;
use throng_http1::field::NAMED_MAX;

use crate::headers::{
    Header, HeaderRef, begins_like, elements, first, has_prefix, is_grip, is_like,
};

/// Marks a repeated field of the original request (`orig_headers`).
const ORIG_PREFIX: &str = "eb9bf0f5-";

/// Rule for `X-Forwarded-For`: values to keep, and whether to append the client's address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XffRule {
    /// Number of values kept, from the end; None keeps all.
    pub truncate: Option<usize>,
    /// Append the client's address.
    pub append: bool,
}

/// Input of a request to an origin beside the client's own fields.
#[derive(Clone, Copy, Debug)]
pub struct RequestRules<'r> {
    /// The client has shown a valid `Grip-Sig` of ours: its `Grip-*` fields stay, none are added.
    pub is_trusted: bool,
    /// The route reads responses as instructions.
    pub grip: bool,
    /// The route repeats all fields under another name.
    pub orig_headers: bool,
    /// The fresh token for `Grip-Sig`.
    pub sig: Option<&'r str>,
    /// `Grip-Last` for these channels.
    pub last_ids: &'r [(&'r str, &'r str)],
    /// `https` or `wss` if the client came by TLS, and `set_x_forwarded_protocol` is on.
    pub forwarded_proto: Option<&'r str>,
    /// `Pushpin-Route` is for us, so it goes no further.
    pub strip_route: bool,
    /// Rule for the client's `X-Forwarded-For`.
    pub xff: XffRule,
    /// Address to append to `X-Forwarded-For`.
    pub peer_address: &'r str,
    /// The host that the origin sees, if not the client's.
    pub host: Option<&'r str>,
    /// The route's own fields; an empty value removes.
    pub headers: &'r [Header],
    /// Appended to `CDN-Loop` if not empty.
    pub cdn_loop: &'r str,
}

/// Tells whether a client's field ends at this hop: those that never go further, and those that
/// `Connection` names (RFC 9110 section 7.6.1). What proxies and GRIP say of the client is kept
/// even if named: a client does not choose what backends know of it.
fn is_request_hop(name: &str, named: &[&[u8]]) -> bool {
    const HOP: [&str; 11] = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Accept-Encoding",
        "Content-Encoding",
        "Transfer-Encoding",
        "Expect",
        "TE",
        "Trailer",
        "Upgrade",
        "HTTP2-Settings",
    ];
    const KEPT: [&str; 5] = ["Host", "Grip-", "X-Forwarded-", "Forwarded", "CDN-Loop"];
    let is_named = || {
        let mut named = named.iter();
        named.any(|other| other.eq_ignore_ascii_case(name.as_bytes()))
    };
    HOP.iter().any(|other| is_like(name, other))
        || is_named() && !KEPT.iter().any(|kept| has_prefix(name, kept))
}

/// The fields of a request to an origin. `Content-Length` stays as the client sent it.
///
/// What is dropped or replaced is dropped under every name that a backend may take for it.
#[must_use]
pub fn request_headers(client: &[HeaderRef<'_>], rules: &RequestRules<'_>) -> Vec<Header> {
    const OWN: [&str; 3] = [
        "X-Forwarded-For",
        "X-Forwarded-Proto",
        "X-Forwarded-Protocol",
    ];
    let mut named = elements(client, "Connection");
    named.truncate(NAMED_MAX);
    let is_marked = |name: &str| begins_like(name, ORIG_PREFIX);
    let is_dropped = |name: &str| {
        is_request_hop(name, &named)
            || OWN.iter().any(|own| is_like(name, own))
            || !rules.cdn_loop.is_empty() && is_like(name, "CDN-Loop")
            || rules.strip_route && is_like(name, "Pushpin-Route")
            || rules.host.is_some() && is_like(name, "Host")
            || begins_like(name, "Grip-") && !(rules.is_trusted && is_grip(name))
            || is_marked(name) && !(rules.is_trusted && rules.orig_headers)
            || rules
                .headers
                .iter()
                .any(|header| header.value.is_empty() && is_like(name, &header.name))
    };
    let mut out: Vec<Header> = Vec::with_capacity(client.len() + 8);
    out.extend(rules.host.map(|host| Header::new("Host", host)));
    out.extend(
        client
            .iter()
            .filter(|(name, _)| !is_dropped(name))
            .map(|&(name, value)| Header::new(name, value)),
    );
    if rules.orig_headers && !rules.is_trusted {
        out.extend(client.iter().map(|&(name, value)| {
            let name = if is_marked(name) {
                name.to_owned()
            } else {
                format!("{ORIG_PREFIX}{name}")
            };
            Header::new(name, value)
        }));
    }
    if !rules.is_trusted && rules.grip {
        out.extend(rules.sig.map(|sig| Header::new("Grip-Sig", sig)));
        out.push(Header::new("Grip-Feature", features()));
        out.extend(
            rules
                .last_ids
                .iter()
                .map(|(channel, id)| grip_last(channel, id)),
        );
    }
    forwarded(client, rules, &mut out);
    out.extend(
        rules
            .headers
            .iter()
            .filter(|header| !header.value.is_empty())
            .cloned(),
    );
    out
}

/// Field that tells a backend the last id of a channel.
#[must_use]
pub fn grip_last(channel: &str, id: &str) -> Header {
    Header::new("Grip-Last", format!("{channel}; last-id={id}"))
}

/// Value of `Grip-Feature`. Sessions are left out, because there are none here.
#[must_use]
pub fn features() -> String {
    let mut out = "status, link:next, link:gone".to_owned();
    for filter in Filter::ALL {
        out.push_str(", filter:");
        out.push_str(filter.name());
    }
    out
}

fn forwarded(client: &[HeaderRef<'_>], rules: &RequestRules<'_>, out: &mut Vec<Header>) {
    if !rules.cdn_loop.is_empty() {
        let mut values = elements(client, "CDN-Loop");
        values.push(rules.cdn_loop.as_bytes());
        out.push(Header::new("CDN-Loop", values.join(&b", "[..])));
    }
    out.extend(
        rules
            .forwarded_proto
            .map(|scheme| Header::new("X-Forwarded-Proto", scheme)),
    );
    let mut values = elements(client, "X-Forwarded-For");
    if let Some(keep) = rules.xff.truncate {
        values.drain(..values.len().saturating_sub(keep));
    }
    if rules.xff.append {
        values.push(rules.peer_address.as_bytes());
    }
    if !values.is_empty() {
        out.push(Header::new("X-Forwarded-For", values.join(&b", "[..])));
    }
}

/// Tells whether a field of an origin's response stays with the hop between origin and proxy. Of a
/// held stream `Content-Length` goes too, because the body has no end yet.
#[must_use]
pub fn is_response_hop(name: &str, is_stream: bool) -> bool {
    const HOP: [&str; 6] = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "Transfer-Encoding",
        "Content-Encoding",
        "Upgrade",
    ];
    HOP.iter().any(|other| other.eq_ignore_ascii_case(name))
        || is_stream && name.eq_ignore_ascii_case("Content-Length")
}

/// Fills in the CORS fields that a response lacks (`auto_cross_origin`, `aco`); none that are
/// there are touched, and nothing is answered on its own.
pub fn apply_cors(request: &[HeaderRef<'_>], response: &mut Vec<Header>) {
    let asked = |name| first(request, name).filter(|value| !value.is_empty());
    let methods = asked("Access-Control-Request-Method");
    let mut headers = elements(request, "Access-Control-Request-Headers");
    headers.retain(|header| !header.is_empty());
    let headers = headers.join(&b", "[..]);
    let exposed = exposed(response);
    for (name, value) in [
        (
            "Access-Control-Allow-Methods",
            methods.unwrap_or(b"OPTIONS, HEAD, GET, POST, PUT, DELETE"),
        ),
        ("Access-Control-Allow-Headers", &headers),
        ("Access-Control-Expose-Headers", exposed.as_bytes()),
        ("Access-Control-Allow-Credentials", b"true"),
        (
            "Access-Control-Allow-Origin",
            asked("Origin").unwrap_or(b"*"),
        ),
        ("Access-Control-Max-Age", b"3600"),
    ] {
        if !value.is_empty() && !response.iter().any(|header| header.is(name)) {
            response.push(Header::new(name, value));
        }
    }
}

/// The names of a response's fields that scripts see only if told, each once.
fn exposed(response: &[Header]) -> String {
    const SIMPLE: [&str; 7] = [
        "Cache-Control",
        "Content-Language",
        "Content-Length",
        "Content-Type",
        "Expires",
        "Last-Modified",
        "Pragma",
    ];
    let mut names: Vec<&str> = Vec::new();
    for header in response {
        let name = header.name.as_str();
        let is_known = SIMPLE
            .iter()
            .chain(&names)
            .any(|other| other.eq_ignore_ascii_case(name));
        if !is_known && !is_grip(name) && !has_prefix(name, "Access-Control-") {
            names.push(name);
        }
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    const RULES: RequestRules<'_> = RequestRules {
        is_trusted: false,
        grip: true,
        orig_headers: false,
        sig: Some("token"),
        last_ids: &[("a", "1")],
        forwarded_proto: None,
        strip_route: true,
        xff: XffRule {
            truncate: None,
            append: false,
        },
        peer_address: "9.9.9.9",
        host: None,
        headers: &[],
        cdn_loop: "",
    };
    const FEATURE: &str = "Grip-Feature: status, link:next, link:gone, filter:skip-self, \
                       filter:skip-users, filter:require-sub, filter:build-id, filter:var-subst";

    /// Rules by their words: `trusted`, `no-grip`, `orig`, `forwarded`, `host`, `cdn-loop`, a
    /// number of addresses to keep with `+` for another one, and fields of the route's own.
    fn rules_of<'r>(words: &'r str, headers: &'r mut Vec<Header>) -> RequestRules<'r> {
        let mut rules = RULES;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            match word {
                "trusted" => rules.is_trusted = true,
                "no-grip" => rules.grip = false,
                "orig" => rules.orig_headers = true,
                "forwarded" => rules.forwarded_proto = Some("https"),
                "host" => rules.host = Some("o"),
                "cdn-loop" => rules.cdn_loop = "me",
                word => match word.split_once(':') {
                    Some((name, value)) => headers.push(Header::new(name, value)),
                    None => {
                        rules.xff.append = word.ends_with('+');
                        rules.xff.truncate = Some(word.trim_end_matches('+').parse().unwrap());
                    }
                },
            }
        }
        rules.headers = headers;
        rules
    }

    fn fields(text: &str) -> Vec<Header> {
        let fields = text.split(" | ").filter_map(|field| field.split_once(": "));
        fields
            .map(|(name, value)| Header::new(name, value))
            .collect()
    }

    fn shown(headers: &[Header]) -> String {
        let text = |header: &Header| {
            let value = String::from_utf8_lossy(&header.value);
            format!("{}: {value}", header.name)
        };
        let all: Vec<String> = headers.iter().map(text).collect();
        all.join(" | ").replace(FEATURE, "FEATURES")
    }

    #[test]
    fn requests() {
        for (case, expected) in cases(include_str!("proxied_fields.txt")) {
            let (words, client) = case.split_once("| ").unwrap();
            let mut own = Vec::new();
            let rules = rules_of(words, &mut own);
            let client = fields(client);
            let client = throng_http1::field::fields(&client);
            assert_eq!(shown(&request_headers(&client, &rules)), expected, "{case}");
        }
        assert!(
            is_response_hop("content-length", true) && !is_response_hop("Content-Length", false)
        );
        assert!(is_response_hop("upgrade", false));
    }

    #[test]
    fn cors() {
        for (case, expected) in cases(include_str!("cors.txt")) {
            let (request, response) = case.split_once(" -> ").unwrap();
            let (request, mut response) = (fields(request), fields(response));
            let before = response.len();
            apply_cors(&throng_http1::field::fields(&request), &mut response);
            assert_eq!(shown(&response[before..]), expected, "{case}");
        }
    }
}
