//! Masking of secrets in texts that are shown and kept: keys, tokens, cookies and passwords.
//!
//! Owns: the rules for secrets. A scenario and a command line are shown, written into results
//! and reports and handed on with them; the server's keys must not travel along. Never: changes
//! the run.
//!
//! A secret is found by its name (a query parameter, a JSON member, a flag), by its shape (a JWT, a
//! user name in a URL), and in every other text that has a secret found so. Headers have whatever
//! name somebody gave them, so their values are secrets but for those of [`HARMLESS`] ones.

use serde_json::Value;

use crate::{ClientTransport, Data, Dialect, Scenario};

pub const MASK: &str = "***";

/// Parts of names whose values are secrets, in lower case and without `-` and `_`.
const NAMES: &str = "apikey authorization cookie credential jwt passphrase password privatekey \
                     secret signature token";

/// Names that are secrets only when they stand alone.
const WHOLE_NAMES: [&str; 4] = ["auth", "key", "pass", "sig"];

/// Headers whose values say nothing about who somebody is, in lower case.
const HARMLESS: &str = "accept accept-encoding accept-language cache-control connection \
                        content-encoding content-length content-type date dnt expect host \
                        keep-alive last-event-id origin pragma range sec-websocket-extensions \
                        sec-websocket-version te transfer-encoding upgrade user-agent via";

/// Flags whose values are header lines.
const HEADER_FLAGS: [&str; 2] = ["header", "publish-header"];

/// A secret shorter than this is masked where its name stands, but not looked for elsewhere.
const VALUE_BYTES_MIN: usize = 6;

/// Secrets of one run, and their removal from texts.
#[derive(Debug, Default)]
pub struct Redactor {
    // The longest first, since one may be part of another.
    values: Vec<String>,
}

impl Redactor {
    /// Finds the secrets of a scenario and of the command line that made it.
    pub fn new(scenario: &Scenario, command: &[String]) -> Self {
        let mut values = Vec::new();
        let unknown = Self::default();
        // A scenario becomes JSON without fail.
        if let Ok(mut value) = serde_json::to_value(bare(scenario)) {
            unknown.mask_value(&mut value, &mut values);
        }
        if let Some(data) = &scenario.data {
            for (at, name) in data.columns().iter().enumerate() {
                if is_secret(name) {
                    values.extend(data.cells_of(at).map(str::to_owned));
                }
            }
        }
        mask_command(command, &mut values);
        values.retain(|value| value.len() >= VALUE_BYTES_MIN && !value.contains(MASK));
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.dedup();
        Self { values }
    }

    pub fn text(&self, text: &str) -> String {
        self.mask_text(text, &mut Vec::new())
    }

    fn mask_text(&self, text: &str, found: &mut Vec<String>) -> String {
        let mut known = text.to_owned();
        for value in &self.values {
            // Data may bring many, and texts are short.
            if known.contains(value.as_str()) {
                known = known.replace(value.as_str(), MASK);
            }
        }
        mask_text(&known, found)
    }

    /// Masks secrets in members, headers and texts; appends each to `found`.
    fn mask_value(&self, value: &mut Value, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    match member {
                        Value::String(text) if is_secret(name) => hide(text, found),
                        Value::Array(headers) if name == "headers" => {
                            headers
                                .iter_mut()
                                .for_each(|header| hide_header(header, found));
                            self.mask_value(member, found);
                        }
                        other => self.mask_value(other, found),
                    }
                }
            }
            Value::Array(items) => {
                items
                    .iter_mut()
                    .for_each(|item| self.mask_value(item, found));
            }
            Value::String(text) => *text = self.mask_text(text, found),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    pub fn command(&self, command: &[String]) -> Vec<String> {
        let masked = mask_command(command, &mut Vec::new());
        masked.iter().map(|word| self.text(word)).collect()
    }

    /// Copies a scenario without its secrets and the rows of its data; it cannot be run again.
    pub fn scenario(&self, scenario: &Scenario) -> Scenario {
        let masked = serde_json::to_value(bare(scenario)).and_then(|mut value| {
            self.mask_value(&mut value, &mut Vec::new());
            serde_json::from_value(value)
        });
        masked.unwrap_or_else(|_| {
            // A secret that is also a word of the scenario's own; so it goes without its texts.
            let plain = ClientTransport::websocket(Dialect::Plain);
            Scenario {
                clients: scenario.clients,
                ..Scenario::new(scenario.kind.clone(), Vec::new(), plain)
            }
        })
    }
}

fn bare(scenario: &Scenario) -> Scenario {
    Scenario {
        data: scenario.data.as_ref().map(Data::without_rows),
        ..scenario.clone()
    }
}

fn is_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .flat_map(char::to_lowercase)
        .collect();
    WHOLE_NAMES.contains(&plain.as_str()) || NAMES.split(' ').any(|part| plain.contains(part))
}

/// Replaces a whole value, and appends it to `found`; the scheme of `Authorization` is not part of
/// the secret.
fn hide(text: &mut String, found: &mut Vec<String>) {
    if let Some((_, credentials)) = text.split_once(' ') {
        found.push(credentials.to_owned());
    }
    found.push(std::mem::replace(text, MASK.to_owned()));
}

fn is_harmless(header: &str) -> bool {
    HARMLESS
        .split(' ')
        .any(|known| known.eq_ignore_ascii_case(header))
}

/// Hides the value of a pair of texts, name and value.
fn hide_header(header: &mut Value, found: &mut Vec<String>) {
    if let Some([Value::String(name), Value::String(text)]) =
        header.as_array_mut().map(|it| &mut it[..])
        && !is_harmless(name)
    {
        hide(text, found);
    }
}

fn mask_command(command: &[String], found: &mut Vec<String>) -> Vec<String> {
    let (mut is_value, mut is_header) = (false, false);
    command
        .iter()
        .map(|word| {
            let mut word = word.clone();
            if std::mem::take(&mut is_value) {
                hide(&mut word, found);
                return word;
            }
            if std::mem::take(&mut is_header) {
                return masked_line(&word, found);
            }
            let flag = word.strip_prefix("--").map(str::to_owned);
            match flag.as_deref().map(|flag| flag.split_once('=')) {
                Some(Some((name, value))) if is_secret(name) => {
                    let mut value = value.to_owned();
                    hide(&mut value, found);
                    format!("--{name}={value}")
                }
                Some(Some((name, line))) if HEADER_FLAGS.contains(&name) => {
                    format!("--{name}={}", masked_line(line, found))
                }
                Some(None) if HEADER_FLAGS.contains(&flag.as_deref().unwrap_or_default()) => {
                    is_header = true;
                    word
                }
                Some(None) if is_secret(flag.as_deref().unwrap_or_default()) => {
                    is_value = true;
                    word
                }
                _ => mask_text(&word, found),
            }
        })
        .collect()
}

/// Masks the value of a header line.
fn masked_line(line: &str, found: &mut Vec<String>) -> String {
    match line.split_once(':') {
        Some((name, value)) if !is_harmless(name.trim()) => {
            hide(&mut value.trim().to_owned(), found);
            format!("{name}: {MASK}")
        }
        _ => mask_text(line, found),
    }
}

/// Masks the text behind a secret name and `=` or `:` (in a query, a header line, a piece of JSON),
/// user names in URLs, and JWTs.
fn mask_text(text: &str, found: &mut Vec<String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word_bytes = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_bytes);
        if word.is_empty() {
            out.push(first);
            rest = &rest[first.len_utf8()..];
            if first == ':'
                && let Some(after) = rest.strip_prefix("//")
                && let Some(at) = after.find(['/', '?', '#', ' ', '@', '"'])
                && after[at..].starts_with('@')
            {
                found.push(after[..at].to_owned());
                out.push_str("//");
                out.push_str(MASK);
                rest = &after[at..];
            }
            continue;
        }
        rest = after;
        if is_jwt(word) {
            found.push(word.to_owned());
            out.push_str(MASK);
            continue;
        }
        out.push_str(word);
        // Members of JSON within JSON have their quotes escaped.
        let name = word.rsplit('.').next().unwrap_or(word);
        // A line of a head that is written out, as the first message of a raw connection.
        let before = out.strip_suffix(word).unwrap_or_default();
        let begins_line = before.ends_with('\n') || before.ends_with("\\n");
        let is_header = begins_line && after.starts_with(": ") && !is_harmless(word);
        if (is_secret(name) || is_header)
            && let Some((between, value)) = value_behind(after)
        {
            out.push_str(&after[..between]);
            if !value.is_empty() {
                hide(&mut value.to_owned(), found);
                out.push_str(MASK);
            }
            rest = &after[between + value.len()..];
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')
}

/// Three parts in Base64, the first of which begins like a JSON object (RFC 7519 section 3.1).
fn is_jwt(word: &str) -> bool {
    word.starts_with("eyJ") && word.split('.').count() == 3
}

/// Finds the value behind a name; also returns the number of bytes before it.
fn value_behind(after: &str) -> Option<(usize, &str)> {
    let quote = ["\\\"", "\"", "'"];
    let unquoted = |text: &'_ str| {
        quote
            .iter()
            .find_map(|quote| Some(text.strip_prefix(quote)?.len()))
    };
    let mut at = after.len() - unquoted(after).unwrap_or(after.len());
    let separator = after[at..]
        .chars()
        .next()
        .filter(|c| matches!(c, '=' | ':'))?;
    at += 1;
    at += after[at..].len() - after[at..].trim_start_matches(' ').len();
    let value = &after[at..];
    if let Some(inner) = unquoted(value) {
        at = after.len() - inner;
        let value = &after[at..];
        let end = value.find(['"', '\'', '\\']).unwrap_or(value.len());
        return Some((at, &value[..end]));
    }
    let ends: &[char] = if separator == '=' {
        &['&', '#', ';', '"', '\'', '\\', ' ', '\r', '\n']
    } else {
        &['"', '\'', '\\', '\r', '\n']
    };
    let end = value.find(ends).unwrap_or(value.len());
    Some((at, &value[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClientTransport, Dialect, Target, Via, Workload};

    #[test]
    fn a_command_line_loses_its_secrets() {
        let command = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let line = "throng bench fan-out --api-key s3cret-a --agents-token=s3cret-b --rate 5 x";
        let redactor = Redactor::new(&scenario(), &command(line));
        assert_eq!(
            redactor.command(&command(line)).join(" "),
            "throng bench fan-out --api-key *** --agents-token=*** --rate 5 x"
        );
        // A server that repeats a secret gives nothing away.
        assert_eq!(
            redactor.text("3 × unknown key s3cret-a"),
            "3 × unknown key ***"
        );
        let words = [
            "--header",
            "X-Who: s3cret-c",
            "--publish-header=X-Of:s3cret-d",
            "--header",
        ];
        let headers = words.into_iter().chain(["Accept: text/plain"]);
        let headers: Vec<String> = headers.map(str::to_owned).collect();
        assert_eq!(
            redactor.command(&headers)[1..],
            [
                "X-Who: ***",
                "--publish-header=X-Of: ***",
                "--header",
                "Accept: text/plain"
            ]
        );
    }

    fn scenario() -> Scenario {
        let target = Target::parse("ws://a:1/ws?jwt=s3cret-url").unwrap();
        let token = Some("s3cret-token".to_owned());
        let mut transport = ClientTransport::websocket(Dialect::Centrifugo { token });
        if let ClientTransport::WebSocket {
            headers,
            first_frames,
            ..
        } = &mut transport
        {
            headers.push(("Authorization".into(), "Bearer s3cret-header".into()));
            headers.push(("Cookie".into(), "sid=s3cret-cookie".into()));
            headers.push(("X-Whatever".into(), "s3cret-of-somebody".into()));
            headers.push(("User-Agent".into(), "a phone".into()));
            first_frames.push("again s3cret-header".into());
        }
        let mut scenario = Scenario::new(Workload::FanOut, vec![target], transport);
        let api = Target::parse("http://a:2").unwrap();
        scenario.publish = Some(crate::Publish {
            via: Via::centrifugo(&api, Some("s3cret-api")),
            per_s: 0.1,
            publishers: 1,
            size_bytes: 100,
            choose: crate::ChannelChoice::RoundRobin,
            until: None,
        });
        scenario
    }

    #[test]
    fn a_scenario_loses_its_secrets_and_nothing_else() {
        let full = scenario();
        let redacted = Redactor::new(&full, &[]).scenario(&full);
        let text = serde_json::to_string(&redacted).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
        assert!(
            text.contains("again ***") && text.contains("a phone"),
            "{text}"
        );
        assert_eq!(redacted.publish.unwrap().per_s.to_bits(), 0.1_f64.to_bits());
        let plain = Scenario::new(
            Workload::Hold,
            vec![Target::parse("ws://a:1/ws?channel={channel:url}").unwrap()],
            ClientTransport::websocket(Dialect::Plain),
        );
        assert_eq!(Redactor::new(&plain, &[]).scenario(&plain), plain);
    }
}
