//! The configuration, read again while the server runs. Changes take effect as a whole;
//! what needs a restart is named. A configuration with a mistake changes nothing.

use std::path::PathBuf;

use throng_config::{Config, Renewal};
use throng_server::{Handle, Reloaded};

use super::logging;
use crate::failure::Failure;
use crate::load;

/// Configuration that the server runs with, and where it was read.
pub(super) struct Current {
    path: Option<PathBuf>,
    flags: Vec<(String, String)>,
    config: Config,
    level: logging::Level,
}

impl Current {
    pub(super) fn new(
        path: Option<PathBuf>,
        flags: Vec<(String, String)>,
        config: Config,
        level: logging::Level,
    ) -> Self {
        Self {
            path,
            flags,
            config,
            level,
        }
    }

    /// Reads it again; the log says who asked for it, and the outcome.
    pub(super) fn reload(&mut self, handle: &Handle, is_api: bool) -> Reloaded {
        let by = if is_api { "API" } else { "SIGHUP" };
        match self.take_over(handle) {
            Ok(renewal) => {
                for warning in &renewal.warnings {
                    tracing::warn!("{warning}");
                }
                if !renewal.waiting.is_empty() {
                    let options = renewal.waiting.join(", ");
                    tracing::warn!("{by}: changed, and needs a restart: {options}");
                }
                tracing::info!(
                    changed = renewal.changed.join(", "),
                    "{by}: the configuration was read again"
                );
                Reloaded::Done {
                    changed: renewal.changed,
                    waiting: renewal.waiting,
                    warnings: renewal.warnings,
                }
            }
            Err(problems) => {
                for line in &problems {
                    tracing::error!("{by}: nothing changes: {line}");
                }
                Reloaded::Refused(problems)
            }
        }
    }

    fn take_over(&mut self, handle: &Handle) -> Result<Renewal, Vec<String>> {
        let loaded = load::complete(self.path.as_deref(), self.flags.clone());
        let loaded = loaded.map_err(Failure::into_reasons)?;
        let told = |problems: Vec<throng_config::Problem>| {
            let problems = problems.iter();
            problems.map(ToString::to_string).collect::<Vec<_>>()
        };
        let renewal = loaded.renew(&self.config).map_err(told)?;
        // Before the shards, which look at it.
        let before = self.config.log.level;
        self.level.set(renewal.config.log.level);
        if let Err(faults) = handle.reload(&renewal.config) {
            self.level.set(before);
            return Err(faults);
        }
        self.config = renewal.config.clone();
        Ok(renewal)
    }
}
