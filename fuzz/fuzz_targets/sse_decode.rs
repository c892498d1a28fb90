//! See `crates/dev/fuzz-targets/src/sse_decode.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::sse_decode(input));
