//! GRIP black box: backends and publishers of others against the `throng` binary, all in `tests/`.
//!
//! Python and npm packages are pinned here and installed once below `target/`.

mod zmq;

pub use zmq::Peer;
