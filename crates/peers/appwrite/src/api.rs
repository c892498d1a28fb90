//! Requests to the API, and the forms in which Appwrite refuses.

use std::sync::Arc;

use serde::Deserialize;
use throng_appwrite::{AccountError, Credential, LookupReply};
use throng_http1::field::Header;
use throng_http1::origin::Destination;
use throng_http1::origin::{OriginFailure, OriginRequest};

/// A status with a body, or why there is none.
pub(crate) type Answer = Result<(u16, Vec<u8>), OriginFailure>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// No connection, no answer in time, or a broken one.
    #[error("{0}")]
    Transport(String),
    /// A status that says nothing about the client.
    #[error("{path} answered with status {status}")]
    Status { path: &'static str, status: u16 },
    /// The answer is not what Appwrite's documentation says.
    #[error("{path}: {error}")]
    Answer {
        path: &'static str,
        error: AccountError,
    },
}

/// Appwrite's own kind of error.
#[derive(Deserialize)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) code: u16,
    /// Name of the error, since Appwrite 0.13; empty before.
    #[serde(default, rename = "type")]
    pub(crate) kind: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Api {
    to: Arc<Destination>,
    host: String,
    base: String,
}

impl Api {
    /// The API below a path of one host, such as `/v1`; `host` is the field of that name.
    #[must_use]
    pub(crate) fn new(to: Arc<Destination>, host: String, path: &str) -> Self {
        Self {
            to,
            host,
            base: path.trim_end_matches('/').to_owned(),
        }
    }

    /// A request with a client's own credential. A credential with characters that no field may
    /// have is nobody's: that is the answer then.
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        (project, credential): (&str, &Credential),
        body: Vec<u8>,
    ) -> Result<OriginRequest, (u16, Vec<u8>)> {
        let mut headers = vec![
            Header::new("host", self.host.as_str()),
            Header::new("user-agent", "throng"),
            Header::new("accept", "application/json"),
            Header::new("x-appwrite-project", project),
        ];
        if !body.is_empty() {
            headers.push(Header::new("content-type", "application/json"));
        }
        match credential {
            Credential::Session(session) => {
                // Both ways in which SDKs send it: what is not fit for a cookie is fit for the
                // other.
                let name = format!("a_session_{project}");
                headers.push(Header::new("cookie", format!("{name}={session}")));
                let cookies = serde_json::json!({ name: &**session });
                headers.push(Header::new("x-fallback-cookies", cookies.to_string()));
            }
            Credential::Jwt(jwt) => headers.push(Header::new("x-appwrite-jwt", &**jwt)),
        }
        let is_odd = |byte: &u8| *byte < b' ' && *byte != b'\t' || *byte == 127;
        if headers.iter().any(|field| field.value.iter().any(is_odd)) {
            return Err((401, br#"{"message":"","code":401}"#.to_vec()));
        }
        let path = format!("{}{path}", self.base);
        Ok(OriginRequest {
            body,
            ..OriginRequest::new(self.to.clone(), method, path, headers)
        })
    }
}

pub(crate) fn problem(body: &[u8]) -> Option<Problem> {
    serde_json::from_slice(body).ok()
}

/// Reads Appwrite's refusal of a credential; `None` if the answer is not of Appwrite's own kind, or
/// about something else.
pub(crate) fn nobody(status: u16, body: &[u8]) -> Option<LookupReply> {
    /// Begins Appwrite's messages about bad tokens.
    const JWT: &str = "Failed to verify JWT.";
    let problem = problem(body).filter(|problem| problem.code == status)?;
    match (status, problem.kind.as_str()) {
        (403, "user_blocked") => Some(LookupReply::Nobody),
        (401, "user_jwt_invalid") => {
            let why = problem
                .message
                .strip_prefix(JWT)
                .unwrap_or(&problem.message);
            Some(LookupReply::Expired(why.trim().into()))
        }
        (401, _) => match problem.message.strip_prefix(JWT) {
            Some(why) => Some(LookupReply::Expired(why.trim().into())),
            None => Some(LookupReply::Nobody),
        },
        _ => None,
    }
}

pub(crate) fn query(json: &str) -> String {
    format!("queries%5B%5D={}", escape(json))
}

/// Percent-encodes everything but what RFC 3986 section 2.3 leaves alone.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push('%');
            for digit in [byte >> 4, byte & 15] {
                let digit = char::from_digit(digit.into(), 16).unwrap_or('0');
                escaped.push(digit.to_ascii_uppercase());
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use throng_types::cases;

    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(
            query(r#"{"a":[é]}"#),
            "queries%5B%5D=%7B%22a%22%3A%5B%C3%A9%5D%7D"
        );
    }

    #[test]
    fn only_appwrite_says_that_somebody_is_nobody() {
        for (case, expected) in cases(include_str!("api.txt")) {
            let (status, body) = case.split_once(' ').unwrap();
            let told = match nobody(status.parse().unwrap(), body.as_bytes()) {
                Some(LookupReply::Expired(why)) => format!("Expired {why}"),
                Some(other) => format!("{other:?}"),
                None => "nothing".to_owned(),
            };
            assert_eq!(told, expected, "{case}");
        }
    }

    #[test]
    fn a_session_that_fits_no_field_is_nobodys() {
        let api = Api::new(Arc::default(), "a:80".to_owned(), "/v1/");
        let of = |credential| api.request("GET", "/account", ("p", &credential), Vec::new());
        let odd = of(Credential::Session("a\r\nb".into())).unwrap_err();
        assert!(matches!(nobody(odd.0, &odd.1), Some(LookupReply::Nobody)));
        let request = of(Credential::Session("é=\"".into())).unwrap();
        assert_eq!(request.path, "/v1/account");
        let field = |name| request.headers.iter().find(|field| field.is(name)).unwrap();
        assert_eq!(field("cookie").value, "a_session_p=é=\"".as_bytes());
        assert_eq!(
            field("x-fallback-cookies").value,
            r#"{"a_session_p":"é=\""}"#.as_bytes()
        );
    }
}
