//! Appwrite's HTTP API, as far as it tells who somebody is.
//!
//! Asked with the client's own credential: `GET /account`, `GET /teams`, and for each team its
//! memberships of this user. Every request has a deadline and a bound on the answer's length.

use std::time::Duration;

use serde::Deserialize;
use throng_appwrite::{AccountError, Identity};
use throng_gateway_appwrite::{Credential, Found, Lookup};
use ureq::Agent;
use ureq::http::Request;

/// Bytes of one answer. An account with many preferences has some tens of kilobytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Teams of one user that are looked at.
const TEAMS_MAX: usize = 100;

/// The address of the API is not one that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// TLS is not built in.
    #[error(
        "https:// is not supported: name Appwrite's address inside its own network, with http://"
    )]
    Tls,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No connection, no answer in time, or a broken one.
    #[error("{0}")]
    Transport(Box<ureq::Error>),
    /// A status that says nothing about the client.
    #[error("{path} answered with status {status}")]
    Status {
        /// What was asked for.
        path: &'static str,
        /// The answer.
        status: u16,
    },
    /// The answer is not what Appwrite's documentation says.
    #[error("{path}: {error}")]
    Answer {
        /// What was asked for.
        path: &'static str,
        /// What is wrong.
        error: AccountError,
    },
}

/// Asks Appwrite's account API who a credential belongs to.
#[derive(Clone)]
pub struct AccountApi {
    agent: Agent,
    base: String,
}

#[derive(Deserialize)]
struct Teams {
    #[serde(default)]
    teams: Vec<Team>,
}

#[derive(Deserialize)]
struct Team {
    #[serde(rename = "$id")]
    id: String,
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    message: String,
}

impl AccountApi {
    /// The API at this address, for example `http://appwrite/v1`; each request may take so long.
    ///
    /// # Errors
    /// [`UrlError`].
    pub fn new(base: &str, timeout: Duration) -> Result<Self, UrlError> {
        if base.starts_with("https:") {
            return Err(UrlError::Tls);
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .build()
            .into();
        Ok(Self {
            agent,
            base: base.trim_end_matches('/').to_owned(),
        })
    }

    /// Asks who somebody is.
    ///
    /// # Errors
    /// [`ApiError`] if Appwrite does not say.
    pub fn identify(&self, lookup: &Lookup) -> Result<Found, ApiError> {
        let (status, account) = self.get("/account", lookup)?;
        match status {
            200 => {}
            // Signed out, blocked, or never signed in; a token that does not verify is 401 too.
            400..=404 => return Ok(Found::Nobody(problem(&account).into())),
            status => {
                return Err(ApiError::Status {
                    path: "/account",
                    status,
                });
            }
        }
        let read = |memberships: &[&[u8]]| {
            Identity::from_account(&account, memberships).map_err(|error| ApiError::Answer {
                path: "/account",
                error,
            })
        };
        let user_id = read(&[])?.user_id;
        let memberships = self.memberships(&user_id, lookup)?;
        let memberships: Vec<&[u8]> = memberships.iter().map(Vec::as_slice).collect();
        Ok(Found::User(read(&memberships)?.into()))
    }

    fn memberships(&self, user_id: &str, lookup: &Lookup) -> Result<Vec<Vec<u8>>, ApiError> {
        let limit = query(&format!(r#"{{"method":"limit","values":[{TEAMS_MAX}]}}"#));
        let teams = self.list("/teams", "/teams", &limit, lookup)?;
        let teams: Teams = serde_json::from_slice(&teams).map_err(|_| ApiError::Answer {
            path: "/teams",
            error: AccountError::Malformed,
        })?;
        let own =
            serde_json::json!({"method": "equal", "attribute": "userId", "values": [user_id]});
        let own = query(&own.to_string());
        let teams = teams.teams.iter().take(TEAMS_MAX);
        teams
            .map(|team| {
                let path = format!("/teams/{}/memberships", escape(&team.id));
                self.list("/teams/…/memberships", &path, &own, lookup)
            })
            .collect()
    }

    /// Gets a list. Servers from before 1.4 know another language of queries and are asked without.
    fn list(
        &self,
        name: &'static str,
        path: &str,
        query: &str,
        lookup: &Lookup,
    ) -> Result<Vec<u8>, ApiError> {
        let (mut status, mut body) = self.get(&format!("{path}?{query}"), lookup)?;
        if status == 400 {
            (status, body) = self.get(path, lookup)?;
        }
        match status {
            200 => Ok(body),
            status => Err(ApiError::Status { path: name, status }),
        }
    }

    fn get(&self, path: &str, lookup: &Lookup) -> Result<(u16, Vec<u8>), ApiError> {
        let project = &*lookup.project;
        let mut request = Request::get(format!("{}{path}", self.base))
            .header("x-appwrite-project", project)
            .header("accept", "application/json");
        request = match &lookup.credential {
            Credential::Session(session) => {
                // Both ways in which SDKs send it: what is not fit for a cookie is fit for the
                // other.
                let cookies = serde_json::json!({ format!("a_session_{project}"): &**session });
                request
                    .header("cookie", format!("a_session_{project}={session}"))
                    .header("x-fallback-cookies", cookies.to_string())
            }
            Credential::Jwt(jwt) => request.header("x-appwrite-jwt", &**jwt),
        };
        let Ok(request) = request.body(()) else {
            // A credential with characters that no header may have is nobody's.
            return Ok((401, Vec::new()));
        };
        let transport = |error| ApiError::Transport(Box::new(error));
        let mut response = self.agent.run(request).map_err(transport)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        Ok((status, body.read_to_vec().map_err(transport)?))
    }
}

/// The text of Appwrite's error, for clients that showed a token.
fn problem(body: &[u8]) -> String {
    serde_json::from_slice::<Problem>(body).map_or_else(|_| String::new(), |p| p.message)
}

fn query(json: &str) -> String {
    format!("queries%5B%5D={}", escape(json))
}

/// Percent-encodes everything but what RFC 3986 section 2.3 leaves alone.
fn escape(text: &str) -> String {
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
    use super::*;

    #[test]
    fn queries_are_escaped() {
        assert_eq!(
            query(r#"{"a":[é]}"#),
            "queries%5B%5D=%7B%22a%22%3A%5B%C3%A9%5D%7D"
        );
    }

    #[test]
    fn tls_is_refused_where_it_is_configured() {
        let refused = AccountApi::new("https://cloud.example/v1", Duration::from_secs(1));
        assert_eq!(refused.err(), Some(UrlError::Tls));
        assert!(AccountApi::new("http://localhost/v1/", Duration::from_secs(1)).is_ok());
    }
}
