//! Web pages that may open connections from their visitors' browsers (RFC 6455 section 10.2, RFC
//! 6454).
//!
//! A browser sends `Origin`; other clients send none and are not bound by this rule, so a request
//! without the header is for the caller to accept.

#[derive(Clone, Debug, Default)]
pub struct Origins {
    any: bool,
    same_host: bool,
    patterns: Vec<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an origin such as https://example.com, https://*.example.com, \
     http://localhost:* or *"
)]
pub struct OriginError(Box<str>);

#[derive(Clone, Debug)]
struct Pattern {
    scheme: Box<str>,
    /// With `subdomains` the part behind `*.`.
    host: Box<str>,
    subdomains: bool,
    port: Port,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Any,
    Exactly(u16),
    /// The usual port of the scheme.
    Usual,
}

/// An origin or the pattern of one, taken apart; in lower case.
struct Parts<'a> {
    scheme: &'a str,
    host: &'a str,
    port: Option<&'a str>,
}

impl Origins {
    /// Reads an allow-list.
    ///
    /// - `https://example.com`: this origin, at the usual port of its scheme;
    /// - `https://*.example.com`: every host below it, at any depth, but not `example.com` itself;
    /// - `http://localhost:*`: any port;
    /// - `*`: every origin, `null` included.
    ///
    /// With `same_host` a page may also connect to the host that it came from. That rule trusts the
    /// header `Host`: a server that is safe only because it listens on loopback should do without
    /// it, since a hostile page can point its own name at 127.0.0.1.
    pub fn new<'a>(
        patterns: impl IntoIterator<Item = &'a str>,
        same_host: bool,
    ) -> Result<Self, OriginError> {
        let mut origins = Self {
            same_host,
            ..Self::default()
        };
        for text in patterns {
            if text == "*" {
                origins.any = true;
            } else {
                let pattern = Pattern::parse(&text.to_ascii_lowercase());
                origins
                    .patterns
                    .push(pattern.ok_or_else(|| OriginError(text.into()))?);
            }
        }
        Ok(origins)
    }

    /// Whether a page of this origin (header `Origin`) may connect to this host (header `Host`,
    /// empty if there is none). A text that is not an origin is allowed only by `*`, or if it is
    /// that host's bare name: Tsung and some libraries write that, and no browser does, so no page
    /// can.
    #[must_use]
    pub fn matches(&self, origin: &str, host: &str) -> bool {
        if self.any {
            return true;
        }
        let origin = origin.to_ascii_lowercase();
        let Some(parts) = Parts::parse(&origin) else {
            return is_bare_host(&origin, host);
        };
        let Some(port) = Port::parse(parts.port) else {
            return false;
        };
        if port == Port::Any || parts.host.contains('*') {
            return false;
        }
        self.patterns
            .iter()
            .any(|pattern| pattern.covers(&parts, port))
            || self.same_host && is_same_host(&parts, port, host)
    }
}

/// Whether a page of this origin (header `Origin`) came from this host (header `Host`).
#[must_use]
pub fn is_same_origin(origin: &str, host: &str) -> bool {
    let same_host = Origins {
        same_host: true,
        ..Origins::default()
    };
    origin.contains("://") && same_host.matches(origin, host)
}

/// Whether it is the name in the header `Host`, with or without the port, instead of an origin.
/// `null` is what browsers write for pages of no origin.
fn is_bare_host(origin: &str, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => &host,
    };
    !origin.is_empty() && origin != "null" && (origin == host || origin == name)
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let parts = Parts::parse(text)?;
        let (host, subdomains) = match parts.host.strip_prefix("*.") {
            Some(host) => (host, true),
            None => (parts.host, false),
        };
        if host.is_empty() || host.contains('*') {
            return None;
        }
        Some(Self {
            scheme: parts.scheme.into(),
            host: host.into(),
            subdomains,
            port: Port::parse(parts.port)?,
        })
    }

    fn covers(&self, origin: &Parts<'_>, port: Port) -> bool {
        let host = if self.subdomains {
            origin
                .host
                .strip_suffix(&*self.host)
                .and_then(|below| below.strip_suffix('.'))
                .is_some_and(|below| !below.is_empty())
        } else {
            origin.host == &*self.host
        };
        host && *self.scheme == *origin.scheme
            && (self.port == Port::Any
                || self.port.number(origin.scheme) == port.number(origin.scheme))
    }
}

impl Port {
    fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None => Some(Self::Usual),
            Some("*") => Some(Self::Any),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().map(Self::Exactly)
            }
            Some(_) => None,
        }
    }

    fn number(self, scheme: &str) -> Option<u16> {
        match (self, scheme) {
            (Self::Exactly(port), _) => Some(port),
            (Self::Usual, "http") => Some(80),
            (Self::Usual, "https") => Some(443),
            _ => None,
        }
    }
}

impl<'a> Parts<'a> {
    /// `scheme "://" host [ ":" port ]` (RFC 6454 section 7), nothing more.
    fn parse(text: &'a str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
        if scheme.is_empty() || !scheme.bytes().all(plain) {
            return None;
        }
        let (host, port) = split_port(authority)?;
        Some(Self { scheme, host, port })
    }
}

/// Splits `host[:port]`; an IPv6 address keeps its brackets.
pub(crate) fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let address_end = authority.find(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[address_end..].split_once(':') {
        Some((rest, port)) => (&authority[..address_end + rest.len()], Some(port)),
        None => (authority, None),
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*[]:".contains(&byte);
    (!host.is_empty() && host.bytes().all(allowed)).then_some((host, port))
}

/// `Host` leaves the usual port out, and which one that is depends on the page's scheme, since TLS
/// may end before us.
fn is_same_host(origin: &Parts<'_>, port: Port, host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let Some((host, host_port)) = split_port(&host) else {
        return false;
    };
    let Some(host_port) = Port::parse(host_port) else {
        return false;
    };
    let number = port.number(origin.scheme);
    host == origin.host && number.is_some() && number == host_port.number(origin.scheme)
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn origins_are_allowed_or_not() {
        for (case, expected) in cases(include_str!("origins.txt")) {
            let (patterns, origin) = case.split_once(" | ").expect("PATTERNS | ORIGIN");
            let (origin, host) = origin.split_once(" to ").unwrap_or((origin, ""));
            let names = patterns
                .split(' ')
                .filter(|it| !["none", "own"].contains(it));
            let origins = Origins::new(names, patterns == "own").unwrap();
            let is_allowed = origins.matches(origin, host);
            assert_eq!(is_allowed.to_string(), expected, "{case}");
            // It is the host that counts, and it counts only there.
            let nobody = Origins::new([], false).unwrap();
            assert!(patterns != "own" || !nobody.matches(origin, host), "{case}");
        }
    }

    #[test]
    fn patterns_that_are_no_origins_are_refused() {
        for pattern in [
            "",
            "example.com",
            "https://",
            "https://*",
            "https://*.",
            "https://a.*.com",
            "https://example.com/path",
            "https://example.com:99999",
            "https://user@example.com",
            "null",
        ] {
            assert!(Origins::new([pattern], false).is_err(), "{pattern}");
        }
    }
}
