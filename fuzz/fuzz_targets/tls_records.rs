//! See `crates/dev/fuzz-targets/src/tls_records.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::tls_records(input));
