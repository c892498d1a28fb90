//! Appwrite's HTTP API, as far as it tells who somebody is.
//!
//! Asked with the client's own credential: `GET /account`, `GET /teams` in pages, and for each team
//! its memberships of this user; or only the one of these that may have changed. Every request has
//! a deadline and a bound on the answer's length.
//!
//! "Nobody" is what Appwrite itself says, with status 401 and its own kind of error. A status
//! without that may come from a proxy, and says nothing about the client. A project whose Teams
//! service is off has no teams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use throng_appwrite::{AccountError, Change, Identity, IdentityChange, MembershipList};
use throng_gateway_appwrite::{Credential, Found, Part};
use ureq::Agent;
use ureq::http::{Method, Request};

use crate::question::Question;

/// Bytes of one answer. An account with many preferences has some tens of kilobytes.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// Teams in one answer, which is as many as Appwrite's own pages may have in all versions.
const PAGE_TEAMS: usize = 100;
/// Teams of one user that are looked at.
const TEAMS_MAX: usize = 1000;

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
    /// It was told that a project's Teams service is off.
    told_off: Arc<AtomicBool>,
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

/// Appwrite's own kind of error.
#[derive(Deserialize)]
pub(crate) struct Problem {
    pub(crate) message: String,
    pub(crate) code: u16,
    /// Since 0.13.
    #[serde(default, rename = "type")]
    kind: String,
}

/// A list, and whether the server understood the queries.
struct List {
    body: Vec<u8>,
    filtered: bool,
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
            told_off: Arc::default(),
        })
    }

    /// Asks who somebody is.
    ///
    /// # Errors
    /// [`ApiError`] if Appwrite does not say.
    pub(crate) fn identify(&self, question: &Question) -> Result<Found, ApiError> {
        match &question.part {
            Part::Membership { user_id, team, id } => self.membership(question, user_id, team, id),
            Part::Account | Part::Everything => self.account(question),
        }
    }

    fn account(&self, question: &Question) -> Result<Found, ApiError> {
        const PATH: &str = "/account";
        let (status, account) = self.get(PATH, question)?;
        if status != 200 {
            return nobody(status, &account).ok_or(ApiError::Status { path: PATH, status });
        }
        let malformed = |error| ApiError::Answer { path: PATH, error };
        let identity = Identity::from_account(&account, &[]).map_err(malformed)?;
        if question.part == Part::Account {
            let what = Change::Account {
                verified: identity.verified,
                blocked: identity.blocked,
                labels: identity.labels,
            };
            let user_id = identity.user_id;
            return Ok(Found::Changed(IdentityChange { user_id, what }));
        }
        let lists = self.memberships(&identity.user_id, question)?;
        let lists: Vec<MembershipList<'_>> = lists.iter().map(List::memberships).collect();
        let identity = Identity::from_account(&account, &lists).map_err(malformed)?;
        Ok(Found::User(identity.into()))
    }

    /// The user's place in one team; a team that the user does not see is one without the user.
    fn membership(
        &self,
        question: &Question,
        user_id: &str,
        team: &str,
        id: &str,
    ) -> Result<Found, ApiError> {
        const PATH: &str = "/teams/…/memberships";
        let path = format!("/teams/{}/memberships", escape(team));
        let (status, list) = self.list(&path, &[of_user(user_id)], question)?;
        let what = match status {
            200 => Change::of_membership(&list.memberships(), user_id, team, id)
                .map_err(|error| ApiError::Answer { path: PATH, error })?,
            404 | 403 if self.has_no_teams(status, &list.body, question) => Change::Membership {
                team: team.to_owned(),
                id: id.to_owned(),
                roles: None,
            },
            status => {
                return nobody(status, &list.body).ok_or(ApiError::Status { path: PATH, status });
            }
        };
        let user_id = user_id.to_owned();
        Ok(Found::Changed(IdentityChange { user_id, what }))
    }

    fn memberships(&self, user_id: &str, question: &Question) -> Result<Vec<List>, ApiError> {
        let mut lists = Vec::new();
        for team in self.teams(question)? {
            let path = format!("/teams/{}/memberships", escape(&team.id));
            let (status, list) = self.list(&path, &[of_user(user_id)], question)?;
            match status {
                200 => lists.push(list),
                // It went between the two questions.
                404 => {}
                403 if self.has_no_teams(status, &list.body, question) => {}
                status => {
                    let path = "/teams/…/memberships";
                    return Err(ApiError::Status { path, status });
                }
            }
        }
        Ok(lists)
    }

    /// Whether Appwrite says that there is no such team, or that the project's Teams service is
    /// off.
    fn has_no_teams(&self, status: u16, body: &[u8], question: &Question) -> bool {
        let kind = problem(body)
            .filter(|it| it.code == status)
            .map(|it| it.kind);
        match (status, kind.as_deref()) {
            (404, Some("team_not_found")) => true,
            (403, Some("general_service_disabled")) => {
                if !self.told_off.swap(true, Ordering::Relaxed) {
                    let project = &*question.project;
                    tracing::warn!(
                        project,
                        "the project's Teams service is off in Appwrite: its users have no roles \
                         of teams"
                    );
                }
                true
            }
            _ => false,
        }
    }

    /// All teams of a user, page after page.
    fn teams(&self, question: &Question) -> Result<Vec<Team>, ApiError> {
        const PATH: &str = "/teams";
        let mut teams: Vec<Team> = Vec::new();
        loop {
            let mut queries = vec![serde_json::json!({"method": "limit", "values": [PAGE_TEAMS]})];
            if let Some(last) = teams.last() {
                queries.push(serde_json::json!({"method": "cursorAfter", "values": [last.id]}));
            }
            let (status, list) = self.list(PATH, &queries, question)?;
            if self.has_no_teams(status, &list.body, question) {
                return Ok(teams);
            }
            if status != 200 {
                return Err(ApiError::Status { path: PATH, status });
            }
            let page: Teams = serde_json::from_slice(&list.body).map_err(|_| ApiError::Answer {
                path: PATH,
                error: AccountError::Malformed,
            })?;
            let is_last = page.teams.len() < PAGE_TEAMS || !list.filtered;
            teams.extend(page.teams);
            if is_last {
                return Ok(teams);
            }
            if teams.len() >= TEAMS_MAX {
                let project = &*question.project;
                tracing::warn!(
                    project,
                    teams = TEAMS_MAX,
                    "a user has more teams than are \
                                        looked at; the others give no roles"
                );
                return Ok(teams);
            }
        }
    }

    /// Gets a list. Servers from before 1.4 know another language of queries and are asked without.
    fn list(
        &self,
        path: &str,
        queries: &[serde_json::Value],
        question: &Question,
    ) -> Result<(u16, List), ApiError> {
        let text: Vec<String> = queries.iter().map(|one| query(&one.to_string())).collect();
        let (mut status, mut body) = self.get(&format!("{path}?{}", text.join("&")), question)?;
        let filtered = status != 400;
        if !filtered {
            (status, body) = self.get(path, question)?;
        }
        Ok((status, List { body, filtered }))
    }

    fn get(&self, path: &str, question: &Question) -> Result<(u16, Vec<u8>), ApiError> {
        let (project, credential) = (&question.project, &question.credential);
        self.send(Method::GET, path, project, credential, &[])
    }

    /// Sends a request with a client's own credential: the answer's status and body.
    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        project: &str,
        credential: &Credential,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>), ApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header("x-appwrite-project", project)
            .header("accept", "application/json");
        if !body.is_empty() {
            request = request.header("content-type", "application/json");
        }
        request = match credential {
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
            return Ok((401, br#"{"message":"","code":401}"#.to_vec()));
        };
        let transport = |error| ApiError::Transport(Box::new(error));
        let answered = match body {
            [] => self.agent.run(request),
            body => self.agent.run(request.map(|()| body)),
        };
        let mut response = answered.map_err(transport)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        Ok((status, body.read_to_vec().map_err(transport)?))
    }
}

impl List {
    fn memberships(&self) -> MembershipList<'_> {
        MembershipList {
            body: &self.body,
            is_own: self.filtered,
        }
    }
}

/// The query for the memberships of one user.
fn of_user(user_id: &str) -> serde_json::Value {
    serde_json::json!({"method": "equal", "attribute": "userId", "values": [user_id]})
}

pub(crate) fn problem(body: &[u8]) -> Option<Problem> {
    serde_json::from_slice(body).ok()
}

/// What it means for a client that Appwrite refuses its credential; nothing if this is no word of
/// Appwrite's, or one about something else.
fn nobody(status: u16, body: &[u8]) -> Option<Found> {
    /// How Appwrite begins what it says of a bad token.
    const JWT: &str = "Failed to verify JWT.";
    let problem = problem(body).filter(|problem| problem.code == status)?;
    match (status, problem.kind.as_str()) {
        (403, "user_blocked") => Some(Found::Nobody),
        (401, "user_jwt_invalid") => {
            let why = problem
                .message
                .strip_prefix(JWT)
                .unwrap_or(&problem.message);
            Some(Found::Expired(why.trim().into()))
        }
        (401, _) => match problem.message.strip_prefix(JWT) {
            Some(why) => Some(Found::Expired(why.trim().into())),
            None => Some(Found::Nobody),
        },
        _ => None,
    }
}

fn query(json: &str) -> String {
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
        let told = |status, body: &str| nobody(status, body.as_bytes());
        let own = |status: u16, kind: &str, message: &str| {
            let body = serde_json::json!({"message": message, "code": status, "type": kind});
            told(status, &body.to_string())
        };
        let scope = own(401, "general_unauthorized_scope", "missing scopes");
        assert!(matches!(scope, Some(Found::Nobody)));
        let old = r#"{"message":"User (role: guests) missing scope (account)","code":401}"#;
        assert!(matches!(told(401, old), Some(Found::Nobody)));
        let blocked = own(403, "user_blocked", "The current user has been blocked.");
        assert!(matches!(blocked, Some(Found::Nobody)));
        let expired = "Failed to verify JWT. Invalid token: Expired";
        let Some(Found::Expired(why)) = own(401, "user_jwt_invalid", expired) else {
            panic!("a token that is over");
        };
        assert_eq!(&*why, "Invalid token: Expired");
        for (status, kind) in [
            (400, "general_argument_invalid"),
            (403, "general_service_disabled"),
            (404, "project_not_found"),
            (429, "general_rate_limit_exceeded"),
            (500, "general_unknown"),
        ] {
            assert!(own(status, kind, "").is_none(), "{status} {kind}");
        }
        for (status, body) in [
            (404, "<html>404 Not Found</html>"),
            (401, "<html>401 Authorization Required</html>"),
            (401, ""),
            (401, r#"{"error":"no"}"#),
            (503, r#"{"message":"x","code":401}"#),
        ] {
            assert!(told(status, body).is_none(), "{status} {body}");
        }
    }

    #[test]
    fn tls_is_refused_where_it_is_configured() {
        let refused = AccountApi::new("https://cloud.example/v1", Duration::from_secs(1));
        assert_eq!(refused.err(), Some(UrlError::Tls));
        assert!(AccountApi::new("http://localhost/v1/", Duration::from_secs(1)).is_ok());
    }
}
