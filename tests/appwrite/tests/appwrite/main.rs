//! Appwrite Realtime over the wire: its SDKs, its Redis, its limits. See `docs/TESTING.md`.

mod account;
mod container;
mod event;
mod moved;
mod steps;
mod stories;

/// Project of all tests, unless they say another.
const PROJECT: &str = "bench";
