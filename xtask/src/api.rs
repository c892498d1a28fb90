//! The reference of the server API, as a page and as OpenAPI: fields from the decoder's tables,
//! answers as the encoder writes them, and the words of `calls.txt` beside both.

mod answers;
mod openapi;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use throng_centrifuge::api::{ApiRequest, Field, Kind, Method, ServerApiError};

use answers::Shape;

pub(crate) use openapi::document;

/// Codes that every call may answer: a fault of the server's, and a call that makes no sense.
const ALWAYS: [u32; 2] = [100, 107];

/// Columns of the page's prose.
const COLUMNS_MAX: usize = 100;

/// Words about a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    about: String,
    role: String,
    #[serde(default)]
    needs: Vec<String>,
    errors: Vec<u32>,
    send: String,
    shows: String,
    /// Meanings of the answer's fields, by their paths.
    #[serde(default)]
    answer: BTreeMap<String, String>,
}

/// A call with its words and the shape of its answer.
struct Call {
    method: Method,
    words: Words,
    fields: &'static [Field],
    answer: Shape,
}

impl Call {
    fn needs(&self, field: &Field) -> bool {
        self.words.needs.iter().any(|name| name == field.name)
    }

    /// Codes of the errors that it may answer, in order.
    fn errors(&self) -> Vec<u32> {
        let mut codes = [&ALWAYS[..], &self.words.errors].concat();
        codes.sort_unstable();
        codes
    }
}

/// All calls, in the order of their table in the code.
fn calls() -> Result<Vec<Call>> {
    let mut words: BTreeMap<String, Words> = toml::from_str(include_str!("api/calls.txt"))?;
    let mut calls = Vec::new();
    for method in Method::ALL {
        let name = method.name();
        let words = words
            .remove(name)
            .with_context(|| format!("no words on {name}"))?;
        let call = Call {
            method,
            words,
            fields: ApiRequest::fields(method),
            answer: Shape::of(&answers::samples(method)),
        };
        let is_field = |need: &String| call.fields.iter().any(|field| field.name == need);
        ensure!(
            call.words.needs.iter().all(is_field),
            "{name}: what is needed is no field"
        );
        let (written, told) = (call.answer.paths(), call.words.answer.keys());
        ensure!(
            written.iter().eq(told),
            "{name}: its answer has {written:?}; the words are on {:?}",
            call.words.answer.keys()
        );
        calls.push(call);
    }
    ensure!(words.is_empty(), "no such calls: {:?}", words.keys());
    Ok(calls)
}

/// The page of the reference.
pub(crate) fn page() -> Result<String> {
    let calls = calls()?;
    let mut index = Vec::new();
    let mut text = String::new();
    for call in &calls {
        let name = call.method.name();
        let (summary, _) = call.words.about.split_once('.').unwrap_or_default();
        index.push(format!(
            "| `POST /api/{name}` | [{}](#post-api{name}) | `{}` |",
            lower_first(summary),
            call.words.role
        ));
        text.push_str(&section(call));
    }
    Ok(include_str!("api/page.txt")
        .replace("@index@", &index.join("\n"))
        .replace("@errors@", &error_rows())
        .replace("@calls@", text.trim_end()))
}

fn lower_first(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    first.to_lowercase() + rest
}

/// Breaks a sentence into lines.
fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split(' ') {
        let width = word.chars().count();
        match column {
            0 => {}
            _ if column + 1 + width > COLUMNS_MAX => {
                out.push('\n');
                column = 0;
            }
            _ => {
                out.push(' ');
                column += 1;
            }
        }
        out.push_str(word);
        column += width;
    }
    out
}

fn section(call: &Call) -> String {
    let Words {
        about,
        role,
        send,
        shows,
        ..
    } = &call.words;
    let name = call.method.name();
    let about = wrapped(&format!("{about} A key needs the role `{role}`."));
    let mut out = format!("## `POST /api/{name}`\n\n{about}\n\n");
    let mut rows = String::new();
    for field in call.fields {
        field_rows(&mut rows, "", field, call.needs(field));
    }
    match rows.is_empty() {
        true => out.push_str("It has no fields.\n\n"),
        false => {
            let head = "| field | type | default | meaning |\n|---|---|---|---|\n";
            let _ = writeln!(out, "{head}{rows}");
        }
    }
    let ignored = ignored(call.fields);
    if !ignored.is_empty() {
        let ignored = format!("Taken and ignored, for clients of Centrifugo: {ignored}.");
        let _ = writeln!(out, "{}\n", wrapped(&ignored));
    }
    let _ = writeln!(
        out,
        "<!-- run -->\n```sh\ncurl -s http://127.0.0.1:8001/api/{name} -d '{send}'\n```\n\n\
         <!-- shows -->\n```json\n{shows}\n```\n"
    );
    let mut rows = String::new();
    for (path, shape) in call.answer.entries() {
        let kind = shape.word();
        let _ = writeln!(rows, "| `{path}` | {kind} | {} |", call.words.answer[&path]);
    }
    match rows.is_empty() {
        true => out.push_str("The result is empty.\n\n"),
        false => {
            let head = "| result | type | meaning |\n|---|---|---|\n";
            let _ = writeln!(out, "{head}{rows}");
        }
    }
    let codes: Vec<String> = call.errors().iter().map(u32::to_string).collect();
    let _ = writeln!(out, "[Errors](#errors): {}.\n", codes.join(", "));
    out
}

/// Appends the rows of a field, and of those inside it.
fn field_rows(out: &mut String, inside: &str, field: &Field, is_needed: bool) {
    let path = format!("{inside}{}", field.name);
    let (kind, default) = match field.kind {
        Kind::Ignored => return,
        Kind::Flag => ("bool".to_owned(), "`false`"),
        Kind::Number(0, u64::MAX) => ("number, 0 or more".to_owned(), "`0`"),
        Kind::Number(i64::MIN, _) => ("number".to_owned(), "`0`"),
        Kind::Number(min, max) => (format!("number, {min} to {max}"), "`0`"),
        Kind::Text => ("string".to_owned(), "`\"\"`"),
        Kind::Texts => ("list of strings".to_owned(), "`[]`"),
        Kind::Json => ("any JSON".to_owned(), "none"),
        Kind::Tags => ("object of strings".to_owned(), "`{}`"),
        Kind::Object(_) => ("object".to_owned(), "none"),
    };
    let default = if is_needed { "needed" } else { default };
    // An object inside an object is told by what is in it.
    if inside.is_empty() || !matches!(field.kind, Kind::Object(_)) {
        let meaning = field.doc.trim();
        let _ = writeln!(out, "| `{path}` | {kind} | {default} | {meaning} |");
    }
    if let Kind::Object(fields) = field.kind {
        for field in fields {
            field_rows(out, &format!("{path}."), field, false);
        }
    }
}

/// The names of fields that are ignored, those inside others behind a dot.
fn ignored(fields: &[Field]) -> String {
    let mut names = Vec::new();
    for field in fields {
        match field.kind {
            Kind::Ignored => names.push(format!("`{}`", field.name)),
            Kind::Object(inner) => {
                let inner = inner
                    .iter()
                    .filter(|field| matches!(field.kind, Kind::Ignored));
                names.extend(inner.map(|inner| format!("`{}.{}`", field.name, inner.name)));
            }
            _ => {}
        }
    }
    names.join(", ")
}

fn error_rows() -> String {
    let rows = ServerApiError::ALL.into_iter().map(|error| {
        let status = error.http_status();
        format!("| {} | {} | {status} |", error.code(), error.message())
    });
    rows.collect::<Vec<_>>().join("\n")
}
