//! Words and values of dialogues: JSON with times, patterns that JSON must fit, rows.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use serde_json::{Map, Value, json};

/// Result of a step: why it failed.
pub type Outcome = Result<(), String>;

/// Texts by the names that stand for them, without the angle brackets.
#[derive(Default)]
pub struct Variables(HashMap<String, String>);

impl Variables {
    pub fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.trim().to_owned(), value);
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces the names of variables by what they stand for, the inner ones first.
    #[must_use]
    pub fn filled(&self, text: &str) -> String {
        let mut pieces = text.split('>');
        let mut out = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let name = out.rfind('<');
            match name.and_then(|at| Some((at, self.get(&out[at + 1..])?))) {
                Some((at, value)) => {
                    out.truncate(at);
                    out.push_str(value);
                }
                None => out.push('>'),
            }
            out.push_str(piece);
        }
        out
    }

    /// Checks that a value fits a pattern: objects have the fields that the pattern names, a field
    /// that is `null` there may be missing. In texts of the pattern `*` is anything, `~x` contains
    /// x, `!~x` does not, `>1` is a number above it, `#3` has three elements, and `?NAME` takes the
    /// value as a variable. The pattern `{}` alone is anything.
    ///
    /// # Errors
    /// Where they differ.
    pub fn fit(&mut self, found: &Value, wanted: &Value) -> Outcome {
        match wanted == &json!({}) {
            true => Ok(()),
            false => fit_part(found, wanted, self),
        }
    }

    /// Checks a message against what a step wants: its text; `~ {pattern}` for JSON, or an answer
    /// with status 200 and JSON; `400 ~ {pattern}`; `400 *` for any body; `has PART && !PART` for
    /// a text with one and without the other.
    ///
    /// # Errors
    /// Where they differ.
    pub fn check(&mut self, told: &str, wanted: &str) -> Outcome {
        if let Some((status, pattern)) = wanted.split_once("~ ").filter(|(it, _)| it.len() < 5) {
            let is_answer = told.starts_with(|first: char| first.is_ascii_digit());
            let status = if is_answer && status.is_empty() {
                "200 "
            } else {
                status
            };
            let json = told.strip_prefix(status).ok_or(told)?;
            let json = serde_json::from_str(json).map_err(|error| format!("{error}: {told}"))?;
            return self.fit(&json, &parse(pattern, 0));
        }
        if let Some(status) = wanted.strip_suffix(" *") {
            return same(&word(told).0, &status);
        }
        let Some(parts) = wanted.strip_prefix("has ") else {
            return same(&told, &wanted);
        };
        let holds = |part: &str| match part.strip_prefix('!') {
            Some(part) => !told.contains(part),
            None => told.contains(part),
        };
        match parts.split(" && ").find(|part| !holds(part)) {
            Some(part) => Err(format!("{part} of {told}")),
            None => Ok(()),
        }
    }
}

/// Parses JSON. A text `@+60` is the Unix time in seconds a minute from now.
///
/// # Panics
/// If it is no JSON.
#[must_use]
pub fn parse(text: &str, now_unix_s: u64) -> Value {
    let value = serde_json::from_str(text);
    let mut value = value.unwrap_or_else(|error| panic!("{error} in {text}"));
    put_times(&mut value, now_unix_s);
    value
}

/// Puts times in the place of texts such as `@+60`.
pub fn put_times(value: &mut Value, now_unix_s: u64) {
    match value {
        Value::Array(all) => {
            all.iter_mut().for_each(|it| put_times(it, now_unix_s));
        }
        Value::Object(all) => {
            all.values_mut().for_each(|it| put_times(it, now_unix_s));
        }
        Value::String(text) => {
            let offset = text.strip_prefix('@').and_then(|it| it.parse().ok());
            if let Some(offset) = offset {
                *value = json!(now_unix_s.saturating_add_signed(offset));
            }
        }
        _ => {}
    }
}

fn fit_part(found: &Value, wanted: &Value, variables: &mut Variables) -> Outcome {
    let differ = || Err(format!("found {found}\nwanted {wanted}"));
    match (found, wanted) {
        (_, Value::String(pattern)) if pattern == "*" => match found {
            Value::Null => differ(),
            _ => Ok(()),
        },
        (_, Value::String(pattern)) if pattern.starts_with('?') => {
            variables.set(&pattern[1..], text_of(found));
            Ok(())
        }
        (_, Value::String(pattern)) if pattern.starts_with('~') => {
            match text_of(found).contains(&pattern[1..]) {
                true => Ok(()),
                false => differ(),
            }
        }
        (_, Value::String(pattern)) if pattern.starts_with("!~") => {
            match text_of(found).contains(&pattern[2..]) {
                true => differ(),
                false => Ok(()),
            }
        }
        (Value::Number(found), Value::String(pattern)) if pattern.starts_with('>') => {
            let least: Option<f64> = pattern[1..].parse().ok();
            match found.as_f64() > least {
                true => Ok(()),
                false => differ(),
            }
        }
        (Value::Array(_) | Value::Object(_), Value::String(pattern))
            if pattern.starts_with('#') =>
        {
            let count = found.as_array().map(Vec::len);
            let count = count.or_else(|| found.as_object().map(Map::len));
            match count.map(|count| count.to_string()).as_deref() == Some(&pattern[1..]) {
                true => Ok(()),
                false => differ(),
            }
        }
        (Value::Object(found), Value::Object(wanted)) if !wanted.is_empty() => {
            wanted.iter().try_for_each(|(name, wanted)| {
                let found = found.get(name).unwrap_or(&Value::Null);
                fit_part(found, wanted, variables).map_err(|why| format!("{name}: {why}"))
            })
        }
        (Value::Array(all), Value::Array(wanted)) if all.len() == wanted.len() => all
            .iter()
            .zip(wanted)
            .try_for_each(|(found, wanted)| fit_part(found, wanted, variables)),
        _ if found == wanted => Ok(()),
        _ => differ(),
    }
}

/// A text without its quotes, anything else as JSON.
#[must_use]
pub fn text_of(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

/// Cells of the rows of a loop: words in its line with commas between, where `1..9` and words
/// of the stage stand for several; or the lines below it, with bars between the cells.
pub(crate) fn rows(
    line: &str,
    block: &str,
    several: impl Fn(&str) -> Option<Vec<String>>,
) -> Vec<Vec<String>> {
    if line.is_empty() {
        let rows = block.lines().filter(|row| !row.starts_with('#'));
        let cells = |row: &str| row.split(" | ").map(cell).collect();
        return rows.map(cells).collect();
    }
    let words = line.split(", ").flat_map(|word| {
        several(word).unwrap_or_else(|| match numbers(word) {
            Some(numbers) => numbers.map(|number| number.to_string()).collect(),
            None => vec![word.to_owned()],
        })
    });
    words.map(|word| vec![word]).collect()
}

/// Numbers of `FIRST..LAST`, with the last one.
#[must_use]
pub fn numbers(text: &str) -> Option<RangeInclusive<u64>> {
    let (first, last) = text.split_once("..")?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

/// A cell; two apostrophes are an empty one.
#[must_use]
pub fn cell(text: &str) -> String {
    let text = text.trim();
    if text == "''" { "" } else { text }.to_owned()
}

/// Splits `what => wanted`; nothing is wanted where there is no arrow.
#[must_use]
pub fn arrow(text: &str) -> (&str, &str) {
    let (what, wanted) = text.split_once("=>").unwrap_or((text, ""));
    (what.trim(), wanted.trim())
}

/// Splits off a name in capitals, if the text begins with one.
#[must_use]
pub fn named(text: &str) -> (&str, &str) {
    let (name, rest) = word(text);
    let is_name = name.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_name { (name, rest) } else { ("", text) }
}

/// Splits off the first word.
#[must_use]
pub fn word(text: &str) -> (&str, &str) {
    text.split_once(' ').unwrap_or((text, ""))
}

/// Bytes of a text with the escapes of Rust's byte strings, as fixtures have them, and with
/// `\{1000*a}` for a thousand times `a`.
///
/// # Panics
/// At another escape.
#[must_use]
pub fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        let (true, [kind, behind @ ..]) = (*first == b'\\', rest) else {
            bytes.push(*first);
            continue;
        };
        rest = behind;
        bytes.push(match kind {
            b'r' => b'\r',
            b'n' => b'\n',
            b't' => b'\t',
            b'0' => b'\0',
            b'\\' | b'"' | b'\'' => *kind,
            b'{' => {
                let text = str::from_utf8(rest).expect("UTF-8");
                let (run, behind) = text.split_once('}').expect("an end of the run");
                rest = behind.as_bytes();
                let (count, one) = run.split_once('*').expect("COUNT*BYTES");
                bytes.extend(unescaped(one).repeat(count.parse().expect("a count")));
                continue;
            }
            b'x' => {
                let digits;
                (digits, rest) = rest.split_at(2);
                let digits = str::from_utf8(digits).expect("digits");
                u8::from_str_radix(digits, 16).expect("two digits")
            }
            _ => panic!("no escape in {text}"),
        });
    }
    bytes
}

/// Percent-encodes every byte, for a part of a query.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Compares what was found with what was wanted.
///
/// # Errors
/// Both, if they differ.
pub fn same<T: PartialEq + std::fmt::Debug>(found: &T, wanted: &T) -> Outcome {
    match found == wanted {
        true => Ok(()),
        false => Err(format!("found {found:?}, wanted {wanted:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_fit_patterns_or_do_not() {
        for (found, pattern, fits) in [
            (r#"{"a":1,"b":2}"#, r#"{"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a":2}"#, false),
            (r#"{"a":1}"#, r#"{"b":null}"#, true),
            (r#"{"a":{"b":1}}"#, r#"{"a":{}}"#, false),
            (r#"{"a":1}"#, "{}", true),
            ("[1,2]", r#"[1,"*"]"#, true),
            ("[1,2]", "[1]", false),
            ("null", r#""*""#, false),
            (r#""abc""#, r#""~b""#, true),
            (r#""abc""#, r#""!~b""#, false),
            ("[\"abc\"]", r#""~b""#, true),
            ("2", r#"">1""#, true),
            ("1", r#"">1""#, false),
            ("[1,2]", r##""#2""##, true),
            (r#"{"a":1}"#, r##""#2""##, false),
        ] {
            let (found, wanted) = (parse(found, 0), parse(pattern, 0));
            let outcome = Variables::default().fit(&found, &wanted);
            assert_eq!(outcome.is_ok(), fits, "{found} {pattern}");
        }
        let mut variables = Variables::default();
        let pattern = parse(r#"{"a":"?A"}"#, 0);
        { variables.fit(&parse(r#"{"a":"x"}"#, 0), &pattern) }.expect("it fits");
        assert_eq!(variables.get("A"), Some("x"));
    }
}
