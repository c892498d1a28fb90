//! `docs/GRIP.md`, made from the dialogues.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::script::{Dialogue, Difference, KINDS};
use crate::verdict::{Everywhere, Standing};

const HEAD: &str = include_str!("head.txt");

fn path() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).expect("tests/grip is two below");
    root.join("docs/GRIP.md")
}

pub(crate) fn write(all: &[Dialogue], everywhere: &Everywhere) {
    fs::write(path(), text(all, everywhere)).expect("the page can be written");
}

pub(crate) fn check(all: &[Dialogue], everywhere: &Everywhere) {
    let written = fs::read_to_string(path()).unwrap_or_default();
    assert!(
        written == text(all, everywhere),
        "docs/GRIP.md is not what the dialogues say; THRONG_RECORD=1 writes it"
    );
}

/// The reasons of a dialogue, each once.
fn reasons(dialogue: &Dialogue) -> Vec<String> {
    let mut out = Vec::new();
    for Difference { reason, .. } in dialogue.differences() {
        if !out.contains(&reason) {
            out.push(reason);
        }
    }
    out
}

fn text(all: &[Dialogue], everywhere: &Everywhere) -> String {
    let same = all.iter().filter(|dialogue| reasons(dialogue).is_empty());
    let mut out = format!(
        "{HEAD}There are {} dialogues. In {} of them Throng does the same as Pushpin. Each \
         difference has a reason, which begins with:\n\n",
        all.len(),
        same.count()
    );
    for (kind, meaning) in KINDS {
        writeln!(out, "- `{}`: {meaning}", kind.trim_end()).expect("text");
    }
    out.push_str(
        "\nThese differences can be in any dialogue, and are not counted below:\n\n| Pushpin | \
                  Throng | reason |\n|---|---|---|\n",
    );
    for Standing { difference, .. } in &everywhere.standing {
        let lines = |lines: &[String]| match lines.is_empty() {
            true => "nothing".to_owned(),
            false => format!("`{}`", cell(&lines.join("` `"))),
        };
        writeln!(
            out,
            "| {} | {} | {} |",
            lines(&difference.pushpin),
            lines(&difference.throng),
            cell(&difference.reason)
        )
        .expect("text");
    }
    // A reason that many dialogues share stands once.
    let mut shared: Vec<String> = Vec::new();
    for reason in all.iter().flat_map(reasons) {
        let users = all
            .iter()
            .filter(|dialogue| reasons(dialogue).contains(&reason));
        if users.count() > 2 && !shared.contains(&reason) {
            shared.push(reason);
        }
    }
    if !shared.is_empty() {
        out.push_str("\nReasons that many dialogues share:\n\n");
        for (at, reason) in shared.iter().enumerate() {
            writeln!(out, "{}. {}", at + 1, cell(reason)).expect("text");
        }
    }
    out.push_str("\n| dialogue | what happens | Throng | reasons |\n|---|---|---|---|\n");
    for dialogue in all {
        let reasons = reasons(dialogue);
        let verdict = if reasons.is_empty() {
            "same"
        } else {
            "differs"
        };
        let reasons: Vec<String> = reasons
            .iter()
            .map(
                |reason| match shared.iter().position(|other| other == reason) {
                    Some(at) => format!("({})", at + 1),
                    None => cell(reason),
                },
            )
            .collect();
        writeln!(
            out,
            "| [{0}](../tests/grip/dialogues/{0}.txt) | {1} | {verdict} | {2} |",
            dialogue.name,
            cell(&dialogue.about.join(" ")),
            reasons.join("<br>")
        )
        .expect("text");
    }
    out.push_str("\n## What else differs\n\n| Pushpin | Throng | reason |\n|---|---|---|\n");
    // Differences that no dialogue can show.
    out.push_str(include_str!("further.txt"));
    out.push_str(&crate::options::tables());
    out
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}
