//! From the section `[auth]` to keys that check tokens.

use throng_auth::{KeyConfig, Verifier};
use throng_config::Auth;

/// RFC 7518 section 3.2: a key for HS256 has at least the 256 bits of its hash.
const HMAC_SECRET_BYTES_MIN: usize = 32;

/// The keys, after the files were read.
pub(crate) fn key_config(auth: &Auth) -> KeyConfig {
    let text = |text: &Option<String>| text.as_deref().map(Box::from);
    KeyConfig {
        hmac_secret: auth
            .hmac_secret
            .as_ref()
            .map(|secret| secret.expose().as_bytes().into()),
        hmac_previous_secret: None,
        rsa_public_pem: text(&auth.rsa_public_key),
        ecdsa_public_pem: text(&auth.ecdsa_public_key),
        eddsa_public_pem: text(&auth.eddsa_public_key),
        audience: text(&auth.audience),
        issuer: text(&auth.issuer),
        leeway_s: 0,
    }
}

/// What is wrong with each key, by its option.
pub(crate) fn faults(auth: &Auth) -> Vec<String> {
    let all = key_config(auth);
    let none = KeyConfig::default;
    let each = [
        (
            "hmac_secret",
            all.hmac_secret.is_some(),
            KeyConfig {
                hmac_secret: all.hmac_secret,
                ..none()
            },
        ),
        (
            "rsa_public_key",
            all.rsa_public_pem.is_some(),
            KeyConfig {
                rsa_public_pem: all.rsa_public_pem,
                ..none()
            },
        ),
        (
            "ecdsa_public_key",
            all.ecdsa_public_pem.is_some(),
            KeyConfig {
                ecdsa_public_pem: all.ecdsa_public_pem,
                ..none()
            },
        ),
        (
            "eddsa_public_key",
            all.eddsa_public_pem.is_some(),
            KeyConfig {
                eddsa_public_pem: all.eddsa_public_pem,
                ..none()
            },
        ),
    ];
    let set = each.into_iter().filter(|(_, is_set, _)| *is_set);
    set.filter_map(|(option, _, key)| {
        let error = Verifier::new(key).err()?;
        Some(format!("auth.{option}: {error}"))
    })
    .collect()
}

/// A secret that can be guessed. The configuration warns of one in its own text, so this is about
/// files.
pub(crate) fn warning(auth: &Auth) -> Option<String> {
    let short = |secret: &&throng_config::Secret| secret.len() < HMAC_SECRET_BYTES_MIN;
    auth.hmac_secret_file.as_ref()?;
    auth.hmac_secret.as_ref().filter(short)?;
    Some(format!(
        "auth.hmac_secret_file: the secret is shorter than {HMAC_SECRET_BYTES_MIN} bytes and can be guessed; \
         make one with `openssl rand -hex 32`"
    ))
}
