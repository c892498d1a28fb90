//! See `crates/dev/targets/src/auth_origin.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::auth_origin(input));
