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
mod size;
mod words;

use anyhow::Result;

use crate::docs;
use crate::tree::Tree;

/// Runs every check; `true` if nothing was found.
pub(crate) fn check() -> Result<bool> {
    let tree = Tree::read()?;
    let mut findings = edges::check(&tree);
    findings.extend(manifests::check(&tree));
    findings.extend(purity::check(&tree));
    findings.extend(size::check(&tree));
    findings.extend(names::check(&tree));
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
