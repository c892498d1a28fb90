//! Machines made of files, from `fixtures/machines.txt`.

use std::path::Path;
use std::sync::LazyLock;

use tempfile::TempDir;

/// Paths below the root, with their contents.
type Layer = Vec<(&'static str, &'static str)>;

static MACHINES: LazyLock<[Layer; 3]> = LazyLock::new(|| {
    let machines = include_str!("../fixtures/machines.txt")
        .split("\n[")
        .skip(1);
    let layers: Vec<Layer> = machines.map(layer).collect();
    layers.try_into().expect("three machines")
});

fn layer(text: &'static str) -> Layer {
    let lines = text
        .lines()
        .skip(1)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let unescaped = |text: &str| &*text.replace("\\n", "\n").replace("\\t", "\t").leak();
    let file = |line: &'static str| {
        let (path, text) = line.split_once(' ').unwrap_or((line, ""));
        (path, unescaped(text))
    };
    lines.map(file).collect()
}

/// Machine as distributions ship it, two cores and 4 GiB, with connection tracking loaded.
pub(crate) fn stock() -> &'static [(&'static str, &'static str)] {
    &MACHINES[0]
}

/// Files of a tuned machine of 24 cores and 64 GiB, over those of the stock one.
pub(crate) fn tuned() -> &'static [(&'static str, &'static str)] {
    &MACHINES[1]
}

/// Files that a container sees: its own limits and group, little else.
pub(crate) fn container() -> &'static [(&'static str, &'static str)] {
    &MACHINES[2]
}

/// Makes a tree of `layers`, later ones over earlier ones.
pub(crate) fn tree(layers: &[&[(&str, &str)]]) -> TempDir {
    let root = tempfile::tempdir().expect("a directory for a fixture");
    for (path, text) in layers.iter().copied().flatten() {
        put(root.path(), path, text);
    }
    root
}

/// Writes a file of a tree.
pub(crate) fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().expect("a file in a tree")).expect("a directory");
    std::fs::write(path, text).expect("a file");
}

/// Reads a file of a tree, if it is there.
pub(crate) fn get(root: &Path, path: &str) -> Option<String> {
    std::fs::read_to_string(root.join(path)).ok()
}
