//! Options of a webhook: where it goes, what it tells, and how it is signed.

use std::sync::Arc;

use aws_lc_rs::hmac::{HMAC_SHA256, Key};
use data_encoding::BASE64;
use throng_backend::Address;
use throng_broker::HookEvent;
use throng_pusher::AppKeys;
use throng_types::ChannelName;

/// Channels that a webhook may tell of.
#[derive(Clone, Debug)]
pub enum HookScope {
    /// Those whose names begin with one of these, which receivers do not see.
    App(Arc<[Box<str>]>),
    /// Those of the namespaces; an empty one is that of channels without a namespace. Without any
    /// all channels but those of `closed` namespaces.
    Namespaces {
        names: Arc<[Box<str>]>,
        closed: Arc<[&'static str]>,
    },
}

/// Decides which events a webhook tells.
#[derive(Clone, Debug)]
pub struct HookFilter {
    pub scope: HookScope,
    /// Beginnings of the names that receivers see; none for all.
    pub prefixes: Arc<[Box<str>]>,
    /// Bit set of places in [`HookEvent::NAMES`].
    pub kinds: u8,
}

impl HookFilter {
    /// A channel's name as receivers see it; `None` if they do not hear of it.
    #[must_use]
    pub fn name<'a>(&self, channel: &'a ChannelName) -> Option<&'a str> {
        let whole = channel.as_str();
        let name = match &self.scope {
            // A user's own channel is nobody's business.
            HookScope::App(prefixes) => { prefixes.iter() }
                .find_map(|prefix| whole.strip_prefix(&**prefix))
                .filter(|name| !name.starts_with('#'))?,
            HookScope::Namespaces { names, closed } => {
                let namespace = channel.namespace();
                let is_in = match names.is_empty() {
                    true => namespace.is_none_or(|namespace| !closed.contains(&namespace)),
                    false => names.iter().any(|name| **name == *namespace.unwrap_or("")),
                };
                is_in.then_some(whole)?
            }
        };
        let is_wanted = self.prefixes.is_empty()
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(&**prefix));
        is_wanted.then_some(name)
    }

    /// Whether receivers hear of an event.
    #[must_use]
    pub fn asks(&self, event: &HookEvent) -> bool {
        self.kinds & (1 << event.kind()) != 0
    }

    /// Whether the webhook needs to know of an event: it tells that, or the end of that state.
    #[must_use]
    pub fn needs(&self, event: &HookEvent) -> bool {
        let kinds = match event {
            HookEvent::Occupied { .. } => 0b11,
            HookEvent::Member { user, .. } if user.is_empty() => 0,
            HookEvent::Member { .. } => 0b1100,
            HookEvent::Client { .. } | HookEvent::CacheMiss { .. } => 1 << event.kind(),
        };
        self.kinds & kinds != 0 && self.name(event.channel()).is_some()
    }
}

/// Secret of a Standard Webhook.
#[derive(Clone)]
pub struct StandardKey(pub(crate) Key);

impl StandardKey {
    /// Reads `whsec_` and Base64; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64
            .decode(text.strip_prefix("whsec_")?.as_bytes())
            .ok()?;
        (!bytes.is_empty()).then(|| Self(Key::new(HMAC_SHA256, &bytes)))
    }
}

/// Prints nothing of the secret.
impl std::fmt::Debug for StandardKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StandardKey")
    }
}

#[derive(Clone, Debug)]
pub struct Webhook {
    /// Differs from that of every other webhook; found again in a journal.
    pub name: Box<str>,
    pub address: Address,
    pub filter: HookFilter,
    /// Signs by `X-Pusher-Key` and `X-Pusher-Signature`.
    pub app: Option<AppKeys>,
    /// Signs by `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    pub standard: Option<StandardKey>,
    /// Time for which the end of a state must last before it is told, in milliseconds.
    pub settle_ms: u64,
    /// Time for an answer, in milliseconds.
    pub timeout_ms: u64,
}
