//! Checks of secrets, keys and TLS options. Certificates are checked where the files are read.

use std::net::IpAddr;

use super::{Checks, NAMESPACE_BYTES_MAX, is_name};
use crate::layout::element;
use crate::secret::{PRINTED, Secret, is_published, signing_secret_fault};

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
        self.named_keys();
    }

    /// Checks for named keys without a name, key or role, and for two that are the same.
    fn named_keys(&mut self) {
        let auth = &self.config.auth;
        for (index, key) in auth.named_api_keys.iter().enumerate() {
            let path = element("auth.api_key", index);
            let at = |key: &str| format!("{path}.{key}");
            let before = &auth.named_api_keys[..index];
            if !self.is_set(&at("name")) {
                self.problem(&path, format!("{path} has no name: add name = \"…\""));
            } else if !is_name(&key.name, NAMESPACE_BYTES_MAX) {
                self.wrong(
                    &at("name"),
                    "expected 1 to 64 ASCII letters, digits, \"-\", \"_\" or \".\"",
                );
            } else if before.iter().any(|other| other.name == key.name) {
                self.wrong(&at("name"), format!("{:?} appears twice", key.name));
            }
            if key.roles.is_empty() && !self.failed_under(&at("roles")) {
                let message = format!("{path} is for no call: add roles = [\"read\"]");
                self.problem(&path, message);
            }
            let all = self.config.namespaces.iter().map(|it| &it.name);
            let is_known = |name: &&String| all.clone().any(|known| known == *name);
            if let Some(name) = key.namespaces.iter().find(|name| !is_known(name)) {
                self.wrong(&at("namespaces"), format!("there is no namespace {name:?}"));
            }
            self.app_of(&at("app"), key.app.as_ref());
            match (self.is_set(&at("key")), &key.key_file) {
                (false, None) => {
                    let message = format!("{path} has no key: add key_file = \"…\"");
                    self.problem(&path, message);
                }
                (true, Some(_)) => {
                    self.wrong(&at("key_file"), format!("{path}.key is set too; keep one"));
                }
                _ => {}
            }
            let mut others = before.iter().filter_map(|other| other.key.as_ref());
            let is_same = |other: &Secret| key.key.as_ref() == Some(other);
            if others.any(is_same) || auth.api_keys.iter().any(is_same) {
                self.wrong(&at("key"), "another key of the server API is the same");
            }
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
        let secrets = secrets.map(|(path, secrets)| (path.to_owned(), secrets));
        let named = auth.named_api_keys.iter().enumerate();
        let named = named.map(|(at, it)| (element("auth.api_key", at) + ".key", it.key.as_slice()));
        let apps = self.config.apps.iter().enumerate().flat_map(|(at, app)| {
            let path = element("app", at);
            [
                (path.clone() + ".secret", app.secret.as_slice()),
                (path + ".previous_secret", app.previous_secret.as_slice()),
            ]
        });
        let secrets = secrets.into_iter().chain(named).chain(apps);
        for (path, secrets) in secrets {
            if !secrets.iter().any(|secret| is_published(secret)) {
                continue;
            }
            match self.config.exposed() {
                true => self.wrong(&path, PRINTED),
                false => self.warn(format!("{path}: {PRINTED}")),
            }
        }
    }

    /// Checks that a provider of OpenID can be asked, and that it lets somebody in.
    pub(super) fn oidc(&mut self) {
        let Some(oidc) = &self.config.oidc else {
            return;
        };
        for (key, value) in [
            ("issuer", &oidc.issuer),
            ("client_id", &oidc.client_id),
            ("redirect_url", &oidc.redirect_url),
        ] {
            if value.is_none() && !self.failed_under("oidc.") {
                self.problem("oidc", format!("[oidc] has no {key}: add {key} = \"…\""));
            }
        }
        for (path, url) in [
            ("oidc.issuer", &oidc.issuer),
            ("oidc.redirect_url", &oidc.redirect_url),
        ] {
            if let Some(url) = url
                && url.starts_with("http://")
                && !is_of_this_machine(url)
            {
                self.warn(format!(
                    "{path}: without TLS an attacker on the network path can sign in: use https://"
                ));
            }
        }
        if !oidc.scopes.iter().any(|scope| scope == "openid") {
            self.wrong("oidc.scopes", "\"openid\" is missing");
        }
        let roles = [&oidc.metrics, &oidc.read, &oidc.publish, &oidc.admin];
        if roles.iter().all(|texts| texts.is_empty()) {
            self.warn("[oidc] lets nobody in: set oidc.read, oidc.admin or another role");
        }
        // Without keys the port is open anyway.
        if !self.config.auth.api_keys_set() {
            let text = "[oidc] needs a key of the server API: set auth.api_keys";
            self.problem("oidc", text);
        }
    }

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

impl Checks<'_> {
    pub(super) fn tls(&mut self) {
        if self.failed_under("tls.") || self.failed_under("listen.") {
            return;
        }
        let (listen, tls) = (&self.config.listen, &self.config.tls);
        let clients = listen.client.iter().filter(|listener| listener.is_tls);
        let api = [&listen.api].into_iter().filter(|listener| listener.is_tls);
        let spoken: Vec<_> = { clients.map(|listener| ("listen.client", listener)) }
            .chain(api.map(|listener| ("listen.api", listener)))
            .collect();
        match (&tls.certificate, &tls.key) {
            (Some(_), None) => {
                self.wrong("tls.certificate", "its key is missing: set tls.key");
            }
            (None, Some(_)) => {
                self.wrong("tls.key", "its certificate is missing: set tls.certificate");
            }
            _ => {}
        }
        let has_any = tls.certificate.is_some() || !tls.sites.is_empty();
        if let [(option, listener), ..] = &spoken[..]
            && !has_any
            && tls.key.is_none()
        {
            let text = format!("{listener} needs a certificate: set tls.certificate and tls.key");
            self.wrong(option, text);
        }
        if spoken.is_empty() && has_any {
            self.warn(
                "[tls] has a certificate, but no address in [listen] begins with tls://: it is \
                 not used",
            );
        }
        if tls.api_client_authorities.is_some() && !listen.api.is_tls {
            self.wrong(
                "tls.api_client_authorities",
                "callers can show certificates only by TLS: put tls:// before listen.api",
            );
        }
        self.sites();
    }

    fn sites(&mut self) {
        let sites = self.config.tls.sites.iter();
        self.distinct(
            ("tls.site", "name"),
            None,
            sites.map(|it| it.name.to_ascii_lowercase()),
        );
        for index in 0..self.config.tls.sites.len() {
            let path = element("tls.site", index);
            for key in ["certificate", "key"] {
                if !self.is_set(&format!("{path}.{key}")) {
                    self.problem(&path, format!("{path} has no {key}: add {key} = \"…\""));
                }
            }
        }
    }
}
