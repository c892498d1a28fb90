//! The configuration of the container that Throng takes the place of: every variable that
//! Appwrite's compose files give it is in docs/APPWRITE.md, with its value as shipped and an option
//! that exists, or the reason why none is needed; so is every other line of the service.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Variables and other lines of the service, as its head says.
const CONTAINER: &str = include_str!("container.txt");

/// Lines of the container that are no comments.
fn container() -> impl Iterator<Item = &'static str> {
    let lines = CONTAINER.lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The code blocks of a kind on the page.
fn block(page: &str, kind: &str) -> String {
    let fence = format!("```{kind}\n");
    let block = page.split(&fence).nth(1).expect("a block");
    block.split("\n```").next().unwrap().to_owned()
}

/// The rows of the table that begins with these cells.
fn rows<'p>(page: &'p str, head: &str) -> Vec<Vec<&'p str>> {
    let table = page.split(head).nth(1).expect("a table");
    let lines = table
        .lines()
        .skip(1)
        .skip_while(|line| line.starts_with("|---"));
    let lines = lines.take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells = line
                .strip_prefix('|')
                .and_then(|line| line.strip_suffix('|'));
            cells.expect("cells").split('|').map(str::trim).collect()
        })
        .collect()
}

/// Returns the value of an option: from the file on the page, or the default.
fn value_of(option: &str, file: &str, own: &str) -> String {
    let name = option.trim_matches('`');
    let mut lines = file.lines();
    if let Some(value) = lines.find_map(|line| line.strip_prefix(&format!("{name} = "))) {
        return format!("`{value}`");
    }
    let row = own.split(&format!("\n| {option} |")).nth(1);
    let row = row.unwrap_or_else(|| panic!("no such option: {option}"));
    row.split('|').nth(1).unwrap().trim().to_owned()
}

#[test]
fn every_variable_of_the_container_is_answered() {
    let (guide, reference) = (page("APPWRITE.md"), page("config.md"));
    let own = reference.split("## `[appwrite]`").nth(1).unwrap();
    let own = own.split("\n## ").next().unwrap();
    let file = block(&guide, "toml");
    let mut answered = BTreeSet::new();
    for row in rows(&guide, "| variable | as shipped | option | here | why |") {
        let [variable, shipped, options, here, why] = row[..] else {
            panic!("not five cells: {row:?}");
        };
        assert!(!why.is_empty(), "{row:?}");
        let variable = variable.trim_matches('`');
        assert!(answered.insert((variable, shipped)), "twice: {row:?}");
        if options == "-" {
            assert_eq!(here, "-", "{row:?}");
            continue;
        }
        let values = options
            .split(", ")
            .map(|option| value_of(option, &file, own));
        assert_eq!(here, values.collect::<Vec<_>>().join(", "), "{row:?}");
    }
    let variables = container().filter_map(|line| line.split_once(" = "));
    assert_eq!(answered, variables.collect());
}

#[test]
fn every_line_of_the_service_is_answered() {
    let guide = page("APPWRITE.md");
    let ours = block(&guide, "yaml");
    let mut table = rows(&guide, "| line | here | why |");
    let service: Vec<&str> = { container() }
        .skip_while(|line| line.contains(" = "))
        .collect();
    for part in service.chunk_by(|_, next| next.starts_with(' ')) {
        let (name, lines) = part.split_first().expect("a name");
        let name = name.strip_suffix(':').expect("a name");
        let lines: Vec<&str> = lines.iter().map(|line| line.trim()).collect();
        let at = table
            .iter()
            .position(|row| row[0].trim_matches('`') == name);
        let row = table.remove(at.unwrap_or_else(|| panic!("{name} is not answered")));
        let section: Vec<&str> = section(&ours, name);
        let kept = lines.iter().filter(|line| section.contains(line)).count();
        match row[1] {
            "kept" => assert_eq!((kept, section.len()), (lines.len(), kept), "{name}"),
            "left out" => assert!(section.is_empty() && !row[2].is_empty(), "{name}"),
            "other" => assert!(
                kept == 0 && !section.is_empty() && !row[2].is_empty(),
                "{name}"
            ),
            "`redis` alone" => assert_eq!(section, ["- redis"], "{name}"),
            other => panic!("{name}: {other}"),
        }
    }
    assert!(table.is_empty(), "not of the service: {table:?}");
}

/// Returns the lines of a section: the text behind its name, or the lines below it.
fn section<'f>(file: &'f str, name: &str) -> Vec<&'f str> {
    let begins = |line: &&str| line.starts_with(&format!("    {name}:"));
    let mut lines = file.lines().skip_while(|line| !begins(line));
    let Some(first) = lines.next() else {
        return Vec::new();
    };
    let value = first.split_once(": ").map(|(_, value)| value);
    let below = lines.take_while(|line| line.starts_with("      "));
    value.into_iter().chain(below.map(str::trim)).collect()
}

/// The configuration on the page, as it is but for the port, which Traefik goes to.
pub(crate) fn file() -> String {
    let file = block(&page("APPWRITE.md"), "toml");
    let listens = "[listen]\nclient = \"0.0.0.0:80\"\n";
    assert!(file.contains(listens), "{file}");
    file.replace(listens, "")
}
