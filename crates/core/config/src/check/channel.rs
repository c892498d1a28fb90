//! Checks between the options of one channel, or of one namespace, and the backends that they ask.

use super::Checks;
use crate::options::{
    Acknowledge, BrokerKind, ChannelOptions, DEFAULT_BACKEND, Proxy, RecoveryMode, SlowConsumer,
};

impl Checks<'_> {
    pub(super) fn channel(&mut self, path: &str, options: &ChannelOptions) {
        let config = self.config;
        let waits = { options.history_acknowledge }.is_some_and(|it| it != Acknowledge::Memory);
        let on_disk = config.history.path.is_some() && config.broker.kind == BrokerKind::Memory;
        let waits_in_vain = waits && !on_disk && !self.failed_under("history.path");
        let is_cached = options.force_recovery_mode == RecoveryMode::Cache;
        let conflates =
            options.max_delay_ms > 0 && options.slow_consumer == SlowConsumer::LatestOnly;
        for (key, is_wrong, text) in [
            (
                "force_push_join_leave",
                options.force_push_join_leave && !options.join_leave,
                "it needs join_leave = true",
            ),
            (
                "cache_empty_proxy_enabled",
                options.cache_empty_proxy_enabled && !is_cached,
                "it needs force_recovery_mode = \"cache\"",
            ),
            (
                "force_recovery_mode",
                is_cached && !options.recovery,
                "it needs recovery = true",
            ),
            (
                "history_acknowledge",
                waits_in_vain,
                "it needs history on disk; set history.path",
            ),
            (
                "allowed_delta_types",
                !options.allowed_delta_types.is_empty()
                    && options.slow_consumer != SlowConsumer::Close,
                "it needs slow_consumer = \"close\": a difference cannot be read without the \
                 publication before",
            ),
            (
                "allow_tags_filter",
                options.allow_tags_filter && conflates,
                "it needs max_delay = \"0s\" or another slow_consumer: the newest publication of a \
                 window may not be the newest that passes a filter",
            ),
        ] {
            if is_wrong {
                self.wrong(&format!("{path}.{key}"), text);
            }
        }
        self.asked(path, options);
        self.kept(path, options);
    }

    fn asked(&mut self, path: &str, options: &ChannelOptions) {
        let proxy = self.config.proxy.as_ref();
        let is_known = |name: &str| {
            let mut backends = proxy.into_iter().flat_map(|proxy| &proxy.backends);
            backends.any(|backend| backend.name == name)
        };
        type Url = fn(&Proxy) -> &Option<String>;
        let it = options;
        let kinds: [(&str, bool, &String, Url); 4] = [
            (
                "subscribe",
                it.subscribe_proxy_enabled,
                &it.subscribe_proxy_name,
                |it| &it.subscribe,
            ),
            (
                "publish",
                it.publish_proxy_enabled,
                &it.publish_proxy_name,
                |it| &it.publish,
            ),
            (
                "sub_refresh",
                it.sub_refresh_proxy_enabled,
                &it.sub_refresh_proxy_name,
                |it| &it.sub_refresh,
            ),
            (
                "cache_empty",
                it.cache_empty_proxy_enabled,
                &it.cache_empty_proxy_name,
                |it| &it.cache_empty,
            ),
        ];
        for (kind, is_on, name, url) in kinds {
            let is_default = name == DEFAULT_BACKEND;
            if is_on && is_default && proxy.is_none_or(|proxy| url(proxy).is_none()) {
                let text = format!("it needs proxy.{kind}");
                self.wrong(&format!("{path}.{kind}_proxy_enabled"), text);
            }
            if !is_default && !is_known(name) {
                let text = format!("no [[proxy.backend]] has the name {name:?}");
                self.wrong(&format!("{path}.{kind}_proxy_name"), text);
            }
        }
    }

    /// Checks that there is a history to recover from.
    fn kept(&mut self, path: &str, options: &ChannelOptions) {
        let (size, ttl_ms) = (options.history_size, options.history_ttl_ms);
        let missing = match (size, ttl_ms) {
            (0, 0) => "history_size and history_ttl",
            (0, _) => "history_size",
            (_, 0) => "history_ttl",
            _ => return,
        };
        let at_fault = |key: &str| self.failed.contains(&format!("{path}.{key}"));
        if at_fault("history_size") || at_fault("history_ttl") {
            return;
        }
        if options.recovery {
            let text = format!("there is nothing to recover from; set {missing} above 0");
            self.wrong(&format!("{path}.recovery"), text);
        } else if size != 0 || ttl_ms != 0 {
            let set = format!(
                "{path}.{}",
                ["history_ttl", "history_size"][usize::from(size != 0)]
            );
            let origin = self.origins.get(&set);
            self.warn(format!(
                "{origin}: {set}: no history is kept while {missing} is 0"
            ));
        }
    }
}
