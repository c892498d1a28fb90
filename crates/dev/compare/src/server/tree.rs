//! A process and its descendants, and what they used.

use std::fs;
use std::io;

use anyhow::{Context, Result};

pub(super) fn processes(root: u32) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may have ended since the folder was listed; it has no parent any more.
        if let Some(parent) = stat(pid).as_deref().and_then(parent) {
            parents.push((pid, parent));
        }
    }
    Ok(descendants(root, &parents))
}

fn stat(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// Field 4 of proc_pid_stat(5). Field 2 may hold spaces and parentheses, so counting starts behind
/// it.
fn parent(stat: &str) -> Option<u32> {
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn descendants(root: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut family = vec![root];
    let mut next = 0;
    while let Some(&pid) = family.get(next) {
        let children = parents.iter().filter(|(_, parent)| *parent == pid);
        family.extend(children.map(|(child, _)| *child));
        next += 1;
    }
    family
}

/// CPU time of a process, in µs.
///
/// The scheduler's own count is in nanoseconds, `stat` in ticks of 10 ms, and some of what is
/// measured here takes no more than a few of those. A kernel without the former gives the latter.
pub(super) fn cpu_us(pid: u32) -> Result<f64> {
    match scheduled_ns(pid) {
        Ok(Some(ns)) => Ok(ns as f64 / 1e3),
        Ok(None) => Ok(throng_sys::cpu::process_time(Some(pid))?.total_us() as f64),
        Err(error) => Err(error).context(format!("cannot read the CPU time of process {pid}")),
    }
}

/// The sum over the threads that live; None without scheduler statistics. The servers keep their
/// threads.
fn scheduled_ns(pid: u32) -> io::Result<Option<u64>> {
    let mut sum = None;
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let path = thread?.path().join("schedstat");
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        let ns: Option<u64> = text.split(' ').next().and_then(|field| field.parse().ok());
        sum = sum.unwrap_or(0_u64).checked_add(ns.unwrap_or(0));
    }
    Ok(sum.filter(|sum| 0 < *sum))
}

/// Number of times that threads of a process were switched away from the processor, voluntarily or
/// not (proc_pid_status(5)).
pub(super) fn switches(pid: u32) -> u64 {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return 0;
    };
    let status = threads.filter_map(|thread| {
        let path = thread.ok()?.path().join("status");
        fs::read_to_string(path).ok()
    });
    let of = |status: String| -> u64 {
        let lines = status
            .lines()
            .filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
        lines
            .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
            .sum()
    };
    status.map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parent_is_read_past_any_name() {
        for name in ["nginx", "a b", "a) R (b", ""] {
            let stat = format!("7 ({name}) S 5 7 7 0");
            assert_eq!(parent(&stat), Some(5), "{name:?}");
        }
        assert_eq!(parent("7 (x"), None);
        assert_eq!(parent("7 (x) S"), None);
    }

    #[test]
    fn grandchildren_belong_to_the_family() {
        let parents = [(2, 1), (3, 2), (4, 1), (5, 3), (6, 9)];
        let mut family = descendants(2, &parents);
        family.sort_unstable();
        assert_eq!(family, [2, 3, 5]);
        assert_eq!(descendants(8, &parents), [8]);
    }

    #[test]
    fn this_process_used_time() {
        let own = std::process::id();
        assert!(processes(own).unwrap().contains(&own));
        assert!(0.0 < cpu_us(own).unwrap());
        assert!(0 < switches(own));
    }
}
