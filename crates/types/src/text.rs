//! Texts of people and of URLs: the guess what a word was meant to be, and percent-encoding.

/// The nearest of `known` if it is near enough to be what was meant: one letter in four may be
/// wrong, and one more. Two swapped letters count as one mistake.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // With more, the guess is more often noise than help.
    let distance_max = 1 + word.chars().count().min(30) / 4;
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Reads a table of cases, for tests: lines `INPUT => OUTPUT`, and comments behind `#`.
///
/// # Panics
/// If a line is neither.
pub fn cases(table: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = { table.lines() }.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_once(" => ").expect("INPUT => OUTPUT"))
}

/// Decodes a part of a URL (RFC 3986 section 2.1); none if a percent sign lacks its two digits, or
/// the result is not UTF-8.
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    String::from_utf8(percent_bytes(text, |_| None)?).ok()
}

/// Decodes a name or value of a query (WHATWG URL, `application/x-www-form-urlencoded`): `+` is a
/// space, and a percent sign without two digits stands for itself.
#[must_use]
pub fn form_decoded(text: &str) -> Vec<u8> {
    let lenient = |byte| Some(if byte == b'+' { b' ' } else { byte });
    percent_bytes(text, lenient).unwrap_or_default()
}

/// Decodes bytes; `other` gives the byte for a plus, and for a percent sign without two digits.
fn percent_bytes(text: &str, other: impl Fn(u8) -> Option<u8>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'%', [high, low, after @ ..]) if let Some(byte) = hex_byte(*high, *low) => {
                rest = after;
                byte
            }
            (b'%', _) => other(b'%')?,
            (b'+', _) => other(b'+').unwrap_or(b'+'),
            (&byte, _) => byte,
        });
    }
    Some(bytes)
}

#[must_use]
pub fn hex_value(digit: u8) -> Option<u8> {
    // A digit of base 16 fits.
    char::from(digit).to_digit(16).map(|value| value as u8)
}

#[must_use]
pub fn hex_byte(high: u8, low: u8) -> Option<u8> {
    Some(hex_value(high)? << 4 | hex_value(low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_suggested_and_far_ones_are_not() {
        let known = ["clients", "channels", "duration"];
        assert_eq!(nearest("client", known), Some("clients"));
        assert_eq!(nearest("cahnnels", known), Some("channels"));
        assert_eq!(nearest("durration", known), Some("duration"));
        assert_eq!(nearest("url", known), None);
    }

    #[test]
    fn percent_signs_have_two_digits_each() {
        assert_eq!(percent_decoded("a%40%c3%BC").as_deref(), Some("a@ü"));
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(percent_decoded(wrong), None, "{wrong}");
        }
    }
}
