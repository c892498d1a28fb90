//! Keys that tokens are checked with, and which algorithms each of them serves.

use std::fmt;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;

/// The smallest RSA modulus that is accepted, in bits (RFC 7518 section 3.3).
pub(crate) const RSA_BITS_MIN: usize = 2048;

/// The signature algorithms that tokens may carry (RFC 7518 section 3.1, RFC 8037 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256.
    Hs256,
    /// HMAC with SHA-384.
    Hs384,
    /// HMAC with SHA-512.
    Hs512,
    /// RSA, PKCS #1 v1.5, with SHA-256.
    Rs256,
    /// RSA, PKCS #1 v1.5, with SHA-384.
    Rs384,
    /// RSA, PKCS #1 v1.5, with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Every algorithm.
    pub const ALL: [Self; 9] = [
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// The value of the header parameter `alg`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hs256 => "HS256",
            Self::Hs384 => "HS384",
            Self::Hs512 => "HS512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// The inverse of [`Algorithm::name`]; names are case-sensitive (RFC 7515 section 4.1.1).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.name() == name)
    }

    pub(crate) const fn backend(self) -> jsonwebtoken::Algorithm {
        match self {
            Self::Hs256 => jsonwebtoken::Algorithm::HS256,
            Self::Hs384 => jsonwebtoken::Algorithm::HS384,
            Self::Hs512 => jsonwebtoken::Algorithm::HS512,
            Self::Rs256 => jsonwebtoken::Algorithm::RS256,
            Self::Rs384 => jsonwebtoken::Algorithm::RS384,
            Self::Rs512 => jsonwebtoken::Algorithm::RS512,
            Self::Es256 => jsonwebtoken::Algorithm::ES256,
            Self::Es384 => jsonwebtoken::Algorithm::ES384,
            Self::EdDsa => jsonwebtoken::Algorithm::EdDSA,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What tokens are checked against. An algorithm counts if its kind of key is here.
#[derive(Clone, Default)]
pub struct KeyConfig {
    /// For `HS256`, `HS384` and `HS512`.
    pub hmac_secret: Option<Box<[u8]>>,
    /// A second secret for the same, while tokens of the one before are still about.
    pub hmac_previous_secret: Option<Box<[u8]>>,
    /// For `RS256`, `RS384` and `RS512`: a public key in PEM, of at least 2048 bits.
    pub rsa_public_pem: Option<Box<str>>,
    /// For `ES256` (P-256) or `ES384` (P-384): a public key in PEM.
    pub ecdsa_public_pem: Option<Box<str>>,
    /// For `EdDSA`: an Ed25519 public key in PEM.
    pub eddsa_public_pem: Option<Box<str>>,
    /// Tokens must name this audience (`aud`).
    pub audience: Option<Box<str>>,
    /// Tokens must come from this issuer (`iss`).
    pub issuer: Option<Box<str>>,
    /// By how many seconds the clocks of issuer and server may differ (`exp`, `nbf`).
    pub leeway_s: u64,
    /// Tokens must expire (`exp`).
    pub require_exp: bool,
}

/// Secrets stay out of logs.
impl fmt::Debug for KeyConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyConfig")
            .field("hmac_secret", &self.hmac_secret.as_ref().map(|_| "set"))
            .field(
                "hmac_previous_secret",
                &self.hmac_previous_secret.as_ref().map(|_| "set"),
            )
            .field("rsa_public_pem", &self.rsa_public_pem)
            .field("ecdsa_public_pem", &self.ecdsa_public_pem)
            .field("eddsa_public_pem", &self.eddsa_public_pem)
            .field("audience", &self.audience)
            .field("issuer", &self.issuer)
            .field("leeway_s", &self.leeway_s)
            .field("require_exp", &self.require_exp)
            .finish()
    }
}

/// Why a key cannot be used: the operator's mistake, found at start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing to check tokens with.
    #[error("no token key is configured")]
    None,
    /// Anyone could sign with an empty secret.
    #[error("the HMAC secret is empty")]
    EmptySecret,
    /// A private key where the public one belongs.
    #[error("this is a private key; give its public key")]
    Private,
    /// Not a PEM text of an RSA key.
    #[error("not an RSA key in PEM")]
    Rsa,
    /// An RSA key that is too small to be safe.
    #[error("the RSA key has fewer than {RSA_BITS_MIN} bits")]
    RsaTooSmall,
    /// Not a PEM text of a P-256 or P-384 key.
    #[error("not an ECDSA key on P-256 or P-384 in PEM")]
    Ecdsa,
    /// Not a PEM text of an Ed25519 key.
    #[error("not an Ed25519 key in PEM")]
    Eddsa,
    /// The key serves other algorithms than the one that was asked for.
    #[error("the key does not fit the algorithm {0}")]
    WrongAlgorithm(Algorithm),
    /// The claims are not a JSON object.
    #[error("the claims are not a JSON object")]
    Claims,
}

/// The keys of a [`KeyConfig`], parsed.
#[derive(Debug)]
pub(crate) struct Keys {
    hmac: Vec<DecodingKey>,
    rsa: Option<DecodingKey>,
    ecdsa: Option<(Algorithm, DecodingKey)>,
    eddsa: Option<DecodingKey>,
}

impl Keys {
    pub(crate) fn parse(config: &KeyConfig) -> Result<Self, KeyError> {
        let secrets = [&config.hmac_secret, &config.hmac_previous_secret];
        let keys = Self {
            hmac: secrets
                .into_iter()
                .flatten()
                .map(|s| hmac(s))
                .collect::<Result<_, _>>()?,
            rsa: config.rsa_public_pem.as_deref().map(rsa).transpose()?,
            ecdsa: config.ecdsa_public_pem.as_deref().map(ecdsa).transpose()?,
            eddsa: config.eddsa_public_pem.as_deref().map(eddsa).transpose()?,
        };
        if keys.hmac.is_empty()
            && keys.rsa.is_none()
            && keys.ecdsa.is_none()
            && keys.eddsa.is_none()
        {
            return Err(KeyError::None);
        }
        Ok(keys)
    }

    /// The keys that serve this algorithm, the preferred one first; none if it does not count here.
    pub(crate) fn for_algorithm(&self, algorithm: Algorithm) -> &[DecodingKey] {
        let one = match algorithm {
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => return &self.hmac,
            Algorithm::Rs256 | Algorithm::Rs384 | Algorithm::Rs512 => self.rsa.as_ref(),
            Algorithm::Es256 | Algorithm::Es384 => self
                .ecdsa
                .as_ref()
                .filter(|(curve, _)| *curve == algorithm)
                .map(|(_, key)| key),
            Algorithm::EdDsa => self.eddsa.as_ref(),
        };
        one.map_or(&[], std::slice::from_ref)
    }
}

fn hmac(secret: &[u8]) -> Result<DecodingKey, KeyError> {
    if secret.is_empty() {
        return Err(KeyError::EmptySecret);
    }
    Ok(DecodingKey::from_secret(secret))
}

/// The library looks into the key only when it checks a signature, so look now.
fn rsa(pem: &str) -> Result<DecodingKey, KeyError> {
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
    Ok(key)
}

/// An uncompressed point is a byte and two coordinates (SEC 1 section 2.3.3); its length tells the
/// curve.
fn ecdsa(pem: &str) -> Result<(Algorithm, DecodingKey), KeyError> {
    refuse_private(pem)?;
    let key = DecodingKey::from_ec_pem(pem.as_bytes()).map_err(|_| KeyError::Ecdsa)?;
    let algorithm = match key.try_get_as_bytes().map(<[u8]>::len) {
        Ok(65) => Algorithm::Es256,
        Ok(97) => Algorithm::Es384,
        _ => return Err(KeyError::Ecdsa),
    };
    Ok((algorithm, key))
}

fn eddsa(pem: &str) -> Result<DecodingKey, KeyError> {
    refuse_private(pem)?;
    let key = DecodingKey::from_ed_pem(pem.as_bytes()).map_err(|_| KeyError::Eddsa)?;
    match key.try_get_as_bytes().map(<[u8]>::len) {
        Ok(32) => Ok(key),
        _ => Err(KeyError::Eddsa),
    }
}

fn refuse_private(pem: &str) -> Result<(), KeyError> {
    if pem.contains("PRIVATE KEY-----") {
        return Err(KeyError::Private);
    }
    Ok(())
}

/// The length of a big-endian number without its leading zeros.
fn bits(number: &[u8]) -> usize {
    let significant = number.iter().skip_while(|byte| **byte == 0).count();
    let zeros = number
        .iter()
        .find(|byte| **byte != 0)
        .map_or(0, |byte| byte.leading_zeros());
    significant * 8 - zeros as usize
}
