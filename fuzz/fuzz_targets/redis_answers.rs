//! See `crates/dev/fuzz-targets/src/redis_answers.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::redis_answers(input));
