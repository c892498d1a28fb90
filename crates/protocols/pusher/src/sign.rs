//! Signatures: HMAC-SHA256 under a secret of the app, in hexadecimal digits, behind its key.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign, verify};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// Public key of an app, and its secrets. Signatures by any of them are good, so that a new secret
/// can replace an old one while both are in use.
#[derive(Clone)]
pub struct AppKeys {
    key: Box<str>,
    secrets: Box<[Key]>,
}

impl AppKeys {
    /// Takes the secrets, the first of which signs what the server sends. Without one nothing is
    /// signed, and no signature is good.
    #[must_use]
    pub fn new<'a>(key: &str, secrets: impl IntoIterator<Item = &'a str>) -> Self {
        let secrets = secrets.into_iter();
        Self {
            key: key.into(),
            secrets: secrets
                .map(|secret| Key::new(HMAC_SHA256, secret.as_bytes()))
                .collect(),
        }
    }

    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether `auth` is `KEY:SIGNATURE` of the message, compared in constant time.
    #[must_use]
    pub fn admits(&self, auth: &str, message: &str) -> bool {
        let pair = auth.split_once(':');
        pair.is_some_and(|(key, signature)| {
            *key == *self.key && self.has_signed(signature, message)
        })
    }

    /// Whether one of the secrets has made this signature, compared in constant time.
    #[must_use]
    pub fn has_signed(&self, signature: &str, message: &str) -> bool {
        let tag = HEXLOWER_PERMISSIVE
            .decode(signature.as_bytes())
            .unwrap_or_default();
        let has_signed = |secret: &Key| verify(secret, message.as_bytes(), &tag).is_ok();
        self.secrets.iter().any(has_signed)
    }

    /// Signs a message with the first secret, for webhooks and tests; empty without one.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> String {
        let signed = self.secrets.first().map(|secret| sign(secret, message));
        signed.map_or_else(String::new, |tag| HEXLOWER.encode(tag.as_ref()))
    }
}

/// Prints the key alone; the secrets stay secret.
impl std::fmt::Debug for AppKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AppKeys({})", self.key)
    }
}

/// Message that a back end signs to let a connection into a channel. `channel_data` is the exact
/// text that the client sent.
#[must_use]
pub fn channel_message(socket_id: &str, channel: &str, channel_data: Option<&str>) -> String {
    match channel_data {
        Some(data) => format!("{socket_id}:{channel}:{data}"),
        None => format!("{socket_id}:{channel}"),
    }
}

/// Message that a back end signs to say who a connection's user is.
#[must_use]
pub fn user_message(socket_id: &str, user_data: &str) -> String {
    format!("{socket_id}::user::{user_data}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Examples of Pusher's page "Auth signatures".
    #[test]
    fn signatures_of_the_documentation() {
        let keys = AppKeys::new("278d425bdf160c739803", ["7ad3773142a6692b25b8"]);
        let private = channel_message("1234.1234", "private-foobar", None);
        let signature = "58df8b0c36d6982b82c3ecf6b4662e34fe8c25bba48f5369f135bf843651c3a4";
        assert!(keys.admits(&format!("278d425bdf160c739803:{signature}"), &private));
        assert_eq!(keys.sign(private.as_bytes()), signature);
        let data = r#"{"user_id":10,"user_info":{"name":"Mr. Channels"}}"#;
        let presence = channel_message("1234.1234", "presence-foobar", Some(data));
        let signature = "31935e7d86dba64c2a90aed31fdc61869f9b22ba9d8863bba239c03ca481bc80";
        assert!(keys.has_signed(signature, &presence));
    }

    #[test]
    fn another_key_secret_or_message_is_refused() {
        let keys = AppKeys::new("key", ["new", "old"]);
        let signed = |secret| AppKeys::new("key", [secret]).sign(b"1.2:private-a");
        for (auth, is_good) in [
            (format!("key:{}", signed("new")), true),
            (format!("key:{}", signed("old")), true),
            (format!("key:{}", signed("new").to_uppercase()), true),
            (format!("key:{}", signed("other")), false),
            (format!("yek:{}", signed("new")), false),
            (signed("new"), false),
            ("key:".to_owned(), false),
            ("key:zz".to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(keys.admits(&auth, "1.2:private-a"), is_good, "{auth}");
            assert!(!keys.admits(&auth, "1.2:private-b"), "{auth}");
        }
        assert!(!AppKeys::new("key", []).admits("key:", "1.2:private-a"));
        assert_eq!(user_message("1.2", "{}"), "1.2::user::{}");
    }
}
