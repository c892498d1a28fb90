//! The requests of one question, and what their answers mean.
//!
//! Asked with the client's own credential: `GET /account`, `GET /teams` in pages, and for each team
//! its memberships of this user; or only the one of these that may have changed.
//!
//! "Nobody" is what Appwrite itself says, with status 401 and its own kind of error. A status
//! without that may come from a proxy, and says nothing about the client. A project whose Teams
//! service is off has no teams.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::json;
use throng_appwrite::{
    AccountError, AppwriteIdentity, Change, Credential, IdentityChange, LookupPart, LookupReply,
    MembershipList,
};
use throng_http1::origin::OriginRequest;

use crate::api::{Answer, Api, ApiError, escape, nobody, problem, query};
use crate::cache::Key;

/// Teams in one answer, which is as many as Appwrite's own pages may have in all versions.
const PAGE_TEAMS: usize = 100;
/// Teams of one user that are looked at.
const TEAMS_MAX: usize = 1000;
/// Paths as errors name them.
const ACCOUNT: &str = "/account";
const TEAMS: &str = "/teams";
const MEMBERSHIPS: &str = "/teams/…/memberships";

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Question {
    pub(crate) project: Box<str>,
    pub(crate) credential: Credential,
    pub(crate) part: LookupPart,
}

impl Question {
    /// The key of its answer in the cache.
    pub(crate) fn key(&self) -> Key {
        (self.project.clone(), self.credential.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Note {
    /// The project's Teams service is off: its users have no roles of teams.
    TeamsOff,
    /// A user has more teams than these, which are looked at; the others give no roles.
    TeamsFull(usize),
}

#[derive(Deserialize)]
struct Teams {
    /// Bound: bytes of an answer.
    #[serde(default)]
    teams: VecDeque<Team>,
}

#[derive(Deserialize)]
struct Team {
    #[serde(rename = "$id")]
    id: String,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Account,
    Teams,
    /// The user's memberships in the first of `teams`.
    Memberships,
}

/// The next request, or the end.
pub(crate) enum Step {
    Ask(OriginRequest),
    Done(Result<LookupReply, ApiError>),
}

/// One question, with what is known so far.
pub(crate) struct Identify {
    pub(crate) question: Question,
    stage: Stage,
    /// The request has queries.
    filtered: bool,
    /// The user, with the roles of the teams that were read.
    user: AppwriteIdentity,
    /// Teams to read. Bound: [`TEAMS_MAX`].
    teams: VecDeque<Team>,
    /// Bound: one of each kind.
    pub(crate) notes: Vec<Note>,
}

impl Identify {
    pub(crate) fn new(question: Question) -> Self {
        let mut new = Self {
            question,
            stage: Stage::Account,
            filtered: false,
            user: AppwriteIdentity::guest(),
            teams: VecDeque::new(),
            notes: Vec::new(),
        };
        if let LookupPart::Membership { user_id, team, .. } = &new.question.part {
            new.user.user_id = user_id.to_string();
            let id = team.to_string();
            new.teams.push_back(Team { id });
            new.enter(Stage::Memberships);
        }
        new
    }

    pub(crate) fn answered(&mut self, answer: Answer, api: &Api) -> Step {
        let (status, body) = match answer {
            Ok(answer) => answer,
            Err(failure) => return Step::Done(Err(ApiError::Transport(failure.detail))),
        };
        if status == 400 && self.filtered {
            // Servers from before 1.4 know another language of queries and are asked without.
            self.filtered = false;
            return self.ask(api);
        }
        let found = match self.stage {
            Stage::Account => self.account(status, &body),
            Stage::Teams => self.page(status, &body),
            Stage::Memberships => self.membership(status, &body),
        };
        match found {
            Ok(None) => self.ask(api),
            Ok(Some(found)) => Step::Done(Ok(found)),
            Err(error) => Step::Done(Err(error)),
        }
    }

    fn enter(&mut self, stage: Stage) {
        self.stage = stage;
        self.filtered = true;
    }

    pub(crate) fn ask(&mut self, api: &Api) -> Step {
        let (mut path, queries) = match (self.stage, self.teams.front()) {
            (Stage::Account, _) => (ACCOUNT.to_owned(), Vec::new()),
            (Stage::Memberships, Some(team)) => {
                let path = format!("/teams/{}/memberships", escape(&team.id));
                let whose = [&self.user.user_id];
                let own = json!({"method": "equal", "attribute": "userId", "values": whose});
                (path, vec![own])
            }
            (Stage::Teams | Stage::Memberships, _) => {
                let mut queries = vec![json!({"method": "limit", "values": [PAGE_TEAMS]})];
                if let Some(last) = self.teams.back() {
                    queries.push(json!({"method": "cursorAfter", "values": [last.id]}));
                }
                (TEAMS.to_owned(), queries)
            }
        };
        if self.filtered {
            let queries: Vec<String> = queries.iter().map(|one| query(&one.to_string())).collect();
            path = format!("{path}?{}", queries.join("&"));
        }
        let whose = (&*self.question.project, &self.question.credential);
        match api.request("GET", &path, whose, Vec::new()) {
            Ok(request) => Step::Ask(request),
            Err(answer) => self.answered(Ok(answer), api),
        }
    }

    /// Reads an account. `None`: teams are asked for.
    fn account(&mut self, status: u16, body: &[u8]) -> Result<Option<LookupReply>, ApiError> {
        let path = ACCOUNT;
        if status != 200 {
            return told_nobody(path, status, body);
        }
        let identity = AppwriteIdentity::from_account(body, &[])
            .map_err(|error| ApiError::Answer { path, error })?;
        if self.question.part == LookupPart::Account {
            let what = Change::Account {
                verified: identity.verified,
                blocked: identity.blocked,
                labels: identity.labels,
            };
            let user_id = identity.user_id;
            return Ok(Some(LookupReply::Changed(IdentityChange { user_id, what })));
        }
        self.user = identity;
        self.enter(Stage::Teams);
        Ok(None)
    }

    /// Reads one page of the user's teams.
    fn page(&mut self, status: u16, body: &[u8]) -> Result<Option<LookupReply>, ApiError> {
        if self.has_no_teams(status, body) {
            return Ok(self.next_team());
        }
        let path = TEAMS;
        if status != 200 {
            return Err(ApiError::Status { path, status });
        }
        let error = AccountError::Malformed;
        let page: Teams =
            serde_json::from_slice(body).map_err(|_| ApiError::Answer { path, error })?;
        let has_next = self.filtered && page.teams.len() >= PAGE_TEAMS;
        self.teams.extend(page.teams);
        if self.teams.len() + usize::from(has_next) > TEAMS_MAX {
            // A server that is asked without queries gives all teams in one page.
            self.teams.truncate(TEAMS_MAX);
            self.note(Note::TeamsFull(TEAMS_MAX));
        } else if has_next {
            self.enter(Stage::Teams);
            return Ok(None);
        }
        Ok(self.next_team())
    }

    /// Goes on to the memberships in the next team; after the last one the user is known.
    fn next_team(&mut self) -> Option<LookupReply> {
        if self.teams.is_empty() {
            return Some(LookupReply::User(self.user.clone().into()));
        }
        self.enter(Stage::Memberships);
        None
    }

    /// Reads the user's memberships in one team; there are none in a team that the user does not
    /// see.
    fn membership(&mut self, status: u16, body: &[u8]) -> Result<Option<LookupReply>, ApiError> {
        let path = MEMBERSHIPS;
        let is_gone = self.has_no_teams(status, body);
        let list = MembershipList {
            body,
            is_own: self.filtered,
        };
        let wrong = |error| ApiError::Answer { path, error };
        let LookupPart::Membership { user_id, team, id } = &self.question.part else {
            match status {
                200 => self.user.add_team(&list).map_err(wrong)?,
                // The team went between the two questions.
                404 => {}
                403 if is_gone => {}
                status => return Err(ApiError::Status { path, status }),
            }
            self.teams.pop_front();
            return Ok(self.next_team());
        };
        let what = match status {
            200 => Change::of_membership(&list, user_id, team, id).map_err(wrong)?,
            404 | 403 if is_gone => Change::Membership {
                team: team.to_string(),
                id: id.to_string(),
                roles: None,
            },
            status => return told_nobody(path, status, body),
        };
        let user_id = user_id.to_string();
        Ok(Some(LookupReply::Changed(IdentityChange { user_id, what })))
    }

    /// Whether Appwrite says that there is no such team, or that the project's Teams service is
    /// off.
    fn has_no_teams(&mut self, status: u16, body: &[u8]) -> bool {
        if !matches!(status, 403 | 404) {
            return false;
        }
        let problem = problem(body).filter(|it| it.code == status);
        let kind = problem.as_ref().map(|it| it.kind.as_str());
        let is_off = (status, kind) == (403, Some("general_service_disabled"));
        if is_off {
            self.note(Note::TeamsOff);
        }
        is_off || (status, kind) == (404, Some("team_not_found"))
    }

    fn note(&mut self, note: Note) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// A refusal of the client's credential, if Appwrite says so.
fn told_nobody(
    path: &'static str,
    status: u16,
    body: &[u8],
) -> Result<Option<LookupReply>, ApiError> {
    let found = nobody(status, body).ok_or(ApiError::Status { path, status })?;
    Ok(Some(found))
}
