//! Why a text is not a template.

use std::fmt;

use super::hole::Place;

/// Why a text is not a template. `at` counts bytes from the start of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Where the hole begins.
    pub at: usize,
    /// What is wrong with it.
    pub kind: TemplateErrorKind,
}

/// What is wrong with a hole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateErrorKind {
    /// No `}` follows.
    NotClosed,
    /// No hole has this name.
    Unknown {
        /// The name as written.
        name: String,
        /// The nearest name that exists, and how holes of this place are called.
        help: String,
    },
    /// The hole exists, but means nothing in this place.
    OutOfPlace {
        /// The name as written.
        name: String,
        /// Where the template stands.
        place: Place,
    },
    /// After the name stands something that the hole does not take.
    BadArgument {
        /// The hole as written.
        hole: String,
        /// What it takes.
        takes: &'static str,
    },
    /// The data has no column of this name.
    NoColumn {
        /// The name as written.
        name: String,
        /// The names that there are.
        columns: String,
    },
    /// `%0` or `/0`.
    ByZero,
    /// `{rand:9-1}`.
    EmptyRange,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: ", self.at)?;
        match &self.kind {
            TemplateErrorKind::NotClosed => f.write_str(
                "`{` opens a hole that no `}` closes (a literal \
                 `{` before a letter is written `{{`)",
            ),
            TemplateErrorKind::Unknown { name, help } => write!(
                f,
                "`{{{name}}}` is unknown; \
                {help}"
            ),
            TemplateErrorKind::OutOfPlace { name, place } => {
                write!(f, "`{{{name}}}` has no meaning in {place}")
            }
            TemplateErrorKind::BadArgument { hole, takes } => {
                write!(f, "`{{{hole}}}`: {takes}")
            }
            TemplateErrorKind::NoColumn { name, columns } => {
                write!(
                    f,
                    "the data has no column `{name}`; its columns are {columns}"
                )
            }
            TemplateErrorKind::ByZero => f.write_str("a division by zero"),
            TemplateErrorKind::EmptyRange => {
                f.write_str("the range is empty: its first number is above its last")
            }
        }
    }
}

impl std::error::Error for TemplateError {}
