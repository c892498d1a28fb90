//! Calls to a running server from outside: signals, and calls of the API port that ask for a
//! reload.
//!
//! SIGTERM and its kind let clients leave, and a second one ends the process. SIGHUP reads the
//! configuration again, and never ends anything. All of it comes to one place, in its order: see
//! [`Call`].
//!
//! What a configuration changes takes effect as a whole; what needs a restart is named. One with a
//! mistake changes nothing.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGXFSZ, TERM_SIGNALS};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::{Handle as Caught, Signals as Pending};
use throng_config::{Config, Log, LogFormat, LogLevel, Renewal};
use throng_server::{Handle, ReloadRequest, Reloaded};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer as _, Registry, fmt, reload};

use super::upgrade::Upgrade;
use crate::exit::{Exit, Failure, Result};
use crate::load;

/// Call from outside to the running server.
enum Call {
    /// SIGTERM, SIGINT or SIGQUIT.
    Stop,
    /// SIGHUP, or a call of the API port, which waits for the answer.
    Reload(Option<ReloadRequest>),
}

/// Signals and requests to the server, caught from the moment this exists.
pub(super) struct Calls {
    send: Sender<Call>,
    wanted: Receiver<Call>,
    caught: Caught,
    /// Whether the next signal ends the process.
    at_once: Arc<AtomicBool>,
}

fn fail(error: io::Error) -> Failure {
    Failure::new(Exit::Start, format!("cannot catch signals: {error}"))
}

impl Calls {
    /// Catches SIGHUP, which would end a process that is about to serve: log rotation and unit
    /// files send it as they like. Catches SIGXFSZ, so that a file at its size limit is an error of
    /// its write and not the end of the process.
    pub(super) fn catch() -> Result<Self> {
        let (send, wanted) = channel();
        let mut pending = Pending::new([SIGHUP, SIGXFSZ]).map_err(fail)?;
        let caught = pending.handle();
        let calls = send.clone();
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread
            .spawn(move || {
                for signal in pending.forever() {
                    let call = match signal {
                        SIGHUP => Call::Reload(None),
                        SIGXFSZ => continue,
                        _ => Call::Stop,
                    };
                    if calls.send(call).is_err() {
                        return;
                    }
                }
            })
            .map_err(fail)?;
        Ok(Self {
            send,
            wanted,
            caught,
            at_once: Arc::default(),
        })
    }

    /// Catches SIGTERM, SIGINT and SIGQUIT from now on.
    pub(super) fn catch_ends(&self) -> Result<()> {
        for signal in TERM_SIGNALS {
            // Before it is caught, so that the signal that sets the flag is not the one that it
            // ends by.
            let code = Exit::Good.code().into();
            register_conditional_shutdown(*signal, code, self.at_once.clone()).map_err(fail)?;
            self.caught.add_signal(*signal).map_err(fail)?;
        }
        Ok(())
    }

    /// Takes calls of the API port.
    pub(super) fn ask_reload(&self) -> throng_server::AskReload {
        let calls = self.send.clone();
        Arc::new(move |request| calls.send(Call::Reload(Some(request))).is_ok())
    }
}

/// Interval at which an idle server is checked: should a shard fail, the process ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks from one at the files of certificates, and at the numbers, to the next: five seconds.
const LOOKS_PER_FILES: u32 = 25;

/// Serves until a signal, then until the clients have left. Ends in the same way when another
/// process has taken over.
pub(super) fn run(
    calls: Calls,
    handle: Handle,
    mut current: Current,
    upgrade: &mut Upgrade,
) -> Result {
    let (mut looks, mut is_replaced) = (0, false);
    while handle.is_running() {
        is_replaced = upgrade.look(&handle);
        if is_replaced {
            break;
        }
        match calls.wanted.recv_timeout(LOOK_EVERY) {
            Ok(Call::Stop) => break,
            Ok(Call::Reload(request)) => {
                let what = current.reload(&handle, request.is_some());
                if let Some(request) = request {
                    handle.answer_reload(request, what);
                }
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                looks = (looks + 1) % LOOKS_PER_FILES;
                if looks == 0 {
                    handle.look_after_certificates();
                    handle.remember_numbers();
                }
            }
        }
    }
    calls.at_once.store(true, Ordering::SeqCst);
    if is_replaced {
        tracing::info!("connections that could not move are drained; then this process ends");
    } else if handle.is_running() {
        tracing::info!(
            "stopping: clients are told to come back later; signal again to end at once"
        );
        handle.drain();
    } else {
        handle.stop();
    }
    // Reloads are refused from now on, with an answer.
    while let Ok(call) = calls.wanted.try_recv() {
        if let Call::Reload(Some(request)) = call {
            handle.answer_reload(request, Reloaded::Unavailable);
        }
    }
    drop(calls);
    match handle.wait() {
        Ok(()) => Ok(Exit::Good),
        Err(error) => Err(Failure::failed(format!("the server failed: {error}"))),
    }
}

/// Handle on the levels of the log, which can change.
pub(super) struct Levels(reload::Handle<Targets, Registry>);

impl Levels {
    /// Holds for every line from now on.
    fn set(&self, log: &Log) {
        // It fails only without the subscriber, which stays.
        let _ = self.0.reload(filter(log));
    }
}

/// Sends everything that is logged from now on to standard error. Called once.
pub(super) fn start_log(log: &Log) -> Levels {
    let (levels, handle) = reload::Layer::new(filter(log));
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
        .with(levels)
        .with(lines)
        .try_init();
    Levels(handle)
}

fn filter(log: &Log) -> Targets {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let own = log.targets.iter().filter_map(|text| {
        let (target, level) = text.split_once('=')?;
        Some((target, level.parse::<LevelFilter>().ok()?))
    });
    own.collect::<Targets>().with_default(level)
}

/// Configuration that the server runs with, and where it was read.
pub(super) struct Current {
    pub(super) path: Option<PathBuf>,
    pub(super) flags: Vec<(String, String)>,
    pub(super) config: Config,
    pub(super) levels: Levels,
}

impl Current {
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

    fn take_over(&mut self, handle: &Handle) -> std::result::Result<Renewal, Vec<String>> {
        let loaded = load::complete(self.path.as_deref(), self.flags.clone());
        let loaded = loaded.map_err(Failure::into_reasons)?;
        let told = |problems: Vec<throng_config::ConfigProblem>| {
            let problems = problems.iter();
            problems.map(ToString::to_string).collect::<Vec<_>>()
        };
        let renewal = loaded.renew(&self.config).map_err(told)?;
        // Before the shards, which look at it.
        self.levels.set(&renewal.config.log);
        if let Err(faults) = handle.reload(&renewal.config) {
            self.levels.set(&self.config.log);
            return Err(faults);
        }
        self.config = renewal.config.clone();
        Ok(renewal)
    }
}
