//! Appwrite Realtime over the wire: its SDKs, its Redis, its limits. See `docs/TESTING.md`.

mod account;
mod compose;
mod identity;
mod moved;
mod outage;
mod plain;
mod presence;
mod redis_server;
mod sdk;
mod socket;
mod stage;
mod story;
