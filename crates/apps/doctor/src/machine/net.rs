//! Addresses and network devices.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use super::tree::{Tree, ranges};

/// A network device with hardware behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Such as `eth0`.
    pub name: String,
    /// Hardware queues for arriving packets.
    pub rx_queues: u64,
    /// Whether the kernel spreads arriving packets over cores (`rps_cpus`).
    pub spread: bool,
    /// The cores that serve its interrupts; empty is unknown.
    pub irq_cpus: BTreeSet<u64>,
}

/// IPv4 addresses of this machine, loopback aside, from the routing trie: an address of ours is
/// a line `|-- ADDRESS` followed by `/32 host LOCAL`. Each appears in two tables.
pub(super) fn addresses(tree: &Tree) -> Option<u64> {
    let trie = tree.text("proc/net/fib_trie")?;
    let mut own = BTreeSet::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in trie.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse().ok();
        } else if line == "/32 host LOCAL" {
            own.extend(last.filter(|address| !address.is_loopback()));
        }
    }
    Some(own.len() as u64)
}

pub(super) fn links(tree: &Tree) -> Vec<Link> {
    let names = tree.names("sys/class/net");
    // Loopback, bridges and other devices made of software have no `device`.
    let names = names
        .into_iter()
        .filter(|name| tree.path(&device(name)).exists());
    names.map(|name| link(tree, name)).collect()
}

fn device(name: &str) -> String {
    format!("sys/class/net/{name}/device")
}

fn link(tree: &Tree, name: String) -> Link {
    let queues_dir = format!("sys/class/net/{name}/queues");
    let queues = tree.names(&queues_dir);
    let rx: Vec<&String> = queues
        .iter()
        .filter(|queue| queue.starts_with("rx-"))
        .collect();
    let spread = rx.iter().any(|queue| {
        let mask = tree
            .text(&format!("{queues_dir}/{queue}/rps_cpus"))
            .unwrap_or_default();
        mask.contains(|c: char| matches!(c, '1'..='9' | 'a'..='f'))
    });
    Link {
        rx_queues: rx.len() as u64,
        spread,
        irq_cpus: irq_cpus(tree, &name),
        name,
    }
}

/// A virtio device's interrupts belong to the PCI device above it.
fn irq_cpus(tree: &Tree, name: &str) -> BTreeSet<u64> {
    let device = device(name);
    let own = tree.names(&format!("{device}/msi_irqs"));
    let irqs = if own.is_empty() {
        tree.names(&format!("{device}/../msi_irqs"))
    } else {
        own
    };
    let cores = irqs.iter().filter_map(|irq| {
        let file = |name| tree.text(&format!("proc/irq/{irq}/{name}"));
        file("effective_affinity_list")
            .filter(|list| !list.trim().is_empty())
            .or_else(|| file("smp_affinity_list"))
    });
    let mut all = BTreeSet::new();
    for list in cores {
        for (first, last) in ranges(&list) {
            // No machine has more cores than this; a longer range is not a list of cores.
            all.extend(first..=last.min(first.saturating_add(8_192)));
        }
    }
    all
}
