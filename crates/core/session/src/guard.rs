//! Which web pages a port keeps away: by `Origin`, which tells where a page came from, and where no
//! key is asked for by `Host` too, which tells what the page takes this server for.
//!
//! Never: keys and tokens. What is no browser sends whatever it likes, so these rules protect
//! people who browse, and no server from programs.

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
}

/// The rules of all ports.
#[derive(Clone, Debug)]
pub struct Guards {
    /// Of the client ports.
    pub client: Guard,
    /// Of the API port.
    pub api: Guard,
    /// Of the gateways' own ports.
    pub own: Guard,
}

impl Guard {
    /// Whether the port may be asked by the name that the request has for it.
    pub(crate) fn answers_to(&self, request: &Request<'_>) -> bool {
        let hosts = self.hosts.as_ref();
        hosts.is_none_or(|hosts| hosts.matches(request.host()))
    }

    /// Whether the request is of a page that may connect, or of no page.
    pub(crate) fn lets_in(&self, request: &Request<'_>) -> bool {
        let mut origins = request.headers().values("origin");
        origins.all(|origin| {
            // What is not UTF-8 is no origin; a page that found a way to send it is refused.
            str::from_utf8(origin).is_ok_and(|origin| self.origins.matches(origin, request.host()))
        })
    }
}
