//! The files that a machine gets besides the binary, each where packages look for it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::archive::{self, Entry};
use super::documentation;
use super::release::{Arch, Release, files, folders, output};
use crate::tree::Tree;

/// From the checkout, as they are.
const COPIES: [(&str, &str); 2] = [
    ("deploy/packages/sysctl.conf", "sysctl/60-throng.conf"),
    ("deploy/packages/first-lines.toml", "first-lines.toml"),
];
/// Units name the place where people put a program by hand; packages have another.
const UNITS: [&str; 2] = ["throng.service", "throng-agent.service"];
const SHELLS: [(&str, &str); 3] = [
    ("bash", "throng"),
    ("zsh", "_throng"),
    ("fish", "throng.fish"),
];

/// Puts all of them into a folder of their own. `own` is a program that runs here.
pub(crate) fn stage(
    release: &Release,
    arch: Arch,
    binary: &Path,
    own: Option<&Path>,
) -> Result<PathBuf> {
    let root = &release.root;
    let staged = root.join("target/stage").join(arch.name);
    if staged.exists() {
        fs::remove_dir_all(&staged)?;
    }
    for folder in [
        "bin",
        "doc",
        "sysctl",
        "systemd",
        "man",
        "completions",
        "etc",
    ] {
        fs::create_dir_all(staged.join(folder))?;
    }
    fs::copy(binary, staged.join("bin/throng"))?;
    for (from, to) in COPIES {
        fs::copy(root.join(from), staged.join(to)).with_context(|| format!("no {from}"))?;
    }
    documentation::copy(&Tree::read()?, &staged.join("doc"))?;
    for unit in UNITS {
        let text = fs::read_to_string(root.join("deploy/systemd").join(unit))?;
        let text = text.replace("/usr/local/bin/", "/usr/bin/");
        fs::write(staged.join("systemd").join(unit), text)?;
    }
    let throng = || -> Command {
        if let Some(own) = own {
            return Command::new(own);
        }
        // Another machine's program does not run here; what it would write is the same.
        let mut cargo = Command::new("cargo");
        cargo.args(["run", "--quiet", "--locked", "--package", "throng", "--"]);
        cargo.current_dir(root);
        cargo
    };
    output(throng().arg("man").arg(staged.join("man")))?;
    for page in files(&staged.join("man"))? {
        let packed = archive::gzip(&fs::read(&page)?)?;
        fs::write(page.with_extension("1.gz"), packed)?;
        fs::remove_file(page)?;
    }
    for (shell, name) in SHELLS {
        let script = output(throng().args(["completions", shell]))?;
        fs::write(staged.join("completions").join(name), script + "\n")?;
    }
    let options = output(throng().args(["config", "init", "-"]))?;
    // What stands before names a schema that packages do not have.
    let options = &options[options.find("# Configuration").unwrap_or(0)..];
    let first = fs::read_to_string(staged.join("first-lines.toml"))?;
    fs::remove_file(staged.join("first-lines.toml"))?;
    fs::write(
        staged.join("etc/throng.toml"),
        format!("{first}\n{options}\n"),
    )?;
    Ok(staged)
}

/// Packs the staged files as an archive, for installation without a package.
pub(crate) fn archive(release: &Release, arch: Arch, staged: &Path) -> Result<Vec<u8>> {
    let top = format!("throng-{}-linux-{}", release.version, arch.name);
    let mut entries = Vec::new();
    append(staged, &top, 0o644, &mut entries)?;
    archive::gzip(&archive::tar(&entries, release.epoch_s)?)
}

/// Appends a folder and all that is below it, sorted.
fn append(folder: &Path, path: &str, mode: u32, entries: &mut Vec<Entry>) -> Result<()> {
    let below = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    entries.push(Entry::folder(path));
    for file in files(folder)? {
        let bytes = fs::read(&file)?;
        entries.push(Entry::file(
            &format!("{path}/{}", below(&file)),
            mode,
            bytes,
        ));
    }
    for folder in folders(folder)? {
        let name = below(&folder);
        let mode = if name == "bin" { 0o755 } else { mode };
        append(&folder, &format!("{path}/{name}"), mode, entries)?;
    }
    Ok(())
}
