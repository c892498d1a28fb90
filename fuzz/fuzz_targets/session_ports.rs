//! See `crates/dev/targets/src/session_ports.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_targets::session_ports(input));
