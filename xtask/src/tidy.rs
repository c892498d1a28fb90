//! `cargo xtask tidy`: what neither the compiler nor clippy checks.
//!
//! Owns: the list of checks and how their findings are shown. Each check is a module that takes
//! the tree, or a part of it, and returns findings; none of them prints or changes a file.

mod circles;
mod edges;
mod links;
mod manifests;
mod names;
mod prose;
mod publish;
mod purity;
mod queues;
mod ratchet;
mod size;
mod words;

use anyhow::{Context, Result};

use crate::docs;
use crate::tree::Tree;

use ratchet::Ratchet;

/// Runs every check; `true` if nothing was found.
pub(crate) fn check() -> Result<bool> {
    let tree = Tree::read()?;
    let mut findings = edges::check(&tree);
    findings.extend(manifests::check(&tree));
    findings.extend(purity::check(&tree));
    let ratchet = Ratchet::read(&tree)?;
    findings.extend(size::check(&tree, &ratchet));
    findings.extend(ratchet.compare(counts(&tree)));
    findings.extend(circles::check(&tree));
    findings.extend(prose::check(&tree));
    findings.extend(words::check(&tree));
    findings.extend(queues::check(&tree));
    findings.extend(publish::check(&tree));
    findings.extend(docs::check(&tree));
    findings.extend(links::check(&tree));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("tidy: {} files, nothing to say", tree.files.len()),
        1 => println!("tidy: 1 finding"),
        n => println!("tidy: {n} findings"),
    }
    Ok(findings.is_empty())
}

/// Numbers that the ratchet holds.
fn counts(tree: &Tree) -> Vec<ratchet::Count> {
    let mut counts = size::count(tree);
    counts.extend(prose::count(tree));
    counts.extend(names::count(tree));
    counts.extend(queues::count(tree));
    counts
}

/// Writes the ratchet and the copies that `tidy` compares: the change then shows in the diff.
pub(crate) fn update() -> Result<()> {
    let tree = Tree::read()?;
    let ratchet = Ratchet::read(&tree)?.updated(&counts(&tree));
    let write = |path: &str, text: &str| {
        std::fs::write(tree.root.join(path), text).with_context(|| format!("cannot write {path}"))
    };
    write(ratchet::RATCHET, &ratchet)?;
    for (path, text) in manifests::clippy_files(&tree) {
        if tree.text(&path) != Some(text) {
            write(&path, text)?;
        }
    }
    Ok(())
}
