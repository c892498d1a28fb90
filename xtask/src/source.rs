//! A Rust file as a flat list of tokens, each with its line and whether only tests compile it.
//!
//! Owns: the walk over the token trees of `proc-macro2`. Never: understands Rust; it knows tokens,
//! attributes and documentation.
//!
//! Invariants
//! - Comments are not there. Documentation is in `docs` and not among the tokens.
//! - Brackets are tokens too, and every one that opens is closed.

use anyhow::{Result, anyhow};
use proc_macro2::{Delimiter, Group, Spacing, Span, TokenStream, TokenTree};

/// Class of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Name,
    /// A text, a character or a number.
    Literal,
    /// A bracket, `::`, or any other mark of one character.
    Mark,
}

/// One token of a file.
#[derive(Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    /// The line where it starts, counted from 1.
    pub(crate) line: usize,
    /// Whether an item under `#[cfg(test)]` holds it.
    pub(crate) for_tests: bool,
}

impl Token {
    /// Whether it is this name or mark.
    pub(crate) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }
}

/// The documentation of one item or of the file.
pub(crate) struct Doc {
    /// The line where it starts.
    pub(crate) line: usize,
    /// Text of all its lines.
    pub(crate) text: String,
    /// Whether it is about what it stands in: `//!`.
    pub(crate) inner: bool,
    /// The token that follows, as an index into [`Source::tokens`].
    pub(crate) next: usize,
}

/// Tokens and documentation of one file.
#[derive(Default)]
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    pub(crate) docs: Vec<Doc>,
    /// The last token is a `:` that another one follows at once.
    half: bool,
}

impl Source {
    /// Parses the text of a file.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let stream: TokenStream = text.parse().map_err(|error| anyhow!("not Rust: {error}"))?;
        let mut source = Self::default();
        source.stream(stream.into_iter().collect(), false);
        Ok(source)
    }

    /// The tokens that are compiled outside tests too.
    pub(crate) fn live(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter().filter(|token| !token.for_tests)
    }

    fn stream(&mut self, trees: Vec<TokenTree>, mut for_tests: bool) {
        let mut item_ends = 0;
        for (at, tree) in trees.iter().enumerate() {
            let before = |n: usize, mark| at >= n && is_mark(&trees[at - n], mark);
            let inner = before(1, '!') && before(2, '#');
            let mut in_item = for_tests || at < item_ends;
            if let TokenTree::Group(group) = tree
                && (inner || before(1, '#'))
            {
                if let Some(text) = doc_text(group) {
                    self.tokens
                        .truncate(self.tokens.len() - 1 - usize::from(inner));
                    self.doc(group.span_open(), &text, inner);
                    continue;
                }
                if group.stream().to_string().replace(' ', "") == "cfg(test)" {
                    for_tests |= inner;
                    item_ends = item_ends.max(at + 1 + item_len(&trees[at + 1..]));
                    in_item = true;
                }
            }
            self.tree(tree, in_item);
        }
    }

    fn tree(&mut self, tree: &TokenTree, for_tests: bool) {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                self.push(Kind::Mark, open, group.span_open(), for_tests);
                self.stream(group.stream().into_iter().collect(), for_tests);
                self.push(Kind::Mark, close, group.span_close(), for_tests);
            }
            TokenTree::Ident(name) => {
                self.push(Kind::Name, &name.to_string(), name.span(), for_tests);
            }
            TokenTree::Literal(literal) => {
                self.push(
                    Kind::Literal,
                    &literal.to_string(),
                    literal.span(),
                    for_tests,
                );
            }
            TokenTree::Punct(mark) if self.half && mark.as_char() == ':' => {
                self.half = false;
                if let Some(first) = self.tokens.last_mut() {
                    first.text.push(':');
                }
            }
            TokenTree::Punct(mark) => {
                let text = mark.as_char().to_string();
                self.push(Kind::Mark, &text, mark.span(), for_tests);
                self.half = mark.as_char() == ':' && mark.spacing() == Spacing::Joint;
            }
        }
    }

    fn push(&mut self, kind: Kind, text: &str, span: Span, for_tests: bool) {
        self.half = false;
        self.tokens.push(Token {
            kind,
            text: text.to_owned(),
            line: span.start().line,
            for_tests,
        });
    }

    /// A line of documentation, joined to the one before if no token stands between them.
    fn doc(&mut self, span: Span, text: &str, inner: bool) {
        let next = self.tokens.len();
        match self
            .docs
            .last_mut()
            .filter(|doc| doc.next == next && doc.inner == inner)
        {
            Some(doc) => {
                doc.text.push('\n');
                doc.text.push_str(text);
            }
            None => self.docs.push(Doc {
                line: span.start().line,
                text: text.to_owned(),
                inner,
                next,
            }),
        }
    }
}

fn is_mark(tree: &TokenTree, mark: char) -> bool {
    matches!(tree, TokenTree::Punct(found) if found.as_char() == mark)
}

/// The text of `[doc = ".."]`, as `///` becomes.
fn doc_text(attribute: &Group) -> Option<String> {
    let mut trees = attribute.stream().into_iter();
    match (trees.next()?, trees.next()?, trees.next()?) {
        (TokenTree::Ident(name), mark, TokenTree::Literal(text))
            if name == "doc" && is_mark(&mark, '=') =>
        {
            Some(plain(&text.to_string()))
        }
        _ => None,
    }
}

/// A text literal without its quotes and escapes, well enough for words.
fn plain(literal: &str) -> String {
    let inner = literal.trim_start_matches(['r', '#']).trim_end_matches('#');
    inner
        .trim_matches('"')
        .replace("\\\"", "\"")
        .replace("\\'", "'")
        .trim()
        .to_owned()
}

/// Number of token trees in an item whose attribute under test was just read: up to its block, its
/// `;`, or the comma after a field or a variant.
fn item_len(trees: &[TokenTree]) -> usize {
    let is_use = trees
        .iter()
        .take_while(|tree| matches!(tree, TokenTree::Ident(_) | TokenTree::Group(_)))
        .any(|tree| matches!(tree, TokenTree::Ident(name) if name == "use"));
    let mut angles = 0_i32;
    for (n, tree) in trees.iter().enumerate() {
        match tree {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !is_use => {
                return n + 1;
            }
            TokenTree::Punct(mark) => match mark.as_char() {
                '<' => angles += 1,
                '>' if !(n > 0 && (is_mark(&trees[n - 1], '-') || is_mark(&trees[n - 1], '='))) => {
                    angles -= 1;
                }
                ';' => return n + 1,
                ',' if angles <= 0 => return n + 1,
                _ => {}
            },
            _ => {}
        }
    }
    trees.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(tokens: impl Iterator<Item = &'a Token>) -> String {
        tokens
            .map(|token| token.text.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn comments_vanish_and_documentation_stands_apart() {
        let text =
            "//! A\n//! b.\n\n/// \"C\".\n// no\nfn f() { a::b(\"x // y\", 'z', : :) /* no */ }";
        let source = Source::parse(text).unwrap();
        assert_eq!(
            texts(source.tokens.iter()),
            "fn f ( ) { a :: b ( \"x // y\" , 'z' , : : ) }"
        );
        let docs: Vec<_> = source
            .docs
            .iter()
            .map(|doc| (doc.line, doc.text.as_str()))
            .collect();
        assert_eq!(docs, [(1, "A\nb."), (4, "\"C\".")]);
        assert_eq!(source.tokens[0].line, 6);
        assert!(Source::parse("fn f( {").is_err());
    }

    #[track_caller]
    fn check_live(code: &str, expect: &str) {
        assert_eq!(texts(Source::parse(code).unwrap().live()), expect, "{code}");
    }

    #[test]
    fn test_items_are_cut() {
        check_live(
            "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { if x { y } } }\nfn c() {}",
            "fn a ( ) { } # fn c ( ) { }",
        );
        check_live("#[cfg(test)]\nmod tests;\nfn c() {}", "# fn c ( ) { }");
        check_live(
            "#[cfg(test)]\npub(crate) use a::{b, c};\nx!();",
            "# x ! ( ) ;",
        );
        check_live(
            "#[cfg(test)]\n#[derive(X)]\nfn b<A, B>(x: [u8; 3]) -> C<A, B> { 1; }\nfn d() {}",
            "# fn d ( ) { }",
        );
        check_live(
            "struct A { #[cfg(test)] b: B<C, D>, e: E }",
            "struct A { # e : E }",
        );
        check_live("#![cfg(test)]\nfn a() {}", "# !");
    }
}
