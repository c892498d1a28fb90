//! What fuzzers run: one function for each thing that reads bytes from outside.
//!
//! Each target lives in a file of its own and takes any bytes: it panics if the code under test
//! breaks a promise, and returns otherwise. `fuzz/` hands them to libFuzzer; [`drive`] runs them
//! with a small mutator of our own in ordinary tests. Never: clocks, randomness, files. The same
//! bytes do the same again.
//!
//! A new target needs a file, a line in each of the two lists below, and what the test
//! `fuzz_has_every_target` asks for.

pub mod drive;
mod mutate;
mod pieces;

mod appwrite_client;
mod appwrite_feed;
mod appwrite_identity;
mod appwrite_url;
mod auth_origin;
mod auth_token;
mod centrifuge_api;
mod centrifuge_commands;
mod centrifuge_protobuf;
mod config_toml;
mod fossil_delta;
mod grip_conversation;
mod grip_events;
mod grip_filters;
mod grip_instruct;
mod grip_items;
mod grip_patch;
mod grip_proxy;
mod grip_pushpin_conf;
mod grip_routes;
mod grip_zmq;
mod grip_zmtp;
mod history_segment;
mod http1_body;
mod http1_request;
mod http1_response;
mod kafka_answers;
mod kafka_batches;
mod nats_words;
mod plain_publication;
mod postgres_messages;
mod proxy_header;
mod redis_answers;
mod session_ids;
mod session_ports;
mod sse_decode;
mod tls_records;
mod ws_decode;
mod ws_handshake;

/// One thing to run.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, in `fuzz/` too.
    pub name: &'static str,
    /// Panics if a promise is broken.
    pub run: fn(&[u8]),
    /// Small valid inputs from which mutations start.
    pub seeds: &'static [&'static [u8]],
}

macro_rules! targets {
    ($($name:ident,)*) => {
        $(pub use $name::$name;)*

        /// Every fuzz target, with its seeds.
        pub const ALL: &[Target] = &[$(Target {
            name: stringify!($name),
            run: $name,
            seeds: $name::SEEDS,
        },)*];
    };
}

targets! {
    appwrite_client,
    appwrite_feed,
    appwrite_identity,
    appwrite_url,
    auth_origin,
    auth_token,
    centrifuge_api,
    centrifuge_commands,
    centrifuge_protobuf,
    config_toml,
    fossil_delta,
    grip_conversation,
    grip_events,
    grip_filters,
    grip_instruct,
    grip_items,
    grip_patch,
    grip_proxy,
    grip_pushpin_conf,
    grip_routes,
    grip_zmq,
    grip_zmtp,
    history_segment,
    http1_body,
    http1_request,
    http1_response,
    kafka_answers,
    kafka_batches,
    nats_words,
    plain_publication,
    postgres_messages,
    proxy_header,
    redis_answers,
    session_ids,
    session_ports,
    sse_decode,
    tls_records,
    ws_decode,
    ws_handshake,
}
