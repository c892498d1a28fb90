//! Claims of a `Grip-Sig`, and the forms of its key. Signing is done elsewhere.

use serde::Serialize;
use throng_types::{Now, hex_byte};

use crate::value::decode_base64;

/// Lifetime of a signature, in seconds.
pub const SIG_TTL_S: u64 = 3600;

/// The claims of the token in `Grip-Sig`, in the order in which they are written.
#[derive(Serialize)]
pub struct SigClaims<'c> {
    /// Unix time in seconds at which the signature ends.
    exp: u64,
    /// Issuer: `sig_iss`, by default `pushpin`.
    iss: &'c str,
}

impl<'c> SigClaims<'c> {
    /// Claims for a request that leaves now.
    #[must_use]
    pub fn new(iss: &'c str, now: Now) -> Self {
        Self {
            exp: now.unix_s() + SIG_TTL_S,
            iss,
        }
    }
}

/// A key as configuration writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyText {
    /// Bytes of a shared secret (HS256), or a PEM text (ES256, RS256): see [`is_pem`].
    Bytes(Vec<u8>),
    /// A file to read: [`KeyText::of_file`] says what is in it.
    File(String),
}

/// A key text that cannot be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigKeyError {
    #[error("the key is not base64")]
    NotBase64,
}

impl KeyText {
    /// Reads `literal`, `base64:...` or `file:path`. None if empty: nothing is signed.
    pub fn parse(text: &str) -> Result<Option<Self>, SigKeyError> {
        if text.is_empty() {
            return Ok(None);
        }
        if let Some(path) = text.strip_prefix("file:") {
            return Ok(Some(Self::File(path.to_owned())));
        }
        let bytes = match text.strip_prefix("base64:") {
            Some(base64) => decode_base64(base64).ok_or(SigKeyError::NotBase64)?,
            None => text.as_bytes().to_vec(),
        };
        Ok(Some(Self::Bytes(bytes)))
    }

    /// The key in a file: a PEM text as it is, else the bytes of a secret written in hexadecimal
    /// digits, else the trimmed text itself.
    #[must_use]
    pub fn of_file(content: &[u8]) -> Vec<u8> {
        let content = content.trim_ascii();
        if is_pem(content) {
            return content.to_vec();
        }
        let (pairs, rest) = content.as_chunks::<2>();
        let bytes = pairs.iter().map(|&[high, low]| hex_byte(high, low));
        match bytes.collect::<Option<Vec<u8>>>() {
            Some(bytes) if rest.is_empty() => bytes,
            _ => content.to_vec(),
        }
    }
}

/// Tells whether a key is a PEM text, and so asymmetric.
#[must_use]
pub fn is_pem(key: &[u8]) -> bool {
    key.starts_with(b"-----BEGIN ")
}

#[cfg(test)]
mod tests {
    use throng_types::Millis;

    use super::*;

    #[test]
    fn claims() {
        let now = Now {
            mono: Millis(5),
            unix_ms: 1_700_000_000_999,
        };
        let claims = SigClaims::new("pushpin", now);
        let json = serde_json::to_string(&claims).unwrap();
        assert_eq!(json, r#"{"exp":1700003600,"iss":"pushpin"}"#);
    }

    #[test]
    fn keys() {
        assert_eq!(KeyText::parse(""), Ok(None));
        assert_eq!(
            KeyText::parse("changeme"),
            Ok(Some(KeyText::Bytes(b"changeme".to_vec())))
        );
        assert_eq!(
            KeyText::parse("base64:aGk="),
            Ok(Some(KeyText::Bytes(b"hi".to_vec())))
        );
        assert_eq!(KeyText::parse("base64:%"), Err(SigKeyError::NotBase64));
        assert_eq!(
            KeyText::parse("file:k.pem"),
            Ok(Some(KeyText::File("k.pem".to_owned())))
        );
        assert_eq!(KeyText::of_file(b"00fF\n"), [0, 255]);
        assert_eq!(KeyText::of_file(b"secret\n"), b"secret");
        assert_eq!(KeyText::of_file(b"abc"), b"abc");
        assert!(is_pem(&KeyText::of_file(b"-----BEGIN PRIVATE KEY-----\n")));
    }
}
