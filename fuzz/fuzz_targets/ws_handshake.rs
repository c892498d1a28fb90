//! See `crates/dev/targets/src/ws_handshake.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::ws_handshake(input));
