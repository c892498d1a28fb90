//! The `throng` binary.
fn main() {}
