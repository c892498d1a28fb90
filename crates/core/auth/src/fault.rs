//! Reasons why a token is refused.

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
    /// The signature is not of our keys.
    #[error("token signature is wrong")]
    Signature,
    /// A good token that is past its time. The client should come with a new one (error code 109).
    #[error("token has expired")]
    Expired,
    /// A good token without `exp`, where the operator asks for one.
    #[error("token has no expiry")]
    NoExpiry,
    /// A good token before its time.
    #[error("token is not valid yet")]
    NotYetValid,
    /// The audience (`aud`) is another one.
    #[error("token is for another audience")]
    Audience,
    /// The issuer (`iss`) is another one.
    #[error("token is from another issuer")]
    Issuer,
    /// Another channel, user or connection, a subscription instead of a connection, or a channel
    /// that no token opens.
    #[error("token is for another purpose")]
    Purpose,
}
