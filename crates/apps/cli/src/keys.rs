//! From the section `[auth]` to keys that check tokens.

use throng_auth::{KeyConfig, Verifier};
use throng_config::{Auth, Secret};

/// The keys, after the files were read, and without those that are to be fetched.
pub(crate) fn key_config(auth: &Auth) -> KeyConfig {
    let text = |text: &Option<String>| text.as_deref().map(Box::from);
    let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.as_bytes().into());
    KeyConfig {
        hmac_secret: secret(&auth.hmac_secret),
        hmac_previous_secret: secret(&auth.hmac_previous_secret),
        rsa_public_pem: text(&auth.rsa_public_key),
        ecdsa_public_pem: text(&auth.ecdsa_public_key),
        eddsa_public_pem: text(&auth.eddsa_public_key),
        key_set: text(&auth.jwks),
        key_source: None,
        audience: text(&auth.audience),
        issuer: text(&auth.issuer),
        leeway_s: auth.leeway_ms / 1000,
        require_exp: auth.require_exp,
    }
}

/// Returns the faults of the keys, each with its option.
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
        (
            "jwks",
            all.key_set.is_some(),
            KeyConfig {
                key_set: all.key_set,
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
