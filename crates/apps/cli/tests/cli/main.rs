//! The binary as its users start it.

mod bench;
mod client;
mod config;
mod doctor;
mod fake;
mod help;
mod mistakes;
mod program;
mod proxy;
mod serve;
mod token;
