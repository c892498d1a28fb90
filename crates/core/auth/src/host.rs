//! Host names by which a server without keys may be reached.
//!
//! A hostile page can give its own name the address of a server that only its visitor reaches (DNS
//! rebinding). The browser then takes that server for the page's own, so no rule about origins
//! helps. What reveals the page is the header `Host`, which still has its name (RFC 9110 section
//! 7.2). An address in `Host` is not a name, so it cannot point elsewhere; `localhost` is this
//! machine (RFC 6761 section 6.3).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::origin::split_port;

/// Allowed names, besides addresses and `localhost`.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    any: bool,
    without_dot: bool,
    /// Names in lower case; one that begins with a dot covers every name that ends in it.
    names: Vec<Box<str>>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the name of a host such as push.example.com, *.example.com or *")]
pub struct HostError(Box<str>);

impl Hosts {
    /// Reads an allow-list: `push.example.com` is that name with any port, `*.example.com` every
    /// name below it, `*` every name.
    ///
    /// With `without_dot` names such as `throng` are allowed too. Local networks, such as those of
    /// containers, have them, and the public DNS does not; on an address that other machines cannot
    /// reach there is no use for them.
    ///
    /// # Errors
    /// The first text that is not a valid name.
    pub fn new<'a>(
        names: impl IntoIterator<Item = &'a str>,
        without_dot: bool,
    ) -> Result<Self, HostError> {
        let mut hosts = Self {
            without_dot,
            ..Self::default()
        };
        for text in names {
            if text == "*" {
                hosts.any = true;
                continue;
            }
            let name = text.strip_prefix('*').unwrap_or(text);
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            let is_below = name.len() < text.len();
            if name.starts_with('.') != is_below
                || name.trim_matches('.').is_empty()
                || !name.bytes().all(plain)
            {
                return Err(HostError(text.into()));
            }
            hosts.names.push(name.to_ascii_lowercase().into());
        }
        Ok(hosts)
    }

    /// Whether a request with this `Host` is allowed. One without it comes from no browser.
    #[must_use]
    pub fn matches(&self, host: &str) -> bool {
        if self.any || host.is_empty() {
            return true;
        }
        let host = host.to_ascii_lowercase();
        let Some((name, _)) = split_port(&host) else {
            return false;
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        name == "localhost"
            || is_address(name)
            || self.without_dot && !name.is_empty() && !name.contains(['.', '['])
            || self.names.iter().any(|known| covers(known, name))
    }
}

fn covers(known: &str, name: &str) -> bool {
    match known.strip_prefix('.') {
        Some(_) => name.len() > known.len() && name.ends_with(known),
        None => name == known,
    }
}

fn is_address(name: &str) -> bool {
    match name.strip_prefix('[') {
        Some(rest) => rest
            .strip_suffix(']')
            .is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => name.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn hosts_are_allowed_or_not() {
        for (case, expected) in cases(include_str!("hosts.txt")) {
            let (names, host) = case.split_once(" | ").expect("NAMES | HOST");
            let without_dot = names == "without dot";
            let listed = names.split(' ').filter(|_| !without_dot && names != "none");
            let hosts = Hosts::new(listed, without_dot).unwrap();
            assert_eq!(hosts.matches(host).to_string(), expected, "{case}");
        }
        for wrong in [
            "",
            "a b",
            "http://a",
            "a:80",
            "*a.example",
            "a.*.b",
            "*.",
            ".",
            ".a",
            "**",
        ] {
            assert!(Hosts::new([wrong], false).is_err(), "{wrong}");
        }
    }
}
