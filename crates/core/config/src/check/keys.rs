//! Checks of secrets and keys.

use super::Checks;
use crate::secret::signing_secret_fault;

impl Checks<'_> {
    /// Keys that stand in two places, secrets that can be guessed, blank keys.
    pub(super) fn keys(&mut self) {
        for key in [
            "hmac_secret",
            "hmac_previous_secret",
            "rsa_public_key",
            "ecdsa_public_key",
            "eddsa_public_key",
        ] {
            let text = format!("auth.{key}");
            let file = format!("auth.{key}_file");
            if self.is_set(&text) && self.is_set(&file) {
                let message = format!("{file}: {text} is set too; keep one of the two");
                self.problem(&file, message);
            }
        }
        let auth = &self.config.auth;
        for (path, secret) in [
            ("auth.hmac_secret", &auth.hmac_secret),
            ("auth.hmac_previous_secret", &auth.hmac_previous_secret),
        ] {
            let Some(fault) = secret.as_deref().and_then(signing_secret_fault) else {
                continue;
            };
            if auth.short_hmac_secret {
                self.warnings.push(format!("{path}: {fault}"));
            } else {
                self.problem(path, format!("{path}: {fault}"));
            }
        }
        if self
            .config
            .auth
            .api_keys
            .iter()
            .any(|key| key.trim().is_empty())
        {
            self.problem("auth.api_keys", "auth.api_keys: one of the keys is blank");
        }
    }
}
