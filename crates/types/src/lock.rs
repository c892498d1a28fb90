//! One way to take a lock, for the few things that threads share.

#![expect(
    clippy::disallowed_types,
    reason = "shards share nothing; those who use it say why they are none"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also one whose last holder has panicked: that ends the server, and until then
/// what it has left is as good as ever.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
