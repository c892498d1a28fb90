//! See `crates/dev/targets/src/sse_decode.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::sse_decode(input));
