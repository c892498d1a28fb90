//! Why a token is refused.

/// Why a token is not accepted: the peer's fault, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum TokenFault {
    /// Not a signed token, or claims of the wrong type.
    #[error("token is malformed")]
    Malformed,
    /// Its algorithm has no key here.
    #[error("token algorithm is not accepted")]
    Algorithm,
    /// It names a key (`kid`) that we do not have yet, and that is being asked for: it may be good
    /// in a while.
    #[error("token key is not known yet; try again")]
    UnknownKey,
    /// It names no key (`kid`), and several would do.
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
    /// For somebody else.
    #[error("token is for another audience")]
    Audience,
    /// From somebody else.
    #[error("token is from another issuer")]
    Issuer,
    /// For something else: another channel, user or connection, a subscription instead of a
    /// connection, or a channel that no token opens.
    #[error("token is for another purpose")]
    Purpose,
}
