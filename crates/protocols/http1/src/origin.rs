//! One request to an origin and what comes back, as values: the words between sessions,
//! which make requests, and the driver, which carries them.
//!
//! Never: sends anything, or knows who asked.

use std::sync::Arc;

use throng_types::{Save, coded_enum};

use crate::field::Header;

/// A request to the first of several origins that can be reached.
#[derive(Clone, Debug)]
pub struct OriginRequest {
    pub to: Arc<Destination>,
    /// Method of the request, not checked.
    pub method: String,
    pub path: String,
    /// Bytes of `path` that chose the destination; only the target `test` looks at them.
    pub matched_bytes: usize,
    /// All fields, `Host` among them, but none that delimits the body. A target with a host of
    /// its own replaces `Host`.
    pub headers: Vec<Header>,
    pub body: Vec<u8>,
    /// Bytes that follow the head and `body`.
    pub rest: RequestRest,
}

impl OriginRequest {
    #[must_use]
    pub fn new(to: Arc<Destination>, method: &str, path: String, headers: Vec<Header>) -> Self {
        Self {
            to,
            method: method.to_owned(),
            path,
            matched_bytes: 0,
            headers,
            body: Vec::new(),
            rest: RequestRest::Nothing,
        }
    }
}

/// Origins of a request, and how long each may take.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct Destination {
    pub connect_timeout_ms: u64,
    /// Time for the head of an answer after the request was written, in milliseconds; 0 waits for
    /// ever.
    pub response_timeout_ms: u64,
    /// In the order in which they are tried, at least one.
    pub targets: Vec<OriginTarget>,
}

impl Default for Destination {
    fn default() -> Self {
        Self {
            connect_timeout_ms: 5_000,
            response_timeout_ms: 60_000,
            targets: Vec::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub enum TargetAddress {
    /// An origin. IPv6 addresses are without brackets.
    Origin {
        host: String,
        /// Port, from 1 to 65535.
        port: u16,
    },
    /// Pushpin's built-in test origin.
    Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct OriginTarget {
    pub address: TargetAddress,
    pub tls: bool,
    pub insecure: bool,
    /// Check the certificate for the connected host, not for the requested one.
    pub trust_connect_host: bool,
    /// True if it may be told to connect to addresses that policies forbid.
    pub trusted: bool,
    pub host: Option<String>,
    /// Channels that each WebSocket is subscribed to, and cannot leave.
    pub subscriptions: Vec<String>,
    pub over_http: bool,
    pub one_event: bool,
}

impl OriginTarget {
    #[must_use]
    pub fn new(address: TargetAddress) -> Self {
        Self {
            address,
            tls: false,
            insecure: false,
            trust_connect_host: false,
            trusted: true,
            host: None,
            subscriptions: Vec::new(),
            over_http: false,
            one_event: false,
        }
    }

    /// From `http://host:port` or `https://host:port`; the port may be left out.
    pub fn from_url(url: &str) -> Result<Self, OriginUrlError> {
        let (tls, rest) = match url.split_once("://") {
            Some(("http", rest)) => (false, rest),
            Some(("https", rest)) => (true, rest),
            _ => return Err(OriginUrlError),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#', '@']) {
            return Err(OriginUrlError);
        }
        let has_port = match authority.rsplit_once(']') {
            Some((_, rest)) => !rest.is_empty(),
            None => authority.contains(':'),
        };
        let with_port = if has_port {
            authority.to_owned()
        } else {
            format!("{authority}:{}", if tls { 443 } else { 80 })
        };
        let address = TargetAddress::parse(&with_port).map_err(|_| OriginUrlError)?;
        Ok(Self {
            tls,
            ..Self::new(address)
        })
    }
}

/// An origin that is no `http://host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin must be http://host:port or https://host:port")]
pub struct OriginUrlError;

/// A target in Pushpin's form that is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("a target must be host:port, [address]:port or test")]
    Format,
    #[error("a target's port must be from 1 to 65535")]
    Port,
}

impl TargetAddress {
    /// From `host:port` or `[v6]:port`.
    pub fn parse(text: &str) -> Result<Self, TargetError> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:"),
            None => text.split_once(':'),
        }
        .filter(|(host, _)| !host.is_empty())
        .ok_or(TargetError::Format)?;
        match port.parse() {
            Ok(0) | Err(_) => Err(TargetError::Port),
            Ok(port) => Ok(Self::Origin {
                host: host.to_owned(),
                port,
            }),
        }
    }
}

/// Continuation of a request that is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RequestRest {
    #[default]
    Nothing,
    /// More of the body, which has so many bytes in all, if that is known.
    Body(Option<u64>),
    /// Anything, if the origin answers 101: from then on both sides pass bytes to each other.
    Upgrade,
}

/// Event of one request, in this order: a head, then pieces of the body, then the end; or a failure
/// at any time, and nothing after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginEvent {
    /// The head of the answer; 1xx answers are passed over.
    Head(OriginHead),
    /// Bytes of the body, without their transfer coding.
    Body(Vec<u8>),
    End,
    /// The origin has taken so many bytes of what follows the request. May come at any time.
    Taken(usize),
    /// There is no answer, or no more of it.
    Failed(OriginFailure),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginHead {
    /// Status code, from 200 to 999.
    pub code: u16,
    /// As the origin wrote it; may be empty.
    pub reason: String,
    pub headers: Vec<Header>,
    pub body_bytes: Option<u64>,
    pub is_bodiless: bool,
}

coded_enum! {
    /// Reason for which an answer does not come, and how far the request got.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum OriginFailureKind {
        /// Status that a client gets in place of an answer.
        fn status -> u16;
        /// Sentence for that client, which tells nothing about the network behind.
        fn sentence;
        /// No origin could be connected to, or none spoke TLS as it must.
        Unreachable = 502, "no backend of this path can be reached";
        /// The connection broke before the request was written.
        Unsent = 502, "the backend ended the connection without an answer";
        /// The head did not come in time.
        Timeout = 504, "the backend did not answer in time";
        /// The connection ended before the answer was whole.
        Cut = 502, "the backend ended the connection without an answer";
        /// The bytes are no HTTP, or break a bound.
        Garbage = 502, "the backend's answer is not valid HTTP, or too large";
        /// There is no room for another request.
        Busy = 503, "too many requests wait for backends; try again";
    }
}

/// A failure, and what an operator should read about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginFailure {
    pub fault: OriginFailureKind,
    /// Cause and place, for the log.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> TargetAddress {
        TargetAddress::Origin {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn urls_of_targets() {
        let target = OriginTarget::from_url("http://127.0.0.1:9102").unwrap();
        assert_eq!(target.address, address("127.0.0.1", 9102));
        let target = OriginTarget::from_url("https://[::1]").unwrap();
        assert_eq!(target.address, address("::1", 443));
        assert!(target.tls);
        for bad in [
            "",
            "ftp://x",
            "http://",
            "http://a:0",
            "http://a/b",
            "http://u@a",
        ] {
            assert_eq!(OriginTarget::from_url(bad), Err(OriginUrlError), "{bad}");
        }
    }
}
