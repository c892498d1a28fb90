//! The kinds whose values are whole numbers: counts, durations, sizes.

use throng_types::units::{duration_text, parse_duration_ms, parse_size_bytes, size_text};
use toml::de::DeValue;

use super::{Fault, Input, Kind, Rule, quoted};

/// A whole number, without a unit.
pub(crate) struct Count;

impl Kind for Count {
    type Field = u32;

    fn name() -> String {
        "number".to_owned()
    }

    fn expected(rule: &Rule) -> String {
        let rule = rule.range(rule.min, rule.max.min(u32::MAX.into()));
        format!("a whole number{}", rule.bounds(|value| value.to_string()))
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<u32, Fault> {
        let number = match given {
            Input::Text(text) => text.trim().parse().ok(),
            Input::Toml(value) => integer(value.get_ref()),
        };
        number
            .filter(|&number| rule.admits(number))
            .and_then(|number| u32::try_from(number).ok())
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u32) -> Option<String> {
        Some(value.to_string())
    }
}

/// Milliseconds, written with a unit.
pub(crate) struct Duration;

impl Kind for Duration {
    type Field = u64;

    fn name() -> String {
        "duration".to_owned()
    }

    fn expected(rule: &Rule) -> String {
        let bounds = rule.bounds(|ms| quoted(&duration_text(ms)));
        if bounds.is_empty() {
            return "a duration such as \"250ms\" or \"5m\"".to_owned();
        }
        format!("a duration{bounds}")
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<u64, Fault> {
        given
            .as_str()
            .and_then(|text| parse_duration_ms(text).ok())
            .filter(|&ms| rule.admits(ms))
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u64) -> Option<String> {
        Some(quoted(&duration_text(*value)))
    }
}

/// Bytes, written with a unit or as a bare number.
pub(crate) struct Size;

impl Kind for Size {
    type Field = u64;

    fn name() -> String {
        "size".to_owned()
    }

    fn expected(rule: &Rule) -> String {
        let bounds = rule.bounds(|bytes| quoted(&size_text(bytes)));
        if bounds.is_empty() {
            return "a size such as \"64KiB\" or \"1MiB\"".to_owned();
        }
        format!("a size{bounds}")
    }

    fn read(given: &Input<'_>, rule: &Rule) -> Result<u64, Fault> {
        let bytes = match given {
            Input::Toml(value) if value.get_ref().is_integer() => integer(value.get_ref()),
            _ => given.as_str().and_then(|text| parse_size_bytes(text).ok()),
        };
        bytes
            .filter(|&bytes| rule.admits(bytes))
            .map_or_else(|| Self::refuse(given, rule), Ok)
    }

    fn write(value: &u64) -> Option<String> {
        Some(quoted(&size_text(*value)))
    }
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}
