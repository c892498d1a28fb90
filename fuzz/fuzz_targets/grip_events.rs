//! See `crates/dev/targets/src/grip_events.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::grip_events(input));
