//! Packages for Debian and Red Hat. `deploy/packages/nfpm.yaml` lists their content.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::release::{Arch, Release, run_to_end};
use super::tools;

/// Writes the Debian and the Red Hat package.
pub(crate) fn make(release: &Release, arch: Arch, staged: &Path) -> Result<()> {
    let nfpm = tools::nfpm(&release.root)?;
    for kind in ["deb", "rpm"] {
        let mut nfpm = Command::new(&nfpm);
        nfpm.args(["package", "--config", "deploy/packages/nfpm.yaml"])
            .args(["--packager", kind, "--target"])
            .arg(&release.out)
            .current_dir(&release.root)
            .env("STAGED", staged)
            .env("ARCH", arch.short)
            .env("VERSION", &release.version)
            .env("SOURCE_DATE_EPOCH", release.epoch_s.to_string());
        run_to_end(&mut nfpm).with_context(|| format!("no .{kind}"))?;
    }
    Ok(())
}
