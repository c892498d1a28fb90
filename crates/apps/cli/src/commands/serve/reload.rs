//! What a running server may change: its log's level, and the configuration that it reads again.
//!
//! Changes take effect as a whole; what needs a restart is named. A configuration with a mistake
//! changes nothing.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use throng_config::{Config, Log, LogFormat, LogLevel, Renewal};
use throng_server::{Handle, Reloaded};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use crate::failure::Failure;
use crate::load;

/// Handle on the log level, which can change.
pub(super) struct Level(reload::Handle<LevelFilter, Registry>);

impl Level {
    /// Holds for every line from now on.
    fn set(&self, level: LogLevel) {
        // It fails only without the subscriber, which stays.
        let _ = self.0.reload(filter(level));
    }
}

/// Sends everything that is logged from now on to standard error. Called once.
pub(super) fn start_log(log: &Log) -> Level {
    let (level, handle) = reload::Layer::new(filter(log.level));
    let lines = fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written would be reported on the same stream, by a macro that
        // panics.
        .log_internal_errors(false);
    let lines = match log.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    // A second call would find another subscriber there, and keep it.
    let _ = tracing_subscriber::registry()
        .with(level)
        .with(lines)
        .try_init();
    Level(handle)
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Configuration that the server runs with, and where it was read.
pub(super) struct Current {
    path: Option<PathBuf>,
    flags: Vec<(String, String)>,
    config: Config,
    level: Level,
}

impl Current {
    pub(super) fn new(
        path: Option<PathBuf>,
        flags: Vec<(String, String)>,
        config: Config,
        level: Level,
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
