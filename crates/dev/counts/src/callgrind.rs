//! Runs this program under callgrind, and reads what that wrote.
//!
//! Callgrind writes its counts to a file of their own each time that the boundary between two
//! intervals is entered; the program prints the name of each interval. Allocations are the calls of
//! the allocator's functions.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::record::Counts;

/// Callgrind's options. Costs in other programs' functions, such as libc's, count too.
const OPTIONS: &[&str] = &[
    "--tool=callgrind",
    "--dump-before=*interval_boundary*",
    "--compress-strings=no",
    "--compress-pos=no",
    "-q",
];

/// The allocator keeps every small piece that was freed in the list of its size, so that what an
/// allocation costs does not depend on the gaps that earlier ones left.
const ALLOCATOR_SETTINGS: &str = "glibc.malloc.tcache_count=65535";

const ALLOCATORS: &[&str] = &[
    "malloc",
    "calloc",
    "realloc",
    "aligned_alloc",
    "posix_memalign",
];

/// Counts of each interval, in their order.
pub(crate) fn run(folder: &Path) -> Result<Vec<(String, Counts)>> {
    let _ = std::fs::remove_dir_all(folder);
    std::fs::create_dir_all(folder)?;
    let out = folder.join("out");
    let output = Command::new("valgrind")
        .args(OPTIONS)
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .arg("play")
        .env("GLIBC_TUNABLES", ALLOCATOR_SETTINGS)
        .output()
        .context("cannot run valgrind; it is a package of Debian's")?;
    if !output.status.success() {
        bail!(
            "the run failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let names = String::from_utf8(output.stdout)?;
    let mut all = Vec::new();
    for (n, line) in names.lines().enumerate() {
        let (name, times) = line.split_once('\t').context("an unknown line")?;
        if name == "-" {
            continue;
        }
        // The first dump is of what was before the first boundary.
        let path = folder.join(format!("out.{}", n + 2));
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("callgrind has not written {}", path.display()))?;
        let times: f64 = times.parse()?;
        let counts = read(&text)?;
        all.push((
            name.to_owned(),
            Counts {
                instructions: (counts.0 as f64 / times).round() as u64,
                allocations: counts.1 as f64 / times,
            },
        ));
    }
    ensure!(!all.is_empty(), "nothing was counted");
    Ok(all)
}

fn read(text: &str) -> Result<(u64, u64)> {
    let mut instructions = 0;
    let mut allocations = 0;
    let mut callee = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("cfn=") {
            callee = name;
        } else if let Some(calls) = line.strip_prefix("calls=")
            && ALLOCATORS.contains(&callee)
        {
            let count = calls.split(' ').next().unwrap_or_default();
            allocations += count.parse::<u64>()?;
        } else if let Some(totals) = line.strip_prefix("totals: ") {
            instructions = totals.trim().parse()?;
        }
    }
    ensure!(instructions > 0, "a dump without totals");
    Ok((instructions, allocations))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dump_has_totals_and_calls() {
        let text = "fn=a\n1 10\ncfn=malloc\ncalls=3 0\n1 90\ncfn=free\ncalls=7 0\n1 5\n\
                    fn=b\ncfn=realloc\ncalls=1 0\n2 9\ntotals: 1234\n";
        assert_eq!(read(text).unwrap(), (1234, 4));
        assert!(read("fn=a\n").is_err());
    }
}
