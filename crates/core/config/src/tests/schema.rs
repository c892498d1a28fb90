//! The JSON Schema against the files of the other tests and the examples of the repository.

use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::json;

use crate::*;

/// Finds what an editor shows by our JSON Schema.
pub(super) fn schema_faults(file: &str) -> Vec<String> {
    static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
        let schema: serde_json::Value = serde_json::from_str(&schema_text()).expect("JSON");
        jsonschema::draft7::new(&schema).expect("a schema of draft 7")
    });
    match toml::from_str::<serde_json::Value>(file) {
        Ok(file) => SCHEMA.iter_errors(&file).map(|it| it.to_string()).collect(),
        Err(error) => vec![error.to_string()],
    }
}

/// Parts of problems that the JSON Schema shows, too.
pub(super) const SEEN_BY_EDITORS: [&str; 7] = [
    "unknown option",
    "unknown section",
    "is a section: write",
    "expected true or false",
    "expected a whole number",
    "expected one of",
    "; write it like",
];

/// Pages and files with configurations, all of which an editor has nothing against.
#[test]
fn examples_fit_the_schema() {
    let known = layout::top_sections();
    let mut count = 0;
    for page in [
        include_str!("../../../../../README.md"),
        include_str!("../../../../../docs/APPWRITE.md"),
        include_str!("../../../../../docs/CLUSTER.md"),
        include_str!("../../../../../docs/OPERATING.md"),
        include_str!("../../../../../docs/PUSHER.md"),
        include_str!("../../../../../docs/WEBHOOKS.md"),
        include_str!("../../../../../docs/guides/backend.md"),
        include_str!("../../../../../docs/guides/channels.md"),
        include_str!("../../../../../docs/guides/feeds.md"),
        include_str!("../../../../../docs/guides/history.md"),
        include_str!("../../../../../docs/guides/install.md"),
        include_str!("../../../../../docs/guides/migrating.md"),
        include_str!("../../../../../docs/guides/presence.md"),
        include_str!("../../../../../docs/guides/security.md"),
        include_str!("../../../../../docs/guides/slow-consumers.md"),
        include_str!("../../../../../docs/guides/sse.md"),
        include_str!("../../../../../docs/guides/tokens.md"),
        concat!(
            "```toml\n",
            include_str!("../../../../../examples/throng.toml"),
            "\n```"
        ),
        concat!(
            "```toml\n",
            include_str!("../../../../../deploy/docker/throng.toml"),
            "\n```"
        ),
    ] {
        for block in page.split("```toml\n").skip(1) {
            let block = block.split("\n```").next().unwrap_or_default();
            let file = toml::from_str::<toml::Table>(block);
            let is_ours = |name: &String| known.iter().any(|(known, _)| known == name);
            if file.is_ok_and(|file| file.keys().all(is_ours)) {
                assert_eq!(schema_faults(block), [""; 0], "for the file\n{block}");
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} examples were found");
}

#[test]
fn the_schema_has_every_option_with_its_default_and_bounds() {
    let schema: serde_json::Value = serde_json::from_str(&schema_text()).expect("JSON");
    for (pointer, key, value) in [
        (
            "listen/properties/client",
            "default",
            json!(["127.0.0.1:8000"]),
        ),
        ("engine/properties/backlog", "maximum", json!(65_535)),
        (
            "log/properties/level",
            "enum",
            json!(["error", "warn", "info", "debug", "trace"]),
        ),
        (
            "proxy/properties/backend/items/properties/timeout",
            "default",
            json!("1s"),
        ),
        ("namespace/items", "required", json!(["name"])),
        ("webhook/items", "required", json!(["url"])),
        ("feed/items", "required", json!(["name", "url"])),
        ("app/items", "required", json!(["id", "key", "secret"])),
        (
            "proxy/properties/backend/items",
            "required",
            json!(["name", "endpoint"]),
        ),
        (
            "grip/properties/route/items",
            "additionalProperties",
            json!(false),
        ),
        (
            "broker/properties/url",
            "examples",
            json!(["redis://127.0.0.1:6379/0"]),
        ),
    ] {
        let found = schema.pointer(&format!("/properties/{pointer}"));
        assert_eq!(found.map(|found| &found[key]), Some(&value), "{pointer}");
    }
    let text = schema_text();
    for option in options() {
        let doc = json!(option.doc).to_string();
        assert!(
            text.contains(doc.trim_end_matches('"')),
            "{}",
            option.path()
        );
    }
}
