//! Waiting for conditions, never for time.

use std::time::{Duration, Instant};

/// Reached only by a broken program; far beyond what anything here takes on a slow machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// Between two looks at something that does not tell when it changes.
const GLANCE: Duration = Duration::from_millis(10);

/// Looks until there is an answer.
///
/// # Panics
/// At the deadline, with the name of what did not come.
#[track_caller]
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let ends_at = Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < ends_at, "waited in vain for {what}");
        std::thread::sleep(GLANCE);
    }
}
