//! See `crates/dev/fuzz-targets/src/auth_token.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::auth_token(input));
