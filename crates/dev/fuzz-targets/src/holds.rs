//! What GRIP backends say about their clients: instructions, filters, routes.

use throng_grip::filters::{BuiltId, FilterContext, Filtered, Filters};
use throng_grip::headers::is_grip;
use throng_grip::instruct::{Instruct, ResponseHead, TIMEOUT_MIN_S};
use throng_grip::routes::{Domain, Protocol, Route, Routes, parse_route_line, parse_routes};
use throng_http1::field::{HeaderRef, write_field};
use throng_http1::{HttpLimits, parse_response};

use crate::pieces::{pairs, parts};

/// Filters over content: pieces of a stream are rendered as the whole is, and content without marks
/// goes through as it came.
///
/// Input: filters' names in a line, lines of the connection's meta, lines of the item's, lines of
/// `channel=last-id`, then the content, with NUL bytes between them.
pub(crate) fn grip_filters(input: &[u8]) {
    let [names, sub_meta, pub_meta, channels, content] = parts::<5>(input);
    let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
    let names: Vec<&str> = text(names).split(',').collect();
    let (sub_meta, pub_meta) = (pairs(text(sub_meta)), pairs(text(pub_meta)));
    let channels = pairs(text(channels));
    let channels: Vec<(&str, Option<&str>)> = channels
        .iter()
        .map(|(name, id)| (name.as_str(), Some(id.as_str()).filter(|id| !id.is_empty())))
        .collect();
    let context = FilterContext {
        sub_meta: &sub_meta,
        pub_meta: &pub_meta,
        channels: &channels,
    };
    if let Ok(id) = BuiltId::new(&context) {
        check_pieces(&id, content);
    }
    let Ok(filters) = Filters::from_names(names.iter().copied()) else {
        assert!(names.len() > throng_grip::filters::FILTERS_MAX);
        return;
    };
    if let Ok(Filtered::Send(sent)) = filters.apply(&context, content)
        && (filters.is_empty() || !content.contains(&b'%'))
    {
        assert_eq!(sent, content);
    }
    let wanted: Vec<String> = filters
        .iter()
        .filter(|filter| filter.is_content())
        .map(|filter| filter.name().to_owned())
        .collect();
    assert!(filters.match_content_filters(Some(&wanted)));
}

/// At every cut: what is not done of the head comes again in front of the tail.
fn check_pieces(id: &BuiltId, content: &[u8]) {
    let whole = render(id, &[content]);
    for cut in 0..=content.len() {
        let (head, tail) = content.split_at(cut);
        assert_eq!(render(id, &[head, tail]), whole, "cut at {cut}");
    }
}

/// Renders the pieces. Returns the output and the rest, or none for a fault.
fn render(id: &BuiltId, pieces: &[&[u8]]) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut out, mut rest) = (Vec::new(), Vec::new());
    for piece in pieces {
        rest.extend_from_slice(piece);
        let done = id.render_piece(&rest, &mut out).ok()?;
        rest.drain(..done);
    }
    Some((out, rest))
}

/// Fewer than the seeds name, so that the cut is seen.
const CHANNELS_MAX: usize = 2;

/// Backends' responses as instructions: limits hold, nothing of GRIP reaches the client, and no
/// field breaks out of its line.
///
/// Input: a response, with its body behind it.
pub(crate) fn grip_instruct(input: &[u8]) {
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

/// Pushpin's `routes` file: each line is a route or a fault, a route can be used, and a request
/// that fits its condition finds one.
pub(crate) fn grip_routes(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let file = parse_routes(text);
    let of_lines = text.lines().map(parse_route_line);
    let (mut usable, mut wrong) = (0, 0);
    for route in of_lines {
        match route {
            Ok(Some(route)) => {
                usable += 1;
                check(&route);
            }
            Ok(None) => {}
            Err(_) => wrong += 1,
        }
    }
    // Lines that are faults only in the company of others.
    let doubles = usable - file.routes.len();
    assert_eq!(file.faults.len(), wrong + doubles);
    for route in file.routes.iter() {
        if let Some(id) = &route.id {
            let found = file.routes.find_id(id, &route.path_prefix);
            assert_eq!(found.map(|found| &found.id), Some(&route.id));
        }
        finds(&file.routes, route);
    }
}

fn check(route: &Route) {
    assert!(!route.to.targets.is_empty());
    assert!(route.domain != Domain::None || route.id.is_some());
    for path in ["/", "/a?b", "/\u{e9}\u{20ac}x"] {
        assert!(route.origin_path(path).starts_with('/'));
    }
    let mut alone = Routes::default();
    assert_eq!(alone.add(route.clone()), Ok(()));
    finds(&alone, route);
}

fn finds(routes: &Routes, route: &Route) {
    let host = match &route.domain {
        Domain::Exact(domain) if domain.contains(':') => format!("[{domain}]:80"),
        Domain::Exact(domain) => format!("{domain}:80"),
        Domain::Any => "no host has this name".to_owned(),
        Domain::None => return,
    };
    let protocol = route.protocol.unwrap_or(Protocol::Http);
    let is_tls = route.is_tls.unwrap_or_default();
    let found = routes.find(protocol, is_tls, &host, &route.path_prefix);
    let found = found.expect("a request that fits its condition");
    assert_eq!(found.domain, route.domain);
    assert!(found.path_prefix.len() >= route.path_prefix.len() || found.protocol.is_some());
}
