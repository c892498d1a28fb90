//! The pattern with which `channels` picks channels.

/// A shell-like pattern over whole channel names: `*` is any run of characters, `?` any one
/// character, `{a,b}` any of its alternatives, `\` takes the next character as it is. The empty
/// pattern picks everything.
///
/// Centrifugo's patterns also know character classes; here those are plain characters, and so are
/// the braces of a pattern that has more than `GROUPS_MAX` groups or `EXPANDED_MAX` meanings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(Vec<Expanded>);

/// One of the meanings of a pattern with alternatives.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Expanded(Vec<Piece>);

/// Opening braces of a pattern.
const GROUPS_MAX: usize = 16;
/// Patterns without alternatives that one with alternatives stands for.
const EXPANDED_MAX: usize = 64;

/// A group of alternatives: what stands before it, the alternatives, what stands behind.
type Group<'a> = (&'a str, Vec<&'a str>, &'a str);

/// The first group of alternatives that is closed.
fn first_group(pattern: &str) -> Option<Group<'_>> {
    let (mut depth, mut from, mut cuts) = (0, 0, Vec::new());
    let mut characters = pattern.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => {
                characters.next();
            }
            '{' => {
                if depth == 0 {
                    (from, cuts) = (at, vec![at]);
                }
                depth += 1;
            }
            ',' if depth == 1 => cuts.push(at),
            '}' if depth == 1 => {
                cuts.push(at);
                let cuts = cuts.windows(2);
                let alternatives = cuts.map(|cut| &pattern[cut[0] + 1..cut[1]]);
                return Some((&pattern[..from], alternatives.collect(), &pattern[at + 1..]));
            }
            '}' if depth > 1 => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Appends what a pattern stands for; false if that is too much.
fn expand(pattern: &str, out: &mut Vec<Expanded>) -> bool {
    let Some((before, alternatives, behind)) = first_group(pattern) else {
        out.push(Expanded::new(pattern));
        return out.len() <= EXPANDED_MAX;
    };
    let mut alternatives = alternatives.into_iter();
    alternatives.all(|alternative| expand(&format!("{before}{alternative}{behind}"), out))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece {
    Run,
    One,
    Exactly(char),
}

impl NamePattern {
    /// Reads a pattern; every text is one.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        let mut all = Vec::new();
        if pattern.is_empty() {
            all.push(Expanded(vec![Piece::Run]));
        } else if pattern.matches('{').count() > GROUPS_MAX || !expand(pattern, &mut all) {
            all = vec![Expanded::new(pattern)];
        }
        Self(all)
    }

    /// Tells whether the pattern covers the whole name. Costs at most the product of both lengths,
    /// for each of its meanings.
    #[must_use]
    pub fn matches(&self, channel: &str) -> bool {
        self.0.iter().any(|expanded| expanded.matches(channel))
    }
}

impl Expanded {
    fn new(pattern: &str) -> Self {
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

    fn matches(&self, channel: &str) -> bool {
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
            ("a[b]{c}", &["a[b]c"], &["ab"]),
            ("{a,b:*}", &["a", "b:1"], &["b", "{a,b:1}", "a,b:1"]),
            ("x{,1}{y,{z,w?}}", &["xy", "x1z", "x1w2"], &["x", "x1w"]),
            ("{a,b", &["{a,b"], &["a"]),
            ("\\{a,b}", &["{a,b}"], &["a"]),
            ("a}b", &["a}b"], &["ab"]),
            ("a\\", &["a\\"], &["a"]),
            ("**a**", &["a", "bab"], &["b"]),
        ] {
            let compiled = NamePattern::new(pattern);
            for name in covered {
                assert!(compiled.matches(name), "{pattern} should cover {name}");
            }
            for name in not_covered {
                assert!(!compiled.matches(name), "{pattern} should not cover {name}");
            }
        }
    }

    /// Beyond the bounds, braces are characters.
    #[test]
    fn many_alternatives_do_not_explode() {
        let two = "{a,b}";
        assert!(NamePattern::new(&two.repeat(6)).matches("ababab"));
        for times in [7, 16, 17, 100_000] {
            let pattern = two.repeat(times);
            assert_eq!(NamePattern::new(&pattern).0.len(), 1, "{times}");
        }
        let deep = format!("{}{}", "{".repeat(100_000), "}".repeat(100_000));
        assert!(!NamePattern::new(&deep).matches("a"));
        assert!(NamePattern::new(&"{".repeat(16)).matches(&"{".repeat(16)));
    }

    #[test]
    fn many_runs_do_not_explode() {
        let pattern = NamePattern::new(&"*a".repeat(60));
        assert!(!pattern.matches(&format!("{}b", "a".repeat(250))));
    }
}
