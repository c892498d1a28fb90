//! Queues: the table in `ARCHITECTURE.md` and the bounds in the code say the same.
//!
//! Documentation names the queue that a constant or a field bounds: ``Queue: `mailbox`.`` Each row
//! of the table has such a place, each such place a row, and the row holds the constant's number;
//! options that a row names exist. Growing fields of product code say `Queue:` or, where they are
//! no row of their own, `Bound:` and what bounds them; so does a comment above a std channel
//! without a capacity. Growing fields are those of type `VecDeque`, and where bytes from outside go
//! those of every collection that grows in the file that declares it.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::paths::paths;
use crate::plan::{self, PLAN};
use crate::source::{Doc, Kind, Source, Token};
use crate::tree::{Tree, is_test_file};

/// Where the table is.
const PAGE: &str = "ARCHITECTURE.md";
/// Marker by which documentation names a queue.
const TAG: &str = "Queue: `";
/// Collections that can grow.
const COLLECTIONS: &[&str] = &[
    "Vec",
    "HashMap",
    "HashSet",
    "BTreeMap",
    "BTreeSet",
    "BinaryHeap",
];
/// Methods by which they grow.
const GROWTH: &[&str] = &[
    "push",
    "insert",
    "entry",
    "extend",
    "extend_from_slice",
    "append",
];
/// Channels without a bound, and what to use.
const UNBOUNDED: &[&str] = &["unbounded_channel", "unbounded", "UnboundedSender"];

/// Compares the table with the code.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rows = rows(tree.text(PAGE).unwrap_or_default());
    let mut findings = Vec::new();
    let mut named: Vec<&str> = Vec::new();
    for (path, source) in product(tree) {
        for doc in &source.docs {
            for name in doc
                .text
                .split(TAG)
                .skip(1)
                .filter_map(|rest| rest.split('`').next())
            {
                named.push(name);
                let message = match rows.get(name) {
                    None => Some(format!("the queue `{name}` has no row in {PAGE}")),
                    Some(row) => bound_fault(source, doc, row),
                };
                findings.extend(message.map(|message| Finding::at(path, doc.line, message)));
            }
        }
    }
    let options: Vec<String> = throng_config::options()
        .iter()
        .map(|spec| spec.path())
        .collect();
    for row in rows.values() {
        let bound = row.split('|').nth(3).unwrap_or_default();
        let quoted = bound
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|text| text.contains('.'));
        for unknown in quoted.filter(|text| !options.iter().any(|option| option == text)) {
            findings.push(Finding::new(PAGE, format!("`{unknown}` is no option")));
        }
    }
    for name in rows.keys().filter(|name| !named.contains(&name.as_str())) {
        let message = format!("the queue `{name}` has no place in the code: write {TAG}{name}`");
        findings.push(Finding::new(PAGE, message));
    }
    findings.extend(boundless(tree));
    findings
}

/// Finds growing fields whose docs name no bound, and channels without one.
fn boundless(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in product(tree).filter(|(path, _)| !is_test_file(path)) {
        let mut add = |line: usize, message: String| {
            found.push(Finding::at(path, line, message));
        };
        for token in source.live() {
            if token.kind == Kind::Name && UNBOUNDED.contains(&token.text.as_str()) {
                add(token.line, format!("`{}` has no bound", token.text));
            }
        }
        let text = tree.text(path).unwrap_or_default();
        for line in silent_channels(source, text) {
            let message = "this channel has no capacity: use `sync_channel`, or say `// Bound: ..`";
            add(line, message.to_owned());
        }
        let package = tree.package_of(path);
        let is_outside = package.is_some_and(|it| plan::covers(&PLAN.from_strangers, it.room()));
        let is_queue = |kind: &str, field: &str| {
            kind == "VecDeque" || is_outside && COLLECTIONS.contains(&kind) && grows(source, field)
        };
        for at in silent_fields(source, is_queue) {
            let token = &source.tokens[at];
            let message = format!(
                "`{}` grows: write {TAG}..` or `Bound: ..` there",
                token.text
            );
            add(token.line, message);
        }
    }
    found
}

/// Whether code outside tests calls a method of a field by which it grows.
fn grows(source: &Source, field: &str) -> bool {
    let live: Vec<&Token> = source.live().collect();
    live.windows(4).any(|at| {
        let is_called = at[0].is(".") && at[1].is(field) && at[2].is(".");
        is_called && GROWTH.iter().any(|method| at[3].is(method))
    })
}

fn product(tree: &Tree) -> impl Iterator<Item = (&str, &Source)> {
    tree.rust().filter(|(path, _)| {
        let package = tree.package_of(path);
        package.is_some_and(|package| plan::covers(&PLAN.queued, package.room()))
    })
}

/// The rows of the table by the queue's name.
fn rows(page: &str) -> BTreeMap<String, &str> {
    let section = page.split("\n## Queues").nth(1).unwrap_or_default();
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1);
    rows.filter_map(|row| Some((row.split('|').nth(1)?.trim().to_owned(), row)))
        .collect()
}

/// Returns the fault of a row, if the documentation is that of a constant.
fn bound_fault(source: &Source, doc: &Doc, row: &str) -> Option<String> {
    let item = source.tokens.get(doc.next..)?;
    let at = item.iter().take(8).position(|token| token.is("const"))?;
    let value = item[at..].iter().skip_while(|token| !token.is("=")).skip(1);
    let value: Vec<&Token> = value.take_while(|token| !token.is(";")).collect();
    let Some(number) = number(&value) else {
        return Some("the bound is not a number that tidy can read".to_owned());
    };
    let forms = forms(number);
    let fits = |form: &String| row.contains(&format!(" {form}"));
    (!forms.iter().any(fits)).then(|| format!("the row does not say {}: {row}", forms.join(" or ")))
}

/// A number, a product or a shift.
fn number(tokens: &[&Token]) -> Option<u64> {
    let (first, mut rest) = tokens.split_first()?;
    let mut value = literal(first)?;
    while !rest.is_empty() {
        (value, rest) = match rest {
            [by, factor, rest @ ..] if by.is("*") => (value * literal(factor)?, rest),
            [a, b, bits, rest @ ..] if a.is("<") && b.is("<") => (value << literal(bits)?, rest),
            _ => return None,
        };
    }
    Some(value)
}

fn literal(token: &Token) -> Option<u64> {
    let text = token.text.replace('_', "");
    text.trim_end_matches("usize")
        .trim_end_matches("u64")
        .trim_end_matches("u32")
        .parse()
        .ok()
}

/// Forms in which the table may write a number: `4,096`, `64 KiB`.
fn forms(number: u64) -> Vec<String> {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let mut forms = vec![grouped];
    for (unit, bytes) in [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)] {
        if number >= bytes && number.is_multiple_of(bytes) {
            forms.push(format!("{} {unit}", number / bytes));
        }
    }
    forms
}

/// Lines that create a channel of `std::sync::mpsc` without a capacity, and have no comment above
/// that names its bound. One comment serves several channels in a row.
fn silent_channels(source: &Source, text: &str) -> Vec<usize> {
    let paths = paths(source.live());
    let brought = |name: &str| {
        let mut uses = paths.iter();
        let is_it = |brings: &Option<String>| brings.as_deref() == Some(name);
        uses.find(|it| is_it(&it.brings)).map(|it| it.path.as_str())
    };
    let is_channel = |path: &str| {
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let whole = match (brought(first), rest) {
            (None, _) => path.to_owned(),
            (Some(whole), "") => whole.to_owned(),
            (Some(whole), rest) => format!("{whole}::{rest}"),
        };
        whole == "std::sync::mpsc::channel"
    };
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    // A variable may have the function's name.
    let is_call = |line: &usize| {
        let text = lines[line - 1];
        text.contains("channel(") || text.contains("channel::<")
    };
    let is_silent = |line: &usize| {
        let above = lines[..line - 1].iter().rev();
        let mut above =
            above.take_while(|above| above.starts_with("//") || above.contains("channel()"));
        !above.any(|above| above.contains("Bound:"))
    };
    let made = paths.iter().filter(|it| it.brings.is_none());
    let made = made.filter(|it| is_channel(&it.path)).map(|it| it.line);
    made.filter(is_call).filter(is_silent).collect()
}

/// Finds fields whose docs name no bound; returns the tokens of their names. `grows` gets a name in
/// the type and that of the field.
fn silent_fields(source: &Source, grows: impl Fn(&str, &str) -> bool) -> Vec<usize> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for (at, token) in tokens
        .iter()
        .enumerate()
        .filter(|(_, token)| token.is("struct"))
    {
        let header = tokens[at..]
            .iter()
            .take_while(|token| !token.is("{") && !token.is(";"));
        let open = at + header.count();
        if token.for_tests || !tokens.get(open).is_some_and(|token| token.is("{")) {
            continue;
        }
        let (mut depth, mut field) = (0_i32, open + 1);
        for n in open..tokens.len() {
            match tokens[n].text.as_str() {
                "{" | "(" | "[" | "<" => depth += 1,
                "}" | ")" | "]" | ">" => depth -= 1,
                "," if depth == 1 => field = n + 1,
                kind if !tokens[n].for_tests => {
                    let colon = (field..n).find(|n| tokens[*n].is(":"));
                    let name = colon.map_or(field, |colon| colon - 1);
                    let says = |doc: &Doc| {
                        let tags = ["Queue:", "Bound:"];
                        doc.next == field && tags.iter().any(|tag| doc.text.contains(tag))
                    };
                    if grows(kind, &tokens[name].text) && !source.docs.iter().any(says) {
                        found.push(name);
                    }
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\n## Queues\n\n| queue | from | bound | full |\n|---|---|---|---|\n\
                         | mail | a | 4,096 messages | b |\n| out | a | `x.out_max` | b |\n";

    #[track_caller]
    fn check_code(code: &str, faults: usize) {
        let source = Source::parse(code).unwrap();
        let rows = rows(TABLE);
        let found = source.docs.iter().filter_map(|doc| {
            let name = doc.text.split(TAG).nth(1)?.split('`').next()?;
            bound_fault(&source, doc, rows.get(name)?)
        });
        assert_eq!(found.count(), faults, "{code}");
    }

    #[test]
    fn numbers_and_options_are_those_of_the_row() {
        assert_eq!(rows(TABLE).keys().collect::<Vec<_>>(), ["mail", "out"]);
        check_code("/// Queue: `mail`.\nconst A: usize = 4096;", 0);
        check_code(
            "/// Queue: `mail`.\npub(crate) const A: usize = 4 << 10;",
            0,
        );
        check_code("/// Queue: `mail`.\nconst A: usize = 4 * 1_000;", 1);
        check_code("/// Queue: `mail`.\nconst A: usize = f();", 1);
        check_code("struct A { /// Queue: `mail`.\n a: VecDeque<u8> }", 0);
        assert_eq!(forms(64 << 20), ["67,108,864", "65536 KiB", "64 MiB"]);
    }

    #[test]
    fn channels_without_a_capacity_say_what_bounds_them() {
        let found = |code: &str| silent_channels(&Source::parse(code).unwrap(), code);
        let used = "use std::sync::mpsc::{Sender, channel};\nfn f() {\n";
        assert_eq!(found(&format!("{used}let a = channel();\n}}")), [3]);
        let bound = "// Bound: one answer.\nlet a = channel();\nlet b = channel();\n}";
        assert!(found(&format!("{used}{bound}")).is_empty());
        let other = "// One answer.\nlet a = channel::<u8>();\n}";
        assert_eq!(found(&format!("{used}{other}")), [4]);
        assert!(found(&format!("{used}let channel = 1;\n}}")).is_empty());
        assert_eq!(found("fn f() { std::sync::mpsc::channel(); }"), [1]);
        assert_eq!(
            found("use std::sync::mpsc;\nfn f() { mpsc::channel(); }"),
            [2]
        );
        assert!(found("use std::sync::mpsc;\nfn f() { mpsc::sync_channel(1); }").is_empty());
        assert!(found("fn channel() {}\nfn f() { channel(); }").is_empty());
        assert!(found("#[cfg(test)]\nfn f() { std::sync::mpsc::channel(); }").is_empty());
    }

    #[test]
    fn growing_fields_say_what_bounds_them() {
        let queues = |kind: &str, _: &str| kind == "VecDeque";
        let found = |code: &str| silent_fields(&Source::parse(code).unwrap(), queues).len();
        assert_eq!(
            found("struct A { a: u8, b: Option<VecDeque<u8>>, c: VecDeque<u8> }"),
            2
        );
        assert_eq!(
            found("struct A { /// Bound: the caller's.\n pub(crate) b: VecDeque<u8> }"),
            0
        );
        assert_eq!(found("#[cfg(test)] struct A { b: VecDeque<u8> }"), 0);
        assert_eq!(
            found("fn f(a: VecDeque<u8>) { let b: VecDeque<u8> = a; }"),
            0
        );
    }

    #[test]
    fn collections_that_grow_say_what_bounds_them() {
        let found = |code: &str| {
            let source = Source::parse(code).unwrap();
            let grow =
                |kind: &str, field: &str| COLLECTIONS.contains(&kind) && grows(&source, field);
            silent_fields(&source, grow).len()
        };
        let grown = "fn f(a: &mut A) { a.b.push(1); }";
        assert_eq!(found(&format!("struct A {{ b: Vec<Vec<u8>> }} {grown}")), 1);
        let bound = format!("struct A {{ /// Bound: one.\n b: Vec<u8> }} {grown}");
        assert_eq!(found(&bound), 0);
        assert_eq!(
            found("struct A { b: Vec<u8> } fn f(a: &A) { a.b.len(); }"),
            0
        );
        assert_eq!(found(&format!("struct A {{ b: u8 }} {grown}")), 0);
    }
}
