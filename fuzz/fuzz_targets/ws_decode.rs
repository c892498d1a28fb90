//! See `crates/dev/fuzz-targets/src/ws_decode.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::ws_decode(input));
