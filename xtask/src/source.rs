//! Rust source reduced to what a check may look at: code without comments, texts and tests.
//!
//! Owns: the small lexer. Never: understands Rust; it knows comments, literals, brackets and
//! attributes.
//!
//! Invariants
//! - Every reduced form has the length and the line breaks of the original, so places agree.
//! - A literal becomes a run of `"`, which is neither blank nor part of a name.

/// The forms of one file.
pub(crate) struct Source {
    /// Without comments and literals.
    pub(crate) code: String,
    /// `code` without items under `#[cfg(test)]`.
    pub(crate) live: String,
}

impl Source {
    /// Reduces a file.
    pub(crate) fn new(text: &str) -> Self {
        let code = mask(text);
        let live = cut_tests(&code);
        Self { code, live }
    }
}

/// Blanks comments and replaces literals.
fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (end, fill) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => (line_end(bytes, at), b' '),
            b'/' if bytes[at..].starts_with(b"/*") => (block_comment_end(bytes, at), b' '),
            b'"' => (string_end(bytes, at + 1), b'"'),
            b'\'' => (char_end(text, at), b'"'),
            b if is_name(b) => match raw_string_end(bytes, at) {
                Some(end) => (end, b'"'),
                None => {
                    at = name_end(bytes, at);
                    continue;
                }
            },
            _ => {
                at += 1;
                continue;
            }
        };
        // A lifetime is no literal: step over its quote.
        if end == at {
            at += 1;
            continue;
        }
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = fill;
            }
        }
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|&b| b == b'\n')
        .map_or(bytes.len(), |n| at + n)
}

fn block_comment_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_u32;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// Just after the quote that closes a text whose content starts at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Just after a character literal at `at`, or `at` itself for a lifetime.
fn char_end(text: &str, at: usize) -> usize {
    let rest = &text[at + 1..];
    let mut chars = rest.chars();
    match chars.next() {
        Some('\\') => {
            // The escaped character itself may be a quote.
            let after = rest.char_indices().nth(2).map_or(rest.len(), |(n, _)| n);
            rest[after..]
                .find('\'')
                .map_or(text.len(), |n| at + 1 + after + n + 1)
        }
        Some(c) if chars.next() == Some('\'') => at + 1 + c.len_utf8() + 1,
        _ => at,
    }
}

/// Just after a raw text whose prefix starts at `at`, if one does.
fn raw_string_end(bytes: &[u8], at: usize) -> Option<usize> {
    let prefix = ["br", "cr", "r"]
        .iter()
        .find(|prefix| bytes[at..].starts_with(prefix.as_bytes()))?;
    let hashes_at = at + prefix.len();
    let hashes = bytes[hashes_at..]
        .iter()
        .take_while(|&&b| b == b'#')
        .count();
    if bytes.get(hashes_at + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let content = hashes_at + hashes + 1;
    let found = bytes[content..]
        .windows(close.len())
        .position(|window| window == close);
    Some(found.map_or(bytes.len(), |n| content + n + close.len()))
}

/// Whether a byte can be part of a name.
pub(crate) const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Just after the name at `at`.
pub(crate) fn name_end(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .iter()
        .position(|&b| !is_name(b))
        .map_or(bytes.len(), |n| at + n)
}

/// Blanks every item under `#[cfg(test)]`; `code` is already masked.
fn cut_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    if code.contains("#![cfg(test)]") {
        return blank(code);
    }
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(found) = rest.find(MARK) {
        let (before, item) = rest.split_at(found);
        let (item, after) = item.split_at(item_end(item.as_bytes()));
        out.push_str(before);
        out.push_str(&blank(item));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn blank(text: &str) -> String {
    text.bytes()
        .map(|b| if b == b'\n' { '\n' } else { ' ' })
        .collect()
}

/// The end of the attributes and the item at the start of masked code.
fn item_end(code: &[u8]) -> usize {
    let mut at = 0;
    loop {
        while code.get(at).is_some_and(u8::is_ascii_whitespace) {
            at += 1;
        }
        if !code[at..].starts_with(b"#[") {
            break;
        }
        at = bracket_end(code, at + 1);
    }
    let is_use = [&b"use "[..], b"pub use ", b"pub(crate) use "]
        .iter()
        .any(|start| code[at..].starts_with(start));
    while at < code.len() {
        match code[at] {
            b'(' | b'[' => at = bracket_end(code, at),
            b'{' if is_use => at = bracket_end(code, at),
            b'{' => return bracket_end(code, at),
            b';' => return at + 1,
            // The end of what holds a field, a variant or an arm.
            b'}' => return at,
            _ => at += 1,
        }
    }
    code.len()
}

/// Just after the bracket that closes the one at `at` in masked code.
fn bracket_end(code: &[u8], at: usize) -> usize {
    let mut depth = 0_u32;
    for (n, byte) in code[at..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + n + 1;
                }
            }
            _ => {}
        }
    }
    code.len()
}

/// A function of a file and how long it is, signature and braces included.
pub(crate) struct Function {
    /// Its name.
    pub(crate) name: String,
    /// From the line of `fn` to the line of the closing brace.
    pub(crate) lines: usize,
}

/// The functions with a body in masked code.
pub(crate) fn functions(code: &str) -> Vec<Function> {
    let bytes = code.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if !is_name(bytes[at]) {
            at += 1;
            continue;
        }
        let end = name_end(bytes, at);
        // `fn(u8)` is a type and has no name.
        let name_at = end + 1;
        let is_named =
            bytes.get(end) == Some(&b' ') && bytes.get(name_at).copied().is_some_and(is_name);
        if &code[at..end] == "fn"
            && is_named
            && let Some(body_end) = body_end(bytes, name_at)
        {
            found.push(Function {
                name: code[name_at..name_end(bytes, name_at)].to_owned(),
                lines: code[at..body_end].lines().count(),
            });
        }
        at = end;
    }
    found
}

fn body_end(code: &[u8], mut at: usize) -> Option<usize> {
    while at < code.len() {
        match code[at] {
            b'(' | b'[' => at = bracket_end(code, at),
            b'{' => return Some(bracket_end(code, at)),
            b';' => return None,
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In `expect`, `~` stands for what replaces a literal.
    #[track_caller]
    fn check_mask(text: &str, expect: &str) {
        let code = mask(text);
        assert_eq!(code, expect.replace('~', "\""), "{text}");
        assert_eq!(code.len(), text.len());
    }

    #[test]
    fn comments_vanish_and_literals_become_quotes() {
        check_mask("a // b\nc", "a     \nc");
        check_mask("a /* b /* c */ d */ e", "a                   e");
        check_mask(r#"f("x // y", z)"#, "f(~~~~~~~~, z)");
        check_mask(r#""a\"b" c"#, "~~~~~~ c");
        check_mask("\"a\nb\" c", "~~\n~~ c");
        check_mask(r##"r#"a"b"# c"##, "~~~~~~~~ c");
        check_mask("br\"\\\" c", "~~~~~ c");
        check_mask(
            r#"'x' 'a: '\'' b'"' '\u{1}' 'é'"#,
            "~~~ 'a: ~~~~ b~~~ ~~~~~~~ ~~~~",
        );
        check_mask("for r in raw {}", "for r in raw {}");
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        for text in ["\"abc", "r#\"abc\"", "/* abc", "'\\", "'", "\"\\"] {
            assert_eq!(mask(text).len(), text.len(), "{text}");
        }
    }

    #[track_caller]
    fn check_live(code: &str, kept: &[&str], gone: &[&str]) {
        let live = Source::new(code).live;
        assert_eq!(live.len(), code.len());
        for word in kept {
            assert!(live.contains(word), "{word} is gone: {live}");
        }
        for word in gone {
            assert!(!live.contains(word), "{word} is there: {live}");
        }
    }

    #[test]
    fn test_items_are_cut() {
        check_live(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { if x { y } } }\nfn c() {}",
            &["fn a", "fn c"],
            &["fn b", "tests"],
        );
        check_live("#[cfg(test)]\nmod tests;\nfn c() {}", &["fn c"], &["tests"]);
        check_live(
            "#[cfg(test)]\nuse a::{b, c};\nfn d() {}",
            &["fn d"],
            &["use"],
        );
        check_live(
            "#[cfg(test)]\n#[derive(X)]\nfn b(x: [u8; 3]) { 1; }\nfn d() {}",
            &["fn d"],
            &["fn b"],
        );
        check_live("#![cfg(test)]\nfn a() {}", &[], &["fn a"]);
    }

    #[test]
    fn functions_are_measured() {
        let found = functions("fn a() {\n  1\n}\ntrait T { fn b(&self); }\nfn c(x: fn(u8)) {}");
        let lines: Vec<_> = found.iter().map(|f| (f.name.as_str(), f.lines)).collect();
        assert_eq!(lines, [("a", 3), ("c", 1)]);
    }
}
