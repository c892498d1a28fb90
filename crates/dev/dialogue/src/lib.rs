//! Plays dialogues: text files that say what is done and what must come of it, so that a story is
//! read without Rust around it. Each kind of test has a [`Stage`], which gives steps their
//! meaning.
//!
//! A line `== NAME` begins a story, with a stage and variables of its own; steps before the first
//! story begin each of them. A step is one line and the lines indented below it, its block. Lines
//! that begin with `#` are comments, and `<NAME>` stands for a variable that is known.
//!
//! `is NAME CHECK` looks at a variable; [`Variables::check`] says what a CHECK may be.
//!
//! `for A | B in`, rows below with bars between their cells (`''` is an empty one, `#` begins a
//! comment), steps and `end`: the steps are taken for each row. `for A in x, y`, `in 1..4`; `rows
//! ROWS` with rows below, then `for A in @ROWS`. Every step passes, or the test fails with its
//! line.

mod asserting;
mod values;

use std::fs;
use std::path::Path;

pub use self::asserting::{AssertingStage, check_list, number, play_asserting};
pub use self::values::{
    Outcome, Variables, arrow, cell, escaped, named, numbers, parse, put_times, same, text_of,
    unescaped, word,
};

/// Gives steps their meaning: a program with its clients, and the world around it.
pub trait Stage {
    fn variables(&mut self) -> &mut Variables;

    /// Takes one step, in which variables were replaced, but for those in steps that stand below
    /// `until` or `steps`. It may panic, too.
    ///
    /// # Errors
    /// Why it does not hold.
    fn step(&mut self, text: &str, block: &str) -> Outcome;

    /// Words for which this one stands in the rows of a loop.
    fn several(&self, _word: &str) -> Option<Vec<String>> {
        None
    }

    /// Checks that nothing is left that the story does not tell.
    ///
    /// # Errors
    /// The first thing that is left.
    fn end(&mut self) -> Outcome {
        Ok(())
    }
}

/// One line, with the lines indented below it.
struct Step<'a> {
    /// Line number in the file, counted from 1.
    line: usize,
    text: &'a str,
    block: String,
}

/// Shows the step that is being taken when it panics.
struct Place<'a>(&'a str, usize, &'a str);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}:{}: {}", self.0, self.1, self.2);
        }
    }
}

/// Plays each story of a text, which has a name for failures.
///
/// # Panics
/// If a step fails, with its line, or there is no story.
pub fn play<S: Stage>(name: &str, text: &str, mut stage: impl FnMut() -> S) {
    let steps = steps_of(text);
    let is_head = |step: &Step<'_>| step.text.starts_with("== ");
    let first = steps.iter().position(is_head).expect("a story");
    let (before, stories) = steps.split_at(first);
    for story in stories.chunk_by(|_, next| !is_head(next)) {
        let (head, mut stage) = (&story[0], stage());
        eprintln!("{}", head.text);
        let ended = |stage: &mut S| stage.end().map_err(|why| (head.line, why));
        run(name, before, &mut stage)
            .and_then(|()| run(name, &story[1..], &mut stage))
            .and_then(|()| ended(&mut stage))
            .unwrap_or_else(|(line, why)| panic!("{name}:{line}: {why}"));
    }
}

/// Plays each story of a file.
///
/// # Panics
/// If it cannot be read, or as [`play`] does.
pub fn play_file<S: Stage>(file: &Path, stage: impl FnMut() -> S) {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    play(&file.display().to_string(), &text, stage);
}

/// Names of the text files in a folder, without their endings and in order.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn names_in(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("the folder");
    let files = files.map(|file| file.expect("a file").path());
    let texts = files.filter(|file| file.extension().is_some_and(|ending| ending == "txt"));
    let names = texts.filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Makes a test for each text file in a folder of the package, and one that none is forgotten.
/// `$play` plays the file at a path; where files are named by kinds of run, with a module for each,
/// it takes the kind too, and files that others include come first.
#[macro_export]
macro_rules! dialogues {
    (@all $folder:literal; $($name:ident)*) => {
        fn folder() -> std::path::PathBuf {
            std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join($folder)
        }

        #[test]
        fn no_file_is_forgotten() {
            let names = std::collections::BTreeSet::from([$(stringify!($name)),*]);
            assert_eq!($crate::names_in(&folder()), Vec::from_iter(names));
        }
    };
    (
        $folder:literal, $play:expr;
        included: $($included:ident)*;
        $($kind:ident: $($name:ident)*;)*
    ) => {
        $crate::dialogues! { @all $folder; $($included)* $($($name)*)* }

        $(mod $kind {
            $(
                #[test]
                fn $name() {
                    let file = super::folder().join(concat!(stringify!($name), ".txt"));
                    $play(&file, stringify!($kind));
                }
            )*
        })*
    };
    ($folder:literal, $play:expr; $($name:ident)*) => {
        $crate::dialogues! { @all $folder; $($name)* }

        $(
            #[test]
            fn $name() {
                $play(&folder().join(concat!(stringify!($name), ".txt")));
            }
        )*
    };
}

/// Takes the steps of a text.
///
/// # Errors
/// The line of the first step that fails, counted from 1, and why it does.
pub fn take<S: Stage>(text: &str, stage: &mut S) -> Result<(), (usize, String)> {
    run("steps", &steps_of(text), stage)
}

fn steps_of(text: &str) -> Vec<Step<'_>> {
    let mut steps: Vec<Step<'_>> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        if let Some(more) = line.strip_prefix("  ") {
            let step = steps.last_mut().expect("a step above an indented line");
            step.block.push_str(more);
            step.block.push('\n');
        } else if !line.is_empty() && !line.starts_with('#') {
            steps.push(Step {
                line: n + 1,
                text: line,
                block: String::new(),
            });
        }
    }
    steps
}

/// Runs steps; a failure has the line of its step.
fn run<S: Stage>(name: &str, steps: &[Step<'_>], stage: &mut S) -> Result<(), (usize, String)> {
    let mut at = 0;
    while let Some(step) = steps.get(at) {
        at += 1;
        if let Some(name) = step.text.strip_prefix("rows ") {
            stage.variables().set(name, step.block.clone());
            continue;
        }
        let Some(names) = step.text.strip_prefix("for ") else {
            // Steps below these take their variables when it is their turn.
            let block = match word(step.text) {
                ("until", "") | ("steps", _) => step.block.clone(),
                _ => stage.variables().filled(&step.block),
            };
            let text = stage.variables().filled(step.text);
            let _place = Place(name, step.line, &text);
            let outcome = match word(&text) {
                ("is", check) => {
                    let (name, wanted) = word(check);
                    let value = stage.variables().filled(&format!("<{name}>"));
                    stage.variables().check(&value, wanted)
                }
                _ => stage.step(&text, &block),
            };
            outcome.map_err(|why| (step.line, format!("{text}\n{why}")))?;
            continue;
        };
        let length = end_of(&steps[at..]).expect("a loop has an end");
        let body = &steps[at..at + length];
        at += length + 1;
        let (names, rows) = names.split_once(" in").expect("`for NAMES in ROWS`");
        let rows = stage.variables().filled(rows.trim());
        let (rows, block) = match rows.strip_prefix('@') {
            Some(name) => ("", stage.variables().filled(&format!("<{name}>"))),
            None => (&*rows, step.block.clone()),
        };
        for row in values::rows(rows, &block, |word| stage.several(word)) {
            for (n, name) in names.split(" | ").enumerate() {
                let cell = stage
                    .variables()
                    .filled(row.get(n).map_or("", String::as_str));
                stage.variables().set(name, cell);
            }
            run(name, body, stage)
                .map_err(|(line, why)| (line, format!("{why}\nwith {names} = {row:?}")))?;
        }
    }
    Ok(())
}

/// Number of steps before the `end` of a loop's body.
fn end_of(steps: &[Step<'_>]) -> Option<usize> {
    let mut depth = 1;
    steps.iter().position(|step| {
        match step.text {
            "end" => depth -= 1,
            text => depth += usize::from(text.starts_with("for ")),
        }
        depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Sames(Variables);

    impl Stage for Sames {
        fn variables(&mut self) -> &mut Variables {
            &mut self.0
        }

        /// Takes `same A B`, which holds if both are the same.
        fn step(&mut self, text: &str, _: &str) -> Outcome {
            let (verb, rest) = word(text);
            let (found, wanted) = word(rest);
            same(&verb, &"same").and_then(|()| same(&found, &wanted))
        }
    }

    #[test]
    fn a_step_that_fails_is_told_with_its_line() {
        for (text, expected) in [
            ("same 1 1\n", None),
            ("same 2 2\n# a comment\nsame 2 1\n", Some(3)),
            ("for A in 1..3\nsame <A> <A>\nend\nsame 1 2\n", Some(4)),
            ("for A in 1, 2\nsame <A> 1\nend\n", Some(2)),
            (
                "for A | B in\n  1 | 1\n  x | y\nsame <A> <B>\nend\n",
                Some(4),
            ),
            (
                "rows R\n  1 | ''\nfor A | B in @R\nsame <A><B> 1\nend\n",
                None,
            ),
            (
                "for A | B2 in\n  2 | 1\nsame <B<A>> 1\nsame <B<A>> 2\nend\n",
                Some(4),
            ),
            ("nothing of this name\n", Some(1)),
        ] {
            let failed = take(text, &mut Sames::default()).err();
            assert_eq!(failed.map(|(line, _)| line), expected, "{text}");
        }
    }
}
