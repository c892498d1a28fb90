//! Pushpin's file below our own.

use super::*;
use crate::sources::rows;
use crate::{ForwardedFor, Grip, OptionSpec, options};

const SHIPPED: &str = "[proxy]\nsig_key=changeme\n[runner]\nhttp_port=127.0.0.1:7999\n\
                       [handler]\nmessage_wait=3000\n";

fn with(text: &str, file: &str, flags: &[(&str, &str)]) -> Sources {
    Sources {
        pushpin: Some(ConfigFile {
            name: "/etc/pushpin/pushpin.conf".to_owned(),
            text: text.to_owned(),
        }),
        ..sources(file, &[], flags)
    }
}

#[track_caller]
fn loaded(text: &str, file: &str) -> Loaded {
    Config::load(&with(text, file, &[])).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

/// Debian's file listens on all interfaces. `[grip]` with no option for clients serves GRIP only.
#[test]
fn it_needs_no_other_option_on_an_address_that_others_reach() {
    let conf = "[runner]\nhttp_port=7999\n[proxy]\nroutesfile=routes\n";
    let config = loaded(conf, "[grip]").config;
    assert!(!config.open_mode() && !config.anonymous_allowed());
    let with_clients = with(conf, "[grip]\n[auth]\nanonymous = true", &[]);
    let problems = Config::load(&with_clients).unwrap_err();
    assert!(problems[0].to_string().contains("clients need no key"));
}

#[test]
fn files_have_the_effect_of_the_table() {
    const NAME: &str = "/etc/pushpin/pushpin.conf";
    let all = cases(include_str!("pushpin.txt"));
    for (text, checks) in &all {
        let (shown, told) = match Config::load(&with(text, "[grip]", &[])) {
            Ok(loaded) => (values(&loaded), loaded.warnings.join("\n")),
            Err(problems) => {
                let [("!", start)] = checks[..] else {
                    panic!("{problems:#?}");
                };
                assert_eq!(problems.len(), 1, "{problems:#?}");
                let problem = problems[0].to_string();
                assert!(problem.starts_with(&format!("{NAME}{start}")), "{problem}");
                continue;
            }
        };
        let shown = shown.iter().filter_map(|shown| {
            let is_its = shown.origin.to_string().starts_with(&format!("{NAME}: "));
            Some(format!("{} = {}", shown.path, shown.value.as_deref()?)).filter(|_| is_its)
        });
        let shown: Vec<String> = shown.collect();
        for (sign, text) in checks {
            let is_so = match *sign {
                "=" => shown.iter().any(|shown| shown == text),
                "?" => told.contains(text),
                "!?" => !told.contains(text),
                other => panic!("{other}> {text}"),
            };
            assert!(is_so, "{sign}> {text}: {shown:#?}\n{told}");
        }
    }
    assert_eq!(all.len(), 19);
}

/// Pushpin leaves the field alone unless it is told, and values that cannot be read change nothing.
#[test]
fn what_is_not_set_stays_as_pushpin_has_it() {
    let text = "[proxy]\ndebug=maybe\nx_forwarded_for=append, truncate:x\nupstream_key=\n\
                max_open_requests=-1\n";
    let grip = loaded(text, "[grip]").config.grip.expect("there");
    assert!(!grip.debug && grip.forwarded_for == ForwardedFor::default());
    assert!(grip.upstream_key.is_none());
    assert_eq!(grip.requests_max, Grip::default().requests_max);
}

#[test]
fn our_own_file_and_flags_stand_above_it() {
    let file = "[listen]\nclient = \"127.0.0.1:1\"\n[grip]\nsig_key = \"ours\"";
    let flags = [("grip.message_wait", "9s")];
    let loaded = Config::load(&with(SHIPPED, file, &flags)).expect("good");
    let one = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    assert_eq!(loaded.config.listen.client, [one.into()]);
    let grip = loaded.config.grip.expect("there");
    assert_eq!(grip.sig_key.as_ref().map(|key| key.expose()), Some("ours"));
    assert_eq!(grip.message_wait_ms, 9000);
}

#[test]
fn the_file_is_named_by_any_layer() {
    for (file, flags) in [
        ("[grip]\npushpin_conf = \"a\"", &[][..]),
        ("", &[("grip.pushpin_conf", "a")][..]),
    ] {
        let (named, _) = Config::named_files(&sources(file, &[], flags));
        assert_eq!(named.as_deref(), Some("a"));
    }
    for file in ["[grip]", "[gri"] {
        let named = Config::named_files(&sources(file, &[], &[]));
        assert_eq!(named, (None, None));
    }
}

#[test]
fn each_row_names_an_option_or_a_reason() {
    let known: Vec<String> = options().iter().map(OptionSpec::path).collect();
    for [option, reading, end] in rows(include_str!("../pushpin.txt")) {
        match reading.split(' ').next() {
            Some("unused" | "refused") => assert!(!end.is_empty(), "{option}"),
            _ => assert!(
                end.is_empty() || known.contains(&end.to_owned()),
                "{option}"
            ),
        }
    }
}
