//! See `crates/dev/fuzz-targets/src/proxy_header.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::proxy_header(input));
