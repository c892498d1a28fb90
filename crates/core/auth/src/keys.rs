//! Keys that tokens are checked with, and the rules for it.

use std::fmt;
use std::sync::Arc;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;

use crate::key_set::{
    Algorithm, ED25519, Family, HMAC, KeySet, KeySetError, KeySource, P256, P384, RSA,
    RSA_BITS_MIN, bits,
};

/// Keys and rules for checking tokens. An algorithm is accepted if there is a key for it.
#[derive(Clone, Default)]
pub struct KeyConfig {
    /// Secret for `HS256`, `HS384` and `HS512`.
    pub hmac_secret: Option<Box<[u8]>>,
    /// A second secret for the same algorithms, while tokens of the previous one are in use.
    pub hmac_previous_secret: Option<Box<[u8]>>,
    /// Key for `RS256`, `RS384` and `RS512`: a public key in PEM, of at least 2048 bits.
    pub rsa_public_pem: Option<Box<str>>,
    /// Key for `ES256` (P-256) or `ES384` (P-384): a public key in PEM.
    pub ecdsa_public_pem: Option<Box<str>>,
    /// Key for `EdDSA`: an Ed25519 public key in PEM.
    pub eddsa_public_pem: Option<Box<str>>,
    /// A set of public keys (a JWK Set), of which tokens name one (`kid`).
    pub key_set: Option<Box<str>>,
    /// Source of another set, which changes while the server runs.
    pub key_source: Option<Arc<dyn KeySource>>,
    pub audience: Option<Box<str>>,
    pub issuer: Option<Box<str>>,
    /// Seconds by which the clocks of issuer and server may differ (`exp`, `nbf`).
    pub leeway_s: u64,
    /// Whether tokens must expire (`exp`).
    pub require_exp: bool,
}

impl fmt::Debug for KeyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Secrets stay out of logs.
        f.debug_struct("KeyConfig").finish_non_exhaustive()
    }
}

/// Reason why a key cannot be used: a mistake of the operator, found at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("no token key is configured")]
    None,
    /// Anyone could sign with an empty secret.
    #[error("the HMAC secret is empty")]
    EmptySecret,
    #[error("this is a private key; give its public key")]
    Private,
    #[error("not an RSA key in PEM")]
    Rsa,
    #[error("the RSA key has fewer than {RSA_BITS_MIN} bits")]
    RsaTooSmall,
    #[error("not an ECDSA key on P-256 or P-384 in PEM")]
    Ecdsa,
    #[error("not an Ed25519 key in PEM")]
    Eddsa,
    #[error("{0}")]
    KeySet(#[from] KeySetError),
    /// The key serves other algorithms than the one that was asked for.
    #[error("the key does not fit the algorithm {0}")]
    WrongAlgorithm(Algorithm),
    #[error("the claims are not a JSON object")]
    Claims,
}

#[derive(Debug)]
pub(crate) struct Keys {
    /// Those outside of sets; of two for one algorithm the preferred one first.
    own: Vec<(Family, DecodingKey)>,
    pub(crate) set: Option<KeySet>,
    /// Source of the set that changes.
    pub(crate) source: Option<Arc<dyn KeySource>>,
}

impl Keys {
    pub(crate) fn parse(config: &KeyConfig) -> Result<Self, KeyError> {
        let mut own = Vec::new();
        let secrets = [&config.hmac_secret, &config.hmac_previous_secret];
        for secret in secrets.into_iter().flatten() {
            own.push((HMAC, hmac(secret)?));
        }
        own.extend(config.rsa_public_pem.as_deref().map(rsa).transpose()?);
        own.extend(config.ecdsa_public_pem.as_deref().map(ecdsa).transpose()?);
        own.extend(config.eddsa_public_pem.as_deref().map(eddsa).transpose()?);
        let set = config.key_set.as_deref().map(str::as_bytes);
        let keys = Self {
            own,
            set: set.map(KeySet::parse).transpose()?,
            source: config.key_source.clone(),
        };
        if keys.own.is_empty() && keys.set.is_none() && keys.source.is_none() {
            return Err(KeyError::None);
        }
        Ok(keys)
    }

    /// The keys outside of sets for this algorithm, the preferred one first; empty if it is not
    /// accepted.
    pub(crate) fn for_algorithm(&self, algorithm: Algorithm) -> Vec<&DecodingKey> {
        let serving = { self.own.iter() }.filter(|(family, _)| family.contains(&algorithm));
        serving.map(|(_, key)| key).collect()
    }
}

fn hmac(secret: &[u8]) -> Result<DecodingKey, KeyError> {
    if secret.is_empty() {
        return Err(KeyError::EmptySecret);
    }
    Ok(DecodingKey::from_secret(secret))
}

/// Parses an RSA key now: the library does it only when it checks a signature.
fn rsa(pem: &str) -> Result<(Family, DecodingKey), KeyError> {
    refuse_private(pem)?;
    let key = DecodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| KeyError::Rsa)?;
    let der = key.try_get_as_bytes().map_err(|_| KeyError::Rsa)?;
    let components = DEFAULT_PROVIDER
        .key_utils
        .rsa_pub_components_from_public_key;
    let (modulus, _) = components(der).map_err(|_| KeyError::Rsa)?;
    if bits(&modulus) < RSA_BITS_MIN {
        return Err(KeyError::RsaTooSmall);
    }
    Ok((RSA, key))
}

/// An uncompressed point is a byte and two coordinates (SEC 1 section 2.3.3); its length tells the
/// curve.
fn ecdsa(pem: &str) -> Result<(Family, DecodingKey), KeyError> {
    refuse_private(pem)?;
    let key = DecodingKey::from_ec_pem(pem.as_bytes()).map_err(|_| KeyError::Ecdsa)?;
    match key.try_get_as_bytes().map(<[u8]>::len) {
        Ok(65) => Ok((P256, key)),
        Ok(97) => Ok((P384, key)),
        _ => Err(KeyError::Ecdsa),
    }
}

fn eddsa(pem: &str) -> Result<(Family, DecodingKey), KeyError> {
    refuse_private(pem)?;
    let key = DecodingKey::from_ed_pem(pem.as_bytes()).map_err(|_| KeyError::Eddsa)?;
    match key.try_get_as_bytes().map(<[u8]>::len) {
        Ok(32) => Ok((ED25519, key)),
        _ => Err(KeyError::Eddsa),
    }
}

fn refuse_private(pem: &str) -> Result<(), KeyError> {
    if pem.contains("PRIVATE KEY-----") {
        return Err(KeyError::Private);
    }
    Ok(())
}
