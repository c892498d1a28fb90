//! Description of this machine for the manifest. Reads `/proc`; unreadable facts are left out.

use throng_bench_report::{LimitSetting, MachineInfo};

/// Kernel settings that a run's figures depend on.
const SETTINGS: [(&str, &str); 9] = [
    ("file-max", "fs/file-max"),
    ("nr_open", "fs/nr_open"),
    ("ip_local_port_range", "net/ipv4/ip_local_port_range"),
    ("tcp_mem", "net/ipv4/tcp_mem"),
    ("tcp_rmem", "net/ipv4/tcp_rmem"),
    ("tcp_wmem", "net/ipv4/tcp_wmem"),
    ("tcp_tw_reuse", "net/ipv4/tcp_tw_reuse"),
    ("somaxconn", "net/core/somaxconn"),
    ("nf_conntrack_max", "net/netfilter/nf_conntrack_max"),
];

pub(crate) fn describe(role: &str) -> MachineInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let line = |path: &str| read(path).split_whitespace().collect::<Vec<_>>().join(" ");
    let nofile = throng_sys::limits::nofile();
    let mut limits = vec![LimitSetting {
        name: "nofile".into(),
        value: format!("{} {}", nofile.soft, nofile.hard),
    }];
    for (name, path) in SETTINGS {
        let value = line(&format!("/proc/sys/{path}"));
        if !value.is_empty() {
            limits.push(LimitSetting {
                name: name.into(),
                value,
            });
        }
    }
    let cpuinfo = read("/proc/cpuinfo");
    let cpu_model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or_else(String::new, |(_, model)| model.trim().to_owned());
    MachineInfo {
        name: line("/proc/sys/kernel/hostname"),
        role: role.to_owned(),
        kernel: format!(
            "{} {}",
            line("/proc/sys/kernel/ostype"),
            line("/proc/sys/kernel/osrelease")
        ),
        cpu_model,
        cpus: throng_sys::cpu::count() as u32,
        memory_bytes: throng_sys::memory::system().total_bytes.unwrap_or(0),
        limits,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_processors_and_limits() {
        let machine = describe("controller");
        assert!(machine.kernel.starts_with("Linux "), "{}", machine.kernel);
        assert!(machine.cpus > 0 && machine.memory_bytes > 0);
        assert!(machine.limits.iter().any(|limit| limit.name == "nofile"));
    }
}
