//! The pattern with which `channels` picks channels.

/// A shell-like pattern over whole channel names: `*` is any run of characters, `?` any one
/// character, `\` takes the next character as it is. The empty pattern picks everything.
///
/// Centrifugo's patterns also know character classes and alternatives; here those are plain
/// characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelPattern(Vec<Piece>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Run,
    One,
    Exactly(char),
}

impl ChannelPattern {
    /// Reads a pattern; every text is one.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        if pattern.is_empty() {
            return Self(vec![Piece::Run]);
        }
        let mut pieces = Vec::new();
        let mut characters = pattern.chars();
        while let Some(character) = characters.next() {
            let piece = match character {
                '*' => Piece::Run,
                '?' => Piece::One,
                '\\' => Piece::Exactly(characters.next().unwrap_or('\\')),
                other => Piece::Exactly(other),
            };
            if piece != Piece::Run || pieces.last() != Some(&Piece::Run) {
                pieces.push(piece);
            }
        }
        Self(pieces)
    }

    /// Whether the pattern covers the whole name. Costs at most the product of both lengths.
    #[must_use]
    pub fn matches(&self, channel: &str) -> bool {
        let mut piece = 0;
        let mut rest = channel;
        // Where to come back to: the last run, and what it has left to swallow.
        let mut retry: Option<(usize, &str)> = None;
        loop {
            let next = rest.chars().next();
            match (self.0.get(piece), next) {
                (Some(Piece::Run), _) => {
                    retry = Some((piece, rest));
                    piece += 1;
                    continue;
                }
                (Some(Piece::One), Some(character)) => {
                    piece += 1;
                    rest = &rest[character.len_utf8()..];
                    continue;
                }
                (Some(Piece::Exactly(wanted)), Some(character)) if *wanted == character => {
                    piece += 1;
                    rest = &rest[character.len_utf8()..];
                    continue;
                }
                (None, None) => return true,
                _ => {}
            }
            let Some((run, kept)) = retry else {
                return false;
            };
            let Some(swallowed) = kept.chars().next() else {
                return false;
            };
            let kept = &kept[swallowed.len_utf8()..];
            retry = Some((run, kept));
            piece = run + 1;
            rest = kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_whole_names() {
        for (pattern, covered, not_covered) in [
            ("", &["", "a", "a:b"][..], &[][..]),
            ("*", &["", "a:b"], &[]),
            (
                "chat:*",
                &["chat:", "chat:1", "chat:a:b"],
                &["chat", "xchat:1"],
            ),
            ("*:1", &["chat:1", ":1", "1:1:1"], &["chat:12", "1"]),
            ("a*b*c", &["abc", "a--b--c", "abbcc"], &["ab", "acb"]),
            ("??", &["ab", "äö"], &["a", "abc"]),
            ("a\\*", &["a*"], &["ab", "a"]),
            ("a[b]{c}", &["a[b]{c}"], &["ab"]),
            ("a\\", &["a\\"], &["a"]),
            ("**a**", &["a", "bab"], &["b"]),
        ] {
            let compiled = ChannelPattern::new(pattern);
            for name in covered {
                assert!(compiled.matches(name), "{pattern} should cover {name}");
            }
            for name in not_covered {
                assert!(!compiled.matches(name), "{pattern} should not cover {name}");
            }
        }
    }

    #[test]
    fn many_runs_do_not_explode() {
        let pattern = ChannelPattern::new(&"*a".repeat(60));
        assert!(!pattern.matches(&format!("{}b", "a".repeat(250))));
    }
}
