//! Filler of templates: texts with marks in braces, and a view of what they tell, which is JSON.
//!
//! | mark | becomes |
//! |---|---|
//! | `{totals.lag}` | the value at that path, from the innermost item outwards |
//! | `{totals.lag time}` | the same in a form (see `shown`), or in several, one after the other |
//! | `{#steps}` … `{/steps}` | the text between, once for each item of a list; `{.}` is the item |
//! | `{?server}` … `{/server}` | the text between, unless that is null, false, or empty |
//! | `{!server}` … `{/server}` | the text between where the mark above leaves it out |
//!
//! A block may end without its name, `{/}`. A line that has one such mark of a block and nothing
//! else is left out; one that ends with a backslash goes on in the next. Braces around anything
//! else stay as they are.
//!
//! Invariant: values of a page are escaped, but for those in the form `raw`.

use serde_json::Value;

use crate::units::{format_bytes, format_us, grouped, measured_bytes};

/// Fills a template whose values need no escaping.
#[must_use]
pub fn fill(template: &str, view: &Value) -> String {
    fill_with(template, view, |text| text)
}

/// Fills a template that is HTML.
#[must_use]
pub fn fill_page(template: &str, view: &Value) -> String {
    fill_with(template, view, |text| escaped(&text))
}

fn fill_with(template: &str, view: &Value, escape: fn(String) -> String) -> String {
    let template = template.replace("\\\n", "");
    let mut filler = Filler {
        template: &template,
        at: 0,
        escape,
        out: String::new(),
    };
    filler.block(&mut vec![view], true);
    filler.out
}

struct Filler<'t> {
    template: &'t str,
    at: usize,
    escape: fn(String) -> String,
    out: String,
}

impl<'t> Filler<'t> {
    /// Fills up to the end of the block at hand, or passes over it.
    fn block(&mut self, items: &mut Vec<&Value>, is_shown: bool) {
        loop {
            let (before, mark) = self.next_mark();
            if is_shown {
                self.out.push_str(before);
            }
            let Some(mark) = mark.filter(|mark| !mark.starts_with('/')) else {
                return;
            };
            let (kind, rest) = mark.split_at(usize::from(mark.starts_with(['#', '?', '!'])));
            let (path, forms) = rest.split_once(' ').unwrap_or((rest, ""));
            let value = find(items, path);
            match kind {
                "#" => self.each(value, items, is_shown),
                "?" => self.block(items, is_shown && is_there(value)),
                "!" => self.block(items, is_shown && !is_there(value)),
                _ if is_shown => {
                    let text = shown(value, forms);
                    let is_raw = forms == "raw";
                    let text = if is_raw { text } else { (self.escape)(text) };
                    self.out.push_str(&text);
                }
                _ => {}
            }
        }
    }

    fn each<'v>(&mut self, list: &'v Value, items: &mut Vec<&'v Value>, is_shown: bool) {
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        if list.is_empty() || !is_shown {
            return self.block(items, false);
        }
        let begin = self.at;
        for item in list {
            self.at = begin;
            items.push(item);
            self.block(items, true);
            items.pop();
        }
    }

    /// Passes over the next mark. Returns the text before it, and the mark without its braces; none
    /// at the end.
    fn next_mark(&mut self) -> (&'t str, Option<&'t str>) {
        let (template, begin) = (self.template, self.at);
        let braces = template[begin..].match_indices('{');
        for open in braces.map(|(at, _)| begin + at) {
            let after = &template[open + 1..];
            let mark = after.split_once('}').map_or("", |(mark, _)| mark);
            let name = mark.trim_start_matches(['#', '?', '!', '/']);
            let is_plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_. ".contains(c);
            if (name.is_empty() && mark != "/") || !name.chars().all(is_plain) {
                continue;
            }
            self.at = open + 1 + mark.len() + 1;
            let begins_line = open == 0 || template[..open].ends_with('\n');
            let ends_line = template[self.at..].starts_with('\n');
            if name != mark && begins_line && ends_line {
                self.at += 1;
            }
            return (&template[begin..open], Some(mark));
        }
        self.at = template.len();
        (&template[begin..], None)
    }
}

/// Finds the value at a path; null if there is none.
#[must_use]
pub fn find<'v>(items: &[&'v Value], path: &str) -> &'v Value {
    let Some(innermost) = items.last() else {
        return &Value::Null;
    };
    if path == "." {
        return innermost;
    }
    let mut names = path.split('.');
    let first = names.next().unwrap_or_default();
    let found = items.iter().rev().find_map(|item| item.get(first));
    found.map_or(&Value::Null, |value| {
        names.fold(value, |value, name| match name.parse::<usize>() {
            Ok(place) => &value[place],
            Err(_) => &value[name],
        })
    })
}

fn is_there(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(is) => *is,
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        Value::Number(_) | Value::Object(_) => true,
    }
}

/// Writes a value in its forms, each of which takes what the one before has made.
fn shown(value: &Value, forms: &str) -> String {
    let number = value.as_f64().unwrap_or_default();
    let plain = match value {
        Value::String(text) => text.clone(),
        // A fraction is written without one where it is whole.
        Value::Number(count) if count.is_f64() => number.to_string(),
        Value::Number(count) => count.to_string(),
        _ => String::new(),
    };
    let forms = forms.split_ascii_whitespace();
    forms.fold(plain, |text, form| match form {
        "grouped" => grouped(value.as_u64().unwrap_or_else(|| number.round() as u64)),
        "bytes" => format_bytes(number),
        "measured" => measured_bytes(number),
        "percent" => format!("{:.0} %", number * 100.0),
        "tenths" => format!("{number:.1}"),
        "thousandths" if value.is_number() => format!("{number:.3}"),
        "ms" => format!("{:.3}", number / 1000.0),
        "signed_ms" => format!("{:+.3}", number / 1000.0),
        "time" => value.as_f64().map_or_else(|| "–".into(), format_us),
        // What stands before and behind the blank in 12.5 ms.
        "number" => text.split(' ').take(1).collect(),
        "unit" => text.split(' ').skip(1).collect(),
        "dash" if value.is_null() => "-".to_owned(),
        "left10" => format!("{text:<10}"),
        "left12" => format!("{text:<12}"),
        "right10" => format!("{text:>10}"),
        _ => text,
    })
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let text = text.replace('>', "&gt;").replace('"', "&quot;");
    text.replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn marks_are_filled_and_other_braces_stay() {
        let view = json!({
            "name": "<a>", "steps": [{"us": 1500, "name": "b"}, {"us": null}], "words": ["x", "y"],
            "none": [], "zero": 0, "deep": {"bytes": 2048.0, "whole": 3.0},
        });
        for (template, text) in [
            ("{name}", "<a>"),
            ("{x=\"{name}\"} {} {A} {", "{x=\"<a>\"} {} {A} {"),
            ("{#steps}{name} {us time}, {/steps}", "b 1.50 ms, <a> –, "),
            (
                "{#words}{.}{/words}{#none}{.}{/none}{words.1}{words.2}.",
                "xyy.",
            ),
            ("{?none}a{?name}b{/name}c{/none}{!none}d{/none}", "d"),
            ("{?zero}{zero}{/zero}{?gone}x{/gone}", "0"),
            ("a\n{?name}\nb\n{/name}\nc\n", "a\nb\nc\n"),
            ("a\\\n{name}\\\n\n", "a<a>\n"),
            ("{deep.bytes bytes} {deep.whole} {deep.x.y}.", "2 KiB 3 ."),
            ("{deep.bytes bytes number}|{deep.bytes bytes unit}", "2|KiB"),
        ] {
            assert_eq!(fill(template, &view), text, "{template}");
        }
        assert_eq!(fill_page("{name}{name raw}", &view), "&lt;a&gt;<a>");
    }
}
