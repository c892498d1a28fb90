//! The checkout: its files, its crates and where each crate stands in the house.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::source::Source;

/// A file that git tracks or would add.
pub(crate) struct File {
    /// From the root, with `/`.
    pub(crate) path: String,
    /// The content; none if it is not UTF-8.
    pub(crate) text: Option<String>,
    /// The tokens, if it is Rust.
    pub(crate) source: Option<Source>,
}

impl File {
    /// Takes a file's content apart; fails if it ends in `.rs` and is not Rust.
    pub(crate) fn new(path: &str, bytes: Vec<u8>) -> Result<Self> {
        let text = String::from_utf8(bytes).ok();
        let rust = text.as_deref().filter(|_| path.ends_with(".rs"));
        let source = rust.map(Source::parse).transpose();
        Ok(Self {
            source: source.with_context(|| format!("cannot read {path}"))?,
            path: path.to_owned(),
            text,
        })
    }
}

/// A crate of the workspace.
#[derive(Debug)]
pub(crate) struct Package {
    /// Its folder from the root.
    pub(crate) folder: String,
    /// Dependencies named in its manifest.
    pub(crate) dependencies: Vec<Dependency>,
}

impl Package {
    /// Its place in the plan: the folder below `crates/`.
    pub(crate) fn room(&self) -> &str {
        self.folder.strip_prefix("crates/").unwrap_or(&self.folder)
    }

    /// Whether a file of the tree belongs to it.
    pub(crate) fn owns(&self, path: &str) -> bool {
        path.strip_prefix(&self.folder)
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

/// One line of a manifest.
#[derive(Debug)]
pub(crate) struct Dependency {
    /// Name of the package.
    pub(crate) name: String,
    /// The folder from the root, if it is ours.
    pub(crate) folder: Option<String>,
    /// Whether only tests use it.
    pub(crate) for_tests: bool,
}

/// The checkout as it is on disk, committed or not.
#[derive(Default)]
pub(crate) struct Tree {
    /// Folder that holds `Cargo.lock`.
    pub(crate) root: PathBuf,
    /// All files, sorted by path.
    pub(crate) files: Vec<File>,
    /// All crates, sorted by folder.
    pub(crate) packages: Vec<Package>,
}

impl Tree {
    /// Reads the checkout that this program was built from.
    pub(crate) fn read() -> Result<Self> {
        let root = root()?;
        Ok(Self {
            files: files(&root)?,
            packages: packages(&root)?,
            root,
        })
    }

    /// Iterates over the Rust files, by path.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &Source)> {
        self.files
            .iter()
            .filter_map(|file| Some((file.path.as_str(), file.source.as_ref()?)))
    }

    /// The crate that a file belongs to; `fuzz/` and the like belong to none.
    pub(crate) fn package_of(&self, path: &str) -> Option<&Package> {
        self.packages.iter().rfind(|package| package.owns(path))
    }

    /// The content of a file, if it is there.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files
            .iter()
            .find(|file| file.path == path)?
            .text
            .as_deref()
    }
}

/// The folder of the workspace.
pub(crate) fn root() -> Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.parent().context("xtask has no parent folder")?;
    Ok(root.to_path_buf())
}

/// Files that only tests compile.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.ends_with("/tests.rs")
        || ["/tests/", "/benches/", "/examples/"]
            .iter()
            .any(|folder| path.contains(folder))
}

fn files(root: &Path) -> Result<Vec<File>> {
    let listing = Command::new("git")
        .args("ls-files -z --cached --others --exclude-standard".split(' '))
        .current_dir(root)
        .output()
        .context("cannot start git, which lists the files to check")?;
    if !listing.status.success() {
        bail!(
            "git cannot list the files to check: {}",
            String::from_utf8_lossy(&listing.stderr).trim()
        );
    }
    let paths = str::from_utf8(&listing.stdout).context("a file name is not UTF-8")?;
    let mut paths: Vec<&str> = paths.split_terminator('\0').collect();
    paths.sort_unstable();
    paths.dedup();
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        // Deleted but not yet committed, or a link to elsewhere.
        let Ok(bytes) = std::fs::read(root.join(path)) else {
            continue;
        };
        files.push(File::new(path, bytes)?);
    }
    Ok(files)
}

fn packages(root: &Path) -> Result<Vec<Package>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata failed")?;
    let from_root = |path: &Path| {
        let path = path.strip_prefix(root).ok()?;
        Some(path.to_string_lossy().into_owned())
    };
    let mut packages = Vec::new();
    for package in &metadata.packages {
        let folder = package
            .manifest_path
            .parent()
            .and_then(|path| from_root(path.as_std_path()))
            .with_context(|| format!("{} is outside the workspace", package.name))?;
        let dependency = |it: &cargo_metadata::Dependency| Dependency {
            name: it.name.clone(),
            folder: { it.path.as_ref() }.and_then(|path| from_root(path.as_std_path())),
            for_tests: it.kind == DependencyKind::Development,
        };
        packages.push(Package {
            folder,
            dependencies: package.dependencies.iter().map(dependency).collect(),
        });
    }
    packages.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let status = Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .status();
        assert!(status.unwrap().success(), "git {arguments:?}");
    }

    #[test]
    fn files_are_those_that_git_has_or_would_add() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes);
        git(folder.path(), &["init", "--quiet"]);
        write(".gitignore", b"ignored\n").unwrap();
        write("ignored", b"x").unwrap();
        write("b.rs", b"//! B.\n").unwrap();
        write("a.bin", b"\xff").unwrap();
        write("gone", b"x").unwrap();
        git(folder.path(), &["add", "gone", "b.rs"]);
        std::fs::remove_file(folder.path().join("gone")).unwrap();

        let found = files(folder.path()).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|file| (file.path.as_str(), file.text.as_deref()))
            .collect();
        assert_eq!(
            found,
            [
                (".gitignore", Some("ignored\n")),
                ("a.bin", None),
                ("b.rs", Some("//! B.\n")),
            ]
        );
    }

    #[test]
    fn outside_a_checkout_the_error_says_what_was_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let error = files(folder.path()).err().unwrap();
        assert!(
            format!("{error:#}").contains("git cannot list"),
            "{error:#}"
        );
    }

    /// The workspace that this test was built from: edges between rooms carry a folder, others do
    /// not.
    #[test]
    fn packages_know_their_rooms_and_edges() {
        let packages = packages(&root().unwrap()).unwrap();
        let session = packages
            .iter()
            .find(|package| package.room() == "core/session")
            .unwrap();
        assert!(session.owns("crates/core/session/src/lib.rs"));
        assert!(!session.owns("crates/core/sessions/src/lib.rs"));
        assert!(
            session
                .dependencies
                .iter()
                .any(|edge| edge.folder.as_deref() == Some("crates/types"))
        );
        let xtask = packages.iter().find(|package| package.room() == "xtask");
        let tempfile = xtask
            .unwrap()
            .dependencies
            .iter()
            .find(|edge| edge.name == "tempfile")
            .unwrap();
        assert!(tempfile.folder.is_none() && tempfile.for_tests);
    }

    #[test]
    fn test_files_are_known() {
        assert!(is_test_file("crates/core/hub/src/fanout/tests.rs"));
        assert!(is_test_file("crates/core/hub/tests/all.rs"));
        assert!(!is_test_file("crates/core/hub/src/contests.rs"));
    }
}
