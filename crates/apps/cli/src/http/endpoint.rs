//! Address of a server: `http://127.0.0.1:8001`, with a path in front of ours if a proxy needs one.

use std::fmt;
use std::str::FromStr;

use throng_client::Target;
use throng_http1::query::encode;

/// The address of a server. The path is what stands before our own paths: empty, or
/// `/behind/a/proxy` without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint(Target);

impl Endpoint {
    /// The value of the header `Host`.
    pub(crate) fn authority(&self) -> String {
        self.0.authority()
    }

    /// The name or the IP address, without brackets, and the port.
    pub(crate) fn host_and_port(&self) -> (&str, u16) {
        (&self.0.host, self.0.port)
    }

    /// Whether TLS is spoken there.
    pub(crate) const fn is_tls(&self) -> bool {
        self.0.tls
    }

    /// The target of a request for one of our paths.
    pub(crate) fn target(&self, path: &str) -> String {
        format!("{}{path}", self.0.path)
    }

    /// Returns the endpoint with this path, if it has none of its own.
    pub(crate) fn or_path(mut self, path: &str) -> Self {
        if self.0.path.is_empty() {
            path.clone_into(&mut self.0.path);
        }
        self
    }
}

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => ("http", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => ("https", rest),
            Some((scheme, _)) => {
                return Err(format!(
                    "{scheme}:// is not understood, expected http:// or https://"
                ));
            }
            None => ("http", url),
        };
        let target = Target::parse(&format!("{scheme}://{rest}")).ok();
        let mut target = target
            .filter(|_| !rest.contains('?'))
            .ok_or("expected an address such as http://127.0.0.1:8000")?;
        let base_bytes = target.path.trim_end_matches('/').len();
        target.path.truncate(base_bytes);
        Ok(Self(target))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
            .map(|Endpoint(at)| (at.host.as_str(), at.port, at.path.as_str()));
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
        check("https://a/b", Some(("a", 443, "/b")));
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
            "ws://a",
        ] {
            check(url, None);
        }
    }

    #[test]
    fn an_address_reads_as_it_is_written() {
        for url in ["http://127.0.0.1:8001", "http://[::1]/x", "https://a/b"] {
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
