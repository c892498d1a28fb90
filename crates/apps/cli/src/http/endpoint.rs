//! Where a server is: `http://127.0.0.1:8001`, with a path in front of ours if a proxy wants one.

use std::fmt;
use std::str::FromStr;

use throng_http1::query::encode;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// A name or an IP address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What stands before our own paths: empty, or `/behind/a/proxy` without a slash at its end.
    pub(crate) base: String,
}

impl Endpoint {
    /// The value of the header `Host`.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    /// The target of a request for one of our paths.
    pub(crate) fn target(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let rest = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => rest,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => {
                return Err("this command does not speak TLS: use http://, inside your network or through a tunnel".to_owned());
            }
            Some((scheme, _)) => {
                return Err(format!("{scheme}:// is not understood, expected http://"));
            }
            None => url,
        };
        if rest.contains(['?', '#', '@'])
            || rest.contains(|c: char| c.is_whitespace() || c.is_control())
        {
            return Err(wanted());
        }
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let (host, port) = split_authority(authority).ok_or_else(wanted)?;
        Ok(Self {
            host: host.to_owned(),
            port,
            base: path.trim_end_matches('/').to_owned(),
        })
    }
}

fn wanted() -> String {
    "expected an address such as http://127.0.0.1:8000".to_owned()
}

/// Host and port; 80 is HTTP's (RFC 9110 section 4.2.1).
fn split_authority(authority: &str) -> Option<(&str, u16)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']')?;
            (host, after)
        }
        None => authority
            .find(':')
            .map_or((authority, ""), |at| authority.split_at(at)),
    };
    let port = match port {
        "" => 80,
        port => port.strip_prefix(':')?.parse().ok()?,
    };
    (!host.is_empty() && port != 0).then_some((host, port))
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority(), self.base)
    }
}

/// A query string of names and values, encoded.
pub(crate) fn query<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut out = String::new();
    for (name, value) in pairs {
        out.push(if out.is_empty() { '?' } else { '&' });
        encode(name, &mut out);
        out.push('=');
        encode(value, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expect: Option<(&str, u16, &str)>) {
        let got = url.parse::<Endpoint>().ok();
        let got = got
            .as_ref()
            .map(|at| (at.host.as_str(), at.port, at.base.as_str()));
        assert_eq!(got, expect, "{url}");
    }

    #[test]
    fn addresses_are_taken_apart() {
        check("http://127.0.0.1:8001", Some(("127.0.0.1", 8001, "")));
        check("HTTP://push.example/", Some(("push.example", 80, "")));
        check("http://[::1]:8001/", Some(("::1", 8001, "")));
        check("http://[::1]", Some(("::1", 80, "")));
        check("localhost:8001", Some(("localhost", 8001, "")));
        check("http://a/b/c/", Some(("a", 80, "/b/c")));
        for url in [
            "",
            "http://",
            "http://:80",
            "http://a:0",
            "http://a:b",
            "http://a:99999",
            "http://[::1",
            "http://[::1]8001",
            "http://u@a",
            "http://a/?x",
            "http://a b",
            "https://a",
            "ws://a",
        ] {
            check(url, None);
        }
    }

    #[test]
    fn an_address_reads_as_it_is_written() {
        for url in ["http://127.0.0.1:8001", "http://[::1]:80/x"] {
            assert_eq!(url.parse::<Endpoint>().unwrap().to_string(), url);
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(
            query([("channel", "a b"), ("channel", "ü&=")]),
            "?channel=a%20b&channel=%C3%BC%26%3D"
        );
        assert_eq!(query([]), "");
    }
}
