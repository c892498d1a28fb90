//! See `crates/dev/fuzz-targets/src/plain_publication.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::plain_publication(input));
