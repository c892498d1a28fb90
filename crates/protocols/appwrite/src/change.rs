//! Changes of users that events tell of, and the roles of their connections after them.
//!
//! Owns: the reading of `users.*` and `teams.*.memberships.*` events, and the roles after them.
//! Never: asks anybody. What an event does not say is [`RoleChange::Unknown`], and somebody must
//! ask.
//!
//! Events of two workers may come in another order than their changes, so whoever applies one
//! still asks afterwards, without haste. What a membership's removal says stands in the event's
//! name alone: the payload of a team's first owner is the membership of the next.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::feed::FeedMessage;
use crate::identity::{self, AccountError, MembershipList};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityChange {
    pub user_id: String,
    pub what: Change,
}

/// New state of a user, as far as an event tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Fields of the account that no role depends on.
    Document,
    /// The account, as far as roles depend on it.
    Account {
        /// Email or phone verified.
        verified: bool,
        blocked: bool,
        labels: Vec<String>,
    },
    /// The user's place in one team.
    Membership {
        team: String,
        id: String,
        /// The roles within the team; nothing for those who are not, or not yet, in it.
        roles: Option<Vec<String>>,
    },
    /// End of this session, or of all that the user has.
    SessionEnded(Option<String>),
    Deleted,
    /// Something happened that may change roles, and the event does not say whether.
    Unsaid,
}

/// Effect of a change on a connection's roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoleChange {
    Same,
    Roles(Vec<String>),
    /// The user is blocked or deleted, or all sessions have ended.
    Guest,
    /// The event does not tell, such as the end of one session: somebody must ask.
    Unknown,
}

impl Change {
    #[must_use]
    pub const fn ends_rights(&self) -> bool {
        matches!(
            self,
            Self::SessionEnded(_) | Self::Deleted | Self::Account { blocked: true, .. }
        )
    }

    /// Roles of a connection of the user after the change, if it had these before.
    #[must_use]
    pub fn outcome(&self, user_id: &str, roles: &[String]) -> RoleChange {
        match self {
            Self::Document => RoleChange::Same,
            Self::Account { blocked: true, .. } | Self::SessionEnded(None) | Self::Deleted => {
                RoleChange::Guest
            }
            Self::Account {
                verified, labels, ..
            } => {
                let mut now = identity::account_roles(user_id, *verified);
                let in_team = |role: &&String| {
                    role.starts_with(identity::TEAM) || role.starts_with(identity::MEMBER)
                };
                now.extend(roles.iter().filter(in_team).cloned());
                now.extend(identity::label_roles(labels));
                changed(roles, now)
            }
            Self::Membership {
                team,
                id,
                roles: within,
            } => {
                let (own, member) = (
                    format!("{}{team}", identity::TEAM),
                    format!("{}{id}", identity::MEMBER),
                );
                let below = format!("{own}/");
                let stays =
                    |role: &&String| **role != own && **role != member && !role.starts_with(&below);
                let mut now: Vec<String> = roles.iter().filter(stays).cloned().collect();
                if let Some(within) = within {
                    now.extend(identity::team_roles(team, id, within));
                }
                changed(roles, now)
            }
            Self::SessionEnded(Some(_)) | Self::Unsaid => RoleChange::Unknown,
        }
    }

    /// The user's place in a team, from the list of the team's memberships.
    ///
    /// # Errors
    /// [`AccountError::Malformed`].
    pub fn of_membership(
        list: &MembershipList<'_>,
        user_id: &str,
        team: &str,
        id: &str,
    ) -> Result<Self, AccountError> {
        let found = list.of_user(user_id)?;
        let own = found.iter().find(|one| one.team_id == team && one.confirm);
        Ok(Self::Membership {
            team: team.to_owned(),
            id: own.map_or(id, |own| &own.id).to_owned(),
            roles: own.map(|own| own.roles.clone()),
        })
    }
}

fn changed(before: &[String], now: Vec<String>) -> RoleChange {
    let sorted = |roles: &[String]| {
        let mut roles = roles.to_vec();
        roles.sort_unstable();
        roles.dedup();
        roles
    };
    if sorted(before) == sorted(&now) {
        return RoleChange::Same;
    }
    RoleChange::Roles(now)
}

impl FeedMessage {
    /// Change that the event means for open connections of its user, beyond what stock acts on:
    /// stock leaves sockets with their old roles after logout, block, verification and label
    /// changes.
    #[must_use]
    pub fn identity_change(&self) -> Option<IdentityChange> {
        let changed = self.user_id.as_deref().filter(|_| self.permissions_changed);
        if let Some(user_id) = changed {
            let names = self.names();
            let what = names.first().and_then(|name| self.of_team(name));
            return Some(IdentityChange {
                user_id: user_id.to_owned(),
                what: what.unwrap_or(Change::Unsaid),
            });
        }
        // Only user events are published to the account channel.
        if !self.channels.iter().any(|channel| &**channel == "account") {
            return None;
        }
        self.names().iter().find_map(|name| self.of_user(name))
    }

    /// `teams.T.memberships.M.create` and its relatives.
    fn of_team(&self, name: &str) -> Option<Change> {
        let parts: Vec<&str> = name.split('.').collect();
        let ["teams", team, "memberships", id, action, ..] = parts.as_slice() else {
            return None;
        };
        if *team == "*" || *id == "*" {
            return None;
        }
        let roles = match *action {
            "delete" => None,
            "create" | "update" => {
                let now: Membership = serde_json::from_str(self.payload()).ok()?;
                if now.id != *id || now.team_id != *team {
                    return None;
                }
                now.confirm.then_some(now.roles)
            }
            _ => return None,
        };
        Some(Change::Membership {
            team: (*team).to_owned(),
            id: (*id).to_owned(),
            roles,
        })
    }

    /// `users.U.sessions.S.delete` and its relatives, with `users` as the only concrete beginning.
    fn of_user(&self, name: &str) -> Option<IdentityChange> {
        let parts: Vec<&str> = name.split('.').collect();
        let ["users", user_id, rest @ ..] = parts.as_slice() else {
            return None;
        };
        let what = match rest {
            ["sessions", "delete"] => Change::SessionEnded(None),
            ["sessions", "*", "delete"] => return None,
            ["sessions", session, "delete"] => Change::SessionEnded(Some((*session).to_owned())),
            ["delete"] => Change::Deleted,
            ["update", "prefs" | "name" | "mfa" | "impersonator", ..] => Change::Document,
            // It may end sessions, and says nothing of them.
            ["update", "password", ..] => Change::Unsaid,
            ["update", ..] | ["verification", ..] => account(self.attributes(), user_id),
            _ => return None,
        };
        (*user_id != "*").then(|| IdentityChange {
            user_id: (*user_id).to_owned(),
            what,
        })
    }
}

fn account(payload: &Map<String, Value>, user_id: &str) -> Change {
    let flag = |name| payload.get(name).and_then(Value::as_bool);
    let is_theirs = payload.get("$id").and_then(Value::as_str) == Some(user_id);
    let labels = payload.get("labels").and_then(Value::as_array);
    let (Some(email), Some(status), Some(labels), true) =
        (flag("emailVerification"), flag("status"), labels, is_theirs)
    else {
        return Change::Unsaid;
    };
    let labels = labels.iter().filter_map(Value::as_str);
    Change::Account {
        verified: email || flag("phoneVerification") == Some(true),
        blocked: !status,
        labels: labels.map(str::to_owned).collect(),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Membership {
    #[serde(rename = "$id")]
    id: String,
    team_id: String,
    confirm: bool,
    roles: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use throng_types::cases;

    use super::*;

    #[test]
    fn what_events_say() {
        for (case, expected) in cases(include_str!("events.txt")) {
            let (name, payload) = case.split_once(' ').unwrap_or((case, "{}"));
            let (changed, payload) = match payload.strip_prefix("changes ") {
                Some(payload) => (Some("U"), payload),
                None => (None, payload),
            };
            let payload: Value = serde_json::from_str(payload).unwrap();
            let message = json!({
                "project": "bench", "roles": ["user:U"], "permissionsChanged": changed.is_some(),
                "userId": changed,
                "data": {"events": [name, "users.*"], "channels": ["account", "account.U"],
                         "timestamp": "", "payload": payload}
            });
            let message = message.to_string();
            let event = FeedMessage::parse(message.as_bytes(), 1 << 20).unwrap();
            let told = event.identity_change().map_or_else(
                || "nothing".to_owned(),
                |change| {
                    assert_eq!(change.user_id, "U");
                    format!("{:?}", change.what)
                },
            );
            assert_eq!(told, expected, "{case}");
        }
    }

    #[test]
    fn roles_after_a_change() {
        let texts = |text: &str| -> Vec<String> {
            let words = text.split(' ').filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        let roles = texts(
            "user:U users user:U/unverified users/unverified team:T member:M team:T/dev team:T2 \
             member:M2 label:old",
        );
        for (case, expect) in cases(include_str!("change.txt")) {
            let (what, rest) = case.split_once(' ').unwrap_or((case, ""));
            let change = match what {
                "verified" | "unverified" | "blocked" => Change::Account {
                    verified: what == "verified",
                    blocked: what == "blocked",
                    labels: texts(rest),
                },
                "membership" => {
                    let mut words = texts(rest).into_iter();
                    let [Some(id), Some(team)] = [words.next(), words.next()] else {
                        panic!("{case}");
                    };
                    let roles: Vec<String> = words.collect();
                    let roles = (roles != ["gone"]).then_some(roles);
                    Change::Membership { team, id, roles }
                }
                "session" => Change::SessionEnded(texts(rest).pop()),
                "document" => Change::Document,
                "deleted" => Change::Deleted,
                _ => Change::Unsaid,
            };
            let told = match change.outcome("U", &roles) {
                RoleChange::Roles(roles) => roles.join(" "),
                other => format!("{other:?}"),
            };
            assert_eq!(told, expect, "{case}");
        }
    }

    #[test]
    fn a_team_s_list_is_a_change() {
        let list = json!({"memberships": [
        {"$id": "M", "userId": "", "teamId": "T", "confirm": true, "roles": ["dev"]}]});
        let body = list.to_string();
        let read = |is_own| {
            let list = MembershipList {
                body: body.as_bytes(),
                is_own,
            };
            Change::of_membership(&list, "U", "T", "M").unwrap()
        };
        let membership = |roles| Change::Membership {
            team: "T".to_owned(),
            id: "M".to_owned(),
            roles,
        };
        assert_eq!(read(true), membership(Some(vec!["dev".to_owned()])));
        assert_eq!(read(false), membership(None), "it may be anybody's");
    }
}
