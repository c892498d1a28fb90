//! See `crates/dev/fuzz-targets/src/ws_handshake.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::ws_handshake(input));
