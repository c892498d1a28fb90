//! See `crates/dev/fuzz-targets/src/grip_instruct.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::grip_instruct(input));
