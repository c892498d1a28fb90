//! Text with marks in it, as ids and content carry them: `%I`, `%(argument)s`, `%%`.
//!
//! Owns: telling text and marks apart. Never: knows what a mark stands for.

use std::borrow::Cow;

/// A stretch of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// As it stands; `%%` has become `%`.
    Plain(&'t [u8]),
    /// A letter, and what stood in parentheses before it.
    Mark {
        letter: u8,
        argument: Option<Cow<'t, [u8]>>,
        /// Where the letter stands, in bytes from the start.
        at: usize,
    },
    /// The text ends inside a mark, which begins here.
    Cut(usize),
}

/// The pieces of a text, in order.
pub(crate) struct Pieces<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Pieces<'t> {
    pub(crate) const fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    fn mark(&self) -> Option<(Piece<'t>, usize)> {
        let inside = self.text.get(self.at + 1..)?;
        match inside {
            [] => None,
            [b'%', ..] => Some((Piece::Plain(&inside[..1]), 2)),
            [b'(', rest @ ..] => {
                let end = closing(rest)?;
                let letter = *rest.get(end + 1)?;
                let argument = Some(without_escapes(&rest[..end]));
                let at = self.at + end + 3;
                let mark = Piece::Mark {
                    letter,
                    argument,
                    at,
                };
                Some((mark, end + 4))
            }
            &[letter, ..] => {
                let (argument, at) = (None, self.at + 1);
                let mark = Piece::Mark {
                    letter,
                    argument,
                    at,
                };
                Some((mark, 2))
            }
        }
    }
}

impl<'t> Iterator for Pieces<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let plain = memchr::memchr(b'%', rest).unwrap_or(rest.len());
        if plain > 0 {
            self.at += plain;
            return Some(Piece::Plain(&rest[..plain]));
        }
        match self.mark() {
            Some((piece, bytes)) => {
                self.at += bytes;
                Some(piece)
            }
            None => {
                let cut = Piece::Cut(self.at);
                self.at = self.text.len();
                Some(cut)
            }
        }
    }
}

/// Where the parenthesis closes; a backslash takes the meaning from the byte behind it.
fn closing(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr2(b')', b'\\', text.get(at..)?)?;
        if text[at] == b')' {
            return Some(at);
        }
        at += 2;
    }
}

fn without_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut escaped = false;
    let keep = |&byte: &u8| {
        escaped = byte == b'\\' && !escaped;
        !escaped
    };
    Cow::Owned(text.iter().copied().filter(keep).collect())
}

/// Why text with marks cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MarkFault {
    /// A letter that means nothing here.
    #[error("byte {at}: %{} means nothing", char::from(*.letter))]
    Unknown {
        /// The letter.
        letter: u8,
        /// Where it stands.
        at: usize,
    },
    /// `%s` without a name.
    #[error("byte {at}: %s wants a name, as in %(name)s")]
    NoName {
        /// Where it stands.
        at: usize,
    },
    /// `%(name)s` with a name that has no value.
    #[error("byte {at}: nothing is known by the name '{name}'")]
    NoValue {
        /// The name.
        name: String,
        /// Where the mark ends.
        at: usize,
    },
    /// `%I` where there is no id.
    #[error("byte {at}: there is no id to put here")]
    NoId {
        /// Where it stands.
        at: usize,
    },
    /// The text ends inside a mark.
    #[error("byte {at}: this % begins something that does not end; write %% for a percent sign")]
    Cut {
        /// Where the mark begins.
        at: usize,
    },
}
