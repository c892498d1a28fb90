//! Numbers with units, written: exactly, to be read back, or as figures for people.

/// The units that texts are written with, in ms and in bytes.
const DURATION_TEXTS: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const SIZE_TEXTS: [(&str, u64); 4] = [
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// The shortest exact text of a duration in ms.
#[must_use]
pub fn duration_text(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    exact(ms, &DURATION_TEXTS)
}

/// The shortest exact text of a size.
#[must_use]
pub fn size_text(bytes: u64) -> String {
    if bytes == 0 {
        return "0B".to_owned();
    }
    exact(bytes, &SIZE_TEXTS)
}

fn exact(value: u64, units: &[(&str, u64)]) -> String {
    let largest = units
        .iter()
        .rev()
        .find(|(_, factor)| value.is_multiple_of(*factor));
    largest.map_or_else(
        || value.to_string(),
        |(name, factor)| format!("{}{name}", value / factor),
    )
}

/// µs as people read them: three significant digits and the largest unit that fits.
#[must_use]
pub fn format_us(us: f64) -> String {
    let (value, unit) = if us < 1000.0 {
        (us, "µs")
    } else if us < 1e6 {
        (us / 1e3, "ms")
    } else {
        (us / 1e6, "s")
    };
    format!("{} {unit}", three_digits(value))
}

/// Bytes as people read them, in powers of 1024.
#[must_use]
pub fn format_bytes(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            return format!("{} {unit}", three_digits(value));
        }
        value /= 1024.0;
    }
    format!("{} TiB", three_digits(value))
}

fn three_digits(value: f64) -> String {
    let decimals = if value >= 100.0 || value.fract() == 0.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

/// A whole number with commas between its thousands.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_with_three_digits() {
        assert_eq!(format_us(7.0), "7 µs");
        assert_eq!(format_us(1234.0), "1.23 ms");
        assert_eq!(format_us(45_600.0), "45.6 ms");
        assert_eq!(format_us(12_345_678.0), "12.3 s");
        assert_eq!(format_bytes(512.0), "512 B");
        assert_eq!(format_bytes(16.02 * 1024.0 * 1024.0 * 1024.0), "16.0 GiB");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
