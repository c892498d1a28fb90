//! Options of channels, found by namespace.

use std::sync::Arc;

use throng_types::{ChannelName, Overflow, Publication};

use crate::Acknowledge;

/// Limits of the history that a channel's home keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Publications at most; zero keeps none, and then publications have no positions.
    pub publications_max: u32,
    /// The age in milliseconds at which a publication is forgotten; zero keeps none.
    pub ttl_ms: u64,
}

impl Retention {
    /// Whether anything is kept at all.
    #[must_use]
    pub const fn keeps(self) -> bool {
        self.publications_max > 0 && self.ttl_ms > 0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelOptions {
    pub retention: Retention,
    /// Storage that a publication must have reached before it is answered.
    pub acknowledge: Acknowledge,
    pub recovery: bool,
    /// Policy for deliveries to a connection whose queue is full.
    pub overflow: Overflow,
    /// Milliseconds that publications gather before their deliveries begin.
    pub max_delay_ms: u32,
    /// Whether deliveries by WebSocket are compressed for clients that offer it.
    pub compression: bool,
    /// Whether subscribers may get publications as differences from the one before. Not where
    /// deliveries may be dropped: each is read by the one before it.
    pub delta: bool,
    /// Whether recovery gives only the newest publication, regardless of what else was missed; see
    /// [`crate::Broker`].
    pub cache: bool,
    /// Whether subscribers may filter publications by their tags.
    pub tags_filter: bool,
    pub anonymous_subscribe: bool,
    pub subscribe: bool,
    /// Whether `#` in a channel's name limits it to the users named after it.
    pub user_channels: bool,
    pub anonymous_publish: bool,
    pub publish: bool,
    /// Whether connections may read the history of channels that they do not subscribe to.
    pub history: bool,
    pub presence: PresenceOptions,
    /// Decisions left to a backend.
    pub proxies: ProxySwitches,
    /// Label under which its namespace is counted; 0 for channels without a namespace.
    pub label: u8,
}

/// Decisions that a backend takes in a channel, in place of the options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxySwitches {
    /// Backend that allows a subscription, unless the channel's name or a token does.
    pub subscribe: Option<BackendId>,
    /// Backend that allows a publication, and may change it.
    pub publish: Option<BackendId>,
    /// Whether a subscription that a backend allowed goes on when it expires.
    pub sub_refresh: Option<BackendId>,
    /// Backend to notify when a subscriber recovers the newest publication and there is none.
    pub cache_empty: Option<BackendId>,
}

/// A backend, by its place in the configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendId(pub u16);

impl BackendId {
    pub const DEFAULT: Self = Self(0);
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PresenceOptions {
    pub is_listed: bool,
    /// Whether coming and going is announced to subscribers who ask for it.
    pub is_announced: bool,
    /// Whether it is announced to all subscribers.
    pub is_pushed: bool,
    /// Whether subscribers may see the members.
    pub for_subscriber: bool,
    /// Whether connections with a user may, without a subscription.
    pub for_client: bool,
    /// Whether connections without a user may do the same.
    pub for_anonymous: bool,
}

/// Every namespace's options, and those of channels without a namespace.
#[derive(Clone, Debug, Default)]
pub struct NamespaceOptions {
    plain: ChannelOptions,
    named: Vec<(Box<str>, ChannelOptions)>,
}

impl NamespaceOptions {
    /// `plain` for channels without a `:`, `named` for the others.
    #[must_use]
    pub fn new(plain: ChannelOptions, mut named: Vec<(Box<str>, ChannelOptions)>) -> Self {
        named.sort_by(|a, b| a.0.cmp(&b.0));
        Self { plain, named }
    }

    /// All of them with their names; none for channels without a namespace.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&str>, &ChannelOptions)> {
        let named = self.named.iter().map(|(name, of)| (Some(&**name), of));
        std::iter::once((None, &self.plain)).chain(named)
    }

    /// Whether deliveries of any of them are compressed.
    #[must_use]
    pub fn compresses(&self) -> bool {
        let mut all = std::iter::once(&self.plain).chain(self.named.iter().map(|(_, of)| of));
        all.any(|options| options.compression)
    }

    /// Whether channels of these are kept that `others` do not keep.
    #[must_use]
    pub(crate) fn keeps_beyond(&self, others: &Self) -> bool {
        let keeps =
            |options: Option<&ChannelOptions>| options.is_some_and(|it| it.retention.keeps());
        let named = |name: &str| {
            let found = others
                .named
                .binary_search_by(|(known, _)| (**known).cmp(name));
            found.ok().map(|at| &others.named[at].1)
        };
        let mut all = self.named.iter();
        keeps(Some(&self.plain)) && !keeps(Some(&others.plain))
            || all.any(|(name, of)| keeps(Some(of)) && !keeps(named(name)))
    }

    /// The options of a channel; `None` where its namespace is not configured.
    #[must_use]
    pub fn find(&self, channel: &ChannelName) -> Option<&ChannelOptions> {
        let Some(namespace) = channel.namespace() else {
            return Some(&self.plain);
        };
        let found = self
            .named
            .binary_search_by(|(name, _)| name.as_ref().cmp(namespace));
        found.ok().map(|at| &self.named[at].1)
    }
}

#[derive(Clone, Debug)]
pub struct LiveOptions {
    pub namespaces: Arc<NamespaceOptions>,
    /// Limits of one reply. Queue: `history reply`.
    pub reply: ReplyLimit,
    /// Streams without subscribers and history that one shard remembers; when full, the one that
    /// became so first is forgotten. Queue: `positions`.
    pub streams_max: usize,
}

/// Limits of one reply. A single publication may be larger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyLimit {
    /// Members of a channel at most; longer lists are refused.
    pub members_max: usize,
    pub publications_max: usize,
    /// Their cost at most, in bytes.
    pub bytes_max: usize,
}

impl ReplyLimit {
    /// The first `wanted` publications, as far as one reply may have them.
    pub(super) fn cut<'a>(
        self,
        publications: impl Iterator<Item = &'a Arc<Publication>>,
        wanted: usize,
    ) -> Vec<Arc<Publication>> {
        let mut bytes = 0;
        publications
            .take(wanted.min(self.publications_max))
            .take_while(|publication| {
                let is_first = bytes == 0;
                bytes += publication.cost_bytes();
                is_first || bytes <= self.bytes_max
            })
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_number_or_no_time_is_not_kept() {
        for (publications_max, ttl_ms) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let retention = Retention {
                publications_max,
                ttl_ms,
            };
            assert_eq!(retention.keeps(), publications_max * ttl_ms as u32 == 1);
        }
    }

    #[test]
    fn a_namespace_is_found_by_what_stands_before_the_colon() {
        let kept = ChannelOptions {
            retention: Retention {
                publications_max: 5,
                ttl_ms: 1,
            },
            ..ChannelOptions::default()
        };
        let namespaces = NamespaceOptions::new(
            ChannelOptions::default(),
            vec![("z".into(), kept), ("a".into(), kept)],
        );
        let find = |name: &str| namespaces.find(&ChannelName::new(name).unwrap()).copied();
        assert_eq!(find("plain"), Some(ChannelOptions::default()));
        assert_eq!(find("a:1"), Some(kept));
        assert_eq!(find("z:"), Some(kept));
        assert_eq!(find("unknown:1"), None);
    }

    /// Kept here and not there, in any order of the namespaces.
    #[test]
    fn options_are_compared_by_namespace() {
        let of = |keeps: bool, compression: bool| ChannelOptions {
            retention: Retention {
                publications_max: u32::from(keeps),
                ttl_ms: 1,
            },
            compression,
            ..ChannelOptions::default()
        };
        let all = |plain, named: &[(&str, bool)]| {
            let named = named.iter();
            let named = named.map(|(name, keeps)| ((*name).into(), of(*keeps, false)));
            NamespaceOptions::new(of(plain, false), named.collect())
        };
        for (one, other, beyond) in [
            (all(false, &[]), all(false, &[]), false),
            (all(true, &[]), all(true, &[]), false),
            (all(true, &[]), all(false, &[]), true),
            (all(false, &[]), all(true, &[]), false),
            (
                all(false, &[("a", true)]),
                all(false, &[("a", true)]),
                false,
            ),
            (
                all(false, &[("a", true)]),
                all(false, &[("a", false)]),
                true,
            ),
            (all(false, &[("a", true)]), all(true, &[]), true),
            (all(false, &[("a", false)]), all(false, &[]), false),
            (
                all(true, &[("b", true), ("a", false)]),
                all(true, &[("c", false), ("a", true), ("b", true)]),
                false,
            ),
        ] {
            assert_eq!(one.keeps_beyond(&other), beyond, "{one:?} {other:?}");
        }
        for (plain, named, compresses) in [
            (false, false, false),
            (true, false, true),
            (false, true, true),
        ] {
            let named = vec![("b".into(), of(true, false)), ("a".into(), of(true, named))];
            let namespaces = NamespaceOptions::new(of(false, plain), named);
            assert_eq!(namespaces.compresses(), compresses);
            let each = namespaces
                .iter()
                .map(|(name, of)| (name, of.retention.keeps()));
            assert!(each.eq([(None, false), (Some("a"), true), (Some("b"), true)]));
        }
    }
}
