//! Events of Appwrite's feed: frames are JSON, and receivers get ids that fit.

use throng_appwrite::{
    EVENT_HEAD, FeedMessage, Index, Matches, QueryFilter, RoleChange, Subscription, glimpse,
};

use crate::pieces::is_json;

pub(crate) const SEEDS: &[&[u8]] = &[
    concat!(
        r#"{"project":"p","roles":["any"],"permissionsChanged":false,"userId":null,"#,
        r#""data":{"events":["files.f.create"],"channels":["files","files.f"],"#,
        r#""timestamp":"2026-01-01T00:00:00.000+00:00","payload":{"$id":"f","n":1.5}}}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"project":"p","roles":["user:U","team:t"],"permissionsChanged":true,"#,
        r#""userId":"U","data":{"events":["users.U.sessions.s.delete"],"#,
        r#""channels":["account","files"],"payload":{"a":{"b":[null]}}}}"#,
    )
    .as_bytes(),
    concat!(
        r#"{"project":"console","roles":["*"],"#,
        r#""data":{"event":"database.documents.create","channels":["documents"],"#,
        r#""timestamp":1600000000,"payload":{ "x" : "y\u00e9" }}}"#,
    )
    .as_bytes(),
];

/// Runs one input of this target; panics if the target finds a fault.
pub fn appwrite_feed(input: &[u8]) {
    let _ = glimpse(input);
    assert!(FeedMessage::parse(input, input.len().saturating_sub(1)).is_err());
    let Ok(event) = FeedMessage::parse(input, input.len()) else {
        return;
    };
    assert!(!event.project.is_empty() && !event.roles.is_empty() && !event.channels.is_empty());
    let _ = (event.names(), event.attributes());
    if let Some(change) = event.identity_change() {
        let roles = ["user:U", "users", "team:t", "member:m"].map(str::to_owned);
        let outcome = change.what.outcome(&change.user_id, &roles);
        let again = |roles: &[String]| change.what.outcome(&change.user_id, roles);
        if let RoleChange::Roles(roles) = outcome {
            assert_eq!(
                again(&roles),
                RoleChange::Same,
                "a change that is told twice is one"
            );
        }
    }
    let frame = [EVENT_HEAD, br#""a","b\"""#, &event.encode_tail()].concat();
    assert!(is_json(&frame), "{}", frame.escape_ascii());
    matches(&event);
}

/// One connection with the event's own role and channel gets it, one of another project does not.
fn matches(event: &FeedMessage) {
    let mut index = Index::new(7);
    let channels = [event.channels[0].to_string()];
    for (key, project) in [(1, &*event.project), (2, "another project")] {
        index.insert(key, project, &event.roles[..1]).expect("new");
        let one = Subscription {
            id: "s",
            channels: &channels,
            filter: &QueryFilter::ALL,
        };
        index.subscribe(key, &[one]).expect("the first");
    }
    let mut found = Matches::default();
    index.matches(event, &mut found);
    let mut ids = Vec::new();
    for receiver in &found.receivers {
        index.write_ids(&found, receiver, &mut ids);
    }
    let expected: &[u8] = if &*event.project == "another project" {
        b"\"s\"\"s\""
    } else {
        b"\"s\""
    };
    assert_eq!(ids, expected);
}
