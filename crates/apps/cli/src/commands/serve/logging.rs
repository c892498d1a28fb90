//! Log lines on standard error, for people or for machines.

use std::io::{self, IsTerminal as _};

use throng_config::{Log, LogFormat, LogLevel};
use tracing::level_filters::LevelFilter;

/// Sends everything that is logged from now on to standard error. Called once.
pub(super) fn start(log: &Log) {
    let builder = tracing_subscriber::fmt()
        .with_max_level(filter(log.level))
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        // A line that cannot be written would be reported on the same stream, by a macro that
        // panics.
        .log_internal_errors(false)
        .with_target(false);
    // A second call would find another subscriber there, and keep it.
    let _ = match log.format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
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
