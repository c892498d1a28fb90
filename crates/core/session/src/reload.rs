//! Reload of the configuration by a call of the API port: its result, and the answer to the call.

use throng_types::json::Object;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The new configuration holds, on every shard.
    Done {
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
    pub fn answer(&self) -> (u16, Vec<u8>) {
        match self {
            Self::Done {
                changed,
                waiting,
                warnings,
            } => {
                let lists: [(&'static str, &[String]); 3] = [
                    ("changed", changed),
                    ("needs_restart", waiting),
                    ("warnings", warnings),
                ];
                (200, object(&lists))
            }
            Self::Refused(problems) => (422, object(&[("problems", problems)])),
            Self::Unavailable => {
                let problem = "the server is stopping, or cannot read its configuration";
                (503, object(&[("problems", &[problem.to_owned()])]))
            }
        }
    }
}

fn object(lists: &[(&'static str, &[String])]) -> Vec<u8> {
    let mut out = Vec::new();
    Object::append(&mut out, |object| {
        for (name, texts) in lists {
            object.texts(name, *texts);
        }
    });
    out
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
            + r#""needs_restart":[],"warnings":["a\nb\\"]}"#;
        assert_eq!(done.answer(), (200, expected.into_bytes()));
        let refused = Reloaded::Refused(vec!["t.toml:3:1: no".to_owned()]);
        assert_eq!(
            refused.answer(),
            (422, br#"{"problems":["t.toml:3:1: no"]}"#.to_vec())
        );
        assert_eq!(Reloaded::Unavailable.answer().0, 503);
    }
}
