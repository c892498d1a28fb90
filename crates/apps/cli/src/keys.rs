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

/// Tries every key of the configuration by itself; each fault names its option.
pub(crate) fn faults(auth: &Auth) -> Vec<String> {
    let all = key_config(auth);
    macro_rules! alone {
        ($option:literal, $field:ident) => {
            all.$field.clone().and_then(|key| {
                let alone = KeyConfig {
                    $field: Some(key),
                    ..KeyConfig::default()
                };
                let error = Verifier::new(alone).err()?;
                Some(format!("auth.{}: {error}", $option))
            })
        };
    }
    let faults = [
        alone!("hmac_secret", hmac_secret),
        alone!("rsa_public_key", rsa_public_pem),
        alone!("ecdsa_public_key", ecdsa_public_pem),
        alone!("eddsa_public_key", eddsa_public_pem),
        alone!("jwks", key_set),
    ];
    faults.into_iter().flatten().collect()
}
