//! `pushpin.conf` as a layer below our own file: each of its options that means something
//! here as the option that it stands for, and a sentence on each that has no effect.
//!
//! Owns: reading the INI text, and which option stands for which (`pushpin.txt`). Never: reads a
//! file, so `include` is told, not followed; the values are checked by the options that they are
//! for.

use std::path::Path;

use crate::kind::{Endpoint, ForwardedFor, TextKind as _};
use crate::sources::rows;
use crate::sources::{ConfigFile, ConfigProblem, Origin};

const OPTIONS: &str = include_str!("pushpin.txt");

#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// Path of our option, such as `listen.client`.
    pub(crate) path: &'static str,
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

#[derive(Default)]
pub(crate) struct Layer {
    /// In the order of the file; later ones win.
    pub(crate) values: Vec<Value>,
    pub(crate) problems: Vec<ConfigProblem>,
    pub(crate) warnings: Vec<String>,
}

enum Meaning {
    Set(String),
    /// As if the line were not there.
    Nothing,
    Unreadable,
    /// Not needed here, with the reason.
    Unused(&'static str),
    /// Clients or publishers would find a closed port.
    Refused(&'static str),
}

/// A line with an option and its value; both are the line where it has none.
struct Line<'a> {
    number: usize,
    option: String,
    value: Option<&'a str>,
}

/// Translates a file of Pushpin's. Options that nobody knows are told, not refused: old files carry
/// many.
pub(crate) fn read(file: &ConfigFile) -> Layer {
    let lines = lines(&file.text);
    let last = |option: &str| {
        let line = { lines.iter() }.rfind(|line| line.option == option);
        line.and_then(|line| line.value)
            .filter(|value| !value.is_empty())
    };
    let reader = Reader {
        folder: Path::new(&file.name)
            .parent()
            .unwrap_or_else(|| Path::new("")),
        offset: { last("global.port_offset") }.map_or(0, |offset| offset.parse().unwrap_or(0)),
        host: last("handler.push_in_http_addr").unwrap_or("127.0.0.1"),
    };
    let value = |option, path, text| Value {
        path,
        text,
        origin: Origin::Pushpin {
            name: file.name.clone(),
            option,
        },
    };
    let mut out = Layer::default();
    let defaults = rows::<3>(OPTIONS).filter_map(|[option, reading, path]| {
        let text = reading.strip_prefix("default")?.trim_start();
        Some(value(option, path, text.to_owned()))
    });
    out.values.extend(defaults);
    for line in &lines {
        let row = rows::<3>(OPTIONS).find(|[option, ..]| *option == line.option);
        let meaning = match (row, line.value) {
            (_, None) => Meaning::Unreadable,
            (None, _) => Meaning::Unused("nobody knows it"),
            (Some([_, reading, end]), Some(value)) => reader.read(reading, value, end),
        };
        let at = format!("{}:{}", file.name, line.number);
        let mut unused = |option: &str, reason: &str| {
            let text = format!("{at}: {option} has no effect: {reason}");
            out.warnings.push(text);
        };
        if let (Some([option, "specs", _]), Some(value)) = (row, line.value) {
            for spec in list(value).skip(1) {
                unused(
                    &format!("{option} ({spec})"),
                    "only the first SUB socket is used",
                );
            }
        }
        match (meaning, row) {
            (Meaning::Set(text), Some([option, _, path])) if !path.is_empty() => {
                out.values.push(value(option, path, text));
            }
            (Meaning::Set(_) | Meaning::Nothing, _) => {}
            (Meaning::Unreadable, _) => unused(&line.option, "it cannot be read"),
            (Meaning::Unused(reason), _) => unused(&line.option, reason),
            (Meaning::Refused(reason), _) => {
                let place = Origin::File {
                    name: file.name.clone(),
                    line: u32::try_from(line.number).unwrap_or(u32::MAX),
                    column: 1,
                };
                let option = &line.option;
                let message = format!("{option} is not supported: {reason}; take the line out");
                out.problems.push(ConfigProblem::new(place, message));
            }
        }
    }
    out
}

/// The lines that say something. `{libdir}` and the like stay as they are written.
fn lines(text: &str) -> Vec<Line<'_>> {
    let mut section = "";
    let mut all = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let heading = line.strip_prefix('[');
        if let Some(name) = heading.and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
            continue;
        }
        let (option, value) = match line.split_once('=') {
            Some((key, value)) => (format!("{section}.{}", key.trim()), Some(value)),
            None => (line.to_owned(), None),
        };
        all.push(Line {
            number: index + 1,
            option,
            value: value.map(|value| unquote(value.trim())),
        });
    }
    all
}

struct Reader<'f> {
    folder: &'f Path,
    /// Added to the ports of publishers.
    offset: u16,
    /// Address of the port for publishing.
    host: &'f str,
}

impl Reader<'_> {
    /// Reads a value as a row of the table says; `end` is its last cell.
    fn read(&self, reading: &str, value: &str, end: &'static str) -> Meaning {
        let number = value.parse::<u64>().ok();
        let set = |text: Option<String>| text.map_or(Meaning::Unreadable, Meaning::Set);
        match reading {
            "unused" => Meaning::Unused(end),
            "unused number" if number.is_some() => Meaning::Unused(end),
            "unused flag" if flag(value).is_some() => Meaning::Unused(end),
            "unused if off" if flag(value) == Some(false) => Meaning::Unused(end),
            "refused if on" if flag(value) == Some(true) => Meaning::Refused(end),
            "unused if off" | "refused if on" if flag(value).is_some() => Meaning::Nothing,
            "refused" if !value.is_empty() => Meaning::Refused(end),
            "json" if matches!(value, "json" | "tnetstring" | "") => {
                Meaning::Set((value == "json").to_string())
            }
            "offset" => set(value.parse::<u16>().ok().map(|offset| offset.to_string())),
            "number" => set(number.map(|number| number.to_string())),
            "s" | "ms" => set(number.map(|number| format!("{number}{reading}"))),
            "flag" => set(flag(value).map(|flag| flag.to_string())),
            // As if it were `true`: fields of other protocols are never set.
            "proto" if value == "proto-only" => Meaning::Set(true.to_string()),
            "proto" => set(flag(value).map(|flag| flag.to_string())),
            "forwarded" => set(ForwardedFor::parse(value).map(|rule| rule.to_string())),
            "levels" => set(level(value)),
            // Without a limit, if it is negative.
            "bound" => match value.parse::<i64>() {
                Ok(most) if (1..=i64::from(u32::MAX)).contains(&most) => {
                    Meaning::Set(most.to_string())
                }
                Ok(_) => Meaning::Nothing,
                Err(_) => Meaning::Unreadable,
            },
            "port" => set(value.parse().ok().map(|port| self.publish_address(port))),
            // An empty value switches the others off.
            _ if value.is_empty() => Meaning::Nothing,
            "text" => Meaning::Set(value.to_owned()),
            "file" => Meaning::Set(self.folder.join(value).display().to_string()),
            "addresses" => match list(value).map(address).collect::<Vec<_>>() {
                all if all.is_empty() => Meaning::Nothing,
                all => Meaning::Set(all.join(",")),
            },
            "specs" => list(value)
                .next()
                .map_or(Meaning::Nothing, |spec| self.read("zmq", spec, end)),
            "address" | "zmq" if value.starts_with("ipc:") || value.starts_with("inproc:") => {
                Meaning::Unused("only TCP addresses are supported")
            }
            "address" => Meaning::Set(address(value)),
            "zmq" => Meaning::Set(self.endpoint(value)),
            _ => Meaning::Unreadable,
        }
    }

    fn publish_address(&self, port: u16) -> String {
        let host = match self.host.contains(':') && !self.host.starts_with('[') {
            true => format!("[{}]", self.host),
            false => self.host.replace("localhost", "127.0.0.1"),
        };
        format!("{host}:{}", port.saturating_add(self.offset))
    }

    fn endpoint(&self, spec: &str) -> String {
        let text = spec.replace("//localhost:", "//127.0.0.1:");
        let text = text.replace("//*:", "//0.0.0.0:");
        match Endpoint::of(&text) {
            Some(mut at) => {
                at.set_port(at.port().saturating_add(self.offset));
                at.to_string()
            }
            // The check of the option reports what is wrong with it.
            None => text,
        }
    }
}

/// Reads `2`, or `proxy:3,handler:2`, of which the highest holds.
fn level(value: &str) -> Option<String> {
    let levels = value.split(',').map(|word| {
        let level = word.rsplit(':').next().unwrap_or_default();
        level.trim().parse::<u8>().ok()
    });
    let level = levels.collect::<Option<Vec<_>>>()?.into_iter().max()?;
    let names = ["error", "warn", "info"];
    Some(
        names
            .get(usize::from(level))
            .unwrap_or(&"debug")
            .to_string(),
    )
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    let words = value.split(',').map(|word| unquote(word.trim()));
    words.filter(|word| !word.is_empty())
}

fn flag(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" => Some(true),
        "false" | "0" | "" => Some(false),
        _ => None,
    }
}

fn unquote(value: &str) -> &str {
    let within = value
        .strip_prefix('"')
        .and_then(|value| value.strip_suffix('"'));
    within.unwrap_or(value)
}

/// A port as Pushpin takes it, alone or behind an address. Alone it is on all interfaces.
fn address(port: &str) -> String {
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("0.0.0.0:{port}")
    } else {
        port.replace("localhost:", "127.0.0.1:")
    }
}
