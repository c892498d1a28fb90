//! Web pages that a port refuses: by `Origin`, the page's own origin, and where no key is needed
//! also by `Host`, the name under which the page reached this server.
//!
//! Never: keys and tokens. A program can send any header, so these rules protect people who browse,
//! and no server from programs.

use std::str;

use throng_auth::{Hosts, Origins};
use throng_http1::Request;

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

#[derive(Clone, Debug)]
pub struct Guards {
    pub client: Guard,
    pub api: Guard,
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
