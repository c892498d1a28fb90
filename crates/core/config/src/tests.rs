//! The configuration from outside: accepted and refused texts, with the exact messages.

mod accepted;
mod keys;
mod pushpin;
mod refused;

use crate::{Config, ConfigFile, Loaded, Sources};

fn sources(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Sources {
    let owned = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    Sources {
        file: (!file.is_empty()).then(|| ConfigFile {
            name: "throng.toml".to_owned(),
            text: file.to_owned(),
        }),
        env: owned(env),
        pushpin: None,
        flags: owned(flags),
    }
}

#[track_caller]
fn load(file: &str) -> Loaded {
    load_all(file, &[], &[])
}

#[track_caller]
fn load_all(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Loaded {
    Config::load(&sources(file, env, flags)).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn refusals(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<String> {
    match Config::load(&sources(file, env, flags)) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// Walks the cases of `refused.txt`, which says at its head how they are written.
#[test]
fn files_have_the_problems_of_the_table() {
    let (mut file, mut problems, mut warnings) = (String::new(), Vec::new(), Vec::new());
    let mut cases = 0;
    for line in include_str!("tests/refused.txt").lines().chain([""]) {
        match line.split_once("> ") {
            Some(("=", "good")) => {}
            Some(("=", problem)) => problems.push(problem),
            Some(("~", warning)) => warnings.push(warning),
            _ if line.starts_with('#') => {}
            _ if !line.is_empty() => file.extend([line, "\n"]),
            _ if file.is_empty() => {}
            _ => {
                check(&file, &problems);
                if !warnings.is_empty() {
                    assert_eq!(load(&file).warnings, warnings, "for the file\n{file}");
                }
                (problems, warnings) = (Vec::new(), Vec::new());
                (file, cases) = (String::new(), cases + 1);
            }
        }
    }
    assert_eq!(cases, 77);
}

/// A file and the problems that it has, all of them and in order.
#[track_caller]
fn check(file: &str, expected: &[&str]) {
    assert_eq!(refusals(file, &[], &[]), expected, "for the file\n{file}");
}
