//! Identity of a connection, from its token.

use throng_auth::{Allow, Claims, TokenFault, Verifier};
use throng_metrics::Counter;
use throng_types::{ChannelName, Millis, Now, Save};

use crate::Shared;

/// Claims kept from a connection's token. Anonymous connections have none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Save)]
pub struct Identity {
    /// The user, empty for an anonymous one.
    pub user: Box<str>,
    /// JSON that others may see.
    pub info: Option<Box<str>>,
    /// The channels that the token opens; nothing leaves it to the channels' options.
    pub allow: Option<Allow>,
    /// When the connection ends unless it is refreshed, in Unix seconds.
    pub expires_at_unix_s: Option<u64>,
    /// Subscriptions with a token of their own, and when they end, in Unix seconds; `None` for
    /// never. Bound: the connection's channels.
    pub subscriptions_until: Vec<(ChannelName, Option<u64>)>,
}

/// Why a client may not connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    NoToken,
    Token(TokenFault),
}

impl AuthError {
    /// The status of an HTTP answer that says so.
    pub const fn status(self) -> u16 {
        match self {
            Self::Token(TokenFault::UnknownKey) => 503,
            Self::NoToken | Self::Token(_) => 401,
        }
    }

    pub fn message(self) -> String {
        match self {
            Self::NoToken => "a token is needed: pass it as `Authorization: Bearer TOKEN` or as \
                              the query parameter `token`"
                .to_owned(),
            Self::Token(fault) => fault.to_string(),
        }
    }
}

/// Checks a connection token. An absent one is good where anonymous clients are.
pub fn authenticate(
    token: Option<&str>,
    shared: &Shared,
    now: Now,
) -> Result<Option<Claims>, AuthError> {
    let token = token.filter(|token| !token.is_empty());
    let (Some(token), Some(verifier)) = (token, shared.verifier.as_ref()) else {
        // Without keys a token says nothing, and an SDK may send one all the same.
        return if shared.anonymous {
            Ok(None)
        } else {
            shared.counters.count(Counter::AuthMissing);
            shared.notices.refused("connect", "", "", "no token");
            Err(AuthError::NoToken)
        };
    };
    let check = |claims: Claims| claims.check_connection().map(|()| claims);
    let claims = check_token(verifier, token, check, shared, now);
    claims.map(Some).map_err(AuthError::Token)
}

/// Checks a token and, if it is good, its claims. The connection that brought it pays for that.
/// Error: why it is not accepted; it is counted.
pub fn check_token<R>(
    verifier: &Verifier,
    token: &str,
    check: impl FnOnce(Claims) -> Result<R, TokenFault>,
    shared: &Shared,
    now: Now,
) -> Result<R, TokenFault> {
    let (algorithm, claims) = verifier.check(token, now.unix_s());
    let checked = claims.and_then(check);
    let fault = checked.as_ref().err().copied();
    shared.meter.token_checked(algorithm, fault, now);
    if let Some(fault) = fault {
        shared.counters.count(failure(fault));
        shared.notices.refused("token", "", "", fault);
    }
    checked
}

/// The series that counts a refused token.
pub const fn failure(fault: TokenFault) -> Counter {
    match fault {
        TokenFault::Malformed | TokenFault::NoExpiry => Counter::AuthMalformed,
        TokenFault::Algorithm => Counter::AuthAlgorithm,
        TokenFault::Signature => Counter::AuthSignature,
        TokenFault::UnknownKey | TokenFault::UnnamedKey => Counter::AuthUnknownKey,
        TokenFault::Expired => Counter::AuthExpired,
        TokenFault::NotYetValid => Counter::AuthNotYetValid,
        TokenFault::Audience => Counter::AuthAudience,
        TokenFault::Issuer => Counter::AuthIssuer,
        TokenFault::Purpose => Counter::AuthChannel,
    }
}

impl Identity {
    /// Keeps the claims that a connection needs after its token was verified.
    pub fn from_claims(claims: &Claims) -> Self {
        Self {
            user: claims.sub.clone(),
            info: claims.info.clone(),
            allow: claims.allow.clone(),
            expires_at_unix_s: claims.ends_at_unix_s(),
            subscriptions_until: Vec::new(),
        }
    }

    /// The next time at which something of this identity ends, in Unix seconds.
    pub fn next_end_unix_s(&self) -> Option<u64> {
        let subscriptions = self.subscriptions_until.iter();
        let ends = subscriptions.filter_map(|(_, until)| *until);
        ends.chain(self.expires_at_unix_s).min()
    }

    /// When the connection ends by this token, `grace_s` seconds after it or its subscriptions'
    /// tokens expire.
    pub fn ends_at(&self, grace_s: u64, now: Now) -> Option<Millis> {
        Some(at_unix_s(
            self.next_end_unix_s()?.saturating_add(grace_s),
            now,
        ))
    }

    pub fn set_subscription_until(&mut self, channel: &ChannelName, until: Option<u64>) {
        self.forget_subscription(channel);
        self.subscriptions_until.push((channel.clone(), until));
    }

    pub fn forget_subscription(&mut self, channel: &ChannelName) {
        self.subscriptions_until
            .retain(|(known, _)| known != channel);
    }

    pub fn has_subscription_token(&self, channel: &ChannelName) -> bool {
        let mut known = self.subscriptions_until.iter();
        known.any(|(known, _)| known == channel)
    }
}

/// The monotonic time of a moment of the wall clock; a token may name any.
fn at_unix_s(unix_s: u64, now: Now) -> Millis {
    let wait_ms = unix_s.saturating_mul(1000).saturating_sub(now.unix_ms);
    Millis(now.mono.0.saturating_add(wait_ms))
}
