//! Log lines on standard error, for people or for machines.

use std::io::{self, IsTerminal as _};

use throng_config::{Log, LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

/// Handle on the log level, which can change.
pub(super) struct Level(reload::Handle<LevelFilter, Registry>);

impl Level {
    /// Holds for every line from now on.
    pub(super) fn set(&self, level: LogLevel) {
        // It fails only without the subscriber, which stays.
        let _ = self.0.reload(filter(level));
    }
}

/// Sends everything that is logged from now on to standard error. Called once.
pub(super) fn start(log: &Log) -> Level {
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
