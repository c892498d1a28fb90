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
