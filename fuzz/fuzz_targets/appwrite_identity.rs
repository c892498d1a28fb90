//! See `crates/dev/targets/src/appwrite_identity.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::appwrite_identity(input));
