//! The signature algorithms that tokens may carry, and how long an RSA key must be.

use std::fmt;

/// The smallest RSA modulus that is accepted, in bits (RFC 7518 section 3.3).
pub(crate) const RSA_BITS_MIN: usize = 2048;

/// Declares the algorithms: each with its name in tokens, and in the library that computes it.
macro_rules! algorithms {
    ($($(#[doc = $doc:literal])+ $algorithm:ident $name:literal $backend:ident;)+) => {
        /// The signature algorithms that tokens may carry (RFC 7518 section 3.1, RFC 8037 section
        /// 3.1).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Algorithm {
            $($(#[doc = $doc])+ $algorithm,)+
        }

        impl Algorithm {
            /// All algorithms that tokens may have.
            pub const ALL: [Self; 9] = [$(Self::$algorithm),+];

            /// The value of the header parameter `alg`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$algorithm => $name,)+
                }
            }

            pub(crate) const fn backend(self) -> jsonwebtoken::Algorithm {
                match self {
                    $(Self::$algorithm => jsonwebtoken::Algorithm::$backend,)+
                }
            }
        }
    };
}

algorithms! {
    /// HMAC with SHA-256 and a shared secret.
    Hs256 "HS256" HS256;
    /// HMAC with SHA-384 and a shared secret.
    Hs384 "HS384" HS384;
    /// HMAC with SHA-512 and a shared secret.
    Hs512 "HS512" HS512;
    /// RSA, PKCS #1 v1.5, with SHA-256.
    Rs256 "RS256" RS256;
    /// RSA, PKCS #1 v1.5, with SHA-384.
    Rs384 "RS384" RS384;
    /// RSA, PKCS #1 v1.5, with SHA-512.
    Rs512 "RS512" RS512;
    /// ECDSA on P-256 with SHA-256.
    Es256 "ES256" ES256;
    /// ECDSA on P-384 with SHA-384.
    Es384 "ES384" ES384;
    /// EdDSA with an Ed25519 key.
    EdDsa "EdDSA" EdDSA;
}

impl Algorithm {
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
