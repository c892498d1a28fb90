//! Options of a webhook: where it goes, what it tells, and how it is signed.

use std::sync::Arc;

use aws_lc_rs::hmac::{HMAC_SHA256, Key};
use data_encoding::BASE64;
use throng_backend::Address;
use throng_broker::HookEvent;
use throng_pusher::AppKeys;
use throng_types::ChannelName;

/// Channels that a webhook may tell of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookScope {
    /// Channels of an app: their names begin with one of these, which is cut off for receivers.
    App(Arc<[Box<str>]>),
    /// Channels of these namespaces, the empty one for channels without a namespace. If there are
    /// no `names`, all channels but those of `closed` namespaces.
    Namespaces {
        names: Arc<[Box<str>]>,
        closed: Arc<[&'static str]>,
    },
}

/// Filter of the events that a webhook tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookFilter {
    pub scope: HookScope,
    /// Beginnings of the names that receivers see; none for all.
    pub prefixes: Arc<[Box<str>]>,
    /// Set of the events, by bit: that of an event is its place in [`HookEvent::NAMES`].
    pub kinds: u16,
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

    /// Whether an event of this kind is told, in any channel.
    #[must_use]
    pub fn asks(&self, event: &HookEvent) -> bool {
        self.kinds & (1 << event.kind()) != 0
    }

    /// Whether the webhook needs to know of an event: it tells the event, or the other end of its
    /// state, in this channel or app. Members without a user are not told of, nodes to all.
    #[must_use]
    pub fn needs(&self, event: &HookEvent) -> bool {
        let kinds = match event {
            HookEvent::Member { user, .. } if user.is_empty() => 0,
            HookEvent::Occupied { is_on, .. } | HookEvent::Member { is_on, .. } => {
                0b11 << (event.kind() - usize::from(!*is_on))
            }
            _ => 1 << event.kind(),
        };
        self.kinds & kinds != 0 && self.shown(event).is_some()
    }

    /// Name of an event's channel as receivers see it, if it has one; `None` if they do not hear of
    /// the event.
    pub(crate) fn shown<'a>(&self, event: &'a HookEvent) -> Option<Option<&'a str>> {
        match (event.channel(), event, &self.scope) {
            (Some(channel), ..) => self.name(channel).map(Some),
            (_, HookEvent::Connection(it), HookScope::App(prefixes)) => {
                prefixes.contains(&it.scope).then_some(None)
            }
            (_, HookEvent::Connection(it), _) => it.scope.is_empty().then_some(None),
            _ => Some(None),
        }
    }
}

/// Secret of a Standard Webhook.
#[derive(Clone)]
pub struct StandardKey(pub(crate) Key);

impl StandardKey {
    /// Reads `whsec_` and one byte or more in Base64; `None` for anything else.
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

/// One webhook: a receiver, the events that it is told, and the signatures of its requests.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Name that no other webhook has, and by which a journal's records find it again.
    pub name: Box<str>,
    pub address: Address,
    pub filter: HookFilter,
    /// Keys for `X-Pusher-Key` and `X-Pusher-Signature`; `None` leaves them out.
    pub app: Option<AppKeys>,
    /// Key for `webhook-id`, `webhook-timestamp` and `webhook-signature`; `None` leaves them out.
    pub standard: Option<StandardKey>,
    /// Time for which the end of a state must last before it is told, in milliseconds.
    pub settle_ms: u64,
    /// Time limit for an answer, in milliseconds; a batch without one is sent again.
    pub timeout_ms: u64,
}
