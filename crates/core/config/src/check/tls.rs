//! Checks of TLS options. The certificates are checked where the files are read.

use std::collections::BTreeSet;

use super::Checks;
use crate::layout::element;

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
        let mut seen = BTreeSet::new();
        for (index, site) in self.config.tls.sites.iter().enumerate() {
            let path = element("tls.site", index);
            for key in ["name", "certificate", "key"] {
                if !self.is_set(&format!("{path}.{key}")) {
                    self.problem(&path, format!("{path} has no {key}: add {key} = \"…\""));
                }
            }
            if !site.name.is_empty() && !seen.insert(site.name.to_ascii_lowercase()) {
                self.wrong(
                    &format!("{path}.name"),
                    format!("{} appears twice", site.name),
                );
            }
        }
    }
}
