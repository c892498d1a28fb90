//! Values of arguments, read as `throng_types::units` does, and spans as people read them.

use throng_types::units::{parse_count, parse_duration_ms};

/// Reads whole seconds above 0: `90s`, `15m`, `1h`, `30d` or `1h30m`.
pub(crate) fn duration_s(text: &str) -> Result<u64, String> {
    let ms = parse_duration_ms(text).ok().filter(|ms| ms % 1000 == 0);
    ms.map(|ms| ms / 1000)
        .filter(|&seconds| seconds > 0)
        .ok_or_else(|| "expected a duration such as 90s, 15m, 1h or 30d".to_owned())
}

/// Reads a count above 0: `50000`, `50_000`, `50k` or `1M`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let count = parse_count(text).ok().filter(|&count| count > 0);
    count.ok_or_else(|| "expected a whole number above 0, such as 50000, 50k or 1M".to_owned())
}

/// Reads a header line, `Name: value`.
pub(crate) fn header(line: &str) -> Result<(String, String), String> {
    line.split_once(':')
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .ok_or_else(|| format!("`{line}` is not a header line; write `Name: value`"))
}

/// Writes a span in its two largest units.
pub(crate) fn span(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match seconds {
        86_400.. => format!("{days} d {hours} h"),
        3600.. => format!("{hours} h {minutes} min"),
        60.. => format!("{minutes} min {} s", seconds % 60),
        _ => format!("{seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, expect) in [
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("1h30m", Some(5400)),
            ("30d", Some(2_592_000)),
            ("", None),
            ("90", None),
            ("0s", None),
            ("h", None),
            ("1w", None),
            ("1é", None),
            ("-1s", None),
            ("99999999999999999999s", None),
            ("999999999999999999d", None),
        ] {
            assert_eq!(duration_s(text).ok(), expect, "{text}");
        }
    }

    #[test]
    fn counts_may_be_short() {
        for (text, expect) in [
            ("1", Some(1)),
            ("1_000_000", Some(1_000_000)),
            ("50k", Some(50_000)),
            ("2M", Some(2_000_000)),
            ("0", None),
            ("", None),
            ("k", None),
            ("+1", None),
            ("1.5k", Some(1500)),
            ("1.2345k", None),
            ("99999999999999M", None),
        ] {
            assert_eq!(count(text).ok(), expect, "{text}");
        }
    }

    #[test]
    fn headers_are_read() {
        assert_eq!(
            header("Origin: http://a"),
            Ok(("Origin".into(), "http://a".into()))
        );
        assert!(header("Origin").is_err());
    }
}
