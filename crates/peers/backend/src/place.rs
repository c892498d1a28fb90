//! The place of a backend, and which links to it can stand in for each other.

use std::fmt;
use std::sync::Arc;

use throng_http1::field::Header;
use throng_http1::origin::{
    Destination, OriginRequest, OriginTarget, OriginUrlError, TargetAddress,
};
use throng_peer::{Dial, DialTls};

/// The place and path of one URL, for requests that go there and nowhere else.
#[derive(Clone, Debug)]
pub struct Address {
    /// Destination with the URL's host alone.
    pub to: Arc<Destination>,
    pub host: String,
    pub path: String,
}

impl Address {
    /// From `http://…` or `https://…`; connecting and the answer's head have this long each.
    ///
    /// # Errors
    /// If it is no such URL.
    pub fn from_url(url: &str, timeout_ms: u64) -> Result<Self, OriginUrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(OriginUrlError)?;
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let to = Destination {
            connect_timeout_ms: timeout_ms,
            response_timeout_ms: timeout_ms,
            targets: vec![OriginTarget::from_url(&format!("{scheme}://{host}"))?],
        };
        let path = match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("/{path}"),
        };
        Ok(Self {
            to: Arc::new(to),
            host: host.to_owned(),
            path,
        })
    }

    /// Makes a request without a body; `Host` stands before these fields.
    #[must_use]
    pub fn request(&self, method: &str, mut fields: Vec<Header>) -> OriginRequest {
        fields.insert(0, Header::new("Host", self.host.as_str()));
        OriginRequest::new(self.to.clone(), method, self.path.clone(), fields)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
    pub(crate) insecure: bool,
}

/// A place and a name. Links with the same key are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) place: Place,
    /// The name that the certificate was checked for; empty without TLS.
    pub(crate) name: String,
}

impl Key {
    /// The key of a target. The target `test` is at port 0, where no other is.
    pub(crate) fn of(target: &OriginTarget, requested_host: &str) -> Self {
        let TargetAddress::Origin { host, port } = &target.address else {
            return Self {
                place: Place {
                    host: "test".to_owned(),
                    port: 0,
                    tls: false,
                    insecure: false,
                },
                name: String::new(),
            };
        };
        let asked = target.host.as_deref().unwrap_or(requested_host);
        let parts = asked.rsplit_once(':');
        // An IPv6 address ends with a bracket, if no port follows.
        let parts = parts.filter(|(_, port)| !port.ends_with(']'));
        let asked = parts.map_or(asked, |(host, _)| host);
        let name = if target.trust_connect_host || asked.is_empty() {
            host.as_str()
        } else {
            asked
        };
        Self {
            place: Place {
                host: host.clone(),
                port: *port,
                tls: target.tls,
                insecure: target.insecure,
            },
            // Without TLS it makes no difference.
            name: if target.tls {
                name.to_owned()
            } else {
                String::new()
            },
        }
    }
}

impl Key {
    /// The link that it asks for.
    pub(crate) fn dial(&self, timeout_ms: u64, http2: bool) -> Dial {
        let place = &self.place;
        Dial {
            host: place.host.clone(),
            port: place.port,
            tls: place.tls.then(|| DialTls {
                name: self.name.clone(),
                insecure: place.insecure,
                authorities: None,
                http2,
            }),
            timeout_ms,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.place.host, self.place.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_checked_for_the_host_that_was_asked_for() {
        for (url, name) in [
            ("https://a.example/v1", "a.example"),
            ("https://a.example:8443/v1", "a.example"),
            ("https://[2001:db8::1]/v1", "[2001:db8::1]"),
            ("https://[2001:db8::1]:8443/v1", "[2001:db8::1]"),
            ("http://a.example", ""),
        ] {
            let address = Address::from_url(url, 1).unwrap();
            let key = Key::of(&address.to.targets[0], &address.host);
            assert_eq!(key.name, name, "{url}");
        }
    }

    #[test]
    fn a_request_goes_to_the_address_and_names_its_host_first() {
        for (url, host, path) in [
            ("http://a.example:81/v1?x=1", "a.example:81", "/v1?x=1"),
            ("https://a.example", "a.example", "/"),
            ("https://a.example?x=1", "a.example", "/?x=1"),
        ] {
            let address = Address::from_url(url, 1).unwrap();
            let request = address.request("PUT", vec![Header::new("Accept", "text/plain")]);
            assert_eq!(request.to, address.to, "{url}");
            assert_eq!((&*request.method, &*request.path), ("PUT", path), "{url}");
            let fields = [
                Header::new("Host", host),
                Header::new("Accept", "text/plain"),
            ];
            assert_eq!(request.headers, fields, "{url}");
        }
    }
}
