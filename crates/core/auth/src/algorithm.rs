//! The signature algorithms that tokens may carry, and how long an RSA key must be.

use std::fmt;

/// The smallest RSA modulus that is accepted, in bits (RFC 7518 section 3.3).
pub(crate) const RSA_BITS_MIN: usize = 2048;

/// The signature algorithms that tokens may carry (RFC 7518 section 3.1, RFC 8037 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// HMAC with SHA-256 and a shared secret.
    Hs256,
    /// HMAC with SHA-384 and a shared secret.
    Hs384,
    /// HMAC with SHA-512 and a shared secret.
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
    /// EdDSA with an Ed25519 key.
    EdDsa,
}

impl Algorithm {
    /// All algorithms that tokens may have.
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

    /// Whether signing and checking need different keys.
    pub(crate) const fn is_asymmetric(self) -> bool {
        !matches!(self, Self::Hs256 | Self::Hs384 | Self::Hs512)
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

/// The length of a big-endian number without its leading zeros.
pub(crate) fn bits(number: &[u8]) -> usize {
    let significant = number.iter().skip_while(|byte| **byte == 0).count();
    let zeros = number
        .iter()
        .find(|byte| **byte != 0)
        .map_or(0, |byte| byte.leading_zeros());
    significant * 8 - zeros as usize
}
