//! Checks of the broker's options.

use super::Checks;
use crate::options::BrokerKind;

impl Checks<'_> {
    pub(super) fn broker(&mut self) {
        let broker = &self.config.broker;
        match (broker.kind, &broker.url) {
            (BrokerKind::Redis, None) if !self.failed_under("broker.url") => self.problem(
                "broker.kind",
                "broker.kind is \"redis\" without a server: add url = \"redis://host:port\"",
            ),
            (BrokerKind::Redis, Some(url)) if !url.expose().starts_with("redis://") => self.problem(
                "broker.url",
                "broker.url: only redis://user:password@host:port/db is supported, without TLS, \
                 sockets and Sentinel",
            ),
            (BrokerKind::Nats, None) if !self.failed_under("broker.url") => self.problem(
                "broker.kind",
                "broker.kind is \"nats\" without a server: add url = \"nats://host:port\"",
            ),
            (BrokerKind::Nats, Some(url)) if !url.expose().starts_with("nats://") => self.problem(
                "broker.url",
                "broker.url: with broker.kind = \"nats\" it is nats://user:password@host:port, \
                 without TLS",
            ),
            (BrokerKind::Memory, Some(_)) => self.warnings.push(
                "broker.url is not used: broker.kind is \"memory\"".to_owned(),
            ),
            _ => {}
        }
        let is_short = broker.prefix.is_empty() || broker.prefix.contains(['{', '}']);
        if is_short && !self.failed_under("broker.prefix") {
            self.problem(
                "broker.prefix",
                "broker.prefix must not be empty and has no braces",
            );
        }
    }
}
