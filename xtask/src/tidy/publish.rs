//! Finds what must not leave a private machine: its folders, and the mirrors that it downloads
//! from.

use crate::finding::Finding;
use crate::tree::Tree;

/// First folders that exist on one machine only. A leading `/` is added at run time, so that this
/// file does not contain what it looks for.
const PRIVATE_FOLDERS: &[&str] = &["home", "Users", "root", "work", "tmp"];

/// Hosts of the public registries, as label and domain (the label empty for the domain itself);
/// private mirrors are not among them. They are joined at run time, so that this file does not name
/// a registry's host either.
const PUBLIC_HOSTS: &[(&str, &str)] = &[
    ("", "github.com"),
    ("", "crates.io"),
    ("index", "crates.io"),
    ("static", "crates.io"),
    ("registry", "npmjs.org"),
    ("", "pypi.org"),
    ("files", "pythonhosted.org"),
    ("proxy", "golang.org"),
    ("deb", "debian.org"),
];

/// Endings and names of files in which every address is one that a package manager downloads from.
const PACKAGE_FILES: &[&str] = &[
    ".lock",
    "package-lock.json",
    ".npmrc",
    "pip.conf",
    ".cargo/config.toml",
    "go.sum",
    "sources.list",
];

/// Words that make an address on the same line one to download packages from.
const PACKAGE_WORDS: &[&str] = &[
    "index-url",
    "index_url",
    "--registry",
    "registry=",
    "npm_config_registry",
    "replace-with",
    "goproxy",
    "trusted-host",
];

/// Checks every text file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for (n, line) in file.text.iter().flat_map(|text| text.lines()).enumerate() {
            for message in line_faults(&file.path, line) {
                findings.push(Finding::at(&file.path, n + 1, message));
            }
        }
    }
    findings
}

fn line_faults(path: &str, line: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(found) = private_path(line) {
        faults.push(format!(
            "`{found}` is a folder of one machine: use a relative path or a temporary folder"
        ));
    }
    if names_packages(path, line) {
        faults.extend(hosts(line).filter(|host| !is_public(host)).map(|host| {
            format!(
                "downloads from {host}, which is not a public registry (xtask/src/tidy/publish.rs)"
            )
        }));
    }
    faults
}

fn is_public(host: &str) -> bool {
    PUBLIC_HOSTS.iter().any(|(label, domain)| {
        let before = host.strip_suffix(domain);
        before.is_some_and(|before| match before.strip_suffix('.') {
            Some(found) => !label.is_empty() && found == *label,
            None => label.is_empty() && before.is_empty(),
        })
    })
}

/// The first absolute path below a private folder.
fn private_path(line: &str) -> Option<&str> {
    line.match_indices('/').find_map(|(at, _)| {
        // `a/b`, `./b`, `~/b`, `${X}/b` and `//b` are no absolute paths.
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || "/._-~})>*".contains(c)) {
            return None;
        }
        let rest = &line[at + 1..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric())?;
        let (first, after) = rest.split_at(end);
        // An address such as `/work?x` is a route; a folder goes on with a name.
        let goes_on = after
            .strip_prefix('/')
            .is_some_and(|name| name.starts_with(|c: char| c.is_alphanumeric() || c == '.'));
        (PRIVATE_FOLDERS.contains(&first) && goes_on).then(|| &line[at..at + 2 + end])
    })
}

fn names_packages(path: &str, line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    PACKAGE_FILES.iter().any(|ending| path.ends_with(ending))
        || PACKAGE_WORDS.iter().any(|word| line.contains(word))
}

/// The hosts of the addresses on a line, without user and port.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).map(|rest| {
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || ".-_@:[]".contains(c)))
            .unwrap_or(rest.len());
        let authority = &rest[..end];
        let host = authority.rsplit('@').next().unwrap_or(authority);
        host.split(':').next().unwrap_or(host)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, line: &str) -> usize {
        line_faults(path, line).len()
    }

    #[test]
    fn folders_of_one_machine_are_found() {
        for folder in PRIVATE_FOLDERS {
            for line in [
                format!("cd /{folder}/someone"),
                format!("\"/{folder}/x\""),
                format!("--config=/{folder}/a.toml"),
                format!("file:/{folder}/a"),
            ] {
                assert_eq!(found("a.md", &line), 1, "{line}");
            }
            for line in [
                format!("see docs/{folder}/x"),
                format!("https://example.com/{folder}/x"),
                format!("$HOME/{folder}/x"),
                format!("GET /{folder}?x"),
                format!("/{folder}"),
            ] {
                assert_eq!(found("a.md", &line), 0, "{line}");
            }
        }
        assert_eq!(
            found("a.md", "/etc/throng/throng.toml and /var/lib/throng"),
            0
        );
    }

    #[test]
    fn mirrors_are_found_where_packages_are_named() {
        let mirror = "https://user:pw@mirror.example:8443/simple";
        assert_eq!(
            found(
                "web/package-lock.json",
                &format!("\"resolved\": \"{mirror}\"")
            ),
            1
        );
        assert_eq!(
            found("Cargo.lock", &format!("source = \"registry+{mirror}\"")),
            1
        );
        assert_eq!(
            found("setup.sh", &format!("pip install --index-url {mirror} x")),
            1
        );
        assert_eq!(found("docs/a.md", &format!("curl {mirror}")), 0);
        for (label, domain) in PUBLIC_HOSTS {
            let dot = if label.is_empty() { "" } else { "." };
            let resolved =
                |host: &str| format!("\"resolved\": \"https://{host}/ws/-/ws-8.0.0.tgz\"");
            let public = resolved(&format!("{label}{dot}{domain}"));
            assert_eq!(found("web/package-lock.json", &public), 0, "{public}");
            let stranger = resolved(&format!("not-{label}{dot}{domain}"));
            assert_eq!(found("web/package-lock.json", &stranger), 1, "{stranger}");
        }
        let index = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
        assert_eq!(found("Cargo.lock", index), 0);
    }
}
