//! See `crates/dev/targets/src/http1_response.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::http1_response(input));
