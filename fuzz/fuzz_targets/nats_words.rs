//! See `crates/dev/fuzz-targets/src/nats_words.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::nats_words(input));
