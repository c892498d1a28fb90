//! What fuzzers run: one function for each thing that reads bytes from outside.
//!
//! Each target is a function that takes any bytes: it panics if the code under test breaks a
//! promise, and returns otherwise. `fuzz/` hands them to libFuzzer; [`drive`] runs them
//! with a small mutator of our own in ordinary tests. Never: clocks, randomness, files. The same
//! bytes do the same again.
//!
//! A new target needs its seeds in `seeds/`, its name in the list below, and what the test
//! `fuzz_has_every_target` asks for.

pub mod drive;

mod appwrite;
mod auth;
mod centrifuge;
mod config;
mod feeds;
mod grip_conversation;
mod grip_events;
mod grip_proxy;
mod grip_zmtp;
mod history_segment;
mod holds;
mod http1;
mod http2;
mod items;
mod mutate;
mod pieces;
mod session_ports;
mod sse_decode;
mod tls_records;
mod ws;

use throng_testkit::unescaped;

/// One thing to run.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, in `fuzz/` too.
    pub name: &'static str,
    /// Panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Small valid inputs from which mutations start: one a line, with the escapes of Rust.
    seeds: &'static str,
}

impl Target {
    /// Bytes of each seed; lines with `# ` are comments.
    pub fn seeds(&self) -> Vec<Vec<u8>> {
        let lines = self.seeds.lines().filter(|line| !line.starts_with("# "));
        lines.map(unescaped).collect()
    }

    /// Finds a target by its name.
    pub fn named(name: &str) -> &'static Self {
        let found = ALL.iter().find(|target| target.name == name);
        found.expect("a target of this name")
    }
}

macro_rules! targets {
    ($($module:ident: $($name:ident)+;)+) => {
        /// Every fuzz target, with its seeds.
        pub const ALL: &[Target] = &[$($(Target {
            name: stringify!($name),
            run: $module::$name,
            seeds: include_str!(concat!("../seeds/", stringify!($name), ".txt")),
        },)+)+];
    };
}

targets! {
    appwrite: appwrite_client appwrite_feed appwrite_identity appwrite_url;
    auth: auth_origin auth_token session_ids;
    centrifuge: centrifuge_api centrifuge_commands centrifuge_protobuf fossil_delta;
    config: config_toml grip_pushpin_conf;
    feeds: kafka_answers kafka_batches nats_words postgres_messages redis_answers;
    grip_conversation: grip_conversation;
    grip_events: grip_events;
    grip_proxy: grip_proxy;
    grip_zmtp: grip_zmtp;
    history_segment: history_segment;
    holds: grip_filters grip_instruct grip_routes;
    http1: http1_body http1_request http1_response proxy_header;
    http2: http2_client http2_fields http2_server;
    items: grip_items grip_patch grip_zmq plain_publication;
    session_ports: session_ports;
    sse_decode: sse_decode;
    tls_records: tls_records;
    ws: ws_decode ws_handshake;
}
