//! Suggestions for misspelled names.

use throng_types::nearest;

use crate::layout::{Shape, sections, top_sections};

/// The message for a key that its section does not have.
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

/// The message for a section, or a value outside any, that no configuration has.
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

/// The warning about a variable that looks like one of ours.
pub(crate) fn unknown_variable(name: &str, known: &[String]) -> String {
    let hint = nearest(name, known.iter().map(String::as_str))
        .map_or_else(String::new, |meant| format!("; did you mean {meant}?"));
    format!("env {name} is no option and has no effect{hint}")
}

/// The message for a path of a flag that names no option.
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
