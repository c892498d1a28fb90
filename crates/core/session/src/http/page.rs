//! Web pages that a port refuses: by `Origin`, the page's own origin, and where no key is needed
//! also by `Host`, the name under which the page reached this server; and pages that may read why.
//!
//! Never: keys and tokens. A program can send any header, so these rules protect people who browse,
//! and no server from programs.

use throng_auth::{Hosts, Origins};
use throng_http1::{HttpLimits, Request, parse_request_resumed};
use throng_metrics::Counter;

use super::Reject;
use crate::route::Port;
use crate::{Context, Shared};

/// The rules of one port.
#[derive(Clone, Debug)]
pub struct Guard {
    /// Pages that may connect from a browser.
    pub origins: Origins,
    /// The names by which the port may be asked; `None` where keys or tokens protect it.
    pub hosts: Option<Hosts>,
    /// Whether programs may ask by any name, as those that publish to Pushpin do; browsers may not.
    pub programs_by_any_name: bool,
}

/// The rules of all ports.
#[derive(Clone, Debug)]
pub struct Guards {
    /// Rule for the client ports.
    pub client: Guard,
    /// Rule for the API port.
    pub api: Guard,
    /// Rule for the gateways' own ports.
    pub own: Guard,
}

impl Guard {
    /// Whether the port may be asked by the name that the request has for it.
    pub(crate) fn answers_to(&self, request: &Request<'_>) -> bool {
        let hosts = self.hosts.as_ref();
        hosts.is_none_or(|hosts| hosts.matches(request.host()))
            || self.programs_by_any_name && !is_of_browser(request)
    }

    /// Whether the request is of a page that may connect, or of no page.
    pub(crate) fn lets_in(&self, request: &Request<'_>) -> bool {
        let mut origins = request.headers().values("origin");
        origins.all(|origin| {
            // A value that is not UTF-8 is no origin; a page that found a way to send it is
            // refused.
            str::from_utf8(origin).is_ok_and(|origin| self.lets_in_page(origin, request.host()))
        })
    }

    /// Whether pages of this origin may connect, by this name of the server.
    pub(crate) fn lets_in_page(&self, origin: &str, host: &str) -> bool {
        self.origins.matches(origin, host)
    }
}

/// Whether the request shows that a browser sent it: by its page, its fetch metadata, or a user
/// agent that begins with `Mozilla/`, as all of them do. A browser does not always send the first
/// two: not with a GET of the same origin without TLS.
fn is_of_browser(request: &Request<'_>) -> bool {
    let mut names = request.headers().map(|(name, _)| name);
    let agent = request.header("user-agent").unwrap_or_default();
    names.any(|name| {
        name.eq_ignore_ascii_case("origin")
            || name
                .get(..10)
                .is_some_and(|begin| begin.eq_ignore_ascii_case("sec-fetch-"))
    }) || agent.starts_with("Mozilla/")
}

fn guard(port: Port, shared: &Shared) -> &Guard {
    match port {
        Port::Client => &shared.guards.client,
        Port::Api => &shared.guards.api,
        Port::Own { .. } => &shared.guards.own,
    }
}

/// Refuses requests of pages that the port keeps away.
///
/// # Errors
/// 421 for a `Host` that is no name of this server, 403 for an `Origin` that may not connect.
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
