//! Tokens as a backend would make them, with code that the server does not share.

use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

/// A JWT (RFC 7519) with these claims, signed with HS256.
pub fn sign(claims: &Value, secret: &str) -> String {
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let signed = format!(
        "{}.{}",
        part(r#"{"alg":"HS256","typ":"JWT"}"#),
        part(&claims.to_string())
    );
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// Now, in Unix seconds.
pub fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
