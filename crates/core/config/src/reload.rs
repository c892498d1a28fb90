//! A configuration read while a server runs: values that apply at once, and values that wait for
//! a restart.
//!
//! Never: reads files, or changes the server; the caller does both.
//!
//! Invariant: the result passed the checks as a whole, with the values that the server
//! keeps.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::check;
use crate::config::Config;
use crate::section::Shape;
use crate::sources::{ConfigProblem, Loaded, Origin};

#[derive(Clone, Debug)]
pub struct Renewal {
    pub config: Config,
    /// Paths of the options that differ from before; `namespace["chat"].history_size` is that of
    /// the namespace `chat`.
    pub changed: Vec<String>,
    /// Paths of the options whose new values wait for a restart.
    pub waiting: Vec<String>,
    /// Sentences on values that are allowed but probably not meant.
    pub warnings: Vec<String>,
}

/// Every value as TOML, by its path. Sections that repeat are told apart by their first option,
/// since their numbers change when one is put before them.
fn values(config: &Config) -> BTreeMap<String, Option<String>> {
    let mut all = BTreeMap::new();
    for (path, shape, section) in config.present() {
        let specs = section.specs();
        let name = specs.first().and_then(|spec| section.text(spec.key));
        let path = match (shape, name) {
            (Shape::Repeated, Some(name)) => format!("{}[{name}]", section.name()),
            _ => path,
        };
        for spec in specs {
            all.insert(format!("{path}.{}", spec.key), section.text(spec.key));
        }
    }
    all
}

fn differences(before: &Config, after: &Config) -> Vec<String> {
    let (before, after) = (values(before), values(after));
    let value = |of: &BTreeMap<_, Option<String>>, path: &str| of.get(path).cloned().flatten();
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let paths = paths.into_iter().cloned();
    paths
        .filter(|path| value(&before, path) != value(&after, path))
        .collect()
}

impl Loaded {
    /// Compares this with the configuration `running` of a server, and gives what it takes over.
    ///
    /// # Errors
    /// Problems of the values that would apply then, together with those that the server keeps.
    pub fn renew(self, running: &Config) -> Result<Renewal, Vec<ConfigProblem>> {
        let mut config = self.config.clone();
        config.keep_fixed(running);
        let mut problems = Vec::new();
        let mut warnings = Vec::new();
        check(
            &config,
            &self.origins,
            &BTreeSet::new(),
            &mut problems,
            &mut warnings,
        );
        if config.unrestricted() != self.config.unrestricted() {
            // Unset values were decided for the addresses in the file.
            problems.push(ConfigProblem::new(
                Origin::Default,
                "the addresses need a restart, and access without keys depends on them: restart, \
                 or restore the addresses",
            ));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Renewal {
            changed: differences(running, &config),
            waiting: differences(&config, &self.config),
            warnings: self.warnings,
            config,
        })
    }
}

impl Config {
    fn keep_fixed(&mut self, running: &Self) {
        self.keep(running);
        // The number of addresses and which they are is fixed at the start.
        self.feeds.clone_from(&running.feeds);
        // The presence of these sections, and their projects, are fixed at the start.
        self.appwrite.clone_from(&running.appwrite);
        if self.grip.is_some() != running.grip.is_some() {
            self.grip.clone_from(&running.grip);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ConfigFile, Sources};

    #[track_caller]
    fn load(text: &str) -> Loaded {
        let file = ConfigFile {
            name: "t.toml".to_owned(),
            text: text.to_owned(),
        };
        let sources = Sources {
            file: Some(file),
            ..Sources::default()
        };
        Config::load(&sources).unwrap()
    }

    const SECRET: &str = "hmac_secret = \"0123456789abcdef0123456789abcdef\"";

    #[test]
    fn what_changes_and_what_waits_is_told_by_its_path() {
        let running = load("[[namespace]]\nname = \"chat\"\nhistory_size = 1\n").config;
        // A section before the existing one changes its number, and no value of it.
        let new = load(
            "[listen]\nclient = [\"127.0.0.1:9\"]\n[[namespace]]\nname = \"a\"\n\
             [[namespace]]\nname = \"chat\"\nhistory_size = 2\n[grip]\ndebug = true\n",
        );
        let renewal = new.renew(&running).unwrap();
        let has = |list: &[String], path: &str| list.iter().any(|known| known == path);
        assert!(has(&renewal.changed, "namespace[\"chat\"].history_size"));
        assert!(has(&renewal.changed, "namespace[\"a\"].name"));
        assert!(!has(&renewal.changed, "namespace[\"chat\"].name"));
        assert!(has(&renewal.waiting, "listen.client") && has(&renewal.waiting, "grip.debug"));
        assert_eq!(renewal.config.listen, running.listen);
        assert_eq!(renewal.config.grip, None);
        assert_eq!(renewal.config.namespaces.len(), 2);
        // Nothing has changed.
        let same = load("[[namespace]]\nname = \"chat\"\nhistory_size = 1\n");
        let renewal = same.renew(&running).unwrap();
        assert_eq!((renewal.changed, renewal.waiting), (vec![], vec![]));
    }

    #[test]
    fn webhooks_come_and_go() {
        let hook =
            |secret| format!("[[webhook]]\nurl = \"http://h/\"\nsecret = \"whsec_{secret}\"\n");
        let (old, new) = (hook("A".repeat(32)), hook("B".repeat(32)));
        let renewal = load(&new).renew(&load(&old).config).unwrap();
        assert_eq!(renewal.changed, ["webhook[\"http://h/\"].secret"]);
        assert_eq!(
            (renewal.waiting, renewal.config.webhooks.len()),
            (vec![], 1)
        );
        let gone = load("").renew(&renewal.config).unwrap();
        assert!(gone.config.webhooks.is_empty() && gone.waiting.is_empty());
        let first = load(&new).renew(&gone.config).unwrap();
        assert!(first.config.webhooks.len() == 1 && first.waiting.is_empty());
    }

    #[test]
    fn keys_do_not_go_while_the_addresses_that_need_them_stay() {
        let open = "[listen]\nclient = [\"0.0.0.0:8000\"]\n";
        let running = load(&format!("{open}[auth]\n{SECRET}\napi_keys = [\"k\"]\n")).config;
        // Valid by itself, with the address that would apply after a restart.
        let problems = load("").renew(&running).unwrap_err();
        assert!(!problems.is_empty());
        let kept = load(&format!("[auth]\n{SECRET}\napi_keys = [\"k\"]\n"));
        let renewal = kept.renew(&running).unwrap();
        assert_eq!(renewal.waiting, ["listen.client"]);
    }
}
