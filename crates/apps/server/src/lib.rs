//! Composition: shards, sessions, hubs; the handle that starts, drains and observes them.
