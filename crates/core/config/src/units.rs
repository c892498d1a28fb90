//! Texts with units: durations and sizes, both ways.
//!
//! Invariant: reading what was written gives the same number.

const DURATIONS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];

const SIZES: [(&str, u64); 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Milliseconds of `250ms`, `10s`, `1m30s`: whole numbers, each with its unit.
pub(crate) fn duration_ms(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    let mut total = 0_u64;
    loop {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at_checked(digits)?;
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = after.split_at_checked(letters)?;
        total = total.checked_add(scaled(number, unit, &DURATIONS)?)?;
        if after.is_empty() {
            return Some(total);
        }
        rest = after;
    }
}

/// Bytes of `64KiB` or `512B`; a bare number counts bytes.
pub(crate) fn size_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = unit.trim_start();
    scaled(number, if unit.is_empty() { "B" } else { unit }, &SIZES)
}

/// The shortest exact text of a duration.
pub(crate) fn duration_text(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    exact(ms, &DURATIONS)
}

/// The shortest exact text of a size.
pub(crate) fn size_text(bytes: u64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    exact(bytes, &SIZES)
}

fn scaled(number: &str, unit: &str, units: &[(&str, u64)]) -> Option<u64> {
    // `parse` would take a sign, which the digit count above rules out.
    let number: u64 = number.parse().ok()?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    number.checked_mul(*factor)
}

fn exact(value: u64, units: &[(&str, u64)]) -> String {
    units
        .iter()
        .rev()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .map_or_else(
            || value.to_string(),
            |(name, factor)| format!("{}{name}", value / factor),
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_need_units() {
        for (text, ms) in [
            ("0s", 0),
            ("250ms", 250),
            ("10s", 10_000),
            ("1m30s", 90_000),
            (" 2h ", 7_200_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(duration_ms(text), Some(ms), "{text}");
        }
        for text in [
            "",
            "10",
            "s",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "1S",
            "1sec",
            "10s5",
            "1s,",
            "é",
            "1é",
            "99999999999999999999s",
            "18446744073709551615s",
        ] {
            assert_eq!(duration_ms(text), None, "{text}");
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512B", 512),
            ("64KiB", 65_536),
            ("64 KiB", 65_536),
            ("1MiB", 1_048_576),
            ("2GiB", 2_147_483_648),
        ] {
            assert_eq!(size_bytes(text), Some(bytes), "{text}");
        }
        for text in [
            "",
            "KiB",
            "64k",
            "64KB",
            "1.5MiB",
            "-1",
            "1é",
            "99999999999GiB",
        ] {
            assert_eq!(size_bytes(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value: u64) {
            prop_assert_eq!(duration_ms(&duration_text(value)), Some(value));
            prop_assert_eq!(size_bytes(&size_text(value)), Some(value));
        }

        #[test]
        fn any_text_is_survived(text: String) {
            let _ = (duration_ms(&text), size_bytes(&text));
        }
    }
}
