//! See `crates/dev/fuzz-targets/src/http1_request.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::http1_request(input));
