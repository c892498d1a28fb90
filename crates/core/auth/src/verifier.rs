//! From a token's text to its claims, or to the reason why not.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::claims::Claims;
use crate::fault::TokenFault;
use crate::keys::{Algorithm, KeyConfig, KeyError, Keys};

/// Checks tokens against one set of keys.
#[derive(Debug)]
pub struct Verifier {
    keys: Keys,
    audience: Option<Box<str>>,
    issuer: Option<Box<str>>,
    leeway_s: u64,
    require_exp: bool,
}

/// The header parameters that matter here (RFC 7515 section 4.1). Keys named by a token are never
/// used.
#[derive(Deserialize)]
struct Header {
    alg: String,
    crit: Option<IgnoredAny>,
}

impl Verifier {
    /// Parses the keys, so that a bad one is found at start and not at the first token.
    pub fn new(config: KeyConfig) -> Result<Self, KeyError> {
        Ok(Self {
            keys: Keys::parse(&config)?,
            audience: config.audience,
            issuer: config.issuer,
            leeway_s: config.leeway_s,
            require_exp: config.require_exp,
        })
    }

    /// Checks signature, audience, issuer and time, in this order, and gives the claims.
    ///
    /// [`TokenFault::Expired`] therefore says that all else was in order. A token without `exp`
    /// does not expire, unless the configuration asks for one. [`Claims::exp`] has the leeway
    /// added, so that a session does not end before its token does.
    pub fn verify(&self, token: &str, now_unix_s: u64) -> Result<Claims, TokenFault> {
        self.check(token, now_unix_s).1
    }

    /// The same as [`Verifier::verify`], and which signature had to be computed for it, if any:
    /// that is what the check cost.
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
        let (message, signature) = token.rsplit_once('.').ok_or(TokenFault::Malformed)?;
        let (header, payload) = message.split_once('.').ok_or(TokenFault::Malformed)?;
        self.check_signature((header, message, signature), computed)?;
        let (mut claims, audience) = Claims::parse(&decode(payload)?)?;
        if let Some(wanted) = &self.audience
            && !audience.aud.contains(wanted)
        {
            return Err(TokenFault::Audience);
        }
        if self.issuer.is_some() && audience.iss != self.issuer {
            return Err(TokenFault::Issuer);
        }
        claims.exp = claims.exp.map(|exp| exp.saturating_add(self.leeway_s));
        self.check_time(&claims, now_unix_s)?;
        Ok(claims)
    }

    fn check_signature(
        &self,
        (header, message, signature): (&str, &str, &str),
        computed: &mut Option<Algorithm>,
    ) -> Result<(), TokenFault> {
        let header: Header =
            serde_json::from_slice(&decode(header)?).map_err(|_| TokenFault::Malformed)?;
        // Extensions that must be understood are not (RFC 7515 section 4.1.11).
        if header.crit.is_some() {
            return Err(TokenFault::Malformed);
        }
        let algorithm = Algorithm::from_name(&header.alg).ok_or(TokenFault::Algorithm)?;
        let keys = self.keys.for_algorithm(algorithm);
        if keys.is_empty() {
            return Err(TokenFault::Algorithm);
        }
        decode(signature)?;
        *computed = Some(algorithm);
        let good = keys.iter().any(|key| {
            jsonwebtoken::crypto::verify(signature, message.as_bytes(), key, algorithm.backend())
                .unwrap_or(false)
        });
        if good {
            Ok(())
        } else {
            Err(TokenFault::Signature)
        }
    }

    /// The moment `exp` itself is too late (RFC 7519 section 4.1.4), the moment `nbf` is early
    /// enough (4.1.5).
    fn check_time(&self, claims: &Claims, now_unix_s: u64) -> Result<(), TokenFault> {
        match claims.exp {
            Some(end) if now_unix_s >= end => return Err(TokenFault::Expired),
            None if self.require_exp => return Err(TokenFault::NoExpiry),
            _ => {}
        }
        if claims
            .nbf
            .is_some_and(|nbf| now_unix_s.saturating_add(self.leeway_s) < nbf)
        {
            return Err(TokenFault::NotYetValid);
        }
        Ok(())
    }
}

/// Base64 for URLs, without padding (RFC 7515 section 2).
fn decode(part: &str) -> Result<Vec<u8>, TokenFault> {
    URL_SAFE_NO_PAD
        .decode(part)
        .map_err(|_| TokenFault::Malformed)
}
