//! One program for each target in `crates/dev/fuzz-targets`, by its own name.
#![no_main]

use std::sync::LazyLock;

use throng_fuzz_targets::Target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| Target::named(env!("CARGO_BIN_NAME")));

libfuzzer_sys::fuzz_target!(|input: &[u8]| (TARGET.run)(input));
