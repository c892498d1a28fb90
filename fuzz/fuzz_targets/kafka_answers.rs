//! See `crates/dev/fuzz-targets/src/kafka_answers.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::kafka_answers(input));
