//! What the figures were measured on.

use std::process::Command;

use anyhow::Result;
use serde::Serialize;

use crate::cache::{self, output};

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    date: String,
    processor: String,
    cores: usize,
    memory_bytes: Option<u64>,
    kernel: String,
    commit: String,
}

impl Machine {
    pub(crate) fn read() -> Result<Self> {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo")?;
        Ok(Self {
            date: output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?,
            processor: processor(&cpuinfo).to_owned(),
            cores: throng_sys::cpu::count(),
            memory_bytes: throng_sys::memory::system().total_bytes,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease")?
                .trim()
                .to_owned(),
            commit: commit(),
        })
    }

    pub(crate) fn sentence(&self) -> String {
        let memory = self.memory_bytes.map_or_else(String::new, |bytes| {
            format!(", {} GiB", (bytes + (1 << 29)) >> 30)
        });
        format!(
            "{}: {} cores of {}{memory}, Linux {}; Throng at commit {}.",
            self.date, self.cores, self.processor, self.kernel, self.commit
        )
    }
}

/// The first processor's name; architectures without one have at least that.
fn processor(cpuinfo: &str) -> &str {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == "model name")
        .map_or(std::env::consts::ARCH, |(_, value)| value.trim())
}

fn commit() -> String {
    let describe = ["describe", "--always", "--dirty", "--exclude=*"];
    output(
        Command::new("git")
            .current_dir(cache::checkout())
            .args(describe),
    )
    .unwrap_or_else(|_| String::from("unknown"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_found_by_its_name() {
        let text = "processor\t: 0\nmodel name\t: A Chip @ 3 GHz\n\nmodel name\t: B\n";
        assert_eq!(processor(text), "A Chip @ 3 GHz");
        assert_eq!(processor("processor : 0\n"), std::env::consts::ARCH);
    }
}
