//! Texts with holes: channel names, URLs, first frames, publish bodies.
//!
//! Owns: which holes each place knows, compiling a text once, rendering it into a caller's buffer.
//! Never: chooses a random number by itself, allocates while rendering.
//!
//! | hole | becomes |
//! |---|---|
//! | `{n}` | the number of the connection (or of the publication, in a publish template), from 0 |
//! | `{n%1000}`, `{n/4}`, `{n+1}`, `{n*2}`, `{n/4%10+1}` | arithmetic on it, from left to right |
//! | `{rand}` | a random number of up to 32 bits |
//! | `{rand:10-99}` | a random number within these bounds, both included |
//! | `{channel}` | the name of the channel |
//! | `{channel:url}` | the name, percent-encoded for a query |
//! | `{payload}` | the measured message |
//! | `{payload:base64}` | the message in base64 |
//! | `{data.NAME}`, `{data.NAME:url}` | a cell of the scenario's data, in the row of `n` |
//! | `{worker}` | the number of the worker |
//!
//! Only a `{` that a letter follows opens a hole, so JSON needs no escaping:
//! `{"channel":"{channel}","data":"{payload}"}` means what it says. A literal `{n}` is written
//! `{{n}`: only the brace that would open a hole is doubled.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use throng_types::{Rng, nearest};

use crate::Data;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at}: {message}")]
pub struct TemplateError {
    /// Byte at which the hole begins, from the start of the text.
    pub at: usize,
    pub message: String,
}

/// Set of holes that a template may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoleScope {
    /// Holes of a channel name: `n`, `rand`, `data`.
    Channel,
    /// Holes of a URL, header or first frame of a connection: also `channel`, `worker`.
    Connection,
    /// Holes of a publish request: all.
    Publish,
}

impl HoleScope {
    /// Names of the holes, in the order of the help.
    const fn holes(self) -> &'static [&'static str] {
        match self {
            // A channel's name must be the same on every worker.
            Self::Channel => &["n", "rand", "data.NAME"],
            Self::Connection => &["n", "rand", "channel", "worker", "data.NAME"],
            Self::Publish => &["n", "rand", "channel", "payload", "worker", "data.NAME"],
        }
    }
}

impl fmt::Display for HoleScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Channel => "a channel name",
            Self::Connection => "a connection's URL, header or first frame",
            Self::Publish => "a publish request",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(Box<str>),
    Number(Source, Box<[Step]>),
    Rand {
        low: u64,
        high: u64,
    },
    Channel {
        url: bool,
    },
    Payload {
        base64: bool,
    },
    Data {
        data: Data,
        column: usize,
        url: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    N,
    Worker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Modulo(u64),
    Divide(u64),
    Add(u64),
    Multiply(u64),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    pub n: u64,
    pub worker: u64,
    pub channel: &'a str,
    pub payload: &'a [u8],
}

/// Text compiled once, rendered as often as needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    parts: Box<[Part]>,
}

impl Template {
    /// Compiles a text for its scope, with the scenario's data. Errors: the first hole that cannot
    /// be filled.
    pub fn compile(
        text: &str,
        scope: HoleScope,
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
            let fail = |message| TemplateError { at: open, message };
            let Some(close) = after.find('}') else {
                return Err(fail(String::from(
                    "`{` opens a hole that no `}` closes (a literal `{` before a letter is written \
                     `{{`)",
                )));
            };
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            parts.push(parse_hole(&after[..close], scope, data).map_err(fail)?);
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

    pub fn render(&self, values: &Values<'_>, rng: &mut Rng, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                Part::Number(source, steps) => {
                    let start = match source {
                        Source::N => values.n,
                        Source::Worker => values.worker,
                    };
                    push_decimal(apply(steps, start), out);
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

    /// Renders into a `String`, for callers to whom a copy does not matter.
    pub fn render_to_string(&self, values: &Values<'_>, rng: &mut Rng) -> String {
        let mut out = Vec::new();
        self.render(values, rng, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Number that stands in the text for this `n`, where the text depends on `n` alone and in one
    /// place. Two connections have the same text exactly if they have the same number.
    pub fn number_of(&self, n: u64) -> Option<u64> {
        let is_hole = |part: &&Part| !matches!(part, Part::Literal(_));
        let mut holes = self.parts.iter().filter(is_hole);
        match (holes.next(), holes.next()) {
            (Some(Part::Number(Source::N, steps)), None) => Some(apply(steps, n)),
            _ => None,
        }
    }

    /// Appends the text with this number (see [`Template::number_of`]) in its only hole.
    pub fn render_number(&self, number: u64, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => out.extend_from_slice(text.as_bytes()),
                _ => push_decimal(number, out),
            }
        }
    }

    /// Returns true if two renderings cannot differ.
    pub fn is_constant(&self) -> bool {
        !self.any(|part| !matches!(part, Part::Literal(_)))
    }

    pub fn has_payload(&self) -> bool {
        self.any(|part| matches!(part, Part::Payload { .. }))
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = &str> {
        let cells = |part| match part {
            &Part::Data {
                ref data, column, ..
            } => Some(data.cells_of(column)),
            _ => None,
        };
        self.parts.iter().filter_map(cells).flatten()
    }

    /// Returns true if renderings with the same values can differ.
    pub fn is_random(&self) -> bool {
        self.any(|part| matches!(part, Part::Rand { .. }))
    }

    fn any(&self, is: fn(&Part) -> bool) -> bool {
        self.parts.iter().any(is)
    }
}

/// Escapes a text so that it compiles to itself.
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

fn apply(steps: &[Step], start: u64) -> u64 {
    steps.iter().fold(start, |value, step| match *step {
        // The parser refuses zero.
        Step::Modulo(by) => value % by,
        Step::Divide(by) => value / by,
        Step::Add(by) => value.wrapping_add(by),
        Step::Multiply(by) => value.wrapping_mul(by),
    })
}

fn push_decimal(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Percent-encodes everything but the unreserved characters (RFC 3986 section 2.3).
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

fn parse_hole(text: &str, scope: HoleScope, data: Option<&Data>) -> Result<Part, String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (word, argument) = text.split_at(end);
    let is_hole =
        |holes: &[&str]| { holes.iter() }.any(|name| name.split('.').next() == Some(word));
    if !is_hole(HoleScope::Publish.holes()) {
        return Err(unknown(word, scope));
    }
    if !is_hole(scope.holes()) {
        return Err(format!("`{{{word}}}` has no meaning in {scope}"));
    }
    let bad = |takes: &str| format!("`{{{text}}}`: {takes}");
    match (word, argument) {
        ("n", _) => Ok(Part::Number(Source::N, parse_steps(argument, bad)?)),
        ("worker", _) => Ok(Part::Number(Source::Worker, parse_steps(argument, bad)?)),
        ("rand", _) => parse_rand(argument, bad),
        ("channel", "" | ":url") => Ok(Part::Channel {
            url: !argument.is_empty(),
        }),
        ("channel", _) => Err(bad("takes nothing, or `:url` for percent-encoding")),
        ("payload", "" | ":base64") => Ok(Part::Payload {
            base64: !argument.is_empty(),
        }),
        ("payload", _) => Err(bad("takes nothing, or `:base64`")),
        _ => parse_data(argument, bad, data),
    }
}

fn parse_data(
    argument: &str,
    bad: impl Fn(&str) -> String,
    data: Option<&Data>,
) -> Result<Part, String> {
    let name = argument.strip_prefix('.').unwrap_or_default();
    let (name, url) = match name.split_once(':') {
        None => (name, false),
        Some((name, "url")) => (name, true),
        Some(_) => return Err(bad("takes `:url` for percent-encoding, or nothing")),
    };
    if name.is_empty() {
        return Err(bad("needs the name of a column, as in `{data.user}`"));
    }
    let no_data = "there is no data: name a CSV file with `data`, or --data";
    let data = data.ok_or_else(|| bad(no_data))?.clone();
    match data.columns().iter().position(|column| column == name) {
        Some(column) => Ok(Part::Data { data, column, url }),
        None => Err(format!(
            "the data has no column `{name}`; its columns are {}",
            data.columns().join(", ")
        )),
    }
}

fn unknown(word: &str, scope: HoleScope) -> String {
    let names = scope.holes();
    let list = format!("{scope} can have `{{{}}}`", names.join("}`, `{"));
    let help = match nearest(word, names.iter().copied()) {
        None => list,
        Some(nearest) => format!("did you mean `{{{nearest}}}`? {list}"),
    };
    format!("`{{{word}}}` is unknown; {help}")
}

fn parse_steps(mut rest: &str, bad: impl Fn(&str) -> String) -> Result<Box<[Step]>, String> {
    let takes = "takes `%`, `/`, `+` or `*` and a whole number, as in `{n%1000}` or `{n/4%10+1}`";
    let mut steps = Vec::new();
    while let Some(operator) = rest.chars().next() {
        let digits = rest.get(operator.len_utf8()..).unwrap_or_default();
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let by: u64 = digits[..end].parse().map_err(|_| bad(takes))?;
        steps.push(match (operator, by) {
            ('%' | '/', 0) => return Err("a division by zero".into()),
            ('%', by) => Step::Modulo(by),
            ('/', by) => Step::Divide(by),
            ('+', by) => Step::Add(by),
            ('*', by) => Step::Multiply(by),
            _ => return Err(bad(takes)),
        });
        rest = &digits[end..];
    }
    Ok(steps.into())
}

fn parse_rand(argument: &str, bad: impl Fn(&str) -> String) -> Result<Part, String> {
    if argument.is_empty() {
        let high = u64::from(u32::MAX);
        return Ok(Part::Rand { low: 0, high });
    }
    let range = argument
        .strip_prefix(':')
        .and_then(|range| range.split_once('-'));
    let range = range.and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    match range {
        Some((low, high)) if low > high => {
            Err("the range is empty: its first number is above its last".into())
        }
        Some((low, high)) => Ok(Part::Rand { low, high }),
        None => Err(bad(
            "takes nothing, or two whole numbers, as in `{rand:10-99}`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    fn render(text: &str, scope: HoleScope, n: u64) -> String {
        let values = Values {
            n,
            worker: 2,
            channel: "a b:ü",
            payload: b"TB1",
        };
        Template::compile(text, scope, None)
            .unwrap()
            .render_to_string(&values, &mut Rng::new(1))
    }

    #[test]
    fn random_numbers_stay_in_bounds() {
        let template = Template::compile("{rand:7-9}", HoleScope::Channel, None).unwrap();
        let mut rng = Rng::new(9);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            seen.insert(template.render_to_string(&Values::default(), &mut rng));
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["7", "8", "9"]);
        let whole = format!("{{rand:0-{}}}", u64::MAX);
        assert!(render(&whole, HoleScope::Channel, 0).parse::<u64>().is_ok());
    }

    #[test]
    fn a_template_knows_what_it_needs() {
        let template = |text| Template::compile(text, HoleScope::Publish, None).unwrap();
        assert!(template("plain").is_constant());
        assert!(!template("{n}").is_constant());
        assert!(template("{payload}").has_payload() && !template("{n}").has_payload());
        assert!(template("{rand}").is_random());
    }

    proptest! {
        #[test]
        fn an_escaped_text_compiles_to_itself(text in r#"([{}nx"%:a-z]|\PC){0,40}"#) {
            prop_assert_eq!(render(&escape(&text), HoleScope::Channel, 3), text);
        }

        #[test]
        fn no_text_panics(text in r"[{}nrand:%/0-9+*-]{0,40}") {
            if let Ok(template) = Template::compile(&text, HoleScope::Publish, None) {
                let _ = template.render_to_string(&Values::default(), &mut Rng::new(0));
            }
        }
    }
}
