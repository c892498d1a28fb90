use super::*;
use crate::centrifugo::tests::taken_over;
use crate::tests::load;

/// Imports a text, whose keys in capitals are variables, and checks that the result is valid.
fn imported(text: &str) -> ImportedConfig {
    let all: Table = { text.parse() }.unwrap_or_else(|error| panic!("{error}\n{text}"));
    let is_variable = |(name, _): &(String, Value)| name.starts_with(char::is_uppercase);
    let (variables, tree): (Vec<_>, Vec<_>) = all.into_iter().partition(is_variable);
    let tree = Table::from_iter(tree);
    let of = PusherServer::of(&tree, &variables).expect("one of the two");
    let imported = import(of, "a file", &tree, variables);
    load(&imported.text);
    imported
}

#[test]
fn files_are_taken_over_as_the_table_says() {
    assert_eq!(taken_over(include_str!("tests/imports.txt"), imported), 13);
}

#[test]
fn rows_of_the_tables_are_whole() {
    for of in [PusherServer::Soketi, PusherServer::Reverb] {
        for [path, variable, becomes, to] in rows(of.table()) {
            let kinds = ["as", "switch", "number", "seconds", "bytes", "kilobytes"];
            let effects = ["wider", "narrower", "missing", "changed"];
            match becomes {
                "silent" => assert_eq!(to, "", "{path}"),
                _ if kinds.contains(&becomes) || effects.contains(&becomes) => {
                    assert!(!to.is_empty() && !path.is_empty(), "{path} {variable}");
                }
                other => panic!("{path}: {other}"),
            }
        }
    }
}

#[test]
fn another_server_is_not_taken_for_one_of_these() {
    let tree = "port = 8000\n[client]\n[log]".parse().unwrap();
    let variables = [("CENTRIFUGO_PORT".to_owned(), "1".into())];
    assert_eq!(PusherServer::of(&tree, &variables), None);
}
