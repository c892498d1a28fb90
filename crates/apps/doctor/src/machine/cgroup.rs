//! Memory limits of control groups, versions 1 and 2.

use super::tree::Tree;

/// The memory limit of one control group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// The file that sets it, such as `memory.max`.
    pub file: &'static str,
    /// The group, as the kernel names it.
    pub path: String,
    /// The limit. Socket buffers and sockets count against it.
    pub limit_bytes: u64,
    /// What is in use and cannot be dropped.
    pub used_bytes: u64,
}

impl GroupMemory {
    /// What may still be taken.
    #[must_use]
    pub const fn free_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// A hierarchy's file names.
struct Version {
    mount: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The field of `memory.stat` that counts pages of files not used lately, which the kernel
    /// drops before it refuses memory.
    droppable: &'static str,
}

const V2: Version = Version {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    droppable: "inactive_file ",
};

const V1: Version = Version {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    droppable: "total_inactive_file ",
};

/// Version 1 writes "no limit" as the largest page-aligned number.
const V1_UNLIMITED: u64 = 1 << 62;

/// The group with the least free memory on the way from the process up to the root.
pub(super) fn tightest(tree: &Tree, process: &str) -> Option<GroupMemory> {
    let groups = tree.text(&format!("proc/{process}/cgroup"))?;
    groups
        .lines()
        .filter_map(|line| parse_line(line))
        .fold(None, |best, (version, path)| {
            walk(tree, version, path)
                .chain(best)
                .min_by_key(GroupMemory::free_bytes)
        })
}

/// A line `hierarchy:controllers:path` of cgroups(7); version 2 has no controllers.
fn parse_line(line: &str) -> Option<(&'static Version, &str)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    if controllers.is_empty() {
        Some((&V2, path))
    } else if controllers.split(',').any(|name| name == "memory") {
        Some((&V1, path))
    } else {
        None
    }
}

/// Inside a container the path may be the host's while the mount shows the group itself as its
/// root: groups that do not exist below the mount are passed over.
fn walk<'a>(
    tree: &'a Tree,
    version: &'static Version,
    path: &'a str,
) -> impl Iterator<Item = GroupMemory> + use<'a> {
    std::iter::successors(Some(path.trim_end_matches('/')), |path| {
        path.rsplit_once('/').map(|(parent, _)| parent)
    })
    .filter_map(move |path| read(tree, version, path))
}

fn read(tree: &Tree, version: &'static Version, path: &str) -> Option<GroupMemory> {
    // A path of a group outside the namespace starts with "/..": not ours to follow.
    if path.split('/').any(|part| part == "..") {
        return None;
    }
    let dir = format!("{}{path}", version.mount);
    let limit_bytes = tree.number(&format!("{dir}/{}", version.limit))?;
    if V1_UNLIMITED <= limit_bytes {
        return None;
    }
    let used = tree.number(&format!("{dir}/{}", version.used)).unwrap_or(0);
    let stat = tree.text(&format!("{dir}/memory.stat")).unwrap_or_default();
    let droppable: u64 = stat
        .lines()
        .find_map(|line| line.strip_prefix(version.droppable)?.trim().parse().ok())
        .unwrap_or(0);
    Some(GroupMemory {
        file: version.limit,
        path: if path.is_empty() {
            String::from("/")
        } else {
            path.to_owned()
        },
        limit_bytes,
        used_bytes: used.saturating_sub(droppable),
    })
}
