//! The time by which tokens are made and judged.

/// Seconds since 1970.
pub(super) fn now_unix_s() -> u64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed();
    // A clock before 1970 makes tokens that have expired, which is what its owner would expect.
    since.map_or(0, |since| since.as_secs())
}
