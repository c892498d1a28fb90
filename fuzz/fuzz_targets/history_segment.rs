//! See `crates/dev/fuzz-targets/src/history_segment.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::history_segment(input));
