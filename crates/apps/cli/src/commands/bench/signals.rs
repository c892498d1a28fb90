//! Signals end a run early, and its results are kept.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::TERM_SIGNALS;
use throng_bench_plan::check;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// A flag that the first signal sets. The second one ends the process: the first one asked, and
/// somebody cannot wait.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let failed = |error| Failure::new(Exit::Failed, format!("cannot catch signals: {error}"));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        let code = check::Exit::Interrupted.code().into();
        signal_hook::flag::register_conditional_shutdown(*signal, code, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(*signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}
