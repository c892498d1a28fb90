//! Requests to the publish port (5561) and the bodies of its answers.
//!
//! Owns: paths, methods, the choice of the answer's type, bodies. Never: HTTP itself, or
//! publishing: a publish that was read is answered only after the caller could take it.

use throng_types::coded_enum;

use crate::headers::{Element, HeaderRef, elements};
use crate::item::{Item, items_of_json};

coded_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AnswerType {
        fn media_type;
        /// `text/plain`, which is the default.
        Text = "text/plain";
        /// `application/json`, if `Accept` prefers it.
        Json = "application/json";
    }
}

impl AnswerType {
    /// From `Accept`, where the last type that is offered wins and weights are not looked at,
    /// as in Pushpin. None if none of them is offered.
    fn negotiate(headers: &[HeaderRef<'_>]) -> Option<Self> {
        if !headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("Accept"))
        {
            return Some(Self::Text);
        }
        elements(headers, "Accept")
            .into_iter()
            .rev()
            .find_map(|element| match Element::new(element)?.value() {
                b"text/plain" | b"text/*" | b"*/*" | b"*" => Some(Self::Text),
                b"application/json" | b"application/*" => Some(Self::Json),
                _ => None,
            })
    }
}

/// An answer; `Allow: POST` goes with status 405.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishAnswer {
    /// Status code: 200, 400, 404, 405, 406 or 503.
    pub code: u16,
    pub answer_type: AnswerType,
    /// Body with its line end.
    pub body: String,
}

impl PublishAnswer {
    fn text(code: u16, body: impl Into<String>) -> Self {
        let (answer_type, body) = (AnswerType::Text, body.into());
        Self {
            code,
            answer_type,
            body,
        }
    }

    /// Success: the message is `Published` or `Updated`.
    #[must_use]
    pub fn done(answer_type: AnswerType, message: &str) -> Self {
        let body = match answer_type {
            AnswerType::Text => format!("{message}\n"),
            AnswerType::Json => format!("{{\"message\":\"{message}\"}}\n"),
        };
        Self {
            code: 200,
            answer_type,
            body,
        }
    }

    /// The items were published, and so many connections took them; none if that is not known.
    /// Pushpin has no such answer: it is for those who ask for it.
    #[must_use]
    pub fn published_to(answer_type: AnswerType, receivers: Option<u64>) -> Self {
        let done = Self::done(answer_type, "Published");
        let body = match (answer_type, receivers) {
            (AnswerType::Text, None) => return done,
            (AnswerType::Text, Some(receivers)) => format!("Published, receivers: {receivers}\n"),
            (AnswerType::Json, receivers) => {
                let receivers =
                    receivers.map_or_else(|| "null".to_owned(), |count| count.to_string());
                format!("{{\"message\":\"Published\",\"receivers\":{receivers}}}\n")
            }
        };
        Self { body, ..done }
    }

    /// The items cannot be taken now, so that nothing is lost in silence.
    #[must_use]
    pub fn overloaded() -> Self {
        Self::text(503, "The server is overloaded; nothing was published.\n")
    }
}

/// Request to the publish port, read.
#[derive(Clone, Debug, PartialEq)]
pub enum PublishRequest {
    /// Publish, then answer [`PublishAnswer::done`] with `Published`.
    Publish {
        items: Vec<Item>,
        answer_type: AnswerType,
    },
    /// Reliable streams and responses ask their backends; answer `Updated`.
    Recover { answer_type: AnswerType },
    /// Nothing but this answer.
    Answer(PublishAnswer),
}

impl PublishRequest {
    /// Reads a whole request; `path` is without the query.
    #[must_use]
    pub fn read(method: &str, path: &str, headers: &[HeaderRef<'_>], body: &[u8]) -> Self {
        let Some(answer_type) = AnswerType::negotiate(headers) else {
            return Self::Answer(PublishAnswer::text(
                406,
                "an answer is text/plain or application/json; Accept names neither\n",
            ));
        };
        let path = match path.strip_suffix('/') {
            Some(shorter) if !shorter.is_empty() => shorter,
            _ => path,
        };
        match (path, method) {
            ("/", _) => Self::Answer(PublishAnswer::text(
                200,
                "Throng takes publications here: POST /publish/\n",
            )),
            ("/publish", "POST") => match items_of_json(body) {
                Ok(items) => Self::Publish { items, answer_type },
                Err(fault) => Self::Answer(PublishAnswer::text(400, format!("{fault}\n"))),
            },
            ("/recover", "POST") => Self::Recover { answer_type },
            ("/publish" | "/recover", _) => Self::Answer(PublishAnswer::text(
                405,
                format!("this path takes POST, not {method}\n"),
            )),
            _ => Self::Answer(PublishAnswer::text(
                404,
                "there is nothing at this path; publish to /publish/\n",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn answers() {
        for (request, expected) in cases(include_str!("publish_answers.txt")) {
            let columns: Vec<&str> = request.splitn(3, " | ").collect();
            let [line, accept, body] = columns[..] else {
                panic!("{request}: not three columns");
            };
            let (method, path) = line.split_once(' ').unwrap();
            let headers: &[HeaderRef<'_>] = match accept {
                "-" => &[],
                accept => &[("accept", accept.as_bytes())],
            };
            let read = PublishRequest::read(method, path, headers, body.as_bytes());
            let answer = match read {
                PublishRequest::Publish { items, answer_type } => {
                    assert_eq!(items.len(), 1);
                    PublishAnswer::done(answer_type, "Published")
                }
                PublishRequest::Recover { answer_type } => {
                    PublishAnswer::done(answer_type, "Updated")
                }
                PublishRequest::Answer(answer) => answer,
            };
            let body = answer.body.strip_suffix('\n').unwrap();
            assert_eq!(format!("{} {body}", answer.code), expected, "{request}");
        }
    }
}
