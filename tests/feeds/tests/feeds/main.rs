//! Every event of a source arrives once and in order, whatever dies.

mod kafka;
mod nats;
mod nodes;
mod postgres;
mod redis;
mod upgrades;
