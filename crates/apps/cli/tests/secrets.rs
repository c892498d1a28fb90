//! Secrets that our pages print.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Everybody can read what the pages, the examples and the files for deployment print.
#[test]
fn no_printed_secret_is_accepted_where_others_connect() {
    let mut printed = BTreeSet::new();
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    for name in ["docs", "deploy", "examples", "README.md", "SECURITY.md"] {
        collect(&root.join(name), &mut printed);
    }
    for known in [
        "replace-this-with-32-random-bytes",
        "replace-this-key-too",
        "an-example-secret-that-everyone-knows",
        "an-example-key-that-everyone-knows",
        "change-me-to-32-characters-or-more",
    ] {
        assert!(
            printed.remove(known) || known.starts_with("change-me"),
            "{known}"
        );
        refused(known);
    }
    printed.iter().for_each(|secret| refused(secret));
}

#[track_caller]
fn refused(secret: &str) {
    let key = "auth.api_keys=0123456789abcdef0123456789abcdef".to_owned();
    let good = "auth.hmac_secret=0123456789abcdef0123456789abcdef".to_owned();
    for (secret, other) in [
        (format!("auth.hmac_secret={secret}"), key),
        (format!("auth.api_keys={secret}"), good),
    ] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_throng"));
        check.args(["config", "check"]);
        for set in [
            &*secret,
            &*other,
            "listen.client=0.0.0.0:8000",
            "listen.api=0.0.0.0:8001",
        ] {
            check.args(["--set", set]);
        }
        let option = secret.split('=').next().unwrap();
        let done = check.output().expect("the binary runs");
        let told = String::from_utf8_lossy(&done.stderr);
        let is_refused = done.status.code() == Some(4) && told.contains(option);
        assert!(is_refused, "{secret}: {told}");
    }
}

/// Takes what looks like a secret from all lines that name one.
fn collect(path: &Path, printed: &mut BTreeSet<String>) {
    // These start servers for their own tests.
    let tests = ["node_modules", "checks", "results", "target"];
    if tests.iter().any(|name| path.ends_with(name)) {
        return;
    }
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries {
            collect(&entry.unwrap().path(), printed);
        }
        return;
    }
    let text = fs::read_to_string(path).unwrap_or_default();
    let names = [
        "hmac_secret",
        "hmac_previous_secret",
        "api_key",
        "secret",
        "x-api-key",
    ];
    for line in text.lines() {
        let lower = line.to_ascii_lowercase().replace('-', "_");
        if !names
            .iter()
            .any(|name| lower.contains(&name.replace('-', "_")))
        {
            continue;
        }
        // A link's part behind `#` is the name of a heading.
        let is_part = |part: char| part.is_ascii_alphanumeric() || "-_#".contains(part);
        let words = line.split(|part| !is_part(part)).filter(|word| {
            word.len() >= 16 && word.contains('-') && !word.starts_with('-') && !word.contains('#')
                || word.len() >= 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        printed.extend(words.map(str::to_owned));
    }
}
