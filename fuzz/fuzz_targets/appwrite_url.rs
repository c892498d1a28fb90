//! See `crates/dev/targets/src/appwrite_url.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::appwrite_url(input));
