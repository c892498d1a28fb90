//! Claims of a token, read once its signature was found good, and the faults of tokens; the
//! patterns by which a token names the channels that its holder may use.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use throng_types::Save;

/// Reason why a token is not accepted: always the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenFault {
    /// Not a signed token, or claims of the wrong type.
    #[error("token is malformed")]
    Malformed,
    /// No key here is for its algorithm.
    #[error("token algorithm is not accepted")]
    Algorithm,
    /// The named key (`kid`) is not known yet, and is being fetched: the token may be good in a
    /// while.
    #[error("token key is not known yet; try again")]
    UnknownKey,
    /// No key (`kid`) is named, and several would fit.
    #[error("token does not name its key (kid)")]
    UnnamedKey,
    #[error("token signature is wrong")]
    Signature,
    /// A good token that is past its time. The client should come with a new one (error code 109).
    #[error("token has expired")]
    Expired,
    /// A good token without `exp`, where the operator asks for one.
    #[error("token has no expiry")]
    NoExpiry,
    #[error("token is not valid yet")]
    NotYetValid,
    #[error("token is for another audience")]
    Audience,
    #[error("token is from another issuer")]
    Issuer,
    /// Another channel, user or connection, a subscription instead of a connection, or a channel
    /// that no token opens.
    #[error("token is for another purpose")]
    Purpose,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The user (`sub`), empty for an anonymous one.
    pub sub: Box<str>,
    /// End of the token's validity, in Unix seconds.
    pub exp: Option<u64>,
    /// Beginning of its validity, in Unix seconds.
    pub nbf: Option<u64>,
    /// Time of issue, in Unix seconds.
    pub iat: Option<u64>,
    pub jti: Option<Box<str>>,
    /// When the connection or subscription ends, if that is not `exp`; `Some(None)` for never.
    pub expire_at: Option<Option<u64>>,
    /// JSON about the connection (in a subscription token: about the subscription) that others may
    /// see.
    pub info: Option<Box<str>>,
    /// JSON for the server and its backends, never shown to clients.
    pub meta: Option<Box<str>>,
    /// Channels that the connection is subscribed to from its start; ignored if there are `subs`.
    pub channels: Vec<Box<str>>,
    /// Channels with options that the connection is subscribed to from its start.
    pub subs: BTreeMap<Box<str>, SubscriptionOptions>,
    pub channel: Option<Box<str>>,
    /// Public id of the one connection that a subscription token is for; an old claim.
    pub client: Option<Box<str>>,
    pub options: SubscriptionOptions,
    /// Channels that the holder may use; `None` leaves the decision to the channels' own options.
    pub allow: Option<Allow>,
}

/// Options that a token sets for one subscription; `None` where the channel's own options decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct SubscriptionOptions {
    /// JSON about the subscription that others may see.
    pub info: Option<Box<str>>,
    /// JSON for the subscriber, sent when the subscription begins.
    pub data: Option<Box<str>>,
    /// Whether the subscriber counts as present.
    pub presence: Option<bool>,
    /// Whether the subscriber's coming and going is announced.
    pub join_leave: Option<bool>,
    /// Whether the subscriber gets others' coming and going unasked.
    pub force_push_join_leave: Option<bool>,
    /// Whether the subscription recovers unasked.
    pub force_recovery: Option<bool>,
    /// Whether the subscription is watched for gaps unasked.
    pub force_positioning: Option<bool>,
}

/// The channels that a token opens: our own claim `allow`.
///
/// `{"allow":{"subscribe":["news","chat:*"],"publish":["chat:*"]}}`
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Save)]
pub struct Allow {
    #[serde(default)]
    pub subscribe: Vec<ChannelPattern>,
    #[serde(default)]
    pub publish: Vec<ChannelPattern>,
}

impl Claims {
    /// End of the connection or subscription unless it is refreshed, in Unix seconds; `None` for
    /// never.
    #[must_use]
    pub fn ends_at_unix_s(&self) -> Option<u64> {
        self.expire_at.unwrap_or(self.exp)
    }

    /// Refuses a subscription token where a connection token belongs.
    pub fn check_connection(&self) -> Result<(), TokenFault> {
        match self.channel {
            Some(_) => Err(TokenFault::Purpose),
            None => Ok(()),
        }
    }

    /// Refuses a token that is not for this channel, this user, or this connection (its public id).
    ///
    /// Without the check of the user, a token that one user was given would open the channel to
    /// all.
    pub fn check_subscription(
        &self,
        channel: &str,
        user: &str,
        client: &str,
    ) -> Result<(), TokenFault> {
        let for_channel = self.channel.as_deref() == Some(channel);
        let for_client = self.client.as_deref().is_none_or(|only| only == client);
        if for_channel && for_client && &*self.sub == user {
            Ok(())
        } else {
            Err(TokenFault::Purpose)
        }
    }

    /// Parses a backend's answer that replaces a token: an object with the same fields, except the
    /// user.
    pub fn of_backend(user: &str, json: &str) -> Result<Self, TokenFault> {
        let (claims, _) = Self::parse(json.as_bytes())?;
        Ok(Self {
            sub: user.into(),
            exp: None,
            nbf: None,
            channel: None,
            client: None,
            ..claims
        })
    }

    /// Parses claims whose signature is good; also gives the fields that only the verifier checks.
    pub(crate) fn parse(json: &[u8]) -> Result<(Self, Audience), TokenFault> {
        let raw: RawClaims<'_> = serde_json::from_slice(json).map_err(|_| TokenFault::Malformed)?;
        let audience = Audience {
            aud: raw.aud.map_or_else(Vec::new, OneOrMany::into_vec),
            iss: raw.iss,
        };
        let options = RawOptions {
            info: raw.info,
            b64info: raw.b64info,
            data: raw.data,
            b64data: raw.b64data,
            overrides: raw.overrides,
        }
        .into_options()?;
        let claims = Self {
            sub: raw.sub.unwrap_or_default(),
            exp: raw.exp.map(|date| date.0),
            nbf: raw.nbf.map(|date| date.0),
            iat: raw.iat.map(|date| date.0),
            jti: raw.jti,
            expire_at: raw.expire_at.map(|date| Some(date.0).filter(|at| *at > 0)),
            info: options.info.clone(),
            meta: raw.meta.map(json_text),
            channels: raw.channels.unwrap_or_default(),
            subs: { raw.subs.unwrap_or_default().into_iter() }
                .map(|(channel, options)| Ok((channel, options.into_options()?)))
                .collect::<Result<_, TokenFault>>()?,
            channel: raw.channel.filter(|channel| !channel.is_empty()),
            client: raw.client.filter(|client| !client.is_empty()),
            options,
            allow: raw.allow,
        };
        let named = claims.channels.iter().chain(claims.subs.keys());
        let mut named = named.chain(&claims.channel);
        if named.any(|channel| channel.starts_with(RESERVED)) {
            return Err(TokenFault::Purpose);
        }
        Ok((claims, audience))
    }
}

/// Audience and issuer of a token, needed only until it is accepted.
pub(crate) struct Audience {
    pub(crate) aud: Vec<Box<str>>,
    pub(crate) iss: Option<Box<str>>,
}

/// Claims that RFC 7519 section 4.1 registers and every token may have, whoever it is for.
pub(crate) struct RegisteredClaims {
    pub(crate) exp: Option<u64>,
    pub(crate) nbf: Option<u64>,
    pub(crate) audience: Audience,
}

impl RegisteredClaims {
    /// Reads them, whatever else there is.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, TokenFault> {
        #[derive(Deserialize)]
        struct Raw {
            exp: Option<NumericDate>,
            nbf: Option<NumericDate>,
            iss: Option<Box<str>>,
            aud: Option<OneOrMany>,
        }
        let raw: Raw = serde_json::from_slice(json).map_err(|_| TokenFault::Malformed)?;
        Ok(Self {
            exp: raw.exp.map(|date| date.0),
            nbf: raw.nbf.map(|date| date.0),
            audience: Audience {
                aud: raw.aud.map_or_else(Vec::new, OneOrMany::into_vec),
                iss: raw.iss,
            },
        })
    }
}

fn json_text(json: &RawValue) -> Box<str> {
    json.get().into()
}

#[derive(Deserialize)]
struct RawClaims<'a> {
    sub: Option<Box<str>>,
    exp: Option<NumericDate>,
    nbf: Option<NumericDate>,
    iat: Option<NumericDate>,
    jti: Option<Box<str>>,
    iss: Option<Box<str>>,
    aud: Option<OneOrMany>,
    expire_at: Option<NumericDate>,
    #[serde(borrow)]
    meta: Option<&'a RawValue>,
    channels: Option<Vec<Box<str>>>,
    #[serde(borrow)]
    subs: Option<BTreeMap<Box<str>, RawOptions<'a>>>,
    channel: Option<Box<str>>,
    client: Option<Box<str>>,
    allow: Option<Allow>,
    #[serde(borrow)]
    info: Option<&'a RawValue>,
    b64info: Option<Box<str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    b64data: Option<Box<str>>,
    #[serde(rename = "override")]
    overrides: Option<Overrides>,
}

/// One entry of the claim `subs`.
#[derive(Default, Deserialize)]
struct RawOptions<'a> {
    #[serde(borrow)]
    info: Option<&'a RawValue>,
    b64info: Option<Box<str>>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
    b64data: Option<Box<str>>,
    #[serde(rename = "override")]
    overrides: Option<Overrides>,
}

impl SubscriptionOptions {
    /// Reads options as the server API has them: JSON or base64 of each, and the claim `override`.
    pub fn of_parts(
        [info, data]: [Option<&RawValue>; 2],
        [b64info, b64data]: [&str; 2],
        overrides: Option<&RawValue>,
    ) -> Result<Self, TokenFault> {
        let overrides = overrides.map(|json| serde_json::from_str(json.get()));
        let raw = RawOptions {
            info,
            b64info: Some(b64info.into()),
            data,
            b64data: Some(b64data.into()),
            overrides: overrides.transpose().map_err(|_| TokenFault::Malformed)?,
        };
        raw.into_options()
    }
}

impl RawOptions<'_> {
    fn into_options(self) -> Result<SubscriptionOptions, TokenFault> {
        let overrides = self.overrides.unwrap_or_default();
        let flag = |flag: Option<Flag>| flag.map(|flag| flag.value);
        Ok(SubscriptionOptions {
            info: json_or_base64(self.info, self.b64info)?,
            data: json_or_base64(self.data, self.b64data)?,
            presence: flag(overrides.presence),
            join_leave: flag(overrides.join_leave),
            force_push_join_leave: flag(overrides.force_push_join_leave),
            force_recovery: flag(overrides.force_recovery),
            force_positioning: flag(overrides.force_positioning),
        })
    }
}

#[derive(Default, Deserialize)]
struct Overrides {
    presence: Option<Flag>,
    join_leave: Option<Flag>,
    force_push_join_leave: Option<Flag>,
    force_recovery: Option<Flag>,
    force_positioning: Option<Flag>,
}

#[derive(Deserialize)]
struct Flag {
    #[serde(default)]
    value: bool,
}

/// Base64 goes before JSON, as in Centrifugo. What it holds is embedded in JSON later, so bytes
/// that are not JSON stay base64, as a JSON string.
fn json_or_base64(
    json: Option<&RawValue>,
    base64: Option<Box<str>>,
) -> Result<Option<Box<str>>, TokenFault> {
    let Some(base64) = base64.filter(|base64| !base64.is_empty()) else {
        return Ok(json.map(json_text));
    };
    let bytes = STANDARD
        .decode(&*base64)
        .map_err(|_| TokenFault::Malformed)?;
    Ok(Some(match serde_json::from_slice::<&RawValue>(&bytes) {
        Ok(json) => json_text(json),
        Err(_) => format!("\"{base64}\"").into(),
    }))
}

/// The claim `aud`: one text or several (RFC 7519 section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(Box<str>),
    Many(Vec<Box<str>>),
}

impl OneOrMany {
    fn into_vec(self) -> Vec<Box<str>> {
        match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many,
        }
    }
}

/// Channels of the server's own, which no token opens.
const RESERVED: &str = "throng:";

/// The end of the year 9999. Later dates are read as this one: they stay dates, and arithmetic on
/// them cannot overflow, even in milliseconds.
const DATE_S_MAX: u64 = 253_402_300_799;

/// Seconds since 1970, perhaps with a fraction (RFC 7519 section 2); what lies before 1970 is 0.
struct NumericDate(u64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = serde_json::Number::deserialize(deserializer)?;
        // The cast cuts the fraction off and stays within the range of the type.
        let cut = || number.as_f64().unwrap_or_default() as u64;
        Ok(Self(number.as_u64().unwrap_or_else(cut).min(DATE_S_MAX)))
    }
}

/// One channel by its name, or every channel that begins in the same way.
///
/// `chat:42` is that channel, `chat:*` every channel of the namespace, `*` every channel. A `*` has
/// its meaning only at the end; elsewhere it is refused, so that a pattern which was meant to be
/// narrow is never silently something else.
#[derive(Clone, Debug, PartialEq, Eq, Save)]
pub enum ChannelPattern {
    Name(Box<str>),
    /// Every channel whose name begins with this.
    Prefix(Box<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    #[error("a channel pattern must not be empty")]
    Empty,
    /// `*` stands somewhere else than at the end.
    #[error("`*` is allowed only at the end of a channel pattern")]
    StarInside,
}

impl ChannelPattern {
    /// Parses a pattern with an optional `*` at its end.
    pub fn new(pattern: &str) -> Result<Self, PatternError> {
        let (stem, prefix) = match pattern.strip_suffix('*') {
            Some(stem) => (stem, true),
            None if pattern.is_empty() => return Err(PatternError::Empty),
            None => (pattern, false),
        };
        if stem.contains('*') {
            return Err(PatternError::StarInside);
        }
        Ok(if prefix {
            Self::Prefix(stem.into())
        } else {
            Self::Name(stem.into())
        })
    }

    #[must_use]
    pub fn covers(&self, channel: &str) -> bool {
        match self {
            Self::Name(name) => channel == &**name,
            Self::Prefix(prefix) => channel.starts_with(&**prefix),
        }
    }
}

impl fmt::Display for ChannelPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

impl<'de> Deserialize<'de> for ChannelPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_names_and_prefixes() {
        for (pattern, covered, not_covered) in [
            ("chat", &["chat"][..], &["chat:1", "cha", "Chat"][..]),
            (
                "chat:*",
                &["chat:", "chat:1", "chat:1:2"],
                &["chat", "chats:1"],
            ),
            ("*", &["x", "chat:1"], &[]),
        ] {
            let compiled = ChannelPattern::new(pattern).unwrap();
            assert_eq!(compiled.to_string(), pattern);
            for channel in covered {
                assert!(compiled.covers(channel), "{pattern} should cover {channel}");
            }
            for channel in not_covered {
                assert!(
                    !compiled.covers(channel),
                    "{pattern} should not cover {channel}"
                );
            }
        }
    }

    #[test]
    fn doubtful_patterns_are_refused() {
        assert_eq!(ChannelPattern::new(""), Err(PatternError::Empty));
        for pattern in ["**", "a*b", "*:1", "*a*"] {
            assert_eq!(
                ChannelPattern::new(pattern),
                Err(PatternError::StarInside),
                "{pattern}"
            );
        }
    }
}
