//! Keys with which backends call the server API.
//!
//! Keys are kept and compared as SHA-256 digests, every one of them to the last byte, so that the
//! time of a check reveals nothing about a key, not even its length.

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN};

/// Credentials of a request to the server API.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApiCredentials<'a> {
    /// Value of the header `X-API-Key`.
    pub x_api_key: Option<&'a str>,
    /// The header `Authorization`; counts with the scheme `apikey`, and only without `X-API-Key`.
    pub authorization: Option<&'a str>,
    /// The query parameter `api_key`, already decoded; the last resort, because queries end up in
    /// logs.
    pub query: Option<&'a str>,
}

/// The accepted keys. Without any, no request is accepted.
#[derive(Clone, Default)]
pub struct ApiKeys(Vec<[u8; SHA256_OUTPUT_LEN]>);

/// Refused because it would accept every request with an empty header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an API key must not be empty")]
pub struct EmptyKey;

impl ApiKeys {
    /// Keeps the digests of these keys; refuses an empty one.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, EmptyKey> {
        let digests = keys.into_iter().map(|key| match key {
            "" => Err(EmptyKey),
            key => Ok(digest(key)),
        });
        digests.collect::<Result<_, _>>().map(Self)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        let presented = digest(key);
        let mut found = false;
        for known in &self.0 {
            found |= verify_slices_are_equal(known, &presented).is_ok();
        }
        found
    }

    /// Whether the request is accepted, by the rules of Centrifugo's server API: the header
    /// `X-API-Key`, or in its absence `Authorization: apikey KEY`; if that fails, the query
    /// parameter `api_key`.
    #[must_use]
    pub fn admit(&self, credentials: ApiCredentials<'_>) -> bool {
        let x_api_key = credentials.x_api_key.filter(|key| !key.is_empty());
        let header = x_api_key.or_else(|| credentials.authorization.and_then(apikey));
        header.is_some_and(|key| self.has(key))
            || credentials.query.is_some_and(|key| self.has(key))
    }
}

/// Prints no keys: not even digests belong into a log.
impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} API keys", self.0.len())
    }
}

fn digest(key: &str) -> [u8; SHA256_OUTPUT_LEN] {
    let mut digest = [0; SHA256_OUTPUT_LEN];
    let found = aws_lc_rs::digest::digest(&SHA256, key.as_bytes());
    digest.copy_from_slice(found.as_ref());
    digest
}

/// The key in `apikey KEY`; schemes are case-insensitive (RFC 9110 section 11.1).
fn apikey(authorization: &str) -> Option<&str> {
    let mut words = authorization.split_ascii_whitespace();
    let scheme = words.next()?;
    let key = words.next()?;
    (scheme.eq_ignore_ascii_case("apikey") && words.next().is_none()).then_some(key)
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn keys_come_by_header_or_query() {
        let keys = ApiKeys::new(["first", "second key"]).unwrap();
        for (case, expected) in cases(include_str!("api_key.txt")) {
            let mut credentials = ApiCredentials::default();
            for part in case.split(" | ").filter(|part| *part != "nothing") {
                let (name, value) = part.split_once('=').expect("NAME=VALUE");
                *match name {
                    "x-api-key" => &mut credentials.x_api_key,
                    "authorization" => &mut credentials.authorization,
                    _ => &mut credentials.query,
                } = Some(value);
            }
            assert_eq!(keys.admit(credentials).to_string(), expected, "{case}");
        }
    }

    #[test]
    fn without_keys_nobody_is_admitted() {
        let keys = ApiKeys::new([]).unwrap();
        assert!(keys.is_empty());
        assert!(!keys.has(""));
        assert_eq!(ApiKeys::new(["a", ""]).err(), Some(EmptyKey));
        assert_eq!(format!("{:?}", ApiKeys::new(["a"]).unwrap()), "1 API keys");
    }
}
