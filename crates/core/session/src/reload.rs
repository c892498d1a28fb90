//! Reload of the configuration by a call of the API port: its result, and the answer to the call.

use std::fmt::Write as _;

/// Result of a reload of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The new configuration holds, on every shard.
    Done {
        /// Options that changed, by their paths.
        changed: Vec<String>,
        /// Options whose new values wait for a restart.
        waiting: Vec<String>,
        /// Settings that are valid and probably a mistake.
        warnings: Vec<String>,
    },
    /// The configuration has these errors; nothing changed.
    Refused(Vec<String>),
    /// No reload is possible: the server is stopping, or cannot read its configuration again.
    Unavailable,
}

impl Reloaded {
    /// The status of the answer, and its body: JSON.
    #[must_use]
    pub fn answer(&self) -> (u16, String) {
        match self {
            Self::Done {
                changed,
                waiting,
                warnings,
            } => {
                let mut body = String::from("{\"changed\":");
                list(&mut body, changed);
                body.push_str(",\"needs_restart\":");
                list(&mut body, waiting);
                body.push_str(",\"warnings\":");
                list(&mut body, warnings);
                body.push('}');
                (200, body)
            }
            Self::Refused(problems) => {
                let mut body = String::from("{\"problems\":");
                list(&mut body, problems);
                body.push('}');
                (422, body)
            }
            Self::Unavailable => (
                503,
                "{\"problems\":[\"the server is stopping, or cannot read its configuration\"]}"
                    .to_owned(),
            ),
        }
    }
}

fn list(out: &mut String, texts: &[String]) {
    out.push('[');
    for (number, text) in texts.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        string(out, text);
    }
    out.push(']');
}

/// RFC 8259 section 7.
fn string(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_json_whatever_the_texts_hold() {
        let done = Reloaded::Done {
            changed: vec![
                "namespace[\"chat\"].history_size".to_owned(),
                "log.level".to_owned(),
            ],
            waiting: vec![],
            warnings: vec!["a\nb\\".to_owned()],
        };
        let expected = r#"{"changed":["namespace[\"chat\"].history_size","log.level"],"#.to_owned()
            + r#""needs_restart":[],"warnings":["a\u000ab\\"]}"#;
        assert_eq!(done.answer(), (200, expected));
        let refused = Reloaded::Refused(vec!["t.toml:3:1: no".to_owned()]);
        assert_eq!(
            refused.answer(),
            (422, r#"{"problems":["t.toml:3:1: no"]}"#.to_owned())
        );
        assert_eq!(Reloaded::Unavailable.answer().0, 503);
    }
}
