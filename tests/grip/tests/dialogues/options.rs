//! What becomes of each option of Pushpin's files: a table of `docs/GRIP.md`.
//!
//! Owns: which options there are, by the documentation of Pushpin 1.36 to 1.41, and what those that
//! are taken are here. What is refused or has no effect is asked of `throng config check`, with a
//! file for each, so that the table cannot say what is not so.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use throng_testkit::throng;

/// An option with a value, and what it is here; see `options.txt`.
struct Known {
    name: &'static str,
    value: &'static str,
    told: &'static str,
}

/// Options of one part of `options.txt`: `pushpin.conf`, conditions, or targets.
fn known(part: &str) -> impl Iterator<Item = Known> {
    let mut parts = include_str!("options.txt").split("\n== ");
    let rows = parts.find_map(|text| text.strip_prefix(part)?.strip_prefix('\n'));
    let rows = rows.expect("a part of the table").lines();
    rows.filter(|row| !row.is_empty()).map(|row| {
        let mut columns = row.split('|').map(str::trim);
        let mut next = || columns.next().expect("OPTION | A VALUE | WORDS");
        Known {
            name: next(),
            value: next(),
            told: next(),
        }
    })
}

/// Returns the outcome for an option: a verdict and some words.
fn verdict(told: &str, refused: Option<String>, name: &str) -> (&'static str, String) {
    match (refused, told.strip_prefix("differs: ")) {
        (Some(reason), _) => {
            assert!(told.is_empty(), "{name} is not taken: {reason}");
            ("refused", reason)
        }
        (None, Some(words)) => ("differs", words.to_owned()),
        (None, None) => {
            assert!(!told.is_empty(), "{name} is taken: say what it is here");
            let words = if told == "same" { "" } else { told };
            ("same", words.to_owned())
        }
    }
}

/// Runs a configuration check. Returns whether the configuration is good, and the output.
fn check(folder: &Path, grip: &str) -> (bool, String) {
    let file = folder.join("throng.toml");
    let text = format!("[auth]\nanonymous = false\n[grip]\n{grip}\n");
    fs::write(&file, text).expect("a file");
    let mut command = Command::new(throng());
    let done = command.args(["config", "check"]).arg(&file).output();
    let done = done.expect("it was just built");
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    (done.status.success(), words)
}

/// Returns the text behind some words, to the end of the line.
fn behind(text: &str, words: &str) -> Option<String> {
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.split_once(words)?.1.to_owned()))
}

fn of_conf(known: &Known, folder: &Path) -> (&'static str, String) {
    let Known { name, value, told } = *known;
    let (section, option) = name.split_once('.').expect("section.option");
    let conf = folder.join("pushpin.conf");
    let text = format!("[{section}]\n{option}={value}\n");
    fs::write(&conf, text).expect("a file");
    let (is_good, said) = check(folder, &format!("pushpin_conf = {conf:?}"));
    if !is_good {
        let reason = behind(&said, &format!(":2:1: {name} is not supported: "));
        let reason = reason.unwrap_or_else(|| panic!("{name}: {said}"));
        let reason = reason.trim_end_matches("; take the line out");
        return verdict(told, Some(reason.to_owned()), name);
    }
    let Some(reason) = behind(&said, &format!("{name} has no effect: ")) else {
        return verdict(told, None, name);
    };
    assert!(told.is_empty(), "{name} has no effect: {reason}");
    assert!(
        !reason.contains("nobody") || reason.contains("reported"),
        "{name}: {reason}"
    );
    ("no effect", reason)
}

fn of_line(name: &str, told: &str, line: &str, folder: &Path) -> (&'static str, String) {
    let routes = folder.join("line");
    fs::write(&routes, line).expect("a file");
    let (is_good, said) = check(folder, &format!("routes_file = {routes:?}"));
    assert!(!said.contains("makes no route"), "{line}: {said}");
    let reason = behind(&said, ": line 1: ").map(|text| match text.split_once("supported: ") {
        Some(_) if text.starts_with("targets by ZeroMQ") => {
            "targets by ZeroMQ are not offered".into()
        }
        Some((_, words)) => words.to_owned(),
        None => text,
    });
    assert_eq!(is_good, reason.is_none(), "{line}: {said}");
    verdict(told, reason, name)
}

/// The tables in Markdown.
pub(crate) fn tables() -> String {
    let mut out = include_str!("options.md").to_owned();
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("routes"), "* test\n").expect("a file");
    let mut rows: Vec<(String, (&str, String))> = Vec::new();
    for known in known("pushpin.conf") {
        rows.push((known.name.to_owned(), of_conf(&known, folder.path())));
    }
    let conf_rows = rows.len();
    for Known { name, value, told } in known("condition") {
        let line = format!("*,{name}{value} a:1");
        rows.push((name.to_owned(), of_line(name, told, &line, folder.path())));
    }
    for Known { name, value, told } in known("target") {
        let line = format!("* {value}");
        let shown = format!("target: {name}");
        rows.push((shown, of_line(name, told, &line, folder.path())));
    }
    for (at, (name, (verdict, words))) in rows.into_iter().enumerate() {
        if at == conf_rows {
            out.push_str("\n| `routes` | here | |\n|---|---|---|\n");
        }
        writeln!(out, "| `{name}` | {verdict} | {words} |").expect("text");
    }
    out
}

/// Every option of the file that the package ships is in the table.
#[test]
fn shipped_options_are_all_known() {
    let shipped = fs::read_to_string(crate::sites::PACKAGED).expect("the package pushpin");
    let mut section = String::new();
    for line in shipped.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_owned();
        } else if let Some((name, _)) = line.trim_start_matches('#').split_once('=')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
        {
            let option = format!("{section}.{name}");
            let is_known = known("pushpin.conf").any(|known| known.name == option);
            assert!(is_known, "{option}");
        }
    }
}
