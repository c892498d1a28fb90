//! "Did you mean": the known word that an unknown one is most likely a slip of.

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

/// A part of a URL without its percent signs (RFC 3986 section 2.1), if it is well formed.
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            let digits = std::str::from_utf8(digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = after;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
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
}

#[cfg(test)]
mod percent_tests {
    use super::*;

    #[test]
    fn percent_signs_have_two_digits_each() {
        assert_eq!(percent_decoded("a%40%c3%BC").as_deref(), Some("a@ü"));
        for wrong in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(percent_decoded(wrong), None, "{wrong}");
        }
    }
}
