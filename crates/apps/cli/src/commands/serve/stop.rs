//! Signals: the first one lets clients leave, the second one ends the process. SIGHUP reads again
//! what can change while the server runs, and never ends anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, TERM_SIGNALS};
use signal_hook::flag::register_conditional_shutdown;
use signal_hook::iterator::Signals as Pending;
use throng_server::Handle;

use super::upgrade::Upgrade;
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Signals that end a server, caught from the moment this exists.
pub(super) struct Signals {
    /// Whether the next signal ends the process.
    at_once: Arc<AtomicBool>,
    pending: Pending,
    hang_up: HangUp,
}

/// SIGHUP, which ends no process that has this: log rotation and unit files send it as they like.
pub(super) struct HangUp(Arc<AtomicBool>);

impl HangUp {
    /// Catches it from now on.
    ///
    /// # Errors
    /// [`Exit::Start`]
    pub(super) fn catch() -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGHUP, came.clone()).map_err(fail)?;
        Ok(Self(came))
    }

    /// Whether it came since it was last asked.
    fn came(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

fn fail(error: std::io::Error) -> Failure {
    Failure::new(Exit::Start, format!("cannot catch signals: {error}"))
}

impl Signals {
    /// Catches SIGTERM, SIGINT and SIGQUIT from now on.
    ///
    /// # Errors
    /// [`Exit::Start`]
    pub(super) fn register(hang_up: HangUp) -> Result<Self> {
        let at_once = Arc::new(AtomicBool::new(false));
        for signal in TERM_SIGNALS {
            // Before the iterator, so that the signal that sets the flag is not the one that it
            // ends by.
            let code = Exit::Good.code().into();
            register_conditional_shutdown(*signal, code, at_once.clone()).map_err(fail)?;
        }
        let pending = Pending::new(TERM_SIGNALS).map_err(fail)?;
        Ok(Self {
            at_once,
            pending,
            hang_up,
        })
    }
}

/// How often a server without signals is looked at: should a shard fail, the process ends.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Looks from one at the files of certificates to the next: five seconds.
const LOOKS_PER_FILES: u32 = 25;

/// Serves until a signal, then until the clients have left. `reload` is called for each SIGHUP.
/// Ends in the same way when another process has taken over.
pub(super) fn run(
    mut signals: Signals,
    handle: Handle,
    upgrade: &mut Upgrade,
    mut reload: impl FnMut(&Handle),
) -> Result {
    let (mut looks, mut is_replaced) = (0, false);
    while handle.is_running() && signals.pending.pending().next().is_none() {
        is_replaced = upgrade.look(&handle);
        if is_replaced {
            break;
        }
        if signals.hang_up.came() {
            reload(&handle);
        }
        looks = (looks + 1) % LOOKS_PER_FILES;
        if looks == 0 {
            handle.look_after_certificates();
        }
        std::thread::sleep(LOOK_EVERY);
    }
    signals.at_once.store(true, Ordering::SeqCst);
    if is_replaced {
        tracing::info!("what could not move is drained; then this process ends");
    } else if handle.is_running() {
        tracing::info!(
            "stopping: clients are told to come back later; signal again to end at once"
        );
        handle.drain();
    } else {
        handle.stop();
    }
    match handle.wait() {
        Ok(()) => Ok(Exit::Good),
        Err(error) => Err(Failure::new(
            Exit::Failed,
            format!("the server failed: {error}"),
        )),
    }
}
