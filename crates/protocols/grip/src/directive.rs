//! `%` directives in ids and content: `%I`, `%(argument)s`, `%%`.
//!
//! Owns: finding directives and their arguments. Never: knows what one stands for; a
//! [`Directive`] does.

/// Writes what a directive stands for.
pub(crate) trait Directive {
    /// Appends the replacement of directive `kind` with an argument, if it was written with one.
    fn write(
        &self,
        kind: u8,
        argument: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) -> Result<(), DirectiveFault>;
}

/// Why text with directives cannot be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DirectiveFault {
    /// A letter that means nothing here.
    #[error("unknown directive '{}'", char::from(*.0))]
    Unknown(u8),
    /// `%s` without a name.
    #[error("directive '{}' needs an argument", char::from(*.0))]
    NoArgument(u8),
    /// `%(name)s` with a name that has no value.
    #[error("no such variable '{0}'")]
    NoVariable(String),
    /// `%I` where no id is known.
    #[error("no id specified and none in context")]
    NoDefaultId,
    /// The text ends inside a directive.
    #[error("directive ends too early")]
    TooShort,
    /// One of the above, with the place of the byte that showed it.
    #[error("{fault} at position {position}")]
    At {
        /// What is wrong.
        fault: Box<Self>,
        /// Bytes from the start.
        position: usize,
    },
}

/// Renders a whole text.
pub(crate) fn render(
    text: &[u8],
    directive: &impl Directive,
    out: &mut Vec<u8>,
) -> Result<(), DirectiveFault> {
    let done = render_piece(text, directive, out)?;
    if done == text.len() {
        Ok(())
    } else {
        Err(at(DirectiveFault::TooShort, done))
    }
}

/// Renders as much of a piece of text as is whole and says how many bytes that was.
pub(crate) fn render_piece(
    text: &[u8],
    directive: &impl Directive,
    out: &mut Vec<u8>,
) -> Result<usize, DirectiveFault> {
    let mut done = 0;
    while let Some(offset) = memchr::memchr(b'%', &text[done..]) {
        let marker = done + offset;
        out.extend_from_slice(&text[done..marker]);
        done = marker;
        let Some((kind, argument, end)) = split(text, marker + 1) else {
            return Ok(done);
        };
        match (kind, &argument) {
            (b'%', None) => out.push(b'%'),
            (kind, None) if !kind.is_ascii_alphabetic() => {
                return Err(at(DirectiveFault::Unknown(kind), end - 1));
            }
            _ => directive
                .write(kind, argument.as_deref(), out)
                .map_err(|fault| at(fault, end - 1))?,
        }
        done = end;
    }
    out.extend_from_slice(&text[done..]);
    Ok(text.len())
}

/// The argument of a directive that is `%(name)s` and nothing else.
pub(crate) fn variable(kind: u8, argument: Option<&[u8]>) -> Result<&[u8], DirectiveFault> {
    if kind == b's' {
        argument.ok_or(DirectiveFault::NoArgument(kind))
    } else {
        Err(DirectiveFault::Unknown(kind))
    }
}

/// Splits what follows a `%`: the directive's letter, its argument, and where it ends.
/// None if the text ends first.
fn split(text: &[u8], mut at: usize) -> Option<(u8, Option<Vec<u8>>, usize)> {
    let first = *text.get(at)?;
    at += 1;
    if first != b'(' {
        return Some((first, None, at));
    }
    let mut argument = Vec::new();
    loop {
        match *text.get(at)? {
            b')' => break,
            b'\\' => {
                at += 1;
                argument.push(*text.get(at)?);
            }
            byte => argument.push(byte),
        }
        at += 1;
    }
    Some((*text.get(at + 1)?, Some(argument), at + 2))
}

fn at(fault: DirectiveFault, position: usize) -> DirectiveFault {
    DirectiveFault::At {
        fault: Box::new(fault),
        position,
    }
}
