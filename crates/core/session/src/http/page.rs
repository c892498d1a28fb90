//! Web pages at the front door: which are refused, and which may read why.

use throng_http1::{HttpLimits, Request, parse_request_resumed};
use throng_metrics::Counter;

use super::Reject;
use crate::close::Port;
use crate::guard::Guard;
use crate::{Context, Shared};

fn guard(port: Port, shared: &Shared) -> &Guard {
    match port {
        Port::Client => &shared.guards.client,
        Port::Api => &shared.guards.api,
        Port::Own { .. } => &shared.guards.own,
    }
}

/// Refuses requests of pages that the port keeps away. Error: 421 for a `Host` that is no name of
/// this server, 403 for an `Origin` that may not connect.
pub(super) fn check_page(
    port: Port,
    request: &Request<'_>,
    cx: &Context<'_>,
) -> Result<(), Reject> {
    let guard = guard(port, cx.shared);
    if !guard.answers_to(request) {
        cx.count(Counter::RefusedHost);
        let why = format_args!("host {}", request.host());
        let notices = &cx.shared.notices;
        notices.refused("request", request.path(), "", why);
        let sentence = format!(
            "this port asks for no key, so it does not answer to the host {}: use its address or \
             localhost, or list the name in auth.allowed_hosts",
            request.host()
        );
        return Err(Reject::new(421, sentence));
    }
    if guard.lets_in(request) {
        return Ok(());
    }
    cx.count(Counter::RefusedOrigin);
    let origin = request.header("origin").unwrap_or("that origin");
    let why = format_args!("origin {origin}");
    let notices = &cx.shared.notices;
    notices.refused("request", request.path(), "", why);
    let sentence =
        format!("pages of {origin} may not connect; list the origin in auth.allowed_origins");
    Err(Reject::new(403, sentence))
}

/// Returns the origin of a page that may read this port's answers.
pub(super) fn reader<'b>(port: Port, request: &Request<'b>, shared: &Shared) -> Option<&'b str> {
    let origin = request.header("origin")?;
    guard(port, shared).lets_in(request).then_some(origin)
}

/// The origin of a page that may read the refusal of an unreadable head.
pub(super) fn reader_of_head<'b>(port: Port, head: &'b [u8], shared: &Shared) -> Option<&'b str> {
    let host = field(head, "host").unwrap_or_default();
    let origin = field(head, "origin")?;
    let is_let_in = guard(port, shared).lets_in_page(origin, host);
    is_let_in.then_some(origin)
}

/// The value of a field that stands once among the whole lines of a head, if nothing in it could
/// end a line.
fn field<'b>(head: &'b [u8], name: &str) -> Option<&'b str> {
    let lines = head.split_inclusive(|byte| *byte == b'\n').skip(1);
    let whole = lines.map_while(|line| line.strip_suffix(b"\r\n"));
    let mut values = whole
        .take_while(|line| !line.is_empty())
        .filter_map(|line| {
            let value = line.get(name.len()..)?.strip_prefix(b":")?;
            line[..name.len()]
                .eq_ignore_ascii_case(name.as_bytes())
                .then_some(value)
        });
    let value = values.next().filter(|_| values.next().is_none())?;
    let value = str::from_utf8(value.trim_ascii()).ok()?;
    value
        .bytes()
        .all(|byte| byte.is_ascii_graphic())
        .then_some(value)
}

/// The shortest beginning of a head that already shows the fault; all of a head without one. The
/// answer depends on nothing behind it, so it is the same wherever the network cut the head.
pub(super) fn known_wrong<'b>(head: &'b [u8], limits: &HttpLimits) -> &'b [u8] {
    let (mut fine, mut wrong) = (0, head.len());
    while fine + 1 < wrong {
        let middle = fine.midpoint(wrong);
        match parse_request_resumed(&head[..middle], 0, limits) {
            Err(_) => wrong = middle,
            Ok(_) => fine = middle,
        }
    }
    &head[..wrong]
}

/// Whether these are the first bytes of a request with the method HEAD, whatever follows.
pub(super) fn is_head(mut raw: &[u8]) -> bool {
    while let Some(rest) = raw.strip_prefix(b"\r\n") {
        raw = rest;
    }
    raw.starts_with(b"HEAD ")
}
