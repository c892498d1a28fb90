//! Keys with which backends call the server API.
//!
//! Keys are kept and compared as SHA-256 digests, every one of them to the last byte, so that the
//! time of a check reveals nothing about a key, not even its length.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN};
use throng_types::{ChannelName, Save, coded_enum};

coded_enum! {
    /// Kind of calls that a key is for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Save)]
    pub enum KeyRole {
        fn word;
        /// Numbers of the server, without names.
        Metrics = "metrics";
        /// Whatever shows something and changes nothing; includes [`KeyRole::Metrics`].
        Read = "read";
        Publish = "publish";
        /// Every call of the server API.
        Admin = "admin";
    }
}

/// Rights of a named key, which go with each call that shows it.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub struct KeyRights {
    /// Name of the key, which logs show.
    pub name: Box<str>,
    /// Calls that it is for. Bound: the configuration.
    pub roles: Vec<KeyRole>,
    /// Beginnings of the names of channels that it may touch, without a `$`; empty for all
    /// channels. Bound: the configuration.
    pub prefixes: Vec<Box<str>>,
}

impl KeyRights {
    #[must_use]
    pub fn allows(&self, role: KeyRole) -> bool {
        self.roles.iter().any(|own| match own {
            KeyRole::Admin => true,
            KeyRole::Read => matches!(role, KeyRole::Read | KeyRole::Metrics),
            own => *own == role,
        })
    }

    /// Whether it may touch a channel; `None` stands for all channels at once.
    #[must_use]
    pub fn covers(&self, channel: Option<&ChannelName>) -> bool {
        let name = channel.map(ChannelName::as_str).unwrap_or_default();
        let name = name.strip_prefix('$').unwrap_or(name);
        let mut own = self.prefixes.iter();
        self.prefixes.is_empty() || own.any(|prefix| name.starts_with(&**prefix))
    }
}

/// Caller of the server API, by its key; `None` for one that may do everything: it came with a
/// key without a name, or no keys are set.
pub type Caller = Option<Arc<KeyRights>>;

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

/// The accepted keys, each with what it is for. Without any, no request is accepted.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ApiKeys(Vec<([u8; SHA256_OUTPUT_LEN], Caller)>);

/// Refused because it would accept every request with an empty header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an API key must not be empty")]
pub struct EmptyKey;

impl ApiKeys {
    /// Keeps the digests of these keys, which may do everything; refuses an empty one.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Result<Self, EmptyKey> {
        let mut all = Self::default();
        keys.into_iter().try_for_each(|key| all.add(key, None))?;
        Ok(all)
    }

    /// Adds a key; of two that are the same, the first counts.
    pub fn add(&mut self, key: &str, caller: Caller) -> Result<(), EmptyKey> {
        if key.is_empty() {
            return Err(EmptyKey);
        }
        self.0.push((digest(key), caller));
        Ok(())
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, key: &str) -> Option<&Caller> {
        let presented = digest(key);
        let mut found = None;
        for (known, caller) in &self.0 {
            let is_it = verify_slices_are_equal(known, &presented).is_ok();
            if is_it && found.is_none() {
                found = Some(caller);
            }
        }
        found
    }

    /// The caller of a request, if it is accepted by the rules of Centrifugo's server API: the
    /// header `X-API-Key`, or in its absence `Authorization: apikey KEY`; if that fails, the query
    /// parameter `api_key`.
    #[must_use]
    pub fn admit(&self, credentials: ApiCredentials<'_>) -> Option<&Caller> {
        let x_api_key = credentials.x_api_key.filter(|key| !key.is_empty());
        let header = x_api_key.or_else(|| credentials.authorization.and_then(apikey));
        let by_header = header.and_then(|key| self.find(key));
        by_header.or_else(|| self.find(credentials.query?))
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
            let is_admitted = keys.admit(credentials).is_some();
            assert_eq!(is_admitted.to_string(), expected, "{case}");
        }
    }

    #[test]
    fn without_keys_nobody_is_admitted() {
        let keys = ApiKeys::new([]).unwrap();
        assert!(keys.is_empty());
        assert_eq!(keys.find(""), None);
        assert_eq!(ApiKeys::new(["a", ""]).err(), Some(EmptyKey));
        assert_eq!(format!("{:?}", ApiKeys::new(["a"]).unwrap()), "1 API keys");
    }
    #[test]
    fn a_key_has_its_roles_and_those_within_them() {
        use KeyRole::{Admin, Metrics, Publish, Read};
        let of = |roles: &[KeyRole]| KeyRights {
            name: "ci".into(),
            roles: roles.into(),
            prefixes: Vec::new(),
        };
        for (roles, allowed) in [
            (&[][..], &[][..]),
            (&[Metrics], &[Metrics]),
            (&[Read], &[Metrics, Read]),
            (&[Publish], &[Publish]),
            (&[Publish, Metrics], &[Metrics, Publish]),
            (&[Admin], &[Metrics, Read, Publish, Admin]),
        ] {
            let mut all = vec![Metrics, Read, Publish, Admin];
            all.retain(|role| of(roles).allows(*role));
            assert_eq!(all, allowed, "{roles:?}");
        }
    }

    #[test]
    fn a_key_of_some_channels_covers_these_and_not_all() {
        let rights = KeyRights {
            name: "ci".into(),
            roles: vec![KeyRole::Admin],
            prefixes: vec!["chat:".into(), "pusher:app:".into()],
        };
        let name = |name: &str| ChannelName::new(name).unwrap();
        for own in ["chat:1", "$chat:1", "pusher:app:a"] {
            assert!(rights.covers(Some(&name(own))), "{own}");
        }
        for other in [
            "chat",
            "chats:1",
            "other:chat:1",
            "$$chat:1",
            "pusher:app.b:a",
        ] {
            assert!(!rights.covers(Some(&name(other))), "{other}");
        }
        assert!(!rights.covers(None));
    }

    #[test]
    fn the_first_of_two_keys_that_are_the_same_counts() {
        let mut keys = ApiKeys::new(["a"]).unwrap();
        let rights = Arc::new(KeyRights {
            name: "ci".into(),
            roles: vec![KeyRole::Read],
            prefixes: Vec::new(),
        });
        keys.add("a", Some(rights.clone())).unwrap();
        keys.add("b", Some(rights.clone())).unwrap();
        assert_eq!(keys.find("a"), Some(&None));
        assert_eq!(keys.find("b"), Some(&Some(rights)));
    }
}
