//! Numbers with units, as people write and read them: `10s`, `64KiB`, `2000/s`, `1M`, `10%`.
//!
//! One reader for configurations, scenarios and command lines, so that a unit means the same
//! everywhere. Counts and rates take k, M and G as powers of 1000; sizes take them as powers of
//! 1024. Errors are sentences that say what to write instead.
//!
//! Invariant: reading what [`duration_text`] or [`size_text`] wrote gives the same number.

const THOUSANDS: [(&str, u64); 5] = [
    ("", 1),
    ("k", 1000),
    ("K", 1000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
];

/// Units of time, in µs.
const DURATIONS: [(&str, u64); 9] = [
    ("us", 1),
    ("µs", 1),
    ("ms", 1000),
    ("s", 1_000_000),
    ("sec", 1_000_000),
    ("m", 60_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];

/// In bytes; any of them may be followed by `B` or `iB`.
const SIZES: [(&str, u64); 7] = [
    ("", 1),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("m", 1 << 20),
    ("G", 1 << 30),
    ("g", 1 << 30),
];

/// A number as it is written: the digits before and behind the point.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u128,
    behind: u32,
}

impl Decimal {
    /// Times a factor; nothing if that is too large.
    fn times(self, factor: u64) -> Option<Self> {
        let digits = self.digits.checked_mul(u128::from(factor))?;
        Some(Self { digits, ..self })
    }

    fn rounded(self) -> u128 {
        let unit = 10_u128.pow(self.behind);
        (self.digits + unit / 2) / unit
    }

    fn is_whole(self) -> bool {
        self.digits.is_multiple_of(10_u128.pow(self.behind))
    }

    fn as_f64(self) -> f64 {
        self.digits as f64 / 10_f64.powi(self.behind as i32)
    }
}

/// The number at the start of a text, and what follows it. Signs and exponents are nobody's input.
fn split(text: &str) -> Result<(Decimal, &str), String> {
    let wrong = || format!("`{text}` does not begin with a number");
    let rest = text.trim_start();
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
    let (number, unit) = rest.split_at(end);
    let (before, behind) = number.split_once('.').unwrap_or((number, ""));
    if number.is_empty() || number == "." || behind.contains('.') {
        return Err(wrong());
    }
    // Far more than any unit needs; so nothing below overflows.
    if behind.len() > 9 || before.len() > 20 {
        return Err(format!("`{text}` has too many digits"));
    }
    let digits = format!("{before}{behind}").parse().map_err(|_| wrong())?;
    let behind = behind.len() as u32;
    Ok((Decimal { digits, behind }, unit))
}

fn factor_of(unit: &str, units: &[(&str, u64)]) -> Option<u64> {
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    Some(*factor)
}

fn fits(value: Option<u128>, text: &str) -> Result<u64, String> {
    value
        .and_then(|value| u64::try_from(value).ok())
        .ok_or_else(|| format!("`{text}` is too large"))
}

/// In µs. The sum of all parts, so that nothing is rounded twice.
fn duration(text: &str) -> Result<u128, String> {
    let mut rest = text.trim();
    let mut total = 0_u128;
    loop {
        let (number, after) = split(rest)?;
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_alphabetic());
        let (unit, after) = after.split_at(letters.unwrap_or(after.len()));
        let factor = match factor_of(unit, &DURATIONS) {
            Some(factor) => factor,
            None if unit.is_empty() && after.is_empty() => {
                return Err(format!(
                    "`{text}` has no unit; write `{text}s` or `{text}ms`"
                ));
            }
            None => {
                return Err(format!(
                    "`{unit}{after}` is not a unit of time; known are us, ms, s, m, h, d"
                ));
            }
        };
        let part = number.times(factor).map(Decimal::rounded);
        let sum = part.and_then(|part| total.checked_add(part));
        total = sum.ok_or_else(|| format!("`{text}` is too large"))?;
        if after.is_empty() {
            return Ok(total);
        }
        rest = after;
    }
}

/// A duration in µs: numbers, each with `us`, `ms`, `s`, `m`, `h` or `d`, such as `1.5s` or
/// `1m30s`. A number without a unit is not a duration.
pub fn parse_duration_us(text: &str) -> Result<u64, String> {
    fits(Some(duration(text)?), text)
}

/// As [`parse_duration_us`], in ms; it must be a whole number of them.
pub fn parse_duration_ms(text: &str) -> Result<u64, String> {
    let us = duration(text)?;
    if !us.is_multiple_of(1000) {
        return Err(format!("`{text}` is not a whole number of milliseconds"));
    }
    fits(Some(us / 1000), text)
}

/// A size in bytes: a number, or one with `k`, `M` or `G` (1024, …), which `B` or `iB` may follow.
pub fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = unit.trim();
    let letter = unit.strip_suffix('B').unwrap_or(unit);
    let letter = letter.strip_suffix('i').unwrap_or(letter);
    let Some(factor) = factor_of(letter, &SIZES) else {
        return Err(format!(
            "`{unit}` is not a unit of size; known are B, KiB, MiB, GiB (powers of 1024)"
        ));
    };
    fits(number.times(factor).map(Decimal::rounded), text)
}

/// A count: a whole number, or one with `k`, `M` or `G` (1000, …). `1_000_000` is read too.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let (number, unit) = split(&plain)?;
    let scaled = number.times(thousands(unit, text)?);
    if scaled.is_some_and(|scaled| !scaled.is_whole()) {
        return Err(format!("`{text}` is not a whole number"));
    }
    fits(scaled.map(Decimal::rounded), text)
}

/// A rate in events per second: a number with or without `k` or `M`, then `/s`, `/m` or `/h`; `/s`
/// may be left out.
pub fn parse_rate_per_s(text: &str) -> Result<f64, String> {
    let (value, per) = text.split_once('/').unwrap_or((text, "s"));
    let (number, unit) = split(value)?;
    let seconds = match per.trim() {
        "s" | "sec" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        other => {
            return Err(format!(
                "`/{other}` is not a rate; write `/s`, `/m` or `/h`"
            ));
        }
    };
    Ok(number.as_f64() * thousands(unit, text)? as f64 / seconds)
}

/// A share: `10%` or a number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let share = match unit.trim() {
        "%" => number.as_f64() / 100.0,
        "" => number.as_f64(),
        _ => return Err(format!("`{text}` is not a share; write `10%` or `0.1`")),
    };
    if share > 1.0 {
        return Err(format!("`{text}` is more than everything"));
    }
    Ok(share)
}

fn thousands(unit: &str, text: &str) -> Result<u64, String> {
    let unit = unit.trim();
    // People write rates with a small m too.
    let unit = if unit == "m" { "M" } else { unit };
    factor_of(unit, &THOUSANDS)
        .ok_or_else(|| format!("`{text}`: `{unit}` is unknown; known are k, M, G (powers of 1000)"))
}

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

/// Writes a measured size; a difference below zero is noise around something small.
#[must_use]
pub fn measured_bytes(bytes: f64) -> String {
    if bytes < 0.0 {
        "not measurable".to_owned()
    } else {
        format_bytes(bytes)
    }
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_read() {
        let lines = include_str!("units.txt").lines();
        for line in lines.filter(|line| !line.starts_with('#')) {
            let (kind, rest) = line.split_once(' ').expect("KIND TEXT");
            let (text, expected) = rest.split_once(" => ").expect("TEXT => NUMBER");
            let whole = |number: Result<u64, String>| number.map(|number| number as f64);
            let found = match kind {
                "duration" => whole(parse_duration_us(text)),
                "ms" => whole(parse_duration_ms(text)),
                "size" => whole(parse_size_bytes(text)),
                "count" => whole(parse_count(text)),
                "rate" => parse_rate_per_s(text),
                _ => parse_share(text),
            };
            let found = found.map_or_else(|_| "refused".to_owned(), |number| number.to_string());
            assert_eq!(found, expected, "{line}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value: u64) {
            prop_assert_eq!(parse_duration_ms(&duration_text(value)), Ok(value));
            prop_assert_eq!(parse_size_bytes(&size_text(value)), Ok(value));
        }

        #[test]
        fn any_text_is_survived(text: String) {
            let _ = (parse_duration_ms(&text), parse_size_bytes(&text), parse_count(&text));
            let _ = (parse_rate_per_s(&text), parse_share(&text));
        }
    }

    #[test]
    fn figures_are_shown_with_three_digits() {
        assert_eq!(format_us(7.0), "7 µs");
        assert_eq!(format_us(1234.0), "1.23 ms");
        assert_eq!(format_us(45_600.0), "45.6 ms");
        assert_eq!(format_us(12_345_678.0), "12.3 s");
        assert_eq!(format_bytes(512.0), "512 B");
        assert_eq!(format_bytes(16.02 * 1024.0 * 1024.0 * 1024.0), "16.0 GiB");
        assert_eq!(measured_bytes(-246.0), "not measurable");
        assert_eq!(measured_bytes(140.0), "140 B");
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(1000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
