//! Target of connections: a URL, or host and port.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Address of a server, and the path that is asked for there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Target {
    pub tls: bool,
    /// Host name or address; IPv6 addresses without brackets.
    pub host: String,
    /// TCP port, never 0.
    pub port: u16,
    /// Path and query, a template; begins with `/`.
    pub path: String,
}

impl Target {
    /// Reads `ws://host:port/path`, `wss://`, `http://`, `https://`, or `host:port/path`, which is
    /// without TLS and needs its port. The path may be left out. Errors: a sentence that quotes the
    /// text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| Err(format!("`{text}` is not a target: {why}"));
        let scheme = text.split_once("://");
        let (scheme, rest) = scheme.map_or((None, text), |(scheme, rest)| {
            (Some(scheme.to_ascii_lowercase()), rest)
        });
        let (tls, default_port) = match scheme.as_deref() {
            Some("ws" | "http") => (false, Some(80)),
            Some("wss" | "https") => (true, Some(443)),
            None => (false, None),
            Some(other) => {
                let why = "is unknown; known are ws, wss, http, https";
                return refuse(&format!("`{other}://` {why}"));
            }
        };
        let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(path_at);
        if authority.contains('@') {
            return refuse("a user name has no place here; use a header");
        }
        if path.contains('#') {
            return refuse("a fragment is never sent to a server");
        }
        if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return refuse("the path has a space or a control character; percent-encode it");
        }
        let Some((host, port)) = split_authority(authority) else {
            return refuse("something stands between the host's bracket and the port");
        };
        let port = match port {
            Some(digits) => match digits.parse() {
                Ok(port) if port > 0 => port,
                _ => return refuse(&format!("`{digits}` is not a port")),
            },
            None => match default_port {
                Some(port) => port,
                None => return refuse("the port is missing; write host:port or a URL"),
            },
        };
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '[' || c == ']') {
            return refuse("the host is missing or malformed");
        }
        let path = format!("/{}", path.strip_prefix('/').unwrap_or(path));
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
            path,
        })
    }

    /// Host and port as they stand in a `Host` header: an IPv6 address in brackets, the scheme's
    /// own port left out.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        if self.port == if self.tls { 443 } else { 80 } {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }

    pub fn with_path(&self, path: &str) -> Self {
        Self {
            path: path.to_owned(),
            ..self.clone()
        }
    }
}

fn split_authority(authority: &str) -> Option<(&str, Option<&str>)> {
    let bracketed = authority.strip_prefix('[');
    if let Some((host, after)) = bracketed.and_then(|rest| rest.split_once(']')) {
        return match after {
            "" => Some((host, None)),
            after => Some((host, Some(after.strip_prefix(':')?))),
        };
    }
    Some(match authority.rsplit_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    })
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, tls: bool, host: &str, port: u16, path: &str) {
        let target = Target::parse(text).unwrap();
        let expected = Target {
            tls,
            host: host.into(),
            port,
            path: path.into(),
        };
        assert_eq!(target, expected, "{text}");
    }

    #[test]
    fn targets_are_read() {
        check(
            "ws://127.0.0.1:8000/ws?channel={channel}",
            false,
            "127.0.0.1",
            8000,
            "/ws?channel={channel}",
        );
        check("WSS://example.org", true, "example.org", 443, "/");
        check("http://example.org?x=1", false, "example.org", 80, "/?x=1");
        check("https://[::1]:8443/a", true, "::1", 8443, "/a");
        check("server:8007", false, "server", 8007, "/");
        check(
            "h:1/v1/realtime?channels[]=files",
            false,
            "h",
            1,
            "/v1/realtime?channels[]=files",
        );
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for (text, why) in [
            ("", "port is missing"),
            ("server", "port is missing"),
            ("ftp://x", "`ftp://` is unknown"),
            ("ws://x:0/", "not a port"),
            ("ws://x:99999/", "not a port"),
            ("ws://:80/", "host is missing"),
            ("ws://u@x/", "user name"),
            ("ws://x/a b", "space"),
            ("ws://x/#a", "fragment"),
            ("ws://[::1]8001/", "bracket"),
        ] {
            let error = Target::parse(text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn the_authority_is_that_of_a_host_header() {
        for (text, authority) in [
            ("ws://x/", "x"),
            ("ws://x:8000/", "x:8000"),
            ("wss://[fd00::1]:443/", "[fd00::1]"),
        ] {
            assert_eq!(Target::parse(text).unwrap().authority(), authority);
        }
    }
}
