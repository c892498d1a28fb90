//! Names of channels in the hub: `NAMESPACE:APP:NAME`.

use throng_types::ChannelName;

/// Namespace of channels that keep nothing.
pub const NAMESPACE: &str = "pusher";
/// Namespace of cache channels, whose new subscribers get the newest event of the last hour.
pub const CACHE_NAMESPACE: &str = "pusher-cache";

/// Time for which the newest event of a cache channel is kept: an hour, as in soketi.
pub(crate) const CACHE_TTL_MS: u64 = 3_600_000;

pub(crate) fn is_cache(channel: &ChannelName) -> bool {
    channel.namespace() == Some(CACHE_NAMESPACE)
}

/// An app's name for a channel of the hub.
pub(crate) fn own_name(channel: &ChannelName) -> &str {
    let name = channel.as_str();
    name.splitn(3, ':').last().unwrap_or(name)
}
