//! See `crates/dev/fuzz-targets/src/postgres_messages.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::postgres_messages(input));
