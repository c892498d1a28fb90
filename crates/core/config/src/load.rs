//! The layers: defaults, then Pushpin's file, the file, the environment, the flags.
//!
//! Each layer's value is checked even when a later layer overrides it, because a value
//! that is wrong today is a trap for the day when the override goes away.

use std::collections::BTreeSet;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::check::check;
use crate::config::Config;
use crate::kind::{Fault, Input};
use crate::layout::{
    element, settable, top_sections, unknown_option, unknown_path, unknown_top, unknown_variable,
};
use crate::options::{AppOptions, ChannelOptions};
use crate::pushpin;
use crate::section::{OptionSpec, Section, Sections, Shape};
use crate::sources::{
    ConfigFile, ConfigProblem, Loaded, Origin, Places, Sources, ValueOrigins, entry,
};

impl Config {
    /// Reads, merges and checks. A variable of no option is a warning, since the environment is
    /// shared.
    ///
    /// # Errors
    /// All problems at once, in the order of the file, then of the variables, then of the flags.
    /// Unknown options and flags are among them.
    pub fn load(sources: &Sources) -> Result<Loaded, Vec<ConfigProblem>> {
        let mut loader = Loader::new(sources);
        let beneath = { sources.pushpin.as_ref() }.map_or_else(Default::default, pushpin::read);
        loader.warnings.extend(beneath.warnings);
        loader.problems.extend(beneath.problems);
        loader.beneath = beneath.values;
        let mut config = Self::default();
        let table = loader.places.map(|places| places.parse());
        let table = table.unwrap_or_else(|| Ok(DeTable::new()));
        let file_is_sound = table.is_ok();
        let table = table.unwrap_or_else(|problems| {
            loader.problems.extend(problems);
            DeTable::new()
        });
        loader.fill(&table, &mut config);
        loader.unknown_variables();
        loader.unknown_flags();
        loader.resolve_permissions(&mut config);
        loader.empty_variables();
        let Loader {
            origins,
            failed,
            mut problems,
            mut warnings,
            ..
        } = loader;
        // The content of a broken file is unknown, so nothing is reported as missing.
        if file_is_sound {
            check(&config, &origins, &failed, &mut problems, &mut warnings);
        }
        if problems.is_empty() {
            let loaded = Loaded {
                config,
                origins,
                warnings,
            };
            return Ok(loaded);
        }
        // Missing options have no place in the file, and are easier to understand after the wrong
        // ones.
        problems.sort_by_key(|problem| (problem.origin == Origin::Default, problem.origin.clone()));
        Err(problems)
    }

    /// The file of Pushpin's and the folder of apps that these sources name, for the caller to read
    /// before [`Config::load`]; none also while the sources cannot be read.
    #[must_use]
    pub fn named_files(sources: &Sources) -> (Option<String>, Option<String>) {
        let mut loader = Loader::new(sources);
        let mut config = Self::default();
        let table = loader.places.map(|places| places.parse());
        if let Ok(table) = table.unwrap_or_else(|| Ok(DeTable::new())) {
            loader.fill(&table, &mut config);
        }
        let pushpin = config.grip.and_then(|grip| grip.pushpin_conf);
        (pushpin, config.pusher.apps_dir)
    }
}

struct Loader<'a> {
    sources: &'a Sources,
    places: Option<Places<'a>>,
    /// Values of a file below our own, in its order.
    beneath: Vec<pushpin::Value>,
    origins: ValueOrigins,
    /// Paths whose value was refused: checks across options leave them out.
    failed: BTreeSet<String>,
    problems: Vec<ConfigProblem>,
    warnings: Vec<String>,
}

impl<'a> Loader<'a> {
    fn new(sources: &'a Sources) -> Self {
        Self {
            sources,
            places: sources.file.as_ref().map(Places::new),
            beneath: Vec::new(),
            origins: ValueOrigins::default(),
            failed: BTreeSet::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        }
    }

    fn fill(&mut self, root: &DeTable<'_>, config: &mut Config) {
        self.unknown_sections(root);
        for sections in config.sections_mut() {
            let (shape, model) = sections.kind();
            let is_set = |spec: &OptionSpec| {
                self.variable(spec).is_some() || self.flag_values(spec).next().is_some()
            };
            let name = model.name();
            match shape {
                Shape::Repeated => self.repeated(root, name, name, sections),
                Shape::Optional
                    if entry(root, name).is_none() && !model.specs().iter().any(is_set) => {}
                Shape::Once | Shape::Optional => self.section(root, sections.add()),
            }
        }
        for file in &self.sources.apps {
            self.app_file(file, &mut config.apps);
        }
    }

    /// Adds the app of a file of its own.
    fn app_file(&mut self, file: &'a ConfigFile, apps: &mut Vec<AppOptions>) {
        let places = Places::new(file);
        let table = match places.parse() {
            Ok(table) => table,
            Err(problems) => return self.problems.extend(problems),
        };
        let path = element("app", apps.len());
        self.origins.0.insert(path.clone(), places.origin(0));
        let main = self.places.replace(places);
        self.take_table(&path, Shape::Repeated, &table, apps.add());
        self.places = main;
    }

    fn table<'t, 'i>(&mut self, parent: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
        let value = entry(parent, name)?;
        let message = match value.get_ref() {
            DeValue::Table(table) => return Some(table),
            DeValue::Array(_) => {
                format!("[{name}] can stand only once: write it in single brackets")
            }
            _ => format!("{name} is a section: write [{name}], and its options below it"),
        };
        self.file_problem(value, message);
        None
    }

    /// The sections that may stand several times; `key` in `parent` is `name` in the file.
    fn repeated(
        &mut self,
        parent: &DeTable<'_>,
        key: &str,
        name: &str,
        sections: &mut dyn Sections,
    ) {
        let Some(value) = entry(parent, key) else {
            return;
        };
        let DeValue::Array(items) = value.get_ref() else {
            let message =
                format!("{name} may stand several times: write it in double brackets, [[{name}]]");
            return self.file_problem(value, message);
        };
        let mut index = 0;
        for item in items.iter() {
            let DeValue::Table(table) = item.get_ref() else {
                let message =
                    format!("{name} is a section: write [[{name}]], and its options below it");
                self.file_problem(item, message);
                continue;
            };
            let path = element(name, index);
            index += 1;
            self.place(&path, item);
            self.take_table(&path, Shape::Repeated, table, sections.add());
        }
    }

    /// Fills a section that stands once from all layers, and the sections inside it from the file.
    fn section(&mut self, root: &DeTable<'_>, section: &mut dyn Section) {
        let name = section.name();
        let table = self.table(root, name);
        for spec in section.specs() {
            let path = spec.path();
            let values = self.beneath.iter().filter(|value| value.path == path);
            for value in values.cloned().collect::<Vec<_>>() {
                self.take_text(&spec, &value.text, value.origin, section);
            }
        }
        if let Some(table) = table {
            self.take_table(name, Shape::Once, table, section);
        }
        for spec in section.specs() {
            if let Some((name, value)) = self.variable(&spec) {
                let origin = Origin::Env(name.to_owned());
                self.take_text(&spec, value, origin, section);
            }
            let (names, values): (Vec<&str>, Vec<&str>) = self.flag_values(&spec).unzip();
            let value = match values.as_slice() {
                [] => continue,
                values if spec.list => values.join(","),
                [.., last] => (*last).to_owned(),
            };
            let flag = spec.flag_name(names.last().is_some_and(|name| name.starts_with("--")));
            self.take_text(&spec, &value, Origin::Flag(flag), section);
        }
        for (key, list) in section.lists_mut() {
            if let Some(table) = table {
                self.repeated(table, key, &format!("{name}.{key}"), list);
            }
        }
    }

    fn take_table(
        &mut self,
        path: &str,
        shape: Shape,
        table: &DeTable<'_>,
        section: &mut dyn Section,
    ) {
        let specs = section.specs();
        let inner: Vec<&str> = section.lists().iter().map(|(key, _)| *key).collect();
        for (key, value) in table {
            let name: &str = key.get_ref();
            if let Some(spec) = specs.iter().find(|spec| spec.key == name) {
                let option = format!("{path}.{name}");
                self.place(&option, value);
                let mut stored = section.set(name, &Input::Toml(value));
                // A relative path counts from the file's folder, not from where the command runs.
                if stored.is_ok()
                    && spec.rule.file
                    && let Some(folder) = self.folder()
                    && let Some(file) = value.get_ref().as_str()
                {
                    let file = folder.join(file).to_string_lossy().into_owned();
                    stored = section.set(name, &Input::Text(&file));
                }
                self.note(&option, stored);
            } else if !inner.contains(&name)
                && let Some(places) = self.places
            {
                let mut known: Vec<&str> = specs.iter().map(|spec| spec.key).collect();
                known.extend(&inner);
                let heading = shape.heading(section.name());
                let message = unknown_option(name, &heading, &known);
                self.problems.push(places.problem(&key.span(), message));
            }
        }
    }

    fn take_text(
        &mut self,
        spec: &OptionSpec,
        value: &str,
        origin: Origin,
        section: &mut dyn Section,
    ) {
        let path = spec.path();
        self.origins.0.insert(path.clone(), origin);
        let stored = section.set(spec.key, &Input::Text(value));
        self.note(&path, stored);
    }

    /// Turns a refusal into a problem at the place where the value stands.
    fn note(&mut self, path: &str, stored: Result<(), Fault>) {
        let Err(fault) = stored else { return };
        let origin = match (&fault.span, self.places) {
            (Some(span), Some(places)) => places.origin(span.start),
            _ => self.origins.get(path).clone(),
        };
        self.problems.push(ConfigProblem::new(
            origin,
            format!("{path}: {}", fault.message),
        ));
        self.failed.insert(path.to_owned());
    }

    fn place(&mut self, path: &str, value: &Spanned<DeValue<'_>>) {
        if let Some(places) = self.places {
            let origin = places.origin(value.span().start);
            self.origins.0.insert(path.to_owned(), origin);
        }
    }

    fn file_problem(&mut self, value: &Spanned<DeValue<'_>>, message: String) {
        if let Some(places) = self.places {
            self.problems.push(places.problem(&value.span(), message));
        }
    }

    fn unknown_sections(&mut self, root: &DeTable<'_>) {
        let Some(places) = self.places else { return };
        let known = top_sections();
        for (key, value) in root {
            let name: &str = key.get_ref();
            if known.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let is_section = match value.get_ref() {
                DeValue::Table(_) => true,
                DeValue::Array(items) => items.iter().any(|item| item.get_ref().is_table()),
                _ => false,
            };
            let message = unknown_top(name, is_section);
            self.problems.push(places.problem(&key.span(), message));
        }
    }

    fn variable(&self, spec: &OptionSpec) -> Option<(&'a str, &'a str)> {
        let wanted = spec.env();
        let mut variables = self.sources.env.iter();
        let (name, value) =
            variables.rfind(|(name, value)| *name == wanted && !value.is_empty())?;
        Some((name, value))
    }

    /// The flags that set an option, as they were written, and their values.
    fn flag_values(&self, spec: &OptionSpec) -> impl Iterator<Item = (&'a str, &'a str)> {
        let (path, own) = (spec.path(), spec.rule.flag);
        let flags = self.sources.flags.iter();
        let flags = flags.map(|(name, value)| (name.as_str(), value.as_str()));
        flags.filter(move |(name, _)| *name == path || own == Some(*name))
    }

    /// Other programs set variables with our prefix, so an unknown one is only a warning.
    fn unknown_variables(&mut self) {
        let specs = settable();
        let known: Vec<String> = specs.iter().map(OptionSpec::env).collect();
        for (name, _) in &self.sources.env {
            // Kubernetes announces a service named "throng" by the last two.
            let foreign = !name.starts_with("THRONG_")
                || name == "THRONG_CONFIG"
                || name.starts_with("THRONG_PORT")
                || name.starts_with("THRONG_SERVICE_");
            if !foreign && !known.contains(name) {
                self.warnings.push(unknown_variable(name, &known));
            }
        }
    }

    /// An empty variable counts as not set, but not where a key belongs: without its key a server
    /// would be open to everyone.
    fn empty_variables(&mut self) {
        for spec in settable() {
            let name = spec.env();
            let mut variables = self.sources.env.iter();
            let last = variables.rfind(|(set, _)| *set == name);
            if last.is_none_or(|(_, value)| !value.is_empty()) {
                continue;
            }
            if spec.closes() {
                let message = format!("{}: it is empty; give it a value or unset it", spec.path());
                self.problems
                    .push(ConfigProblem::new(Origin::Env(name), message));
            } else {
                let text = format!("env {name} is empty and counts as not set; unset it");
                self.warnings.push(text);
            }
        }
    }

    fn unknown_flags(&mut self) {
        let known: Vec<String> = settable().iter().map(OptionSpec::path).collect();
        for (path, _) in &self.sources.flags {
            if !known.contains(path) && settable().iter().all(|spec| spec.rule.flag != Some(path)) {
                let origin = Origin::Flag(format!("--set {path}"));
                self.problems
                    .push(ConfigProblem::new(origin, unknown_path(path, &known)));
            }
        }
    }

    /// Gives unset permissions the default of open mode.
    fn resolve_permissions(&self, config: &mut Config) {
        let open = config.unrestricted().to_string();
        let resolve = |path: &str, options: &mut ChannelOptions| {
            for spec in options.specs().iter().filter(|spec| spec.rule.permission) {
                if *self.origins.get(&format!("{path}.{}", spec.key)) == Origin::Default {
                    // Both words are good values.
                    let _ = options.set(spec.key, &Input::Text(&open));
                }
            }
        };
        resolve("channel", &mut config.channel);
        for (index, namespace) in config.namespaces.iter_mut().enumerate() {
            resolve(&element("namespace", index), &mut namespace.options);
        }
    }

    fn folder(&self) -> Option<&'a Path> {
        Path::new(&self.sources.file.as_ref()?.name).parent()
    }
}
