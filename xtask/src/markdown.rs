//! What a Markdown page links to, and what can be linked to in it.
//!
//! Knows inline links (`[text](target)`) and headings with `#`, which is what this repository
//! uses. Never looks into code: neither fenced blocks nor spans.

/// An inline link of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Line number, counted from 1.
    pub(crate) line: usize,
    /// Text between the round brackets.
    pub(crate) target: String,
    /// The bytes from `[` to the last `)`, in the page.
    pub(crate) span: std::ops::Range<usize>,
    /// The bytes between the square brackets.
    pub(crate) text: std::ops::Range<usize>,
}

/// The page with spaces, byte for byte, where it has code.
fn without_code(page: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(page.len());
    let mut fenced = false;
    for line in page.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || fenced {
            fenced ^= is_fence;
            out.extend(line.bytes().map(|b| if b == b'\n' { b } else { b' ' }));
            continue;
        }
        let mut in_code = false;
        for byte in line.bytes() {
            in_code ^= byte == b'`';
            out.push(if in_code { b' ' } else { byte });
        }
    }
    out
}

/// Every inline link, in order.
pub(crate) fn links(page: &str) -> Vec<Link> {
    let bytes = without_code(page);
    let mut found = Vec::new();
    for at in 0..bytes.len() {
        if !bytes[at..].starts_with(b"](") {
            continue;
        }
        let Some(length) = bytes[at + 2..].iter().position(|&b| b == b')') else {
            continue;
        };
        let mut depth = 0_usize;
        let start = bytes[..at].iter().rposition(|&b| {
            depth += usize::from(b == b']');
            let opens = b == b'[';
            let is_ours = opens && depth == 0;
            depth -= usize::from(opens && depth > 0);
            is_ours
        });
        let Some(start) = start else { continue };
        let end = at + 2 + length;
        found.push(Link {
            line: 1 + bytes[..at].iter().filter(|&&b| b == b'\n').count(),
            target: page[at + 2..end].to_owned(),
            span: start..end + 1,
            text: start + 1..at,
        });
    }
    found
}

/// The names of all headings, as GitHub and mdBook make them.
pub(crate) fn anchors(page: &str) -> Vec<String> {
    let mut fenced = false;
    let mut found: Vec<String> = Vec::new();
    for line in page.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let slug: String = shown(title)
            .trim()
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                '-' | '_' => Some(c),
                _ => c.is_alphanumeric().then(|| c.to_ascii_lowercase()),
            })
            .collect();
        let again = found
            .iter()
            .filter(|known| {
                let rest = known.strip_prefix(slug.as_str());
                rest.is_some_and(|rest| {
                    rest.is_empty()
                        || rest
                            .strip_prefix('-')
                            .is_some_and(|n| n.parse::<u32>().is_ok())
                })
            })
            .count();
        found.push(if again == 0 {
            slug
        } else {
            format!("{slug}-{again}")
        });
    }
    found
}

/// A title as it is shown: of a link only the text.
fn shown(title: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    for link in links(title) {
        out += &title[at..link.span.start];
        out += &title[link.text];
        at = link.span.end;
    }
    out + &title[at..]
}

/// Whether a target leaves the repository.
pub(crate) fn is_outside(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// A target of a page as a path from the root, and the heading in it; none if it leaves the root.
pub(crate) fn resolved<'a>(page: &str, target: &'a str) -> Option<(String, Option<&'a str>)> {
    let (path, heading) = match target.split_once('#') {
        Some((path, heading)) => (path, Some(heading)),
        None => (target, None),
    };
    if path.is_empty() {
        return Some((page.to_owned(), heading));
    }
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some((parts.join("/"), heading))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_of_code() {
        let page = "A [b](c.md#d), `[e](f)`,\n```\n[g](h)\n```\n[`i` [j]](../k) [l](m)\n";
        let found = links(page);
        let targets: Vec<_> = found
            .iter()
            .map(|link| (link.line, &*link.target))
            .collect();
        assert_eq!(targets, [(1, "c.md#d"), (5, "../k"), (5, "m")]);
        assert_eq!(&page[found[0].span.clone()], "[b](c.md#d)");
        assert_eq!(&page[found[1].text.clone()], "`i` [j]");
    }

    #[test]
    fn headings_are_named_as_the_readers_of_markdown_name_them() {
        let page = "# A b: `c_d`\n## A, b!\n## A b\n## [E](f) g\n```\n# h\n```\n#i\n";
        assert_eq!(anchors(page), ["a-b-c_d", "a-b", "a-b-1", "e-g"]);
    }

    #[test]
    fn targets_are_resolved_from_their_page() {
        for (page, target, expect) in [
            ("docs/a.md", "b.md#c", Some(("docs/b.md", Some("c")))),
            ("docs/a.md", "#c", Some(("docs/a.md", Some("c")))),
            ("docs/g/a.md", "../../b/", Some(("b", None))),
            ("a.md", "../b", None),
        ] {
            let got = resolved(page, target);
            let got = got
                .as_ref()
                .map(|(path, heading)| (path.as_str(), *heading));
            assert_eq!(got, expect, "{page} {target}");
        }
    }
}
