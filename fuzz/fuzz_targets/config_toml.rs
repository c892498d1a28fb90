//! See `crates/dev/fuzz-targets/src/config_toml.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::config_toml(input));
