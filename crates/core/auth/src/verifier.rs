//! Checks a token, and gives its claims or the reason for its refusal.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::claims::{Audience, Claims, RegisteredClaims, TokenFault};
use crate::key_set::{Algorithm, Choice};
use crate::keys::{KeyConfig, KeyError, Keys};

#[derive(Debug)]
pub struct Verifier {
    keys: Keys,
    config: KeyConfig,
}

/// Header parameters that are used (RFC 7515 section 4.1). Keys in a token, or addresses of keys,
/// are never used.
#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<IgnoredAny>,
}

impl Verifier {
    /// Parses the keys, so that a bad one is found at start and not at the first token.
    pub fn new(config: KeyConfig) -> Result<Self, KeyError> {
        let keys = Keys::parse(&config)?;
        Ok(Self { keys, config })
    }

    /// Checks signature, audience, issuer and time, in this order, and gives the claims.
    ///
    /// [`TokenFault::Expired`] therefore says that all else was in order. A token is expired from
    /// the second of its `exp` on; one without does not expire, unless the configuration asks for
    /// one. [`Claims::exp`] has the leeway added, so that a session does not end before its token
    /// does.
    pub fn verify(&self, token: &str, now_unix_s: u64) -> Result<Claims, TokenFault> {
        self.check(token, now_unix_s).1
    }

    /// Checks like [`Verifier::verify`], and also gives the algorithm of the signature that was
    /// computed, if any: it is the cost of the check.
    pub fn check(
        &self,
        token: &str,
        now_unix_s: u64,
    ) -> (Option<Algorithm>, Result<Claims, TokenFault>) {
        let mut computed = None;
        let checked = self.check_all(token, now_unix_s, &mut computed);
        (computed, checked)
    }

    fn check_all(
        &self,
        token: &str,
        now_unix_s: u64,
        computed: &mut Option<Algorithm>,
    ) -> Result<Claims, TokenFault> {
        let (mut claims, audience) = Claims::parse(&self.signed(token, computed)?)?;
        self.check_audience(&audience)?;
        claims.exp = claims
            .exp
            .map(|exp| exp.saturating_add(self.config.leeway_s));
        self.check_time((claims.exp, claims.nbf), now_unix_s)?;
        Ok(claims)
    }

    /// Checks a token that is none of ours, such as the ID token of an OpenID provider, like
    /// [`Verifier::verify`], and gives the JSON of its claims.
    pub fn payload(&self, token: &str, now_unix_s: u64) -> Result<Vec<u8>, TokenFault> {
        let payload = self.signed(token, &mut None)?;
        let RegisteredClaims { exp, nbf, audience } = RegisteredClaims::parse(&payload)?;
        self.check_audience(&audience)?;
        let exp = exp.map(|exp| exp.saturating_add(self.config.leeway_s));
        self.check_time((exp, nbf), now_unix_s)?;
        Ok(payload)
    }

    /// The payload of a token, once the signature over it was found good.
    fn signed(&self, token: &str, computed: &mut Option<Algorithm>) -> Result<Vec<u8>, TokenFault> {
        let (message, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(TokenFault::Malformed)?;
        self.check_signature((header, message, signature), computed)?;
        decode(payload)
    }

    fn check_audience(&self, audience: &Audience) -> Result<(), TokenFault> {
        if let Some(wanted) = &self.config.audience
            && !audience.aud.contains(wanted)
        {
            return Err(TokenFault::Audience);
        }
        if self.config.issuer.is_some() && audience.iss != self.config.issuer {
            return Err(TokenFault::Issuer);
        }
        Ok(())
    }

    fn check_signature(
        &self,
        (header, message, signature): (&str, &str, &str),
        computed: &mut Option<Algorithm>,
    ) -> Result<(), TokenFault> {
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| TokenFault::Malformed)?;
        // No extension is supported, so one that must be understood is refused (RFC 7515 section
        // 4.1.11).
        if header.crit.is_some() {
            return Err(TokenFault::Malformed);
        }
        let algorithm = Algorithm::from_name(&header.alg).ok_or(TokenFault::Algorithm)?;
        let signed = Signed {
            message,
            signature,
            algorithm,
        };
        self.check_by(header.kid.as_deref(), &signed, computed)
    }

    /// Looks for the key. A key that the token names in a set is the only one that counts; keys
    /// outside of sets have no names.
    fn check_by(
        &self,
        id: Option<&str>,
        signed: &Signed<'_>,
        computed: &mut Option<Algorithm>,
    ) -> Result<(), TokenFault> {
        let algorithm = signed.algorithm;
        let source = self
            .keys
            .source
            .as_deref()
            .filter(|_| algorithm.is_asymmetric());
        let fetched = source.map(|source| (source, source.keys()));
        let sets = self.keys.set.as_ref().filter(|_| algorithm.is_asymmetric());
        let (mut is_unknown, mut is_unnamed) = (false, false);
        for set in sets
            .into_iter()
            .chain(fetched.as_ref().map(|(_, set)| &**set))
        {
            match set.choose(id, algorithm) {
                Choice::Key(key) => return signed.check_with(&[key], computed),
                Choice::Unfit => {}
                Choice::Unnamed => is_unnamed = true,
                Choice::Unknown => is_unknown = true,
            }
        }
        let keys = self.keys.for_algorithm(algorithm);
        let checked = match keys.is_empty() {
            true => Err(TokenFault::Algorithm),
            false => signed.check_with(&keys, computed),
        };
        let Err(fault) = checked else {
            return Ok(());
        };
        match fetched {
            // An empty set has not been fetched yet, so any token's key is unknown.
            Some((source, set)) if is_unknown || set.is_empty() => {
                decode(signed.signature)?;
                source.want();
                Err(TokenFault::UnknownKey)
            }
            _ if is_unknown => Err(TokenFault::Signature),
            _ if is_unnamed && keys.is_empty() => Err(TokenFault::UnnamedKey),
            _ => Err(fault),
        }
    }

    /// The moment `exp` itself is too late (RFC 7519 section 4.1.4), the moment `nbf` is early
    /// enough (4.1.5).
    fn check_time(
        &self,
        (exp, nbf): (Option<u64>, Option<u64>),
        now_unix_s: u64,
    ) -> Result<(), TokenFault> {
        match exp {
            Some(end) if now_unix_s >= end => return Err(TokenFault::Expired),
            None if self.config.require_exp => return Err(TokenFault::NoExpiry),
            _ => {}
        }
        if nbf.is_some_and(|nbf| now_unix_s.saturating_add(self.config.leeway_s) < nbf) {
            return Err(TokenFault::NotYetValid);
        }
        Ok(())
    }
}

/// Parts of a token that its signature covers, and the signature.
struct Signed<'a> {
    message: &'a str,
    signature: &'a str,
    algorithm: Algorithm,
}

impl Signed<'_> {
    fn check_with(
        &self,
        keys: &[&DecodingKey],
        computed: &mut Option<Algorithm>,
    ) -> Result<(), TokenFault> {
        decode(self.signature)?;
        *computed = Some(self.algorithm);
        let (message, algorithm) = (self.message.as_bytes(), self.algorithm.backend());
        let is_by = |key: &&DecodingKey| {
            jsonwebtoken::crypto::verify(self.signature, message, key, algorithm).unwrap_or(false)
        };
        match keys.iter().any(is_by) {
            true => Ok(()),
            false => Err(TokenFault::Signature),
        }
    }
}

/// Base64 for URLs, without padding (RFC 7515 section 2).
fn decode(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenFault::Malformed)
}
