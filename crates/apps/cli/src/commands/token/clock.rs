//! The time by which tokens are made and judged.

/// Returns the Unix time in seconds.
pub(super) fn now_unix_s() -> u64 {
    // A clock before 1970 makes tokens that have expired, which is what its owner would expect.
    throng_sys::clock::unix_ms() / 1000
}
