//! What came out, beside what is recorded.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::script::{BOTH, Dialogue, Difference, PUSHPIN, REASON, Step, THRONG};

/// Lines that each step of a dialogue brought out of one server.
pub(crate) type Outcome = Vec<Vec<String>>;

/// A difference, and the reason that was given for it in some dialogue.
pub(crate) type Reasons = HashMap<(String, Vec<String>, Vec<String>), String>;

/// The reasons that are written down, for the dialogue itself and for any other.
pub(crate) fn known_reasons(all: &[Dialogue]) -> Reasons {
    let mut out = Reasons::new();
    for dialogue in all {
        for difference in dialogue.differences() {
            for name in ["", &dialogue.name] {
                let (pushpin, throng) = (difference.pushpin.clone(), difference.throng.clone());
                let key = (name.to_owned(), pushpin, throng);
                out.insert(key, difference.reason.clone());
            }
        }
    }
    out.retain(|_, reason| !reason.is_empty());
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
                    got.push((BOTH, line));
                    continue;
                }
                Hunk::Other(theirs, ours) => (theirs, ours),
            };
            let key = |name: &str| (name.to_owned(), theirs.clone(), ours.clone());
            let reason = known.get(&key(&name)).or_else(|| known.get(&key("")));
            let reason = reason.cloned().unwrap_or_else(|| "reason?".to_owned());
            got.extend(theirs.into_iter().map(|line| (PUSHPIN, line)));
            got.extend(ours.into_iter().map(|line| (THRONG, line)));
            got.push((REASON, reason));
        }
        step.got = got;
    }
}

/// Lists the deviations from the recorded output.
pub(crate) fn compare(dialogue: &Dialogue, pushpin: &Outcome, throng: &Outcome) -> Vec<String> {
    let mut out = Vec::new();
    for (at, step) in dialogue.steps.iter().enumerate() {
        let other = step.recorded(PUSHPIN);
        for (who, recorded, got) in [
            ("Pushpin", other.clone(), &pushpin[at]),
            ("Throng", step.recorded(THRONG), &throng[at]),
        ] {
            if recorded == *got {
                continue;
            }
            let what = match recorded != other && other == *got {
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
        }
    }
    out
}

/// Whether Pushpin did what is recorded.
pub(crate) fn is_recorded(dialogue: &Dialogue, pushpin: &Outcome) -> bool {
    let mut steps = dialogue.steps.iter().zip(pushpin);
    steps.all(|(step, got)| step.recorded(PUSHPIN) == *got)
}

/// A difference that is the same wherever it can be, and is written once.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    /// First word of the steps that have it.
    who: String,
    pub(crate) difference: Difference,
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
        let standing = file.steps.iter().flat_map(|step| {
            let differences = step.differences().into_iter();
            differences.map(|difference| Standing {
                who: who(step).to_owned(),
                difference,
                uses: 0,
            })
        });
        Self {
            standing: standing.collect(),
        }
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
                let Difference {
                    pushpin, throng, ..
                } = &standing.difference;
                if has(theirs, pushpin)
                    && has(ours, throng)
                    && lacks(theirs, throng)
                    && lacks(ours, pushpin)
                {
                    theirs.retain(|line| !pushpin.contains(line));
                    ours.retain(|line| !throng.contains(line));
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
