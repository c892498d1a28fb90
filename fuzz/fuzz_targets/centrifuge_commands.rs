//! See `crates/dev/fuzz-targets/src/centrifuge_commands.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::centrifuge_commands(input));
