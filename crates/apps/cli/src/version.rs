//! Which Throng this is.

/// The version of this binary. A build that says which commit it is of (`cargo xtask dist`) sets
/// the variable `THRONG_VERSION`, such as `0.1.0 (2d05fe1)`.
pub(crate) const VERSION: &str = match option_env!("THRONG_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};
