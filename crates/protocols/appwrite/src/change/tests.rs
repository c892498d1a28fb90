//! Events as Appwrite publishes them, and the roles after them.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn change(name: &str, changed: Option<&str>, payload: &Value) -> Option<Change> {
    let message = json!({
        "project": "bench", "roles": ["user:U"], "permissionsChanged": changed.is_some(),
        "userId": changed,
        "data": {"events": [name, "users.*"], "channels": ["account", "account.U"],
                 "timestamp": "", "payload": payload}
    });
    let message = message.to_string();
    let event = FeedMessage::parse(message.as_bytes(), 1 << 20).unwrap();
    let change = event.identity_change()?;
    assert_eq!(change.user_id, "U");
    Some(change.what)
}

fn account_of(status: bool, verified: bool, labels: &[&str]) -> Value {
    json!({"$id": "U", "status": status, "emailVerification": verified,
           "phoneVerification": false, "labels": labels})
}

fn texts(roles: &[&str]) -> Vec<String> {
    roles.iter().map(|&role| role.to_owned()).collect()
}

#[test]
fn what_events_say() {
    let nothing = json!({});
    let user = |name| change(name, None, &nothing);
    assert_eq!(user("users.U.update.prefs"), Some(Change::Document));
    assert_eq!(user("users.U.update.name"), Some(Change::Document));
    assert_eq!(user("users.U.update.labels"), Some(Change::Unsaid));
    assert_eq!(user("users.U.update.password"), Some(Change::Unsaid));
    assert_eq!(user("users.U.verification.V.update"), Some(Change::Unsaid));
    assert_eq!(user("users.*.update.status"), None);
    assert_eq!(user("users.U.sessions.S.create"), None);
    assert_eq!(user("users.U.sessions.*.delete"), None);
    assert_eq!(user("users"), None);
    assert_eq!(user("users.U.delete"), Some(Change::Deleted));
    assert_eq!(
        user("users.U.sessions.delete"),
        Some(Change::SessionEnded(None))
    );
    let one = Change::SessionEnded(Some("S".to_owned()));
    assert_eq!(user("users.U.sessions.S.delete"), Some(one));
    let vip = Change::Account {
        verified: true,
        blocked: false,
        labels: texts(&["vip"]),
    };
    let payload = account_of(true, true, &["vip"]);
    assert_eq!(change("users.U.update.labels", None, &payload), Some(vip));
    let mut other = payload;
    other["$id"] = json!("V");
    assert_eq!(
        change("users.U.update", None, &other),
        Some(Change::Unsaid),
        "a payload of somebody else's"
    );
}

#[test]
fn what_memberships_say() {
    let next = json!({"$id": "M2", "teamId": "T", "confirm": true, "roles": ["owner"]});
    let name = "teams.T.memberships.M.delete";
    let left = Change::Membership {
        team: "T".to_owned(),
        id: "M".to_owned(),
        roles: None,
    };
    // Appwrite puts the next owner's membership there, when the first leaves.
    assert_eq!(change(name, Some("U"), &next), Some(left.clone()));
    assert_eq!(change(name, None, &next), None);
    let mut own = json!({"$id": "M", "teamId": "T", "confirm": true, "roles": ["dev"]});
    let joined = Change::Membership {
        team: "T".to_owned(),
        id: "M".to_owned(),
        roles: Some(texts(&["dev"])),
    };
    for action in ["create", "update", "update.status"] {
        let name = format!("teams.T.memberships.M.{action}");
        assert_eq!(change(&name, Some("U"), &own), Some(joined.clone()));
        assert_eq!(change(&name, Some("U"), &next), Some(Change::Unsaid));
    }
    own["confirm"] = json!(false);
    let invited = change("teams.T.memberships.M.create", Some("U"), &own);
    assert_eq!(invited, Some(left));
    let team = json!({"$id": "T", "name": "T"});
    assert_eq!(
        change("teams.T.create", Some("U"), &team),
        Some(Change::Unsaid)
    );
}

#[test]
fn roles_after_a_change() {
    let roles = texts(&[
        "user:U",
        "users",
        "user:U/unverified",
        "users/unverified",
        "team:T",
        "member:M",
        "team:T/dev",
        "team:T2",
        "member:M2",
        "label:old",
    ]);
    let outcome = |change: Change| change.outcome("U", &roles);
    let account = |verified, blocked, labels: &[&str]| Change::Account {
        verified,
        blocked,
        labels: texts(labels),
    };
    let verified = texts(&[
        "user:U",
        "users",
        "user:U/verified",
        "users/verified",
        "team:T",
        "member:M",
        "team:T/dev",
        "team:T2",
        "member:M2",
        "label:vip",
    ]);
    assert_eq!(
        outcome(account(true, false, &["vip"])),
        Outcome::Roles(verified)
    );
    assert_eq!(outcome(account(false, false, &["old"])), Outcome::Same);
    assert_eq!(outcome(account(true, true, &[])), Outcome::Guest);
    assert_eq!(outcome(Change::Document), Outcome::Same);
    assert_eq!(outcome(Change::Deleted), Outcome::Guest);
    assert_eq!(outcome(Change::SessionEnded(None)), Outcome::Guest);
    assert_eq!(outcome(Change::Unsaid), Outcome::Unknown);
    assert_eq!(
        outcome(Change::SessionEnded(Some("S".to_owned()))),
        Outcome::Unknown
    );
    let membership = |team: &str, id: &str, within: Option<&[&str]>| Change::Membership {
        team: team.to_owned(),
        id: id.to_owned(),
        roles: within.map(texts),
    };
    let Outcome::Roles(left) = outcome(membership("T", "M", None)) else {
        panic!("other roles");
    };
    assert!(
        !left
            .iter()
            .any(|role| role == "team:T" || role == "member:M")
    );
    assert!(!left.contains(&"team:T/dev".to_owned()));
    assert!(left.contains(&"team:T2".to_owned()) && left.contains(&"member:M2".to_owned()));
    assert_eq!(outcome(membership("X", "MX", None)), Outcome::Same);
    assert_eq!(outcome(membership("T", "M", Some(&["dev"]))), Outcome::Same);
    let Outcome::Roles(owner) = outcome(membership("T", "M", Some(&["owner"]))) else {
        panic!("other roles");
    };
    assert!(
        owner.contains(&"team:T/owner".to_owned()) && !owner.contains(&"team:T/dev".to_owned())
    );
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
    assert_eq!(read(true), membership(Some(texts(&["dev"]))));
    assert_eq!(read(false), membership(None), "it may be anybody's");
}
