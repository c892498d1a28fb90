//! Any two texts to the delta encoder: what it makes leads from the first to the second, and a
//! delta of two texts is a text. Any bytes to the decoder: no panic, and nothing above the limit.
//!
//! Input: one byte with the place where the first text ends, in parts of 256, then both texts.

use throng_fossil::{DeltaUnit, apply, encode};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"\x80{\"symbol\":\"ABC\",\"price\":101.25}{\"symbol\":\"ABC\",\"price\":101.75}",
    b"\x70one two three four five six seven eight, five six seven eight one two three four",
    b"\x800123456789abcdefG\nG@0,1Pabd0;",
    "\u{80}\u{e9}\u{65e5}\u{65e5}\u{65e5}\u{65e5}\u{e9}\u{65e6}\u{65e5}\u{65e5}".as_bytes(),
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn fossil_delta(input: &[u8]) {
    let [part, texts @ ..] = input else {
        return;
    };
    let (base, target) = texts.split_at(texts.len() * usize::from(*part) / 256);
    let is_text = |bytes: &[u8]| str::from_utf8(bytes).is_ok();
    for unit in [DeltaUnit::Byte, DeltaUnit::Char] {
        let Some(delta) = encode(base, target, unit) else {
            continue;
        };
        assert!(delta.len() < target.len());
        assert_eq!(apply(base, &delta, target.len()).as_deref(), Ok(target));
        if unit == DeltaUnit::Char && is_text(base) && is_text(target) {
            assert!(is_text(&delta), "it cuts a character");
        }
    }
    if let Ok(made) = apply(base, target, 1000) {
        assert!(made.len() <= 1000);
    }
}
