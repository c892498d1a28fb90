//! Configuration: ours, and Pushpin's.

use throng_config::{Config, ConfigFile, ConfigProblem, Loaded, Origin, Sources};

use crate::pieces::{pairs, texts};

/// Configuration: a file is read, or refused with reasons and their places, and the output of a
/// loaded one is read back as the same.
///
/// Input: a file, a NUL byte, then `NAME=value` lines of variables.
pub(crate) fn config_toml(input: &[u8]) {
    let Some([text, variables]) = texts::<2>(input) else {
        return;
    };
    let sources = Sources {
        env: pairs(variables),
        ..of_file(text)
    };
    let _ = Config::named_files(&sources);
    match Config::load(&sources) {
        Ok(loaded) => shows_itself(&loaded),
        Err(problems) => {
            assert!(!problems.is_empty());
            for problem in &problems {
                has_a_place(problem, text);
            }
        }
    }
}

fn file(name: &str, text: &str) -> Option<ConfigFile> {
    Some(ConfigFile {
        name: name.to_owned(),
        text: text.to_owned(),
    })
}

fn of_file(text: &str) -> Sources {
    Sources {
        file: file("t", text),
        ..Sources::default()
    }
}

fn has_a_place(problem: &ConfigProblem, text: &str) {
    assert!(!problem.message.is_empty(), "{problem:?}");
    if let Origin::File { line, column, .. } = &problem.origin {
        let lines = text.matches('\n').count() + 1;
        assert!(
            (1..=lines).contains(&(*line as usize)) && *column >= 1,
            "{problem:?}"
        );
    }
}

fn shows_itself(loaded: &Loaded) {
    let shown = loaded.show(true);
    let again = Config::load(&of_file(&shown));
    let again = again.unwrap_or_else(|problems| panic!("{problems:?} in\n{shown}"));
    assert_eq!(again.config, loaded.config);
}

/// Pushpin's `pushpin.conf`: our own configuration takes it as the layer beneath or refuses it with
/// reasons that name lines that are there; line ends of Windows mean nothing.
pub(crate) fn grip_pushpin_conf(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let lines = text.lines().count();
    let load = |text: &str| {
        let loaded = Config::load(&Sources {
            pushpin: file("pushpin.conf", text),
            file: file("throng.toml", "[grip]\npushpin_conf = \"pushpin.conf\"\n"),
            ..Sources::default()
        });
        loaded.map(|loaded| (loaded.config, loaded.warnings))
    };
    let loaded = load(text);
    if let Err(problems) = &loaded {
        assert!(!problems.is_empty());
        for problem in problems {
            if let Origin::File { line, .. } = problem.origin {
                assert!((1..=lines).contains(&(line as usize)), "{problem:?}");
            }
        }
    }
    let with_returns = text.replace("\r\n", "\n").replace('\n', "\r\n");
    assert_eq!(load(&with_returns), loaded);
}
