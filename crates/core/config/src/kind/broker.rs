//! The addresses of a broker elsewhere.

use toml::de::DeValue;

use super::text::{RedisUrl, TextKind as _, host_of};
use super::{Fault, Given, Kind, Rule, quoted};
use crate::secret::Secret;

/// The addresses of Redis or NATS servers, with commas between. They may hold a password, so they
/// are a secret.
pub(crate) struct BrokerUrl;

/// Whether this may be a Redis, or a cluster of them.
fn redis(text: &str) -> Option<()> {
    let schemes = ["redis+cluster://", "rediss+cluster://"];
    let hosts = { schemes.iter() }.find_map(|scheme| text.trim().strip_prefix(scheme));
    match hosts {
        Some(hosts) => (!hosts.is_empty()).then_some(()),
        None => RedisUrl::of(text).map(drop),
    }
}

impl BrokerUrl {
    fn of(text: &str) -> Option<Secret> {
        let text = text.trim();
        let is_nats = |server: &str| host_of(server.trim(), &["nats://", "tls://"]).is_some();
        if is_nats(text) {
            return text.split(',').all(is_nats).then(|| Secret::from(text));
        }
        // A comma within an address of Sentinels or of a cluster has no address behind it.
        let mut at = 0;
        while let Some(comma) = text.get(at..)?.find(',') {
            let (head, tail) = text.split_at_checked(at + comma)?;
            if tail.get(1..)?.trim_start().starts_with("redis") {
                Self::of(tail.get(1..)?)?;
                return redis(head).map(|()| Secret::from(text));
            }
            at += comma + 1;
        }
        redis(text).map(|()| Secret::from(text))
    }
}

impl Kind for BrokerUrl {
    type Field = Secret;
    const LIST: bool = true;

    fn name() -> String {
        "list of URLs".to_owned()
    }

    fn expected(_: &Rule) -> String {
        "a URL such as \"redis://user:password@127.0.0.1:6379/0\" or \"nats://127.0.0.1:4222\", or \
         several of one kind"
            .to_owned()
    }

    fn read(given: &Given<'_>, rule: &Rule) -> Result<Secret, Fault> {
        let text = match given {
            Given::Toml(value) => match value.get_ref() {
                DeValue::Array(items) => {
                    let items = items.iter().map(|item| item.get_ref().as_str());
                    items.collect::<Option<Vec<_>>>().map(|urls| urls.join(","))
                }
                other => other.as_str().map(str::to_owned),
            },
            Given::Text(text) => Some((*text).to_owned()),
        };
        { text.as_deref() }
            .and_then(Self::of)
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &Secret) -> Option<String> {
        Some(quoted(value.expose()))
    }
}
