//! See `crates/dev/targets/src/grip_proxy.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::grip_proxy(input));
