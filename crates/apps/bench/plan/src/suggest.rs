//! "Did you mean": the known word nearest to an unknown one.

/// The nearest of `known` if it is near enough to be what was meant.
///
/// A third of the letters may be wrong; a distance that counts two swapped letters as one mistake.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= (candidate.len().max(word.len()) / 3).max(1))
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
