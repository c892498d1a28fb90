//! Content of the binary in the format of CycloneDX 1.6: each package with its version, licence and
//! checksum, and its dependencies.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, PackageId};
use serde_json::{Value, json};

use super::release::Release;

/// The document, the same bytes for the same lock file.
pub(crate) fn document(release: &Release) -> Result<String> {
    let metadata = MetadataCommand::new()
        .manifest_path(release.root.join("Cargo.toml"))
        .other_options(vec![
            "--locked".to_owned(),
            "--filter-platform=x86_64-unknown-linux-musl".to_owned(),
        ])
        .exec()
        .context("cargo metadata failed")?;
    let lock = fs::read_to_string(release.root.join("Cargo.lock"))?;
    let sums = checksums(&lock.parse()?);
    let uses = uses(&metadata)?;
    let place = |id: &PackageId| {
        let package = &metadata[id];
        format!("pkg:cargo/{}@{}", package.name, package.version)
    };
    let root = root(&metadata)?;
    let mut components = BTreeMap::new();
    for id in uses.keys().filter(|id| *id != root) {
        let package = &metadata[id];
        let mut component = json!({
            "type": "library",
            "bom-ref": place(id),
            "name": package.name,
            "version": package.version.to_string(),
        });
        if let Some(licence) = &package.license {
            // Before the expressions of SPDX there was a slash.
            let expression = licence.replace('/', " OR ");
            component["licenses"] = json!([{"expression": expression}]);
        }
        if package.source.is_some() {
            component["purl"] = json!(place(id));
        }
        let key = (package.name.to_string(), package.version.to_string());
        if let Some(sum) = sums.get(&key) {
            component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
        }
        components.insert(place(id), component);
    }
    let dependencies: BTreeMap<String, Value> = uses
        .iter()
        .map(|(id, others)| {
            let others: BTreeSet<String> = others.iter().map(place).collect();
            (place(id), json!({"ref": place(id), "dependsOn": others}))
        })
        .collect();
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": release.date,
            "component": {
                "type": "application",
                "bom-ref": place(root),
                "name": "throng",
                "version": release.version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "properties": [{"name": "commit", "value": release.commit}],
            },
        },
        "components": components.into_values().collect::<Vec<_>>(),
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

fn root(metadata: &Metadata) -> Result<&PackageId> {
    let mut packages = metadata.packages.iter();
    let found = packages.find(|package| package.name == "throng");
    Ok(&found.context("no package throng")?.id)
}

/// Everything that ends up in the binary, with what it uses: no tests, no build scripts.
fn uses(metadata: &Metadata) -> Result<BTreeMap<PackageId, Vec<PackageId>>> {
    let resolve = metadata.resolve.as_ref().context("nothing was resolved")?;
    let nodes: BTreeMap<_, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let mut found = BTreeMap::new();
    let mut open = vec![root(metadata)?];
    while let Some(id) = open.pop() {
        if found.contains_key(id) {
            continue;
        }
        let node = nodes.get(id).context("a package was not resolved")?;
        let is_normal = |kinds: &[cargo_metadata::DepKindInfo]| {
            kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
        };
        let used = node.deps.iter().filter(|used| is_normal(&used.dep_kinds));
        let used: Vec<&PackageId> = used.map(|used| &used.pkg).collect();
        open.extend(&used);
        found.insert(id.clone(), used.into_iter().cloned().collect());
    }
    Ok(found)
}

/// Checksums of the packages that came from a registry, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let sums = packages.into_iter().flatten().filter_map(|package| {
        let key = (text(package, "name")?, text(package, "version")?);
        Some((key, text(package, "checksum")?))
    });
    sums.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    /// Uses the workspace that this test was built from.
    #[test]
    fn it_lists_what_the_binary_uses_and_nothing_else() {
        let release = Release {
            root: tree::root().unwrap(),
            out: "/".into(),
            version: "1.2.3".to_owned(),
            commit: "0123456789".to_owned(),
            epoch_s: 0,
            date: "1970-01-01T00:00:00Z".to_owned(),
        };
        let text = document(&release).unwrap();
        assert_eq!(text, document(&release).unwrap());
        let document: Value = serde_json::from_str(&text).unwrap();
        let components = document["components"].as_array().unwrap();
        let named = |name: &str| components.iter().find(|c| c["name"] == name);
        let rustls = named("rustls").unwrap();
        assert_eq!(rustls["hashes"][0]["content"].as_str().unwrap().len(), 64);
        assert!(rustls["licenses"][0]["expression"].is_string());
        assert!(named("throng-hub").unwrap().get("hashes").is_none());
        // Only tests and automation use these.
        assert!(named("proptest").is_none() && named("cargo_metadata").is_none());
        let refs: BTreeSet<&str> = components
            .iter()
            .map(|c| c["bom-ref"].as_str().unwrap())
            .collect();
        for node in document["dependencies"].as_array().unwrap() {
            for used in node["dependsOn"].as_array().unwrap() {
                assert!(refs.contains(used.as_str().unwrap()), "{used}");
            }
        }
    }
}
