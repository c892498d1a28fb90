//! What a client's JWT says of itself, after Appwrite has verified it.
//!
//! Appwrite looks at a token once, when its client connects; the connection outlives it. Never:
//! verifies. Whoever reads claims has Appwrite's word that the token is good, or does without.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

/// The claims that say how long a token is good for, and for which session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenClaims {
    /// When it ends, in Unix seconds.
    #[serde(default)]
    exp: Option<u64>,
    /// The session that it stands for.
    #[serde(default)]
    pub session_id: Option<String>,
}

impl TokenClaims {
    /// Reads the second part of a token; nothing if it is none of Appwrite's.
    #[must_use]
    pub fn read(jwt: &str) -> Option<Self> {
        let payload = jwt.split('.').nth(1)?;
        let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_over(&self, now_unix_ms: u64) -> bool {
        self.exp
            .is_some_and(|exp| now_unix_ms >= exp.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(payload: &str) -> String {
        format!(
            "eyJhbGciOiJIUzI1NiJ9.{}.sig",
            URL_SAFE_NO_PAD.encode(payload)
        )
    }

    #[test]
    fn claims() {
        let own = token(r#"{"userId":"U","sessionId":"S","exp":1700000000}"#);
        let claims = TokenClaims::read(&own).unwrap();
        assert_eq!(claims.session_id.as_deref(), Some("S"));
        assert!(!claims.is_over(1_699_999_999_999) && claims.is_over(1_700_000_000_000));
        let endless = TokenClaims::read(&token("{}")).unwrap();
        assert!(!endless.is_over(u64::MAX));
        for wrong in [
            "",
            "a",
            "a.b.c",
            "a.%.c",
            &token("7"),
            &token(r#"{"exp":-1}"#),
        ] {
            assert_eq!(TokenClaims::read(wrong), None, "{wrong}");
        }
    }
}
