//! Sections of a configuration, in the order in which people read them, and what was meant by names
//! that are none.

use throng_types::nearest;

use crate::config::Config;
use crate::section::{OptionSpec, Section, Sections, Shape};

/// A section of every kind with its defaults, each before those that it has inside.
pub(crate) fn sections() -> Vec<(Shape, Box<dyn Section>)> {
    let mut all = Vec::new();
    for sections in Config::default().sections() {
        let (shape, section) = sections.kind();
        let inner: Vec<_> = section
            .lists()
            .iter()
            .map(|(_, list)| list.kind())
            .collect();
        all.push((shape, section));
        all.extend(inner);
    }
    all
}

/// The headings of the sections that stand at the top of a file, by name.
pub(crate) fn top_sections() -> Vec<(&'static str, Shape)> {
    sections()
        .into_iter()
        .map(|(shape, section)| (section.name(), shape))
        .filter(|(name, _)| !name.contains('.'))
        .collect()
}

/// The options that variables and flags can set: those of sections that stand once.
pub(crate) fn settable() -> Vec<OptionSpec> {
    sections()
        .into_iter()
        .filter(|(shape, _)| *shape != Shape::Repeated)
        .flat_map(|(_, section)| section.specs())
        .collect()
}

macro_rules! layout {
    ($($sections:ident)+) => {
        impl Config {
            pub(crate) fn sections(&self) -> Vec<&dyn Sections> {
                vec![$(&self.$sections),+]
            }

            pub(crate) fn sections_mut(&mut self) -> Vec<&mut dyn Sections> {
                vec![$(&mut self.$sections),+]
            }

            /// Takes what only a restart changes from the running configuration.
            pub(crate) fn keep(&mut self, running: &Self) {
                $(self.$sections.keep(&running.$sections);)+
            }
        }
    };
}

layout! {
    listen tls engine limits websocket stream auth drain broker history channel namespaces feeds log
    trace oidc proxy appwrite grip pusher apps webhooks
}

impl Config {
    /// Every section that is there, with the prefix of its values' paths, in reading order.
    pub(crate) fn present(&self) -> Vec<(String, Shape, &dyn Section)> {
        fn add<'a>(sections: &'a dyn Sections, all: &mut Vec<(String, Shape, &'a dyn Section)>) {
            let (shape, _) = sections.kind();
            for (index, section) in sections.all().into_iter().enumerate() {
                let path = match shape {
                    Shape::Repeated => element(section.name(), index),
                    Shape::Once | Shape::Optional => section.name().to_owned(),
                };
                all.push((path, shape, section));
                for (_, list) in section.lists() {
                    add(list, all);
                }
            }
        }
        let mut all = Vec::new();
        for sections in self.sections() {
            add(sections, &mut all);
        }
        all
    }
}

/// The path of one of several sections with one name: `namespace[0]`.
pub(crate) fn element(name: &str, index: usize) -> String {
    format!("{name}[{index}]")
}

pub(crate) fn unknown_option(key: &str, heading: &str, known: &[&str]) -> String {
    let start = format!("unknown option {key:?} in {heading}");
    if let Some(meant) = nearest(key, known.iter().copied()) {
        return format!("{start}: did you mean {meant:?}?");
    }
    match home_of(key) {
        Some(home) => format!("{start}: it belongs in {home}"),
        None => format!("{start}: the options there are {}", known.join(", ")),
    }
}

pub(crate) fn unknown_top(key: &str, is_section: bool) -> String {
    let known = top_sections();
    let start = if is_section {
        format!("unknown section {key:?}")
    } else {
        format!("unknown option {key:?} outside any section")
    };
    if !is_section && let Some(home) = home_of(key) {
        return format!("{start}: put it under {home}");
    }
    if let Some(meant) = nearest(key, known.iter().map(|(name, _)| *name)) {
        return format!("{start}: did you mean {}?", heading_of(meant, &known));
    }
    let names: Vec<String> = known
        .iter()
        .map(|(name, shape)| shape.heading(name))
        .collect();
    format!("{start}: the sections are {}", names.join(", "))
}

pub(crate) fn unknown_variable(name: &str, known: &[String]) -> String {
    let hint = nearest(name, known.iter().map(String::as_str))
        .map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    format!("env {name} is no option and has no effect{hint}")
}

pub(crate) fn unknown_path(path: &str, known: &[String]) -> String {
    let hint = nearest(path, known.iter().map(String::as_str)).map_or_else(
        || "`throng config show` lists the options".to_owned(),
        |meant| format!("did you mean {meant:?}?"),
    );
    format!("unknown option {path:?}: {hint}")
}

fn heading_of(name: &str, known: &[(&str, Shape)]) -> String {
    let found = known.iter().find(|(other, _)| *other == name);
    found.map_or_else(|| format!("[{name}]"), |(name, shape)| shape.heading(name))
}

/// The heading of the only section that has a key, or the first of several.
fn home_of(key: &str) -> Option<String> {
    let all = sections();
    let (shape, section) = all
        .iter()
        .find(|(_, section)| section.specs().iter().any(|spec| spec.key == key))?;
    Some(shape.heading(section.name()))
}
