//! Which Throng this is.

/// The version of this binary.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");
