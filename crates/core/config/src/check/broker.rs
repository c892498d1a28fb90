//! Checks of the broker's options.

use super::Checks;
use crate::options::{Acknowledge, BrokerKind};
use crate::sources::Origin;

const REDIS: &[&str] = &[
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "rediss+sentinel://",
    "redis+cluster://",
    "rediss+cluster://",
];
const NATS: &[&str] = &["nats://", "tls://"];

fn is(url: &str, schemes: &[&str]) -> bool {
    schemes.iter().any(|scheme| url.starts_with(scheme))
}

/// Whether Sentinels would be asked for a master without a name.
fn lacks_master(url: &str) -> bool {
    let rest = url.split_once("+sentinel://").map(|(_, rest)| rest);
    rest.is_some_and(|rest| {
        let path = rest.split_once('/').map_or("", |(_, path)| path);
        path.is_empty() || path.starts_with('/')
    })
}

impl Checks<'_> {
    pub(super) fn broker(&mut self) {
        let broker = &self.config.broker;
        match (broker.kind, &broker.url) {
            (BrokerKind::Redis, None) if !self.failed_under("broker.url") => self.problem(
                "broker.kind",
                "broker.kind is \"redis\" without a server: add url = \"redis://host:port\"",
            ),
            (BrokerKind::Redis, Some(url)) if !is(url.expose(), REDIS) => self.wrong(
                "broker.url",
                "with broker.kind = \"redis\" it is \
                 redis://user:password@host:port/db, rediss://, redis+sentinel:// or \
                 redis+cluster://",
            ),
            (BrokerKind::Redis, Some(url)) if lacks_master(url.expose()) => self.wrong(
                "broker.url",
                "Sentinels need the name of a master: write \
                 redis+sentinel://HOST:PORT,HOST:PORT/MASTER",
            ),
            (BrokerKind::Nats, None) if !self.failed_under("broker.url") => self.problem(
                "broker.kind",
                "broker.kind is \"nats\" without a server: add url = \"nats://host:port\"",
            ),
            (BrokerKind::Nats, Some(url)) if !is(url.expose(), NATS) => self.wrong(
                "broker.url",
                "with broker.kind = \"nats\" it is nats://user:password@host:port or \
                 tls://",
            ),
            (BrokerKind::Memory, Some(_)) => {
                self.warn("broker.url is not used: broker.kind is \"memory\"");
            }
            _ => {}
        }
        if broker.credentials.is_some() && broker.kind != BrokerKind::Nats {
            self.warn("broker.credentials is not used: broker.kind is not \"nats\"");
        }
        if self.config.history.path.is_some() && broker.kind != BrokerKind::Memory {
            // A packaged unit sets the variable for every server.
            if let Origin::Env(name) = self.origins.get("history.path") {
                self.warn(format!("{name} is not used: the broker keeps the history"));
            } else {
                let text = "the broker keeps the history; remove one of the two";
                self.wrong("history.path", text);
            }
        }
        let keeps_on_disk = self.config.history.path.is_some() && broker.kind == BrokerKind::Memory;
        let waits = self.config.history.acknowledge != Acknowledge::Memory;
        if waits && !keeps_on_disk && !self.failed_under("history.path") {
            let text = "it needs history on disk; set history.path";
            self.wrong("history.acknowledge", text);
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
