//! Environment variables `CENTRIFUGO_…` as the tree of a file.
//!
//! A variable's name is its option's path in capitals, with `_` for each dot; since keys have `_`
//! in them too, the sections are listed here, and the longest that fits is it. Namespaces are named
//! by `CENTRIFUGO_CHANNEL_NAMESPACES`, with spaces between them; the options of `a-b` begin with
//! `CENTRIFUGO_CHANNEL_NAMESPACES_A_B_`.
//!
//! Source: Centrifugo 6.9.1 (`internal/config`). Of version 5 all variables have one level.

use toml::{Table, Value};

const PREFIX: &str = "CENTRIFUGO_";
const NAMESPACES: &str = "CHANNEL_NAMESPACES";

/// The sections of version 6 that have options.
const SECTIONS: &str = include_str!("sections.txt");

/// Puts variables into a tree, over existing values. Other variables are ignored.
pub fn put_variables(tree: &mut Table, variables: impl IntoIterator<Item = (String, String)>) {
    let own = variables.into_iter().filter_map(|(name, value)| {
        let name = name.strip_prefix(PREFIX)?;
        Some((name.to_owned(), value))
    });
    let mut own: Vec<(String, String)> = own.collect();
    own.sort();
    let names = { own.iter() }.find(|(name, _)| name == NAMESPACES);
    let names = names.map(|(_, names)| names.clone()).unwrap_or_default();
    let mut namespaces: Vec<(String, Table)> = { names.split_whitespace() }
        .map(|name| {
            let entry = ("name".to_owned(), Value::String(name.to_owned()));
            (variable(name), Table::from_iter([entry]))
        })
        .collect();
    for (name, value) in own.into_iter().filter(|(name, _)| name != NAMESPACES) {
        let within = name
            .strip_prefix(NAMESPACES)
            .and_then(|rest| rest.strip_prefix('_'));
        let of = within.and_then(|rest| {
            let mut all = namespaces.iter_mut();
            all.find_map(|(prefix, table)| Some((table, rest.strip_prefix(&**prefix)?)))
        });
        match of.and_then(|(table, rest)| Some((table, rest.strip_prefix('_')?))) {
            Some((table, key)) => {
                table.insert(key.to_ascii_lowercase(), Value::String(value));
            }
            None => put(tree, &path(&name), value),
        }
    }
    if !namespaces.is_empty() {
        let all = namespaces.into_iter().map(|(_, table)| Value::Table(table));
        let all = Value::Array(all.collect());
        if let Value::Table(channel) = section(tree, "channel") {
            channel.insert("namespaces".to_owned(), all);
        }
    }
}

/// Spelling of a name in a variable.
fn variable(name: &str) -> String {
    name.to_ascii_uppercase().replace(['-', '.'], "_")
}

/// The path that a variable names, without the prefix.
fn path(name: &str) -> String {
    let sections = SECTIONS.split_whitespace().filter_map(|section| {
        let rest = name.strip_prefix(&*section.to_ascii_uppercase().replace('.', "_"))?;
        let key = rest.strip_prefix('_')?.to_ascii_lowercase();
        Some((section.len(), format!("{section}.{key}")))
    });
    let longest = sections.max_by_key(|(length, _)| *length);
    longest.map_or_else(|| name.to_ascii_lowercase(), |(_, path)| path)
}

fn put(tree: &mut Table, path: &str, value: String) {
    let Some((heads, key)) = path.rsplit_once('.') else {
        tree.insert(path.to_owned(), Value::String(value));
        return;
    };
    let mut at = tree;
    for head in heads.split('.') {
        let Value::Table(below) = section(at, head) else {
            return;
        };
        at = below;
    }
    at.insert(key.to_owned(), Value::String(value));
}

/// A section of a tree, made if it is not there.
fn section<'a>(tree: &'a mut Table, name: &str) -> &'a mut Value {
    let empty = || Value::Table(Table::new());
    tree.entry(name.to_owned()).or_insert_with(empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_the_tree_of_a_file() {
        let variables = [
            ("PATH", "/bin"),
            ("CENTRIFUGO_HTTP_SERVER_PORT", "9000"),
            ("CENTRIFUGO_CLIENT_TOKEN_HMAC_SECRET_KEY", "s"),
            ("CENTRIFUGO_CLIENT_ALLOWED_ORIGINS", "a b"),
            ("CENTRIFUGO_CHANNEL_WITHOUT_NAMESPACE_PRESENCE", "true"),
            ("CENTRIFUGO_CHANNEL_NAMESPACES", "chat my-news"),
            ("CENTRIFUGO_CHANNEL_NAMESPACES_CHAT_HISTORY_SIZE", "10"),
            ("CENTRIFUGO_CHANNEL_NAMESPACES_MY_NEWS_PRESENCE", "true"),
            ("CENTRIFUGO_CLIENT_PROXY_CONNECT_ENDPOINT", "http://b/c"),
            ("CENTRIFUGO_NEW_THING", "1"),
        ];
        let mut tree = toml::from_str::<Table>("[http_server]\nport = 1\naddress = \"x\"").unwrap();
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        put_variables(&mut tree, variables);
        let expected = r#"
            new_thing = "1"
            [http_server]
            port = "9000"
            address = "x"
            [client]
            allowed_origins = "a b"
            [client.token]
            hmac_secret_key = "s"
            [client.proxy.connect]
            endpoint = "http://b/c"
            [channel.without_namespace]
            presence = "true"
            [[channel.namespaces]]
            name = "chat"
            history_size = "10"
            [[channel.namespaces]]
            name = "my-news"
            presence = "true"
        "#;
        assert_eq!(tree, toml::from_str::<Table>(expected).unwrap());
    }
}
