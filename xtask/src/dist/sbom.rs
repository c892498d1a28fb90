//! Content of the binary in the format of CycloneDX, written by `cargo-cyclonedx`.
//!
//! Clears what the tool wrote of this machine's paths, and of packages for features that are off.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::release::{Release, output, run_to_end};
use super::tools;

/// Uses all packages that the other architectures use, and more.
const TARGET: &str = "x86_64-unknown-linux-musl";
/// The folder of the program's crate.
const PROGRAM: &str = "crates/apps/cli";

/// The document, the same bytes for the same commit.
pub(crate) fn document(release: &Release) -> Result<String> {
    let root = &release.root;
    let compiled = compiled(root, TARGET)?;
    let mut tool = Command::new(tools::cyclonedx(root)?);
    tool.args(["cyclonedx", "--quiet", "--format", "json"])
        .args(["--spec-version", "1.5", "--describe", "binaries"])
        .args(["--no-build-deps", "--target", TARGET])
        .current_dir(root)
        // With it there is no random serial number either.
        .env("SOURCE_DATE_EPOCH", release.epoch_s.to_string());
    run_to_end(&mut tool)?;
    let text = fs::read_to_string(root.join(PROGRAM).join("throng_bin.cdx.json"));
    // The tool leaves a file beside the manifest of each program.
    let mut git = Command::new("git");
    git.args(["clean", "--quiet", "--force", "-x", "--", "*_bin.cdx.json"]);
    output(git.current_dir(root))?;
    let text = text.context("cargo-cyclonedx wrote nothing about the program")?;
    cleared(&text, &compiled, &release.commit)
}

/// Names and versions of what Cargo compiles into the program. The tool asks `cargo metadata`,
/// which also tells packages of features that are off.
fn compiled(root: &Path, target: &str) -> Result<BTreeSet<(String, String)>> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["tree", "--locked", "--package", "throng"])
        .args(["--target", target, "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .current_dir(root);
    let tree = output(&mut cargo)?;
    let packages = tree.lines().map(|line| {
        let mut words = line.split(' ');
        let name = words.next().unwrap_or_default();
        let version = words.next().and_then(|word| word.strip_prefix('v'));
        let version = version.with_context(|| format!("cargo tree says {line}"))?;
        Ok((name.to_owned(), version.to_owned()))
    });
    packages.collect()
}

/// Makes paths in the document start at the root of the workspace, names the commit, and drops
/// packages that are not compiled.
fn cleared(text: &str, compiled: &BTreeSet<(String, String)>, commit: &str) -> Result<String> {
    let document: Value = serde_json::from_str(text)?;
    let program = text_of(&document["metadata"]["component"], "bom-ref");
    let workspace = program.split_once(&format!("{PROGRAM}#"));
    let (workspace, _) = workspace.with_context(|| format!("{program} is not the program"))?;
    let mut document: Value = serde_json::from_str(&text.replace(workspace, ""))?;
    let component = &mut document["metadata"]["component"];
    component["properties"] = json!([{"name": "commit", "value": commit}]);
    let mut kept = BTreeSet::from([text_of(component, "bom-ref").to_owned()]);
    let components = list(&mut document, "components")?;
    components.retain(|component| {
        let text = |key| text_of(component, key).to_owned();
        compiled.contains(&(text("name"), text("version"))) && kept.insert(text("bom-ref"))
    });
    let nodes = list(&mut document, "dependencies")?;
    nodes.retain(|node| kept.contains(text_of(node, "ref")));
    for node in nodes {
        if let Ok(uses) = list(node, "dependsOn") {
            uses.retain(|used| used.as_str().is_some_and(|used| kept.contains(used)));
        }
    }
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn text_of<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a mut Value, key: &str) -> Result<&'a mut Vec<Value>> {
    let list = value.get_mut(key).and_then(Value::as_array_mut);
    list.with_context(|| format!("the document has no {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn paths_and_what_is_not_compiled_are_cleared() {
        let own = |path: &str| format!("path+file:///home/me/{path}");
        let (program, hub) = (
            own("crates/apps/cli#throng@1.0.0"),
            own("crates/core/hub#1.0.0"),
        );
        let written = json!({
            "metadata": {"component": {"bom-ref": program, "name": "throng"}},
            "components": [
                {"bom-ref": hub, "name": "throng-hub", "version": "1.0.0"},
                {"bom-ref": "registry#off@2.0.0", "name": "off", "version": "2.0.0"},
            ],
            "dependencies": [
                {"ref": program, "dependsOn": [hub]},
                {"ref": hub, "dependsOn": ["registry#off@2.0.0"]},
                {"ref": "registry#off@2.0.0"},
            ],
        });
        let compiled = BTreeSet::from([("throng-hub".to_owned(), "1.0.0".to_owned())]);
        let cleared = cleared(&written.to_string(), &compiled, "0123456789").unwrap();
        let (program, hub) = ("crates/apps/cli#throng@1.0.0", "crates/core/hub#1.0.0");
        let expected = json!({
            "metadata": {"component": {
                "bom-ref": program,
                "name": "throng",
                "properties": [{"name": "commit", "value": "0123456789"}],
            }},
            "components": [{"bom-ref": hub, "name": "throng-hub", "version": "1.0.0"}],
            "dependencies": [
                {"ref": program, "dependsOn": [hub]},
                {"ref": hub, "dependsOn": []},
            ],
        });
        assert_eq!(serde_json::from_str::<Value>(&cleared).unwrap(), expected);
    }

    /// Uses the workspace that this test was built from, and leaves the document in `target`.
    #[test]
    #[ignore = "installs cargo-cyclonedx, which takes minutes"]
    fn it_lists_what_the_binary_uses_and_nothing_else() {
        let release = Release::of(tree::root().unwrap()).unwrap();
        let text = document(&release).unwrap();
        assert_eq!(text, document(&release).unwrap());
        fs::write(release.root.join("target/throng.cdx.json"), &text).unwrap();
        assert!(!text.contains("path+file:") && !text.contains(release.root.to_str().unwrap()));
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["metadata"]["component"]["name"], "throng");
        assert!(document.get("serialNumber").is_none());
        let components = document["components"].as_array().unwrap();
        let found: BTreeSet<(String, String)> = components
            .iter()
            .chain([&document["metadata"]["component"]])
            .map(|c| {
                (
                    text_of(c, "name").to_owned(),
                    text_of(c, "version").to_owned(),
                )
            })
            .collect();
        assert_eq!(found, compiled(&release.root, TARGET).unwrap());
        let other = compiled(&release.root, "aarch64-unknown-linux-musl").unwrap();
        assert!(other.is_subset(&found));
        for component in components {
            assert!(component["licenses"][0].is_object(), "{component}");
            let is_ours = text_of(component, "bom-ref").starts_with("crates/");
            let sum = text_of(&component["hashes"][0], "content");
            assert_eq!(sum.len(), if is_ours { 0 } else { 64 }, "{component}");
        }
        let named = |name: &str| components.iter().find(|c| c["name"] == name);
        assert!(named("rustls").is_some() && named("throng-hub").is_some());
        // Only tests and automation use these, or features that are off.
        for name in ["proptest", "cargo_metadata", "ring"] {
            assert!(named(name).is_none(), "{name}");
        }
        let refs: BTreeSet<&str> = components.iter().map(|c| text_of(c, "bom-ref")).collect();
        for node in document["dependencies"].as_array().unwrap() {
            for used in node["dependsOn"].as_array().into_iter().flatten() {
                assert!(refs.contains(used.as_str().unwrap()), "{used}");
            }
        }
    }
}
