use super::*;
use crate::sources::rows;
use crate::tests::{cases, load};

/// Imports a text, and checks that the result is a valid configuration.
#[track_caller]
fn imported(text: &str) -> ImportedConfig {
    let tree = text
        .parse()
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    let imported = import("centrifugo.toml", &tree);
    load(&imported.text);
    imported
}

/// Effect and option of each note.
fn told(imported: &ImportedConfig) -> Vec<String> {
    let notes = imported.notes.iter();
    notes
        .map(|note| format!("{:?} {}", note.effect, note.option))
        .collect()
}

/// Checks what becomes of the files of a table, and returns how many there are.
pub(crate) fn taken_over(table: &'static str, imported: impl Fn(&str) -> ImportedConfig) -> usize {
    let all = cases(table);
    for (file, checks) in &all {
        let imported = imported(file);
        let lines: Vec<&str> = imported.text.lines().collect();
        let (notes, told) = (&imported.notes, told(&imported));
        let mut at = None;
        for (sign, text) in checks {
            let is_there = match *sign {
                "=" => {
                    at = lines.iter().position(|line| line == text);
                    at.is_some()
                }
                "+" => {
                    at = at.map(|line| line + 1);
                    at.and_then(|line| lines.get(line)) == Some(text)
                }
                "!" => !imported.text.contains(text),
                "~" => told.iter().any(|told| told == text),
                "!~" => !notes.iter().any(|note| note.option.contains(text)),
                "?" => notes.iter().any(|note| note.text.starts_with(text)),
                "!?" => !notes.iter().any(|note| note.text.starts_with(text)),
                other => panic!("{other}> {text}"),
            };
            assert!(is_there, "{sign}> {text}: {imported:#?}\n{}", imported.text);
        }
    }
    all.len()
}

#[test]
fn files_are_taken_over_as_the_table_says() {
    let count = taken_over(include_str!("tests/imports.txt"), imported);
    assert_eq!(count, 45);
}

#[test]
fn a_tree_of_version_six() {
    let imported = imported(include_str!("tests/six.toml"));
    assert_eq!(imported.text, include_str!("tests/six_here.toml"));
    assert_eq!(
        told(&imported),
        [
            "Wider news.allow_history_for_client",
            "Narrower chat.allow_publish_for_subscriber",
            "Narrower client.allowed_origins",
            "Changed client.token.hmac_previous_secret_key",
            "Changed engine.type",
            "Changed limits.messages_per_second_max",
        ]
    );
}

#[test]
fn a_row_of_version_five() {
    let imported = imported(include_str!("tests/five.toml"));
    assert_eq!(imported.text, include_str!("tests/five_here.toml"));
    let told = told(&imported);
    for expected in [
        "Wider allow_history_for_subscriber (without namespace)",
        // The backend was to decide these rights.
        "Narrower private.proxy_subscribe",
        "Narrower private.proxy_publish",
        "Missing sockjs",
        "Changed engine",
        "Changed admin",
        "Changed health",
    ] {
        assert!(
            told.iter().any(|told| told == expected),
            "{expected}: {told:#?}"
        );
    }
    assert!(!knows_nothing(&imported), "{imported:#?}");
}

/// Whether an option has a note that nobody knows it.
fn knows_nothing(imported: &ImportedConfig) -> bool {
    let mut notes = imported.notes.iter();
    notes.any(|note| note.text.starts_with("unknown option"))
}

/// An empty file grants no rights, regardless of our own defaults.
#[test]
fn an_empty_file_opens_nothing() {
    // Centrifugo's own defaults cause no notes.
    let defaults = "[admin]\nenabled = false\n[http_server]\ntls = {}\n[client]\nconcurrency = 0\n\
         [channel]\nprivate_prefix = \"$\"\nuser_separator = \",\"\n[engine]\ntype = \"memory\"\n";
    for text in ["", defaults] {
        let imported = imported(text);
        assert_eq!(
            told(&imported),
            [
                "Wider client.allowed_origins",
                "Wider http_api.key",
                "Changed http_server.internal_port",
                "Changed limits.messages_per_second_max",
            ]
        );
        let rights = imported.text.split("[channel]").nth(1).unwrap();
        assert!(!rights.contains("true"), "{rights}");
        assert!(imported.text.contains("anonymous = false"));
    }
}

/// The rights of one namespace, by what Centrifugo allows.
#[test]
fn rights_are_those_of_centrifugo() {
    for [allowed, expected, notes] in rows(include_str!("tests/rights.txt")) {
        let mut text = "[[channel.namespaces]]\nname = \"ns\"\n".to_owned();
        if allowed.contains("history") {
            text += "history_size = 1\nhistory_ttl = \"1m\"\n";
        }
        text.extend(allowed.split_whitespace().flat_map(|it| [it, " = true\n"]));
        let imported = imported(&text);
        let section = imported.text.split("[[namespace]]").nth(1).unwrap();
        let rights = [
            ("subscribe", 's'),
            ("anonymous_subscribe", 'a'),
            ("publish", 'p'),
            ("anonymous_publish", 'b'),
            ("history", 'h'),
        ];
        let found = rights.map(|(right, letter)| {
            let has = section.contains(&format!("\n{right} = true\n"));
            if has { letter } else { '-' }
        });
        let own = { imported.notes.iter() }.filter_map(|note| note.option.strip_prefix("ns."));
        let own: Vec<&str> = own.collect();
        let found = (String::from_iter(found), own.join(" "));
        assert_eq!(found, (expected.to_owned(), notes.to_owned()), "{allowed}");
    }
}

/// Every option of 5.4.9, set to some value, is taken over or has a note with a reason.
#[test]
fn every_option_of_version_five_is_known() {
    let names = include_str!("tests/five.txt").split_whitespace();
    let unknown = names.filter(|name| {
        let tree = format!("{name} = \"7\"").parse().unwrap();
        !name.ends_with("namespaces") && knows_nothing(&import("five", &tree))
    });
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn durations_of_gos_are_ours() {
    for (there, here) in [
        ("300s", Some("300s")),
        ("1h30m", Some("1h30m")),
        ("1.5h", Some("1.5h")),
        ("500ms", Some("500ms")),
        ("60", Some("60s")),
        ("10us", None),
        ("s", None),
        ("5 minutes", None),
        ("", None),
    ] {
        assert_eq!(server::duration(there).as_deref(), here, "{there}");
    }
}
