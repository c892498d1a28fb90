//! See `crates/dev/fuzz-targets/src/centrifuge_protobuf.rs`.
#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| throng_fuzz_targets::centrifuge_protobuf(input));
