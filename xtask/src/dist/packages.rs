//! Packages for Debian and Red Hat. `deploy/packages/nfpm.yaml` lists their content.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::release::{Arch, Release};
use super::tools;

/// Writes the Debian and the Red Hat package.
pub(crate) fn make(release: &Release, arch: Arch, staged: &Path) -> Result<()> {
    let nfpm = tools::nfpm(&release.root)?;
    for kind in ["deb", "rpm"] {
        let status = Command::new(&nfpm)
            .args(["package", "--config", "deploy/packages/nfpm.yaml"])
            .args(["--packager", kind, "--target"])
            .arg(&release.out)
            .current_dir(&release.root)
            .env("STAGED", staged)
            .env("ARCH", arch.short)
            .env("VERSION", &release.version)
            .env("SOURCE_DATE_EPOCH", release.epoch_s.to_string())
            .status()
            .with_context(|| format!("cannot start {}", nfpm.display()))?;
        if !status.success() {
            bail!("nfpm failed to write a .{kind}");
        }
    }
    Ok(())
}
