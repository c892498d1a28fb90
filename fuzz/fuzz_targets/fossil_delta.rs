//! See `crates/dev/fuzz-targets/src/fossil_delta.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::fossil_delta(input));
