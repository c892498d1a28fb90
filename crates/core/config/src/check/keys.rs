//! Checks of secrets and keys.

use std::net::IpAddr;

use super::Checks;
use crate::secret::{PRINTED, is_published, signing_secret_fault};

impl Checks<'_> {
    /// Checks for keys given twice, secrets that can be guessed, blank keys.
    pub(super) fn keys(&mut self) {
        for key in [
            "hmac_secret",
            "hmac_previous_secret",
            "rsa_public_key",
            "ecdsa_public_key",
            "eddsa_public_key",
            "jwks",
        ] {
            let text = format!("auth.{key}");
            let file = format!("auth.{key}_file");
            if self.is_set(&text) && self.is_set(&file) {
                self.wrong(&file, format!("{text} is set too; keep one of the two"));
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
                self.warn(format!("{path}: {fault}"));
            } else {
                self.wrong(path, fault);
            }
        }
        self.printed();
        self.key_set();
        if { auth.api_keys.iter() }.any(|key| key.trim().is_empty()) {
            self.wrong("auth.api_keys", "one of the keys is blank");
        }
    }

    /// Checks for secrets and keys printed in the documentation: only a warning on loopback, where
    /// its commands run.
    fn printed(&mut self) {
        let auth = &self.config.auth;
        let secrets = [
            ("auth.hmac_secret", auth.hmac_secret.as_slice()),
            (
                "auth.hmac_previous_secret",
                auth.hmac_previous_secret.as_slice(),
            ),
            ("auth.api_keys", &auth.api_keys),
        ];
        for (path, secrets) in secrets {
            if !secrets.iter().any(|secret| is_published(secret)) {
                continue;
            }
            match self.config.exposed() {
                true => self.wrong(path, PRINTED),
                false => self.warn(format!("{path}: {PRINTED}")),
            }
        }
    }

    /// Checks the options for fetching a set of keys.
    fn key_set(&mut self) {
        let auth = &self.config.auth;
        let Some(url) = &auth.jwks_url else {
            return;
        };
        if auth.jwks_refresh_interval_min_ms > auth.jwks_refresh_interval_ms {
            let text = "it is longer than auth.jwks_refresh_interval";
            self.wrong("auth.jwks_refresh_interval_min", text);
        }
        if url.starts_with("http://") && !is_of_this_machine(url) {
            self.warn(
                "auth.jwks_url: without TLS an attacker on the network path can add a key, and \
                 sign tokens with it: use https://",
            );
        }
    }
}

/// Whether a URL's host is this machine.
fn is_of_this_machine(url: &str) -> bool {
    let authority = url.strip_prefix("http://").unwrap_or_default();
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}
