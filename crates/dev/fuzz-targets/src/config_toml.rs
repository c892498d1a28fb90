//! Configuration: a file is read, or refused with reasons and their places, and the output of a
//! loaded one is read back as the same.
//!
//! Input: a file, a NUL byte, then `NAME=value` lines of variables.

use throng_config::{Config, ConfigFile, Loaded, Origin, Problem, Sources};

use crate::pieces::{pairs, texts};

pub(crate) const SEEDS: &[&[u8]] = &[
    b"[listen]\napi = \"127.0.0.1:9001\"\n[auth]\nhmac_secret = \"s\\u00e9cret, and long \
      enough\"\nanonymous = true\n\x00THRONG_LISTEN_CLIENT=0.0.0.0:80\nTHRONG_LOG_LEVEL=debug\n",
    b"[channel]\nhistory_size = 10\nhistory_ttl = \"5m\"\n[[namespace]]\nname = \
      \"a\"\nhistory_size = 1_000\n[limits]\nmessage_bytes_max = \"64KiB\"\nhead_timeout = \
      \"15s\"\n",
    b"[grip]\nsig_key = \"base64:AAEC\"\n[[grip.route]]\npath = \"/a\"\norigin = \
      \"http://127.0.0.1:80\"\nover_http = true\n[drain]\n",
    b"[appwrite]\nredis = \"redis://127.0.0.1/0\"\n[[appwrite.project]]\nid = \"p\"\nplatforms = \
      [\"localhost\", \"*.a.b\"]\n\x00THRONG_AUTH_API_KEYS=a,b\nTHRONG_NOTHING=1",
    b"listen.api = 5\n[nothing]\nx = { y = [1, 2.5, 1979-05-27], z = '''a''' }\n[engine]\nshards \
      = \"x\"\n",
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn config_toml(input: &[u8]) {
    let Some([text, variables]) = texts::<2>(input) else {
        return;
    };
    let sources = Sources {
        env: pairs(variables),
        ..of_file(text)
    };
    let _ = Config::pushpin_conf(&sources);
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

fn of_file(text: &str) -> Sources {
    Sources {
        file: Some(ConfigFile {
            name: "t".to_owned(),
            text: text.to_owned(),
        }),
        ..Sources::default()
    }
}

fn has_a_place(problem: &Problem, text: &str) {
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
    let values = |loaded: &Loaded| -> Vec<(String, Option<String>)> {
        let all = loaded.values(true).into_iter();
        all.map(|shown| (shown.path, shown.value)).collect()
    };
    assert_eq!(values(&again), values(loaded));
}
