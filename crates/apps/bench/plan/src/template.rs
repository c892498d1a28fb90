//! Texts with holes: channel names, URLs, first frames, publish bodies.
//!
//! Owns: compiling a text once and rendering it into a caller's buffer. Never: chooses a random
//! number by itself, allocates while rendering.
//!
//! | hole | becomes |
//! |---|---|
//! | `{n}` | the number of the connection (or of the publication, in a publish template), from 0 |
//! | `{n%1000}`, `{n/4}`, `{n+1}`, `{n*2}`, `{n/4%10+1}` | arithmetic on it, from left to right |
//! | `{rand}` | a random number of up to 32 bits |
//! | `{rand:10-99}` | a random number within these bounds, both included |
//! | `{channel}` | the name of the channel |
//! | `{channel:url}` | the same, percent-encoded for a query |
//! | `{payload}` | the measured message |
//! | `{payload:base64}` | the same in base64 |
//! | `{data.NAME}`, `{data.NAME:url}` | a cell of the scenario's data, in the row of `n` |
//! | `{worker}` | the number of the worker |
//!
//! Only a `{` that a letter follows opens a hole, so JSON needs no escaping:
//! `{"channel":"{channel}","data":"{payload}"}` is what it looks like. Where a literal `{n}` is
//! meant, write `{{n}`.

mod error;
mod hole;
mod parse;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use throng_types::Rng;

use crate::Data;

use hole::{Part, Source};
use parse::parse_hole;

pub use error::{TemplateError, TemplateErrorKind};
pub use hole::Place;

/// What one rendering is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    /// The number of the connection or publication.
    pub n: u64,
    /// The number of the worker.
    pub worker: u64,
    /// The channel's name.
    pub channel: &'a str,
    /// The measured message.
    pub payload: &'a [u8],
}

/// A text compiled once, rendered as often as needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Box<[Part]>,
}

impl Template {
    /// Compiles a text for the place where it will be used, in a scenario without data.
    ///
    /// # Errors
    /// The first hole that cannot be filled.
    pub fn compile(text: &str, place: Place) -> Result<Self, TemplateError> {
        Self::compile_with(text, place, None)
    }

    /// Compiles a text for the place where it will be used, with the scenario's data.
    ///
    /// # Errors
    /// The first hole that cannot be filled.
    pub fn compile_with(
        text: &str,
        place: Place,
        data: Option<&Data>,
    ) -> Result<Self, TemplateError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(offset) = text.get(at..).and_then(|rest| rest.find('{')) {
            let open = at + offset;
            literal.push_str(&text[at..open]);
            let after = &text[open + 1..];
            if after.starts_with('{') && after[1..].starts_with(|c: char| c.is_ascii_alphabetic()) {
                literal.push('{');
                at = open + 2;
                continue;
            }
            if !after.starts_with(|c: char| c.is_ascii_alphabetic()) {
                literal.push('{');
                at = open + 1;
                continue;
            }
            let fail = |kind| TemplateError { at: open, kind };
            let Some(close) = after.find('}') else {
                return Err(fail(TemplateErrorKind::NotClosed));
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            parts.push(parse_hole(&after[..close], place, data).map_err(fail)?);
            at = open + 1 + close + 1;
        }
        literal.push_str(text.get(at..).unwrap_or_default());
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Ok(Self {
            parts: parts.into(),
        })
    }

    /// Appends the text for these values.
    pub fn render(&self, values: &Values<'_>, rng: &mut Rng, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Number(source, steps) => {
                    let start = match source {
                        Source::N => values.n,
                        Source::Worker => values.worker,
                    };
                    push_decimal(
                        steps.iter().fold(start, |value, step| step.apply(value)),
                        out,
                    );
                }
                Part::Rand { low, high } => {
                    let width = high.wrapping_sub(*low).wrapping_add(1);
                    let drawn = if width == 0 {
                        rng.next_u64()
                    } else {
                        rng.below(width)
                    };
                    push_decimal(low + drawn, out);
                }
                Part::Channel { url: false } => out.extend_from_slice(values.channel.as_bytes()),
                Part::Channel { url: true } => push_percent_encoded(values.channel, out),
                Part::Payload { base64: false } => out.extend_from_slice(values.payload),
                Part::Payload { base64: true } => push_base64(values.payload, out),
                Part::Data { data, column, url } => {
                    let cell = data.cell(*column, values.n);
                    if *url {
                        push_percent_encoded(cell, out);
                    } else {
                        out.extend_from_slice(cell.as_bytes());
                    }
                }
            }
        }
    }

    /// The text for these values as a `String`, for places where a copy does not matter.
    #[must_use]
    pub fn render_to_string(&self, values: &Values<'_>, rng: &mut Rng) -> String {
        let mut out = Vec::new();
        self.render(values, rng, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Where the text depends on `n` alone and in one place: the number that stands there for this
    /// `n`.
    ///
    /// Two connections have the same text exactly if they have the same number.
    #[must_use]
    pub fn number_of(&self, n: u64) -> Option<u64> {
        let mut variable = self
            .parts
            .iter()
            .filter(|part| !matches!(part, Part::Literal(_)));
        match (variable.next(), variable.next()) {
            (Some(Part::Number(Source::N, steps)), None) => {
                Some(steps.iter().fold(n, |value, step| step.apply(value)))
            }
            _ => None,
        }
    }

    /// Appends the text that has this number (see [`Template::number_of`]) in its only hole.
    pub fn render_number(&self, number: u64, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                _ => push_decimal(number, out),
            }
        }
    }

    /// Whether two renderings can differ at all.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        self.parts
            .iter()
            .all(|part| matches!(part, Part::Literal(_)))
    }

    /// Whether the measured message has a place in it.
    #[must_use]
    pub fn has_payload(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Payload { .. }))
    }

    /// Whether the channel's name has a place in it.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Channel { .. }))
    }

    /// The cells that can stand in the text.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|part| {
            let cells = match part {
                Part::Data { data, column, .. } => Some(data.cells_of(*column)),
                _ => None,
            };
            cells.into_iter().flatten()
        })
    }

    /// Whether renderings with the same values can differ.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.parts
            .iter()
            .any(|part| matches!(part, Part::Rand { .. }))
    }
}

/// Escapes a text so that it compiles to itself.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        out.push(c);
        if c == '{' && characters.peek().is_some_and(char::is_ascii_alphabetic) {
            out.push('{');
        }
    }
    out
}

fn push_decimal(mut value: u64, out: &mut Vec<u8>) {
    // u64::MAX has 20 digits.
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Percent-encoding of everything but the unreserved characters (RFC 3986 section 2.3).
pub(crate) fn push_percent_encoded(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(&[
                b'%',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]);
        }
    }
}

fn push_base64(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    // The room is exact, so encoding cannot run out of it.
    let written = STANDARD
        .encode_slice(bytes, out.get_mut(start..).unwrap_or_default())
        .unwrap_or(0);
    out.truncate(start + written);
}

#[cfg(test)]
mod tests;
