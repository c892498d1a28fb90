//! Access control: connection and subscription tokens, API keys, the origins of web pages, and the
//! names by which a server without keys may be asked.
//!
//! Owns: the keys, the checks, and the claims that came through them. Never: reads a clock, a file
//! or the environment (time and key texts are arguments), or keeps state between two checks.
//!
//! Claims are Centrifugo's (pages "Client JWT authentication" and "Channel JWT authorization"), so
//! that a backend which makes tokens for it needs no change; `allow` is our own. Tokens are JWS in
//! compact form (RFC 7515 section 3.1) over JWT claims (RFC 7519).
//!
//! Invariants
//! - A claim is looked at only after the signature over it was found good.
//! - The key decides which algorithms count, never the token: each kind of key serves its own
//!   family, and `none` is not an algorithm here. A token may name one of our keys (`kid`), and
//!   never brings one.
//! - Bytes from outside never panic.

mod api_key;
mod block;
mod claims;
mod host;
mod key_set;
mod keys;
mod origin;
mod sign;
mod verifier;

pub use api_key::{ApiCredentials, ApiKeys, Caller, EmptyKey, KeyRights, KeyRole};
pub use block::BlockKey;
pub use claims::{Allow, ChannelPattern, Claims, PatternError, SubscriptionOptions, TokenFault};
pub use host::{HostError, Hosts};
pub use key_set::{
    Algorithm, KEY_SET_BYTES_MAX, KEY_SET_KEYS_MAX, KeySet, KeySetError, KeySource, Refresh,
    RefreshOptions,
};
pub use keys::{KeyConfig, KeyError};
pub use origin::{OriginError, Origins, is_same_origin};
pub use sign::{AllowClaim, NewToken, SigningKey, sign};
pub use verifier::Verifier;
