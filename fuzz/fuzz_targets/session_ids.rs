//! See `crates/dev/fuzz-targets/src/session_ids.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::session_ids(input));
