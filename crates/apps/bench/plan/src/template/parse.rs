//! What stands between the braces of a hole.

use throng_types::nearest;

use crate::Data;

use super::error::TemplateErrorKind;
use super::hole::{Name, Part, Place, Source, Step};

pub(super) fn parse_hole(
    hole: &str,
    place: Place,
    data: Option<&Data>,
) -> Result<Part, TemplateErrorKind> {
    let end = hole
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .unwrap_or(hole.len());
    let (word, argument) = hole.split_at(end);
    let Some(name) = Name::ALL.into_iter().find(|name| name.as_str() == word) else {
        return Err(unknown(word, place));
    };
    if !place.knows(name) {
        return Err(TemplateErrorKind::OutOfPlace {
            name: word.to_owned(),
            place,
        });
    }
    let bad = |takes| TemplateErrorKind::BadArgument {
        hole: hole.to_owned(),
        takes,
    };
    match name {
        Name::N => Ok(Part::Number(Source::N, parse_steps(argument, hole)?)),
        Name::Worker => Ok(Part::Number(Source::Worker, parse_steps(argument, hole)?)),
        Name::Rand => parse_rand(argument, hole),
        Name::Channel => match argument {
            "" => Ok(Part::Channel { url: false }),
            ":url" => Ok(Part::Channel { url: true }),
            _ => Err(bad("takes nothing, or `:url` for percent-encoding")),
        },
        Name::Payload => match argument {
            "" => Ok(Part::Payload { base64: false }),
            ":base64" => Ok(Part::Payload { base64: true }),
            _ => Err(bad("takes nothing, or `:base64`")),
        },
        Name::Data => parse_data(argument, hole, data),
    }
}

fn parse_data(argument: &str, hole: &str, data: Option<&Data>) -> Result<Part, TemplateErrorKind> {
    let bad = |takes| TemplateErrorKind::BadArgument {
        hole: hole.to_owned(),
        takes,
    };
    let name = argument.strip_prefix('.').unwrap_or_default();
    let (name, url) = match name.split_once(':') {
        None => (name, false),
        Some((name, "url")) => (name, true),
        Some(_) => return Err(bad("takes `:url` for percent-encoding, or nothing")),
    };
    if name.is_empty() {
        return Err(bad("needs the name of a column, as in `{data.user}`"));
    }
    let Some(data) = data else {
        return Err(bad(
            "there is no data: name a CSV file with `data`, or --data",
        ));
    };
    let Some(column) = data.columns().iter().position(|column| column == name) else {
        return Err(TemplateErrorKind::NoColumn {
            name: name.to_owned(),
            columns: data.columns().join(", "),
        });
    };
    Ok(Part::Data {
        data: data.clone(),
        column,
        url,
    })
}

fn unknown(word: &str, place: Place) -> TemplateErrorKind {
    let names: Vec<&str> = place.names().map(Name::shown).collect();
    let nearest = nearest(word, names.iter().copied());
    let list = names
        .iter()
        .map(|name| format!("`{{{name}}}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let help = nearest.map_or_else(
        || format!("{place} can have {list}"),
        |nearest| format!("did you mean `{{{nearest}}}`? {place} can have {list}"),
    );
    TemplateErrorKind::Unknown {
        name: word.to_owned(),
        help,
    }
}

fn parse_steps(mut rest: &str, hole: &str) -> Result<Box<[Step]>, TemplateErrorKind> {
    let bad = || TemplateErrorKind::BadArgument {
        hole: hole.to_owned(),
        takes: "takes `%`, `/`, `+` or `*` and a whole number, as in `{n%1000}` or `{n/4%10+1}`",
    };
    let mut steps = Vec::new();
    while let Some(operator) = rest.chars().next() {
        let digits = rest.get(operator.len_utf8()..).unwrap_or_default();
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let by: u64 = digits[..end].parse().map_err(|_| bad())?;
        steps.push(match (operator, by) {
            ('%' | '/', 0) => return Err(TemplateErrorKind::ByZero),
            ('%', by) => Step::Modulo(by),
            ('/', by) => Step::Divide(by),
            ('+', by) => Step::Add(by),
            ('*', by) => Step::Multiply(by),
            _ => return Err(bad()),
        });
        rest = &digits[end..];
    }
    Ok(steps.into())
}

fn parse_rand(argument: &str, hole: &str) -> Result<Part, TemplateErrorKind> {
    if argument.is_empty() {
        let high = u64::from(u32::MAX);
        return Ok(Part::Rand { low: 0, high });
    }
    let range = argument
        .strip_prefix(':')
        .and_then(|range| range.split_once('-'))
        .and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
    let Some((low, high)) = range else {
        return Err(TemplateErrorKind::BadArgument {
            hole: hole.to_owned(),
            takes: "takes nothing, or two whole numbers, as in `{rand:10-99}`",
        });
    };
    if low > high {
        return Err(TemplateErrorKind::EmptyRange);
    }
    Ok(Part::Rand { low, high })
}
