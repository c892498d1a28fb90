//! `cargo xtask tidy`: what neither the compiler nor clippy checks.
//!
//! Owns: the list of checks and how their findings are shown. Each check is a module that takes
//! the tree, or a part of it, and returns findings; none of them prints or changes a file.

mod edges;
mod manifests;
mod publish;
mod purity;
mod size;
mod words;

use std::fmt;

use anyhow::{Context, Result};

use crate::docs;
use crate::tree::Tree;

pub(crate) use purity::is_test_file;

/// Something that has to change before the tree is tidy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A path, with a line where that says more.
    place: String,
    /// What is wrong and what to do.
    message: String,
}

impl Finding {
    /// A finding about a whole file or crate.
    pub(crate) fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            message: message.into(),
        }
    }

    /// A finding about one line, counted from 1.
    pub(crate) fn at(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), message)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Runs every check; `true` if nothing was found.
pub(crate) fn check() -> Result<bool> {
    let tree = Tree::read()?;
    let mut findings = edges::check(&tree.packages);
    findings.extend(manifests::check(&tree));
    findings.extend(purity::check(&tree));
    findings.extend(size::check(&tree)?);
    findings.extend(words::check(&tree));
    findings.extend(publish::check(&tree));
    findings.extend(docs::check(&tree));
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

/// Writes the ratchet and the copies that `tidy` compares: the change then shows in the diff.
pub(crate) fn update() -> Result<()> {
    let tree = Tree::read()?;
    let ratchet = size::updated(&tree)?;
    let write = |path: &str, text: &str| {
        std::fs::write(tree.root.join(path), text).with_context(|| format!("cannot write {path}"))
    };
    write(size::RATCHET, &ratchet)?;
    for (path, text) in manifests::clippy_files(&tree) {
        if tree.text(&path) != Some(text) {
            write(&path, text)?;
        }
    }
    Ok(())
}
