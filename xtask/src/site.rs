//! `cargo xtask docs`: the documentation as a site, by mdBook, below `target/site`.
//!
//! Owns that folder. The pages are those that `docs/SUMMARY.md` lists; they are copied, because
//! some live outside of `docs/`, and links that leave the site become plain text. Never changes a
//! page.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::dist::{output, run_to_end};
use crate::markdown::{is_outside, links, resolved};
use crate::tree::Tree;

const SUMMARY: &str = "docs/SUMMARY.md";
/// Files that mdBook reads beside the pages.
const SETTINGS: [&str; 3] = ["book.toml", "site.css", "diagrams.js"];
/// Draws the diagrams in the reader's browser. Its one file needs nothing else.
const MERMAID: &str = "mermaid@12.3.0";
const INSTALL_MDBOOK: &str = "cargo install --locked mdbook@0.5.4 --no-default-features \
                              --features search --root target/tools";

/// Builds the site and looks whether its links lead somewhere.
pub(crate) fn build() -> Result<()> {
    let tree = Tree::read()?;
    let site = tree.root.join("target/site");
    let source = site.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).context("cannot empty target/site/src")?;
    }
    let summary = tree.text(SUMMARY).context("docs/SUMMARY.md is missing")?;
    let pages: Vec<String> = links(summary)
        .iter()
        .filter_map(|link| Some(resolved(SUMMARY, &link.target)?.0))
        .collect();
    for page in pages.iter().map(String::as_str).chain([SUMMARY]) {
        let text = tree
            .text(page)
            .with_context(|| format!("{page} is missing"))?;
        let is_there = |path: &str| pages.iter().any(|page| page == path);
        write(
            &source.join(place(page)),
            &moved(page, text, &is_there, place),
        )?;
    }
    for name in SETTINGS {
        let from = tree.root.join("docs/site").join(name);
        fs::copy(&from, site.join(name)).with_context(|| format!("no {}", from.display()))?;
    }
    fs::copy(mermaid(&tree.root)?, site.join("mermaid.min.js"))?;
    let mut mdbook = Command::new(mdbook(&tree.root)?);
    run_to_end(mdbook.arg("build").arg(&site))?;
    let book = site.join("book");
    let dead = dead_links(&book)?;
    if !dead.is_empty() {
        bail!("the site has links to nothing:\n{}", dead.join("\n"));
    }
    println!(
        "docs: {} pages, {}",
        pages.len(),
        book.join("index.html").display()
    );
    Ok(())
}

/// Where a file of the repository is in the site: `docs/` is its root. The page of a folder gets
/// the name that mdBook gives it, since links to a README in a folder are left as they are.
fn place(path: &str) -> String {
    let path = path.strip_prefix("docs/").unwrap_or(path);
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_owned(),
    }
}

/// A page with the links that lead somewhere, and text for the others. `is_there` and `place` are
/// about paths from the root of the repository.
pub(crate) fn moved(
    page: &str,
    text: &str,
    is_there: &dyn Fn(&str) -> bool,
    place: fn(&str) -> String,
) -> String {
    let mut out = String::new();
    let mut at = 0;
    for link in links(text) {
        if is_outside(&link.target) || link.span.start < at {
            continue;
        }
        out += &text[at..link.span.start];
        let found = resolved(page, &link.target).filter(|(path, _)| is_there(path));
        match found {
            Some((path, heading)) => {
                let up = "../".repeat(place(page).matches('/').count());
                let heading = heading.map_or_else(String::new, |name| format!("#{name}"));
                let _ = write!(out, "[{}]({up}{}{heading})", &text[link.text], place(&path));
            }
            None => out += &text[link.text],
        }
        at = link.span.end;
    }
    out + &text[at..]
}

fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn mdbook(root: &Path) -> Result<PathBuf> {
    for program in [root.join("target/tools/bin/mdbook"), "mdbook".into()] {
        if Command::new(&program)
            .arg("--version")
            .output()
            .is_ok_and(|done| done.status.success())
        {
            return Ok(program);
        }
    }
    bail!("mdbook is missing, so the site was not built. To install it:\n    {INSTALL_MDBOOK}")
}

/// Takes the file out of the npm package, once.
fn mermaid(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/tools").join(MERMAID);
    let file = folder.join("package/dist/mermaid.min.js");
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(&folder)?;
    let mut npm = Command::new("npm");
    npm.args(["pack", "--silent", MERMAID]).current_dir(&folder);
    let said = output(&mut npm).context("npm, which .ci/install installs")?;
    let name = said.lines().last().context("npm packed nothing")?;
    let mut tar = Command::new("tar");
    tar.args(["-xzf", name, "package/dist/mermaid.min.js"]);
    output(tar.current_dir(&folder))?;
    Ok(file)
}

/// Links of the built pages to files that are not there.
fn dead_links(book: &Path) -> Result<Vec<String>> {
    let mut dead = Vec::new();
    let mut folders = vec![book.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|kind| kind == "html") {
                let html = fs::read_to_string(&path)?;
                dead.extend(dead_in(&path, &html));
            }
        }
    }
    Ok(dead)
}

fn dead_in(path: &Path, html: &str) -> Vec<String> {
    let folder = path.parent().unwrap_or(path);
    let targets = html
        .split("href=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    targets
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !is_outside(target) && !target.starts_with('/'))
        .filter(|target| !folder.join(target).exists())
        .map(|target| format!("{}: {target}", path.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_follow_their_pages_into_the_site() {
        let moved =
            |page, text, pages: &[&str]| moved(page, text, &|path| pages.contains(&path), place);
        let pages = ["docs/g/a.md", "docs/b.md", "C.md"];
        let text = "[b](../b.md#x) [c](../../C.md) [code](../../src/d.rs) [w](https://w) [h](#h)";
        assert_eq!(
            moved("docs/g/a.md", text, &pages),
            "[b](../b.md#x) [c](../C.md) code [w](https://w) [h](../g/a.md#h)"
        );
        assert_eq!(moved("C.md", "[b](docs/b.md)", &pages), "[b](b.md)");
        let pages = ["docs/README.md", "e/README.md"];
        let text = "[e](../e/README.md) [top](README.md)";
        let expected = "[e](e/index.md) [top](index.md)";
        assert_eq!(moved("docs/README.md", text, &pages), expected);
    }

    #[test]
    fn a_built_page_must_not_lead_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("b.html"), "").unwrap();
        let html = r##"<a href="b.html#x"> <a href="#y"> <a href="c.html"> <a href="https://z">"##;
        let dead = dead_in(&folder.path().join("a.html"), html);
        assert_eq!(dead.len(), 1, "{dead:?}");
        assert!(dead[0].ends_with("c.html"));
    }
}
