//! Texts made from the table: the commented file, the values with their origins, the reference.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::config::Config;
use crate::layout::sections;
use crate::secret::MASK;
use crate::section::{OptionSpec, Section, Sections, Shape};
use crate::sources::{Loaded, Origin};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// Path of the value, such as `listen.api` or `namespace[0].history_size`.
    pub(crate) path: String,
    /// The value as TOML, masked if it is a secret; none while it is unset.
    pub(crate) value: Option<String>,
    pub(crate) origin: Origin,
}

impl Config {
    /// Every value of every section that is there, by its path; secrets are masked, and there is
    /// none where a value is unset.
    #[must_use]
    pub fn in_force(&self) -> Vec<(String, Option<String>)> {
        let present = self.present().into_iter();
        let values = present.flat_map(|(path, _, section)| {
            let specs = section.specs().into_iter();
            specs.map(move |spec| {
                (
                    format!("{path}.{}", spec.key),
                    shown_value(section, &spec, false),
                )
            })
        });
        values.collect()
    }
}

/// The value of an option as it is shown: a secret is masked, unless it is to be revealed.
fn shown_value(section: &dyn Section, spec: &OptionSpec, reveal: bool) -> Option<String> {
    let value = section.text(spec.key)?;
    Some(match (value.as_str(), spec.list) {
        _ if !spec.rule.secret || reveal => value,
        ("[]", _) => value,
        (_, true) => format!("[\"{MASK}\"]"),
        (_, false) => format!("\"{MASK}\""),
    })
}

impl Loaded {
    /// The configuration as TOML, each value followed by its origin.
    #[must_use]
    pub fn show(&self, reveal: bool) -> String {
        let mut out = String::new();
        for (path, shape, section) in self.config.present() {
            let _ = writeln!(out, "{}", shape.heading(section.name()));
            let lines: Vec<(String, String)> = self
                .values_of(&path, section, reveal)
                .into_iter()
                .map(|shown| line(&path, &shown))
                .collect();
            let width = lines.iter().map(|(line, _)| line.chars().count()).max();
            for (line, origin) in &lines {
                let _ = writeln!(
                    out,
                    "{line:<width$}  # {origin}",
                    width = width.unwrap_or(0).min(48)
                );
            }
            out.push('\n');
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
        out
    }

    pub(crate) fn values_of(&self, path: &str, section: &dyn Section, reveal: bool) -> Vec<Shown> {
        let shown = |spec: OptionSpec| {
            let path = format!("{path}.{}", spec.key);
            let value = shown_value(section, &spec, reveal);
            let origin = self.origins.get(&path).clone();
            Shown {
                path,
                value,
                origin,
            }
        };
        section.specs().into_iter().map(shown).collect()
    }
}

/// `key = value` and the comment after it.
fn line(section: &str, shown: &Shown) -> (String, String) {
    let key = shown.path.get(section.len() + 1..).unwrap_or(&shown.path);
    match &shown.value {
        Some(value) => (format!("{key} = {value}"), shown.origin.to_string()),
        None => (format!("# {key}"), "not set".to_owned()),
    }
}

#[must_use]
pub fn options() -> Vec<OptionSpec> {
    let all = sections().into_iter();
    all.flat_map(|(_, section)| section.specs()).collect()
}

/// A configuration file with every option, its meaning and its default, all commented out, so that
/// the defaults of the running version apply until an operator changes them.
#[must_use]
pub fn init_text() -> String {
    let mut out = include_str!("init.txt").to_owned();
    for (shape, section) in sections() {
        out.push('\n');
        comment(&mut out, &section.doc());
        let heading = shape.heading(section.name());
        let mark = if shape == Shape::Once { "" } else { "#" };
        let _ = writeln!(out, "{mark}{heading}");
        for spec in section.specs() {
            out.push('\n');
            comment(&mut out, &spec.doc);
            if !spec.rule.unset.is_empty() {
                comment(&mut out, &format!("Unset: {}.", spec.rule.unset));
            }
            let default = spec.default.as_ref().filter(|_| !required(&spec, shape));
            let value = default.map_or(spec.rule.example, String::as_str);
            let _ = writeln!(out, "#{} = {value}", spec.key);
        }
    }
    out
}

/// Whether an empty value is none: the names of repeated sections have no useful default. What is
/// `needed` in the table has none at all.
fn required(spec: &OptionSpec, shape: Shape) -> bool {
    let is_empty = spec.default.is_some()
        && matches!(
            spec.key,
            "name" | "id" | "path" | "origin" | "certificate" | "key"
        );
    shape == Shape::Repeated && (is_empty || spec.rule.unset == "needed")
}

fn comment(out: &mut String, text: &str) {
    const COLUMNS: usize = 96;
    let mut column = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count() + 1;
        if column == 0 || column + width > COLUMNS {
            out.push_str(if column == 0 { "#" } else { "\n#" });
            column = 1;
        }
        out.push(' ');
        out.push_str(word);
        column += width;
    }
    out.push('\n');
}

/// The reference in Markdown, for `docs/config.md`.
#[must_use]
pub fn reference_text() -> String {
    let mut out = include_str!("reference.md").to_owned();
    for (shape, section) in sections() {
        let _ = writeln!(
            out,
            "\n## `{}`\n\n{}\n",
            shape.heading(section.name()),
            section.doc()
        );
        let variables = shape != Shape::Repeated;
        out.push_str(if variables {
            "| option | kind | default | variable, flag | meaning |\n|---|---|---|---|---|\n"
        } else {
            "| option | kind | default | meaning |\n|---|---|---|---|\n"
        });
        for spec in section.specs() {
            reference_row(&mut out, &spec, shape);
        }
    }
    out
}

fn reference_row(out: &mut String, spec: &OptionSpec, shape: Shape) {
    let default = match &spec.default {
        _ if required(spec, shape) => "required".to_owned(),
        Some(default) => format!("`{default}`"),
        None if spec.rule.unset.is_empty() => "not set".to_owned(),
        None => spec.rule.unset.to_owned(),
    };
    let _ = write!(out, "| `{}` | {} | {default} |", spec.key, spec.kind);
    if shape != Shape::Repeated {
        let flag = spec
            .rule
            .flag
            .map_or_else(String::new, |flag| format!(", `{flag}`"));
        let _ = write!(out, " `{}`{flag} |", spec.env());
    }
    let _ = writeln!(out, " {} |", spec.doc.replace('|', "\\|"));
}

/// The configuration file as JSON Schema, for editors and checks.
#[must_use]
pub fn schema_text() -> String {
    let config = Config::default();
    let kinds = config.sections().into_iter().map(Sections::kind);
    let sections = kinds.map(|(shape, section)| {
        let schema = section_schema(shape, section.as_ref());
        (section.name().to_owned(), schema)
    });
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Configuration of Throng",
        "type": "object",
        "properties": sections.collect::<Map<_, _>>(),
        "additionalProperties": false,
    });
    format!("{schema:#}\n")
}

fn section_schema(shape: Shape, section: &dyn Section) -> Value {
    let specs = section.specs();
    let required = specs.iter().filter(|spec| required(spec, shape));
    let required: Vec<&str> = required.map(|spec| spec.key).collect();
    let own = specs
        .iter()
        .map(|spec| (spec.key.to_owned(), spec.schema()));
    let inner = section.lists().into_iter().map(|(key, list)| {
        let (shape, section) = list.kind();
        (key.to_owned(), section_schema(shape, section.as_ref()))
    });
    let schema = json!({
        "type": "object",
        "description": section.doc(),
        "properties": own.chain(inner).collect::<Map<_, _>>(),
        "required": required,
        "additionalProperties": false,
    });
    match shape {
        Shape::Repeated => json!({ "type": "array", "items": schema }),
        Shape::Once | Shape::Optional => schema,
    }
}
