//! What came out, beside what is recorded.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::script::{Dialogue, Line, Step};

/// Lines that each step of a dialogue brought out of one server.
pub(crate) type Outcome = Vec<Vec<String>>;

/// A difference, and the reason that was given for it in some dialogue.
pub(crate) type Reasons = HashMap<(String, Vec<String>, Vec<String>), String>;

/// The reasons that are written down, for the dialogue itself and for any other.
pub(crate) fn known_reasons(all: &[Dialogue]) -> Reasons {
    let mut out = Reasons::new();
    let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
    for dialogue in all {
        for difference in dialogue.differences() {
            let Some(reason) = difference.reason else {
                continue;
            };
            for name in ["", &dialogue.name] {
                let (pushpin, throng) = (owned(&difference.pushpin), owned(&difference.throng));
                out.insert((name.to_owned(), pushpin, throng), reason.to_owned());
            }
        }
    }
    out
}

/// Writes what came out into a dialogue.
pub(crate) fn record(
    dialogue: &mut Dialogue,
    pushpin: &Outcome,
    throng: &Outcome,
    known: &Reasons,
) {
    let name = dialogue.name.clone();
    for (step, (pushpin, throng)) in dialogue.steps.iter_mut().zip(pushpin.iter().zip(throng)) {
        let mut got = Vec::new();
        for hunk in hunks(pushpin, throng) {
            let (theirs, ours) = match hunk {
                Hunk::Same(line) => {
                    got.push(Line::Both(line));
                    continue;
                }
                Hunk::Other(theirs, ours) => (theirs, ours),
            };
            let key = |name: &str| (name.to_owned(), theirs.clone(), ours.clone());
            let reason = known.get(&key(&name)).or_else(|| known.get(&key("")));
            let reason = reason.cloned().unwrap_or_else(|| "reason?".to_owned());
            got.extend(theirs.iter().cloned().map(Line::Pushpin));
            got.extend(ours.iter().cloned().map(Line::Throng));
            got.push(Line::Reason(reason));
        }
        step.got = got;
    }
}

/// Lists the deviations from the recorded output.
pub(crate) fn compare(dialogue: &Dialogue, pushpin: &Outcome, throng: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    for (at, step) in dialogue.steps.iter().enumerate() {
        let lines = |pick: fn(&Line) -> Option<&String>| -> Vec<String> {
            step.got.iter().filter_map(pick).cloned().collect()
        };
        let of_pushpin = lines(|line| match line {
            Line::Both(line) | Line::Pushpin(line) => Some(line),
            _ => None,
        });
        let of_throng = lines(|line| match line {
            Line::Both(line) | Line::Throng(line) => Some(line),
            _ => None,
        });
        let mut check = |who: &str, recorded: &[String], got: &[String], other: &[String]| {
            if recorded == got {
                return;
            }
            let what = match recorded != other && got == other {
                true => "does not differ any more, so the difference is to be struck out",
                false => "differs from the recording",
            };
            out.push(format!(
                "{}, step {} ({}): {who} {what}.\nrecorded:\n  {}\ngot:\n  {}",
                dialogue.name,
                at + 1,
                step.verb,
                recorded.join("\n  "),
                got.join("\n  ")
            ));
        };
        check("Pushpin", &of_pushpin, &pushpin[at], &of_pushpin);
        check("Throng", &of_throng, &throng[at], &of_pushpin);
    }
    out
}

/// Whether Pushpin did what is recorded.
pub(crate) fn is_recorded(dialogue: &Dialogue, pushpin: &Outcome) -> bool {
    let mut steps = dialogue.steps.iter().zip(pushpin);
    steps.all(|(step, got)| {
        let recorded = step.got.iter().filter_map(|line| match line {
            Line::Both(line) | Line::Pushpin(line) => Some(line),
            Line::Throng(_) | Line::Reason(_) => None,
        });
        recorded.eq(got)
    })
}

/// A difference that is the same wherever it can be, and is written once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Standing {
    /// First word of the steps that have it.
    who: String,
    pub(crate) pushpin: Vec<String>,
    pub(crate) throng: Vec<String>,
    pub(crate) reason: String,
    uses: usize,
}

/// Differences that hold in every dialogue.
#[derive(Clone, Debug)]
pub(crate) struct Everywhere {
    pub(crate) standing: Vec<Standing>,
}

impl Everywhere {
    /// From a file in which each step has one.
    pub(crate) fn new(file: &Dialogue) -> Self {
        let owned = |lines: &[&str]| lines.iter().map(|&line| line.to_owned()).collect();
        let mut standing = Vec::new();
        for step in &file.steps {
            for difference in step.differences() {
                standing.push(Standing {
                    who: who(step).to_owned(),
                    pushpin: owned(&difference.pushpin),
                    throng: owned(&difference.throng),
                    reason: difference.reason.unwrap_or_default().to_owned(),
                    uses: 0,
                });
            }
        }
        Self { standing }
    }

    /// Takes them out of what Pushpin and Throng did, where both did their part.
    pub(crate) fn strike(&mut self, script: &Dialogue, pair: &mut (Outcome, Outcome)) {
        let outcomes = pair.0.iter_mut().zip(&mut pair.1);
        for (step, (theirs, ours)) in script.steps.iter().zip(outcomes) {
            let standing = self.standing.iter_mut();
            for standing in standing.filter(|standing| standing.who == who(step)) {
                let has =
                    |all: &[String], some: &[String]| some.iter().all(|line| all.contains(line));
                let lacks =
                    |all: &[String], some: &[String]| !some.iter().any(|line| all.contains(line));
                if has(theirs, &standing.pushpin)
                    && has(ours, &standing.throng)
                    && lacks(theirs, &standing.throng)
                    && lacks(ours, &standing.pushpin)
                {
                    theirs.retain(|line| !standing.pushpin.contains(line));
                    ours.retain(|line| !standing.throng.contains(line));
                    standing.uses += 1;
                }
            }
        }
    }

    /// Those that no dialogue had.
    pub(crate) fn unused(&self) -> Vec<String> {
        let unused = self.standing.iter().filter(|standing| standing.uses == 0);
        unused
            .map(|standing| format!("everywhere: this difference is gone: {standing:?}"))
            .collect()
    }
}

fn who(step: &Step) -> &str {
    step.verb.split(' ').next().unwrap_or_default()
}

enum Hunk {
    Same(String),
    Other(Vec<String>, Vec<String>),
}

/// The lines of both, in order, by their longest common subsequence.
fn hunks(pushpin: &[String], throng: &[String]) -> Vec<Hunk> {
    let (rows, columns) = (pushpin.len(), throng.len());
    let mut common = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            common[row][column] = if pushpin[row] == throng[column] {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let mut out = Vec::new();
    let (mut row, mut column) = (0, 0);
    let (mut theirs, mut ours) = (Vec::new(), Vec::new());
    while row < rows || column < columns {
        let is_same = row < rows && column < columns && pushpin[row] == throng[column];
        if is_same {
            if !theirs.is_empty() || !ours.is_empty() {
                out.push(Hunk::Other(
                    std::mem::take(&mut theirs),
                    std::mem::take(&mut ours),
                ));
            }
            out.push(Hunk::Same(pushpin[row].clone()));
            row += 1;
            column += 1;
        } else if column >= columns
            || row < rows && common[row + 1][column] >= common[row][column + 1]
        {
            theirs.push(pushpin[row].clone());
            row += 1;
        } else {
            ours.push(throng[column].clone());
            column += 1;
        }
    }
    if !theirs.is_empty() || !ours.is_empty() {
        out.push(Hunk::Other(theirs, ours));
    }
    out
}

#[test]
fn hunks_are_in_order() {
    let lines = |text: &str| -> Vec<String> { text.chars().map(String::from).collect() };
    let mut told = String::new();
    for hunk in hunks(&lines("abcd"), &lines("axdy")) {
        match hunk {
            Hunk::Same(line) => told.push_str(&line),
            Hunk::Other(theirs, ours) => {
                write!(told, "[{}|{}]", theirs.concat(), ours.concat()).expect("text");
            }
        }
    }
    assert_eq!(told, "a[bc|x]d[|y]");
}
