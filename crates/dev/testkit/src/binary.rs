//! The `throng` binary of this checkout.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(3)
        .expect("crates/dev/testkit is three below the root")
        .to_owned()
}

/// The folder that cargo builds in.
pub(crate) fn target() -> PathBuf {
    // A test's binary is in target/PROFILE/deps.
    let test = std::env::current_exe().expect("a test knows its path");
    test.ancestors()
        .nth(3)
        .expect("a test is three below target")
        .to_owned()
}

/// Path of the binary, built if it is not up to date: `cargo test -p` builds only what it tests. On
/// a machine without cargo, `THRONG_BIN` gives the path.
///
/// # Panics
/// If it does not build.
#[must_use]
pub fn throng() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| std::env::var_os("THRONG_BIN").map_or_else(build, PathBuf::from))
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--package",
            "throng",
            "--bin",
            "throng",
            "--message-format",
            "json",
        ])
        .arg("--target-dir")
        .arg(target())
        .current_dir(root());
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let built = command
        .output()
        .expect("cargo, which runs this test, starts again");
    let said = String::from_utf8_lossy(&built.stdout);
    let executable = said.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours =
            message["target"]["name"] == "throng" && message["reason"] == "compiler-artifact";
        message["executable"]
            .as_str()
            .filter(|_| ours)
            .map(PathBuf::from)
    });
    assert!(
        built.status.success(),
        "cannot build throng:\n{}",
        String::from_utf8_lossy(&built.stderr)
    );
    executable.expect("cargo says where it put the binary")
}
