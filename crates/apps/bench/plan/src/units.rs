//! Numbers with units, as people write them: `10s`, `2000/s`, `1M`, `512`, `64k`.
//!
//! One reader for scenarios, command lines and checks, so that a unit means the same everywhere.
//! Counts and rates take k, M and G as powers of 1000; sizes take k, M and G as powers of 1024.

/// A duration in µs: a number and `us`, `ms`, `s`, `m`, `h` or `d`. A bare number is not a
/// duration.
pub fn parse_duration_us(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "us" | "µs" => 1.0,
        "ms" => 1e3,
        "s" | "sec" => 1e6,
        "m" | "min" => 60e6,
        "h" => 3600e6,
        "d" => 86_400e6,
        "" => {
            return Err(format!(
                "`{text}` has no unit; write `{text}s` or `{text}ms`"
            ));
        }
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of time; known are us, ms, s, m, h, d"
            ));
        }
    };
    whole(number * factor, text)
}

/// A count: a whole number, or one with `k`, `M` or `G` (1000, 10^6, 10^9). `1_000_000` is read
/// too.
pub fn parse_count(text: &str) -> Result<u64, String> {
    let plain: String = text.chars().filter(|c| !matches!(c, '_' | ',')).collect();
    let (number, unit) = split(&plain)?;
    let scaled = number * thousand(unit, text)?;
    if (scaled - scaled.round()).abs() > 1e-6 {
        return Err(format!("`{text}` is not a whole number"));
    }
    whole(scaled, text)
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
    Ok(number * thousand(unit, text)? / seconds)
}

/// A size in bytes: a whole number, or one with `k`, `M`, `G` (1024, …), optionally followed by `B`
/// or `iB`.
pub fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let letter = unit.trim_end_matches('B').trim_end_matches('i');
    let factor = match letter {
        "" => 1.0,
        "k" | "K" => 1024.0,
        "M" | "m" => 1024.0 * 1024.0,
        "G" | "g" => 1024.0 * 1024.0 * 1024.0,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of size; known are B, k, M, G (powers of 1024)"
            ));
        }
    };
    whole(number * factor, text)
}

/// A share: `10%` or a number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let (number, unit) = split(text)?;
    let share = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return Err(format!("`{text}` is not a share; write `10%` or `0.1`")),
    };
    if share > 1.0 {
        return Err(format!("`{text}` is more than everything"));
    }
    Ok(share)
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

/// The number and what follows it. Negative numbers, infinities and exponents are nobody's input.
fn split(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok((number, unit.trim())),
        _ => Err(format!("`{text}` does not begin with a number")),
    }
}

fn thousand(unit: &str, text: &str) -> Result<f64, String> {
    Ok(match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "G" => 1e9,
        _ => {
            return Err(format!(
                "`{text}`: `{unit}` is unknown; known are k, M, G (powers of 1000)"
            ));
        }
    })
}

/// 2^53: up to here a f64 counts one by one.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

fn whole(value: f64, text: &str) -> Result<u64, String> {
    let rounded = value.round();
    if rounded > WHOLE_MAX {
        return Err(format!("`{text}` is too large"));
    }
    Ok(rounded as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(parse_duration_us("10s"), Ok(10_000_000));
        assert_eq!(parse_duration_us("1.5ms"), Ok(1500));
        assert_eq!(parse_duration_us("50 µs"), Ok(50));
        assert_eq!(parse_duration_us("2h"), Ok(7_200_000_000));
        assert_eq!(parse_count("250000"), Ok(250_000));
        assert_eq!(parse_count("1_000_000"), Ok(1_000_000));
        assert_eq!(parse_count("1.5M"), Ok(1_500_000));
        assert_eq!(parse_rate_per_s("2000/s"), Ok(2000.0));
        assert_eq!(parse_rate_per_s("200"), Ok(200.0));
        assert_eq!(parse_rate_per_s("1.2k/m"), Ok(20.0));
        assert_eq!(parse_size_bytes("512"), Ok(512));
        assert_eq!(parse_size_bytes("64k"), Ok(65_536));
        assert_eq!(parse_size_bytes("2MiB"), Ok(2_097_152));
        assert_eq!(parse_share("10%"), Ok(0.1));
        assert_eq!(parse_share("0.25"), Ok(0.25));
    }

    #[test]
    fn what_is_no_number_or_unit_is_refused() {
        for wrong in [
            "",
            "10",
            "s",
            "10x",
            "-5s",
            "1e3s",
            "1.2.3s",
            "inf s",
            "99999999999999999999s",
        ] {
            assert!(parse_duration_us(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1.5", "5x", "-1", "k"] {
            assert!(parse_count(wrong).is_err(), "{wrong}");
        }
        for wrong in ["5/x", "/s", "5q/s"] {
            assert!(parse_rate_per_s(wrong).is_err(), "{wrong}");
        }
        for wrong in ["5T", "B"] {
            assert!(parse_size_bytes(wrong).is_err(), "{wrong}");
        }
        for wrong in ["110%", "1.1", "5x"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
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
    }
}
