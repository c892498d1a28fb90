//! See `crates/dev/fuzz-targets/src/appwrite_feed.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::appwrite_feed(input));
