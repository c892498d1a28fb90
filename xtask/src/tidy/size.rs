//! The size of files: a long one needs a reason in `plan.toml`.

use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::plan::PLAN;
use crate::tree::Tree;

/// Most lines of a file without a reason.
const LINES_MAX: usize = 600;
/// Endings of what people write by hand.
const CODE: &[&str] = &[".rs", ".js", ".mjs", ".py", ".sh", ".css", ".html"];

/// Checks that long files have a reason, and reasons a long file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    unreasoned(tree, &PLAN.long_files)
}

fn unreasoned(tree: &Tree, reasons: &BTreeMap<String, String>) -> Vec<Finding> {
    let code = { tree.files.iter() }.filter(|file| CODE.iter().any(|end| file.path.ends_with(end)));
    let long: BTreeMap<&str, usize> = code
        .filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?.lines().count())))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .collect();
    let silent = long
        .iter()
        .filter(|(path, _)| !reasons.contains_key(**path));
    let silent = silent.map(|(path, lines)| {
        let message =
            format!("{lines} lines, above {LINES_MAX}: split it, or say why in plan.toml");
        Finding::new(*path, message)
    });
    let stale = reasons
        .keys()
        .filter(|path| !long.contains_key(path.as_str()));
    let stale = stale.map(|path| {
        let message = format!("{path} is short or gone: remove its reason");
        Finding::new("xtask/plan.toml", message)
    });
    silent.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::File;

    #[test]
    fn long_files_need_a_reason_and_reasons_a_long_file() {
        let found = |path: &str, lines: usize| {
            let mut tree = Tree::default();
            tree.files
                .push(File::new("a/t.py", "\n".repeat(lines).into_bytes()).unwrap());
            unreasoned(
                &tree,
                &BTreeMap::from([(path.to_owned(), "a table".to_owned())]),
            )
            .len()
        };
        assert_eq!(found("a/t.py", 601), 0);
        assert_eq!(found("a/t.py", 600), 1);
        assert_eq!(found("b.py", 601), 2);
    }
}
