//! Algorithms of signatures, and sets of public keys (JWK Sets, RFC 7517): the choice of the key
//! for a token, and the times to fetch a set, regularly and when a token names a key that is not in
//! it.
//!
//! Owns: the keys, and the times of the last fetch. Never: fetches a set, which a [`KeySource`]
//! provides, or reads a clock.
//!
//! A set comes from the operator of the issuer, and may have keys for other purposes. RFC 7517
//! section 5 says to leave out what is not understood, so one odd key does not cost the others;
//! a set of which nothing is left is none.
//!
//! Invariants
//! - A key in a set is public, and for signatures: secrets (`oct`) and private keys are left out,
//!   since anyone who can read the set could sign with them.
//! - A token is checked with one key of a set at most, however many there are.
//! - A key serves its own family of algorithms, and if it names one (`alg`) that one alone.
//! - Two fetches begin at least [`RefreshOptions::interval_min_ms`] apart, whatever keys tokens
//!   name: strangers choose those.

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519 as ED25519_CURVE, ParsedPublicKey,
    VerificationAlgorithm,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use throng_types::{Millis, coded_enum};

/// The longest set that is read, in bytes. Issuers' sets have a few kilobytes, with certificates
/// some tens.
pub const KEY_SET_BYTES_MAX: usize = 256 << 10;
/// Maximum number of keys in a set; those that are left out count too.
pub const KEY_SET_KEYS_MAX: usize = 64;

/// Size of the largest RSA modulus that the library checks with, in bits.
const RSA_BITS_MAX: usize = 8192;

/// The smallest RSA modulus that is accepted, in bits (RFC 7518 section 3.3).
pub(crate) const RSA_BITS_MIN: usize = 2048;

coded_enum! {
    /// The signature algorithms that tokens may carry (RFC 7518 section 3.1, RFC 8037 section 3.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Algorithm {
        /// Its name in the library that computes it.
        fn backend -> jsonwebtoken::Algorithm;
        /// The value of the header parameter `alg`.
        fn name;
        Hs256 = jsonwebtoken::Algorithm::HS256, "HS256";
        Hs384 = jsonwebtoken::Algorithm::HS384, "HS384";
        Hs512 = jsonwebtoken::Algorithm::HS512, "HS512";
        Rs256 = jsonwebtoken::Algorithm::RS256, "RS256";
        Rs384 = jsonwebtoken::Algorithm::RS384, "RS384";
        Rs512 = jsonwebtoken::Algorithm::RS512, "RS512";
        Es256 = jsonwebtoken::Algorithm::ES256, "ES256";
        Es384 = jsonwebtoken::Algorithm::ES384, "ES384";
        EdDsa = jsonwebtoken::Algorithm::EdDSA, "EdDSA";
    }
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
    pub(crate) fn is_asymmetric(self) -> bool {
        !HMAC.contains(&self)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Algorithms that one key serves.
pub(crate) type Family = &'static [Algorithm];

pub(crate) const HMAC: Family = &[Algorithm::Hs256, Algorithm::Hs384, Algorithm::Hs512];
pub(crate) const RSA: Family = &[Algorithm::Rs256, Algorithm::Rs384, Algorithm::Rs512];
pub(crate) const P256: Family = &[Algorithm::Es256];
pub(crate) const P384: Family = &[Algorithm::Es384];
pub(crate) const ED25519: Family = &[Algorithm::EdDsa];

/// The length of a big-endian number without its leading zeros.
pub(crate) fn bits(number: &[u8]) -> usize {
    let significant = number.iter().skip_while(|byte| **byte == 0).count();
    let zeros = number
        .iter()
        .find(|byte| **byte != 0)
        .map_or(0, |byte| byte.leading_zeros());
    significant * 8 - zeros as usize
}

/// Source of keys that change while the server runs.
pub trait KeySource: fmt::Debug + Send + Sync {
    fn keys(&self) -> Arc<KeySet>;

    /// Asks for a fetch, since a token has named a key that the set does not have; ignored directly
    /// after another one. Called for each such token, so it costs little.
    fn want(&self);
}

/// Reason why a text is not a set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    #[error("a set of keys has {KEY_SET_BYTES_MAX} bytes at most")]
    TooLong,
    /// Not an object with a list `keys` (RFC 7517 section 5).
    #[error("not a set of keys: a JSON object with a list `keys`")]
    Malformed,
    /// More than [`KEY_SET_KEYS_MAX`]. None is left out silently: it could be the one in use.
    #[error("a set has {KEY_SET_KEYS_MAX} keys at most")]
    TooMany,
    #[error("none of its keys can check a token: public RSA, P-256, P-384 or Ed25519 for signing")]
    NoneUsable,
}

/// A set of public keys; tokens name one of them.
#[derive(Debug, Default)]
pub struct KeySet {
    /// Usable keys in the order of the set. Bound: [`KEY_SET_KEYS_MAX`].
    keys: Vec<Key>,
    unused: usize,
}

#[derive(Debug)]
struct Key {
    id: Option<Box<str>>,
    family: Family,
    /// The only algorithm that the key is for, if it names one.
    only: Option<Algorithm>,
    key: DecodingKey,
}

#[derive(Debug)]
pub(crate) enum Choice<'a> {
    Key(&'a DecodingKey),
    /// The named key is for other algorithms, or the token names none and no key is for its
    /// algorithm.
    Unfit,
    /// The token names no key, and several would fit.
    Unnamed,
    /// No key has the name that the token gives.
    Unknown,
}

impl KeySet {
    /// Reads a set.
    ///
    /// # Errors
    /// See [`KeySetError`].
    pub fn parse(json: &[u8]) -> Result<Self, KeySetError> {
        if json.len() > KEY_SET_BYTES_MAX {
            return Err(KeySetError::TooLong);
        }
        let raw: RawSet<'_> = serde_json::from_slice(json).map_err(|_| KeySetError::Malformed)?;
        if raw.keys.len() > KEY_SET_KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let keys: Vec<Key> = { raw.keys.iter() }
            .filter_map(|raw| serde_json::from_str::<RawKey>(raw.get()).ok()?.usable())
            .collect();
        if keys.is_empty() {
            return Err(KeySetError::NoneUsable);
        }
        let unused = raw.keys.len() - keys.len();
        Ok(Self { keys, unused })
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether the set is empty, as before the first answer of an issuer.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Number of keys that were left out, since they are for other purposes, not understood, too
    /// weak, or not public.
    #[must_use]
    pub const fn unused(&self) -> usize {
        self.unused
    }

    /// The names of the keys, in the order of the set; a key may have none.
    pub fn ids(&self) -> impl Iterator<Item = Option<&str>> {
        self.keys.iter().map(|key| key.id.as_deref())
    }

    /// The key for a token's header. The first of two with one name and one family counts.
    pub(crate) fn choose(&self, id: Option<&str>, algorithm: Algorithm) -> Choice<'_> {
        let fits = |key: &&Key| {
            key.family.contains(&algorithm) && key.only.is_none_or(|only| only == algorithm)
        };
        let Some(id) = id else {
            let mut fitting = self.keys.iter().filter(fits);
            return match (fitting.next(), fitting.next()) {
                (Some(key), None) => Choice::Key(&key.key),
                (Some(_), Some(_)) => Choice::Unnamed,
                (None, _) => Choice::Unfit,
            };
        };
        let named = |key: &&Key| key.id.as_deref() == Some(id);
        let mut all = self.keys.iter().filter(named).peekable();
        if all.peek().is_none() {
            return Choice::Unknown;
        }
        all.find(fits)
            .map_or(Choice::Unfit, |key| Choice::Key(&key.key))
    }
}

/// A set; keys are read one by one, as each may be of a kind of its own.
#[derive(Deserialize)]
struct RawSet<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

/// Members of a key that are used (RFC 7517 section 4, RFC 7518 section 6, RFC 8037 section 2).
#[derive(Deserialize)]
struct RawKey {
    kty: String,
    kid: Option<Box<str>>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
    /// Only private keys have this member.
    d: Option<IgnoredAny>,
}

impl RawKey {
    fn usable(self) -> Option<Key> {
        let for_signatures = { self.purpose.as_deref() }.is_none_or(|purpose| purpose == "sig");
        let may_verify = |ops: &Vec<String>| ops.iter().any(|operation| operation == "verify");
        if !for_signatures || !self.key_ops.as_ref().is_none_or(may_verify) || self.d.is_some() {
            return None;
        }
        let only = match &self.alg {
            None => None,
            Some(name) => Some(Algorithm::from_name(name)?),
        };
        let (family, key) = match (&*self.kty, self.crv.as_deref()) {
            ("RSA", _) => (RSA, self.rsa()?),
            ("EC", Some("P-256")) => (P256, self.point(32, &ECDSA_P256_SHA256_FIXED)?),
            ("EC", Some("P-384")) => (P384, self.point(48, &ECDSA_P384_SHA384_FIXED)?),
            ("OKP", Some("Ed25519")) => (ED25519, self.ed25519()?),
            _ => return None,
        };
        if only.is_some_and(|only| !family.contains(&only)) {
            return None;
        }
        Some(Key {
            id: self.kid,
            family,
            only,
            key,
        })
    }

    fn rsa(&self) -> Option<DecodingKey> {
        let [modulus, exponent] = [number(&self.n)?, number(&self.e)?];
        let is_odd = exponent.last().is_some_and(|last| last % 2 == 1);
        let sound = (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits(&modulus))
            && is_odd
            && (2..=33).contains(&bits(&exponent));
        sound.then(|| DecodingKey::from_rsa_raw_components(&modulus, &exponent))
    }

    /// An uncompressed point (SEC 1 section 2.3.3), whose coordinates have their full length (RFC
    /// 7518 section 6.2.1.2). The library says whether it is on the curve.
    fn point(
        &self,
        coordinate_bytes: usize,
        curve: &'static dyn VerificationAlgorithm,
    ) -> Option<DecodingKey> {
        let [x, y] = [number(&self.x)?, number(&self.y)?];
        if x.len() != coordinate_bytes || y.len() != coordinate_bytes {
            return None;
        }
        let point = [&[4][..], &x, &y].concat();
        ParsedPublicKey::new(curve, &point).ok()?;
        Some(DecodingKey::from_ec_der(&point))
    }

    fn ed25519(&self) -> Option<DecodingKey> {
        let key = number(&self.x).filter(|key| key.len() == 32)?;
        ParsedPublicKey::new(&ED25519_CURVE, &key).ok()?;
        Some(DecodingKey::from_ed_der(&key))
    }
}

/// A big-endian number in base64url (RFC 7518 section 2).
fn number(text: &Option<String>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text.as_deref()?).ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefreshOptions {
    /// Milliseconds from the end of one good fetch to the next.
    pub interval_ms: u64,
    /// Minimum milliseconds from the beginning of one fetch to the next. After failures the pause
    /// grows from here to [`RefreshOptions::interval_ms`].
    pub interval_min_ms: u64,
}

/// Schedule of a set that is fetched from time to time.
#[derive(Clone, Copy, Debug)]
pub struct Refresh {
    options: RefreshOptions,
    began: Option<Millis>,
    /// Time of the next fetch if no token asks for an earlier one.
    next: Millis,
    /// Number of failures in a row.
    failures: u32,
}

impl Refresh {
    /// Schedules the first fetch at once.
    #[must_use]
    pub const fn new(options: RefreshOptions) -> Self {
        Self {
            options,
            began: None,
            next: Millis(0),
            failures: 0,
        }
    }

    /// Time of the next fetch; `is_wanted` is set after a token has named a key that is not there.
    #[must_use]
    pub fn due(&self, is_wanted: bool) -> Millis {
        let Some(began) = self.began else {
            return Millis(0);
        };
        let earliest = began + self.options.interval_min_ms;
        match is_wanted {
            true => earliest,
            false => Millis(self.next.0.max(earliest.0)),
        }
    }

    pub const fn begin(&mut self, now: Millis) {
        self.began = Some(now);
    }

    pub fn end(&mut self, is_good: bool, now: Millis) {
        let RefreshOptions {
            interval_ms,
            interval_min_ms,
        } = self.options;
        let pause_ms = if is_good {
            self.failures = 0;
            interval_ms
        } else {
            let times = 1_u64.checked_shl(self.failures).unwrap_or(u64::MAX);
            self.failures = self.failures.saturating_add(1);
            interval_min_ms.saturating_mul(times).min(interval_ms)
        };
        self.next = now + pause_ms;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const OPTIONS: RefreshOptions = RefreshOptions {
        interval_ms: 600_000,
        interval_min_ms: 10_000,
    };

    #[test]
    fn it_is_fetched_at_once_and_then_at_the_interval() {
        let mut refresh = Refresh::new(OPTIONS);
        assert_eq!(refresh.due(false), Millis(0));
        refresh.begin(Millis(50));
        refresh.end(true, Millis(80));
        assert_eq!(refresh.due(false), Millis(600_080));
    }

    #[test]
    fn an_unknown_key_brings_it_forward_and_not_without_bound() {
        let mut refresh = Refresh::new(OPTIONS);
        refresh.begin(Millis(50));
        // Also while a fetch is under way: its result may be from before the key.
        assert_eq!(refresh.due(true), Millis(10_050));
        refresh.end(true, Millis(80));
        assert_eq!(refresh.due(true), Millis(10_050));
    }

    #[test]
    fn after_failures_the_pause_grows_to_the_interval() {
        let mut refresh = Refresh::new(OPTIONS);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            refresh.begin(Millis(1000));
            refresh.end(false, Millis(1000));
            pauses.push(refresh.due(false).0 - 1000);
        }
        let seconds = [10, 20, 40, 80, 160, 320, 600, 600, 600];
        assert_eq!(pauses, seconds.map(|s| s * 1000));
        refresh.begin(Millis(1000));
        refresh.end(true, Millis(1000));
        refresh.end(false, Millis(1000));
        assert_eq!(refresh.due(false), Millis(11_000));
    }

    proptest! {
        /// With any requests from tokens, fetches begin so far apart; and one is always due in the
        /// end.
        #[test]
        fn fetches_are_apart(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0_u64..5000), 1..200),
        ) {
            let mut refresh = Refresh::new(OPTIONS);
            let (mut now, mut last) = (Millis(0), None::<Millis>);
            for (is_wanted, is_good, takes_ms) in steps {
                let due = refresh.due(is_wanted);
                prop_assert!(due.0 <= now.0 + OPTIONS.interval_ms);
                now = Millis(now.0.max(due.0));
                if let Some(last) = last {
                    prop_assert!(now.0 - last.0 >= OPTIONS.interval_min_ms);
                }
                refresh.begin(now);
                last = Some(now);
                now.0 += takes_ms;
                refresh.end(is_good, now);
            }
        }
    }
}
