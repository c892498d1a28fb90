//! See `crates/dev/fuzz-targets/src/appwrite_identity.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::appwrite_identity(input));
