//! What black-box tests need: the real binary, other people's clients, and a network that can be
//! cut.
//!
//! Owns: the processes that it starts, each ended with the value that stands for it. Never:
//! measures time, or waits without a condition and a deadline. Everything listens on loopback, on
//! ports of its own, and keeps its files below `target/` or in a temporary folder.
//!
//! What a test needs and does not find fails it with a sentence that says what to install; and so
//! does everything else that keeps it from going on. Nothing here returns an error.

mod authority;
mod backend;
mod binary;
mod browser;
mod daemon;
mod dialogue;
mod install;
mod issuer;
mod kafka;
mod nats;
mod patience;
mod port;
mod postgres;
mod process;
mod proxy;
mod redis;
mod redis_cluster;
mod sdk;
mod server;
mod token;
mod wire;

pub mod exposition;

pub use self::kafka::{KafkaClient, KafkaServer};
pub use self::nats::NatsServer;
pub use self::port::free_port;
pub use self::postgres::PostgresServer;
pub use self::redis::RedisServer;
pub use self::redis_cluster::RedisCluster;
pub use authority::{Authority, Issued, PemFiles, TlsFiles};
pub use backend::{Backend, BackendMemory, next_request};
pub use binary::{Installed, throng};
pub use browser::Browser;
pub use dialogue::{EMULATED, Numbers, Outcome, SDKS, Start, Steps, Story, play, play_with};
pub use install::{javascript_of, python_of};
pub use issuer::{Issuer, TokenKey};
pub use patience::{DEADLINE, Deadline, until};
pub use process::Process;
pub use proxy::Proxy;
pub use rustix::process::Signal;
pub use sdk::{Sdk, go_program, java_program, python_script, script, script_trusting};
pub use server::{Server, Setup};
pub use throng_dialogue::{dialogues, escaped, unescaped};
pub use token::{sign, unix_s};
pub use wire::{HANDSHAKE, Response, Wire, frame, post, request};
