//! Identity of a connection: roles from an account document, the places of a session in a
//! handshake, and the claims of a JWT.
//!
//! Owns: the roles that Appwrite's `User::getRoles` gives, from what its HTTP API tells
//! (`GET /v1/account`, `GET /v1/teams/{id}/memberships`), and the places in a handshake that may
//! hold a session. Never: asks, verifies or remembers.
//!
//! `any` is never the role of a connection: it stands in events and means everyone.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The role of those without an account.
pub const GUESTS: &str = "guests";
/// The role of every user, verified or not.
pub const USERS: &str = "users";
/// The role in an event that everyone has.
pub const ANY: &str = "any";
/// Prefixes of a team's roles and of a membership's.
pub(crate) const TEAM: &str = "team:";
pub(crate) const MEMBER: &str = "member:";

/// An answer of Appwrite's API that is not what its documentation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    #[error("the account is not an account document")]
    Malformed,
    #[error("the account has no id")]
    NoId,
}

/// A user as far as realtime is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppwriteIdentity {
    /// The user's id, empty for a guest.
    pub user_id: String,
    /// Roles of the user, in Appwrite's order.
    pub roles: Vec<String>,
    /// The labels, also among the roles.
    pub labels: Vec<String>,
    /// Email or phone verified.
    pub verified: bool,
    /// The account is switched off: the connection must be refused or demoted to a guest.
    pub blocked: bool,
    /// The account document as the API gave it, for the `user` field of frames; empty for a guest.
    pub account: Box<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Account {
    #[serde(rename = "$id", default)]
    id: String,
    #[serde(default)]
    email_verification: bool,
    #[serde(default)]
    phone_verification: bool,
    #[serde(default = "yes")]
    status: bool,
    #[serde(default)]
    labels: Vec<String>,
}

/// An answer of `GET /v1/teams/{id}/memberships`.
#[derive(Clone, Copy, Debug)]
pub struct MembershipList<'b> {
    pub body: &'b [u8],
    /// Only this user's memberships were asked for, and the server understood that. Projects may
    /// hide whose a membership is (those made since 1.9.5 do), and then nothing else tells.
    pub is_own: bool,
}

#[derive(Deserialize)]
struct Memberships {
    memberships: Vec<Membership>,
}

/// One membership, as far as roles depend on it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    #[serde(rename = "$id", default)]
    pub(crate) id: String,
    #[serde(default)]
    user_id: String,
    #[serde(default)]
    pub(crate) team_id: String,
    #[serde(default)]
    pub(crate) confirm: bool,
    #[serde(default)]
    pub(crate) roles: Vec<String>,
}

impl MembershipList<'_> {
    pub(crate) fn of_user(&self, user_id: &str) -> Result<Vec<Membership>, AccountError> {
        let list: Memberships =
            serde_json::from_slice(self.body).map_err(|_| AccountError::Malformed)?;
        let mut memberships = list.memberships;
        memberships.retain(|one| match one.user_id.as_str() {
            "" => self.is_own,
            whose => whose == user_id,
        });
        Ok(memberships)
    }
}

impl AppwriteIdentity {
    /// A client that is not signed in.
    #[must_use]
    pub fn guest() -> Self {
        Self {
            user_id: String::new(),
            roles: vec![GUESTS.to_owned()],
            labels: Vec::new(),
            verified: false,
            blocked: false,
            account: Box::default(),
        }
    }

    /// Reads the answer of `GET /v1/account` and those of `GET /v1/teams/{id}/memberships`, one
    /// for each of the user's teams. Memberships of others and unconfirmed ones give no role.
    ///
    /// # Errors
    /// [`AccountError`] for answers that are not what they should be.
    pub fn from_account(
        account: &[u8],
        memberships: &[MembershipList<'_>],
    ) -> Result<Self, AccountError> {
        let raw: &RawValue =
            serde_json::from_slice(account).map_err(|_| AccountError::Malformed)?;
        let account: Account =
            serde_json::from_str(raw.get()).map_err(|_| AccountError::Malformed)?;
        if account.id.is_empty() {
            return Err(AccountError::NoId);
        }
        let verified = account.email_verification || account.phone_verification;
        let mut roles = account_roles(&account.id, verified);
        roles.extend(label_roles(&account.labels));
        let mut identity = Self {
            user_id: account.id,
            roles,
            labels: account.labels,
            verified,
            blocked: !account.status,
            account: raw.get().into(),
        };
        for list in memberships {
            identity.add_team(list)?;
        }
        Ok(identity)
    }

    /// Adds the roles that a list of memberships gives, before those of labels.
    ///
    /// # Errors
    /// [`AccountError::Malformed`].
    pub fn add_team(&mut self, list: &MembershipList<'_>) -> Result<(), AccountError> {
        for one in list.of_user(&self.user_id)? {
            if one.confirm && !one.id.is_empty() && !one.team_id.is_empty() {
                let at = self.roles.len() - self.labels.len();
                let roles = team_roles(&one.team_id, &one.id, &one.roles);
                self.roles.splice(at..at, roles);
            }
        }
        Ok(())
    }

    /// Tells whether the client is not signed in.
    #[must_use]
    pub fn is_guest(&self) -> bool {
        self.user_id.is_empty()
    }
}

pub(crate) fn account_roles(id: &str, verified: bool) -> Vec<String> {
    let dimension = if verified { "verified" } else { "unverified" };
    vec![
        format!("user:{id}"),
        USERS.to_owned(),
        format!("user:{id}/{dimension}"),
        format!("users/{dimension}"),
    ]
}

/// The roles of a confirmed membership.
pub(crate) fn team_roles(team: &str, id: &str, roles: &[String]) -> impl Iterator<Item = String> {
    let own = [format!("{TEAM}{team}"), format!("{MEMBER}{id}")];
    own.into_iter()
        .chain(roles.iter().map(move |role| format!("{TEAM}{team}/{role}")))
}

pub(crate) fn label_roles(labels: &[String]) -> impl Iterator<Item = String> {
    labels.iter().map(|label| format!("label:{label}"))
}

fn yes() -> bool {
    true
}

/// The headers of a handshake that may hold a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionHeaders<'h> {
    /// Value of `Cookie`, if sent.
    pub cookie: Option<&'h str>,
    /// Value of `X-Appwrite-Session`, if sent.
    pub session: Option<&'h str>,
    /// `X-Fallback-Cookies`: a JSON object of cookies.
    pub fallback: Option<&'h str>,
}

impl SessionHeaders<'_> {
    /// The session for a project, from the first place that has one: the cookie, the cookie for
    /// old browsers, the session's own header, the fallback header. With `admin` it is the
    /// console's session.
    #[must_use]
    pub fn find(&self, project: &str, admin: bool) -> Option<String> {
        let project = if admin { crate::CONSOLE } else { project };
        let name = format!("a_session_{project}");
        let cookies = self.cookie.unwrap_or_default();
        cookie(cookies, &name)
            .or_else(|| cookie(cookies, &format!("{name}_legacy")))
            .or_else(|| self.session.map(str::to_owned))
            .filter(|session| !session.is_empty())
            .or_else(|| fallback_cookie(self.fallback?, &name))
    }
}

fn cookie(header: &str, name: &str) -> Option<String> {
    header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        // Appwrite's HTTP server lowers the case of cookie names.
        .find(|(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.replace("%3D", "=").replace("%3d", "="))
        .filter(|value| !value.is_empty())
}

fn fallback_cookie(header: &str, name: &str) -> Option<String> {
    let cookies: serde_json::Map<String, serde_json::Value> = serde_json::from_str(header).ok()?;
    cookies
        .get(name)
        .and_then(serde_json::Value::as_str)
        .filter(|value| !value.is_empty())
        .map(str::to_owned)
}

/// Claims of a JWT about its end and its session. Appwrite verifies a token once, when its client
/// connects, and the connection outlives it; nothing is verified here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenClaims {
    /// When it ends, in Unix seconds.
    exp: Option<u64>,
    pub session_id: Option<String>,
}

impl TokenClaims {
    /// Reads the second part of a token; nothing if it is none of Appwrite's.
    #[must_use]
    pub fn read(jwt: &str) -> Option<Self> {
        let payload = jwt.split('.').nth(1)?;
        let payload = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
        serde_json::from_slice(&payload).ok()
    }

    #[must_use]
    pub fn is_over(&self, now_unix_ms: u64) -> bool {
        self.exp
            .is_some_and(|exp| now_unix_ms >= exp.saturating_mul(1000))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use throng_types::cases;

    use super::*;

    const ACCOUNT: &str = concat!(
        r#"{"$id":"U","name":"Ann","status":true,"labels":["vip"],"#,
        r#""emailVerification":true,"phoneVerification":false,"prefs":{}}"#,
    );

    #[test]
    fn roles() {
        assert_eq!(AppwriteIdentity::guest().roles, ["guests"]);
        for (case, roles) in cases(include_str!("identity.txt")) {
            let mut answers = case.split(" | ");
            let account = answers.next().unwrap();
            let own = |body: &'static str| MembershipList {
                body: body.as_bytes(),
                is_own: true,
            };
            let lists: Vec<MembershipList<'_>> = answers.map(own).collect();
            let identity = AppwriteIdentity::from_account(account.as_bytes(), &lists).unwrap();
            assert_eq!(identity.roles.join(" "), roles);
            assert_eq!(&*identity.account, account);
        }
    }

    /// The list of a project that Appwrite 1.9.5 made: `userId` is hidden from other users and from
    /// the member alike.
    #[test]
    fn memberships_that_hide_whose_they_are() {
        let hidden = r#"{"total":1,"memberships":[
            {"$id":"M","userId":"","userName":"","userEmail":"","teamId":"T","teamName":"Team",
             "confirm":true,"mfa":false,"roles":["dev"]},
            {"$id":"M2","teamId":"T2","confirm":true,"roles":[]}]}"#;
        let roles = |is_own| {
            let list = MembershipList {
                body: hidden.as_bytes(),
                is_own,
            };
            let identity = AppwriteIdentity::from_account(br#"{"$id":"U"}"#, &[list]).unwrap();
            identity.roles[4..].to_vec()
        };
        let teams = ["team:T", "member:M", "team:T/dev", "team:T2", "member:M2"];
        assert_eq!(roles(true), teams);
        // A server that does not know the query shows everybody's.
        assert!(roles(false).is_empty());
    }

    #[test]
    fn blocked_accounts_say_so() {
        let blocked =
            AppwriteIdentity::from_account(br#"{"$id":"U","status":false}"#, &[]).unwrap();
        assert!(blocked.blocked && !blocked.verified && !blocked.is_guest());
        let fine = AppwriteIdentity::from_account(ACCOUNT.as_bytes(), &[]).unwrap();
        assert!(!fine.blocked && fine.verified);
        assert_eq!(fine.labels, ["vip"]);
    }

    #[test]
    fn malformed_answers() {
        for (account, error) in [
            ("", AccountError::Malformed),
            ("[]", AccountError::NoId),
            ("{}", AccountError::NoId),
            (r#"{"$id":7}"#, AccountError::Malformed),
            (r#"{"$id":"U","labels":"x"}"#, AccountError::Malformed),
        ] {
            let got = AppwriteIdentity::from_account(account.as_bytes(), &[]);
            assert_eq!(got, Err(error), "{account}");
        }
        let list = MembershipList {
            body: b"{}",
            is_own: true,
        };
        assert!(AppwriteIdentity::from_account(ACCOUNT.as_bytes(), &[list]).is_err());
    }

    #[test]
    fn sessions_are_found_in_order() {
        for (case, expected) in cases(include_str!("sessions.txt")) {
            let mut cells = case.split(" | ");
            let whose = cells.next().unwrap();
            let mut headers = SessionHeaders::default();
            for cell in cells {
                let (name, value) = cell.split_once(": ").unwrap();
                *match name {
                    "cookie" => &mut headers.cookie,
                    "session" => &mut headers.session,
                    _ => &mut headers.fallback,
                } = Some(value);
            }
            let project = whose.trim_end_matches(" as admin");
            let found = headers.find(project, project != whose);
            assert_eq!(found.as_deref().unwrap_or("nothing"), expected, "{case}");
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in ".{0,60}") {
            let list = MembershipList { body: text.as_bytes(), is_own: true };
            let _ = AppwriteIdentity::from_account(text.as_bytes(), &[list]);
            let text = Some(text.as_str());
            let headers = SessionHeaders { cookie: text, session: None, fallback: text };
            let _ = headers.find("bench", false);
        }
    }
}

#[cfg(test)]
mod token_tests {
    use super::*;

    fn token(payload: &str) -> String {
        format!(
            "eyJhbGciOiJIUzI1NiJ9.{}.sig",
            URL_SAFE_NO_PAD.encode(payload)
        )
    }

    #[test]
    fn claims() {
        let own = token(r#"{"userId":"U","sessionId":"S","exp":1700000000}"#);
        let claims = TokenClaims::read(&own).unwrap();
        assert_eq!(claims.session_id.as_deref(), Some("S"));
        assert!(!claims.is_over(1_699_999_999_999) && claims.is_over(1_700_000_000_000));
        let endless = TokenClaims::read(&token("{}")).unwrap();
        assert!(!endless.is_over(u64::MAX));
        for wrong in [
            "",
            "a",
            "a.b.c",
            "a.%.c",
            &token("7"),
            &token(r#"{"exp":-1}"#),
        ] {
            assert_eq!(TokenClaims::read(wrong), None, "{wrong}");
        }
    }
}
