//! See `crates/dev/fuzz-targets/src/appwrite_client.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::appwrite_client(input));
