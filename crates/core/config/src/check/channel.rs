//! Checks between the options of one channel, or of one namespace.

use super::Checks;
use crate::options::{Acknowledge, BrokerKind, ChannelOptions, RecoveryMode, SlowConsumer};

impl Checks<'_> {
    pub(super) fn channel(&mut self, path: &str, options: &ChannelOptions) {
        if options.force_push_join_leave && !options.join_leave {
            let path = format!("{path}.force_push_join_leave");
            self.problem(&path, format!("{path}: it needs join_leave = true"));
        }
        self.asked(path, options);
        if options.force_recovery_mode == RecoveryMode::Cache && !options.recovery {
            let path = format!("{path}.force_recovery_mode");
            self.problem(&path, format!("{path}: it needs recovery = true"));
        }
        let waits = options
            .history_acknowledge
            .is_some_and(|it| it != Acknowledge::Memory);
        let config = self.config;
        let on_disk = config.history.path.is_some() && config.broker.kind == BrokerKind::Memory;
        if waits && !on_disk && !self.failed_under("history.path") {
            let path = format!("{path}.history_acknowledge");
            self.problem(
                &path,
                format!("{path}: it needs history on disk; set history.path"),
            );
        }
        if !options.allowed_delta_types.is_empty() && options.slow_consumer != SlowConsumer::Close {
            let path = format!("{path}.allowed_delta_types");
            let text = "it needs slow_consumer = \"close\": a difference cannot be read without \
                        the publication before";
            self.problem(&path, format!("{path}: {text}"));
        }
        let conflates =
            options.max_delay_ms > 0 && options.slow_consumer == SlowConsumer::LatestOnly;
        if options.allow_tags_filter && conflates {
            let path = format!("{path}.allow_tags_filter");
            let text = "it needs max_delay = \"0s\" or another slow_consumer: the newest \
                        publication of a window may not be the newest that passes a filter";
            self.problem(&path, format!("{path}: {text}"));
        }
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
            let message =
                format!("{path}.recovery: there is nothing to recover from; set {missing} above 0");
            self.problem(&format!("{path}.recovery"), message);
        } else if size != 0 || ttl_ms != 0 {
            self.warnings
                .push(format!("{path} keeps no history: {missing} is 0"));
        }
    }
}
