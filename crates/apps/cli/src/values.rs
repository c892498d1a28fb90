//! Parsing of arguments and display of values, where several commands do it the
//! same way.

/// Seconds of `90s`, `15m`, `1h` or `30d`, or of several: `1h30m`.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn duration_s(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 4] = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let read = || {
        let mut total = 0_u64;
        let mut rest = text.trim();
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit())?;
            let (number, after) = rest.split_at(end);
            let unit = after.chars().next()?;
            let (_, seconds) = UNITS.into_iter().find(|(name, _)| *name == unit)?;
            total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(seconds)?)?;
            rest = &after[unit.len_utf8()..];
        }
        (total > 0).then_some(total)
    };
    read().ok_or_else(|| "expected a duration such as 90s, 15m, 1h or 30d".to_owned())
}

/// A count: a whole number, with `_` between digits, or with `k` or `M` behind them.
///
/// # Errors
/// A sentence for the user.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text
            .strip_suffix(['m', 'M'])
            .map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let digits: String = digits.chars().filter(|&c| c != '_').collect();
    let number = digits.parse::<u64>().ok();
    number
        .filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
        .and_then(|number| number.checked_mul(unit))
        .filter(|&number| number > 0)
        .ok_or_else(|| "expected a whole number above 0, such as 50000, 50k or 1M".to_owned())
}

/// A span in its two largest units.
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
            ("1.5k", None),
            ("99999999999999M", None),
        ] {
            assert_eq!(count(text).ok(), expect, "{text}");
        }
    }
}
