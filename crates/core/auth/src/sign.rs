//! Making tokens, for `throng token create` and for tests.
//!
//! Never: reads a clock. `iat` and `exp` are the caller's.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::EncodingKey;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Algorithm, KeyError};

#[derive(Clone, Copy)]
pub enum SigningKey<'a> {
    /// Secret for `HS256`, `HS384` and `HS512`.
    HmacSecret(&'a [u8]),
    /// Key for `RS256`, `RS384` and `RS512`: a private key in PEM (PKCS #1 or PKCS #8).
    RsaPem(&'a str),
    /// Key for `ES256` or `ES384`: a private key in PEM (PKCS #8).
    EcdsaPem(&'a str),
    /// Key for `EdDSA`: an Ed25519 private key in PEM (PKCS #8).
    EddsaPem(&'a str),
}

/// Claims of a new token; empty ones are left out. See [`crate::Claims`] for their meaning.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NewToken<'a> {
    /// The user, written even when empty: that is an anonymous user.
    pub sub: &'a str,
    /// End of the token's validity, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp: Option<u64>,
    /// Beginning of its validity, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbf: Option<u64>,
    /// Time of issue, in Unix seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iat: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aud: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iss: Option<&'a str>,
    /// The channel, which makes this a subscription token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<&'a RawValue>,
    /// Channels to be subscribed to from the start.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<AllowClaim<'a>>,
    /// Any other claims, as JSON values.
    #[serde(flatten)]
    pub other: BTreeMap<&'a str, serde_json::Value>,
}

/// The claim `allow` of a new token; see [`crate::Allow`].
#[derive(Clone, Debug, Default, Serialize)]
pub struct AllowClaim<'a> {
    pub subscribe: Vec<&'a str>,
    pub publish: Vec<&'a str>,
}

/// Signs claims: `header.payload.signature` (RFC 7515 section 3.1).
///
/// `claims` is anything that serialises to a JSON object, as a rule a [`NewToken`].
pub fn sign(
    claims: &impl Serialize,
    algorithm: Algorithm,
    key: SigningKey<'_>,
) -> Result<String, KeyError> {
    let key = encoding_key(algorithm, key)?;
    let claims = serde_json::to_vec(claims).map_err(|_| KeyError::Claims)?;
    if !claims.starts_with(b"{") {
        return Err(KeyError::Claims);
    }
    let mut token = String::new();
    let header = format!("{{\"alg\":\"{algorithm}\",\"typ\":\"JWT\"}}");
    URL_SAFE_NO_PAD.encode_string(header, &mut token);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(claims, &mut token);
    let signature = jsonwebtoken::crypto::sign(token.as_bytes(), &key, algorithm.backend())
        .map_err(|_| KeyError::WrongAlgorithm(algorithm))?;
    token.push('.');
    token.push_str(&signature);
    Ok(token)
}

fn encoding_key(algorithm: Algorithm, key: SigningKey<'_>) -> Result<EncodingKey, KeyError> {
    match (algorithm, key) {
        (
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512,
            SigningKey::HmacSecret(secret),
        ) => {
            if secret.is_empty() {
                return Err(KeyError::EmptySecret);
            }
            Ok(EncodingKey::from_secret(secret))
        }
        (Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512, SigningKey::RsaPem(pem)) => {
            EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| KeyError::Rsa)
        }
        (Algorithm::Es256 | Algorithm::Es384, SigningKey::EcdsaPem(pem)) => {
            EncodingKey::from_ec_pem(pem.as_bytes()).map_err(|_| KeyError::Ecdsa)
        }
        (Algorithm::EdDsa, SigningKey::EddsaPem(pem)) => {
            EncodingKey::from_ed_pem(pem.as_bytes()).map_err(|_| KeyError::Eddsa)
        }
        _ => Err(KeyError::WrongAlgorithm(algorithm)),
    }
}
