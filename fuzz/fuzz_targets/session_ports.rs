//! See `crates/dev/fuzz-targets/src/session_ports.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::session_ports(input));
