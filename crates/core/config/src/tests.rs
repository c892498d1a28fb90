//! The configuration from outside: accepted and refused texts, with the exact messages.

mod accepted;
mod pushpin;
mod refused;
mod schema;

use crate::show::Shown;
use crate::{Config, ConfigFile, Loaded, Sources};
use schema::{SEEN_BY_EDITORS, schema_faults};

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
        apps: Vec::new(),
        flags: owned(flags),
    }
}

#[track_caller]
pub(crate) fn load(file: &str) -> Loaded {
    load_all(file, &[], &[])
}

#[track_caller]
fn load_all(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Loaded {
    assert_eq!(schema_faults(file), [""; 0], "for the file\n{file}");
    Config::load(&sources(file, env, flags)).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Every value of every section that is there, with secrets as they are.
fn values(loaded: &Loaded) -> Vec<Shown> {
    let present = loaded.config.present().into_iter();
    let values = present.flat_map(|(path, _, section)| loaded.values_of(&path, section, true));
    values.collect()
}

fn refusals(file: &str, env: &[(&str, &str)], flags: &[(&str, &str)]) -> Vec<String> {
    match Config::load(&sources(file, env, flags)) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

/// The cases of a data file, which says at its head how they are written: the text above the checks
/// of each, and the checks with their signs. Empty lines end a case; `#` begins a comment.
pub(crate) fn cases(table: &'static str) -> Vec<(String, Vec<(&'static str, &'static str)>)> {
    let mut all = Vec::new();
    let (mut file, mut checks) = (String::new(), Vec::new());
    for line in table.lines().chain([""]) {
        let is_sign = |sign: &str| !sign.is_empty() && sign.chars().all(|c| "=!~+?".contains(c));
        match line.split_once('>') {
            Some((sign, text)) if is_sign(sign) => checks.push((sign, text.trim_start())),
            _ if line.starts_with('#') => {}
            _ if !line.is_empty() => file.extend([line, "\n"]),
            _ if file.is_empty() => {}
            _ => all.push((std::mem::take(&mut file), std::mem::take(&mut checks))),
        }
    }
    all
}

#[test]
fn files_have_the_problems_of_the_table() {
    let all = cases(include_str!("tests/refused.txt"));
    for (file, checks) in &all {
        let with = |sign: &str| -> Vec<&str> {
            let found = checks.iter().filter(|(known, _)| *known == sign);
            found.map(|(_, text)| *text).collect()
        };
        let problems = match with("=")[..] {
            ["good"] => Vec::new(),
            _ => with("="),
        };
        assert_eq!(refusals(file, &[], &[]), problems, "for the file\n{file}");
        let Ok(loaded) = Config::load(&sources(file, &[], &[])) else {
            let seen = |problem: &&str| SEEN_BY_EDITORS.iter().any(|text| problem.contains(text));
            let are_seen = problems.iter().any(seen);
            assert!(!are_seen || !schema_faults(file).is_empty(), "{file}");
            continue;
        };
        assert_eq!(schema_faults(file), [""; 0], "for the file\n{file}");
        if !with("~").is_empty() {
            assert_eq!(loaded.warnings, with("~"), "for the file\n{file}");
        }
        let told = loaded.warnings.join("\n");
        for text in with("?") {
            assert!(told.contains(text), "{text}: {told}\nfor the file\n{file}");
        }
        for text in with("!?") {
            assert!(!told.contains(text), "{told}\nfor the file\n{file}");
        }
    }
    assert_eq!(all.len(), 142);
}
