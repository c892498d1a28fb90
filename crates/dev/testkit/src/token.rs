//! Tokens as a backend would make them, with code that the server does not share.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;

/// A JWT (RFC 7519) with these claims, signed with HS256.
///
/// # Panics
/// Never for a key of any length.
#[must_use]
pub fn sign(claims: &Value, secret: &str) -> String {
    let part = |json: &str| URL_SAFE_NO_PAD.encode(json);
    let signed = format!(
        "{}.{}",
        part(r#"{"alg":"HS256","typ":"JWT"}"#),
        part(&claims.to_string())
    );
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("a key of any length");
    mac.update(signed.as_bytes());
    let signature = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    format!("{signed}.{signature}")
}

/// Now, in Unix seconds.
#[must_use]
pub fn unix_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}
