//! Events as Appwrite publishes them.

use serde_json::json;

use crate::account::account;

/// Makes the message of an event from its words, which `docs/TESTING.md` lists. `name=value` behind
/// them replaces the `project` or the `roles`, or gives a `text` of the payload.
pub(crate) fn message(words: &str) -> String {
    let (options, words): (Vec<&str>, Vec<&str>) =
        { words.split(' ') }.partition(|word| word.contains('='));
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let (id, by) = (word(1), word(2));
    let documents = "databases.D.collections.C.documents";
    let (names, channels, mut payload) = match word(0) {
        "file" => (
            format!("buckets.B.files.{id}.create"),
            vec![
                "files".into(),
                "buckets.B.files".into(),
                format!("buckets.B.files.{id}"),
            ],
            json!({"$id": id, "bucketId": "B"}),
        ),
        "document" => (
            format!("{documents}.{id}.update"),
            vec![
                "documents".into(),
                documents.into(),
                format!("{documents}.{id}"),
            ],
            json!({"$id": id, "status": if word(3).is_empty() { "open" } else { word(3) }}),
        ),
        kind @ ("joined" | "left") => (
            format!(
                "teams.{by}.memberships.M.{}",
                if kind == "left" { "delete" } else { "create" }
            ),
            vec!["memberships".into(), "memberships.M".into()],
            json!({"$id": "M", "userId": id}),
        ),
        "session-ended" => (
            format!("users.{id}.sessions.S.delete"),
            vec!["account".into(), format!("account.{id}")],
            json!({"$id": "S", "userId": id}),
        ),
        "registered" => (
            format!("users.{id}.create"),
            vec!["account".into(), format!("account.{id}")],
            json!({ "$id": by }),
        ),
        "updated" => (
            format!("users.{id}.update.{by}"),
            vec!["account".into(), format!("account.{id}")],
            account(id, &words[3..]),
        ),
        other => panic!("no event: {other}"),
    };
    let role = match word(0) {
        "file" => "any".to_owned(),
        "document" => by.to_owned(),
        "joined" | "left" => format!("team:{by}"),
        _ => format!("user:{id}"),
    };
    let (mut project, mut roles) = (crate::PROJECT, vec![role]);
    for option in options {
        match option.split_once('=').expect("a value") {
            ("project", value) => project = value,
            ("roles", value) => {
                roles = { value.split_terminator(',') }.map(str::to_owned).collect()
            }
            ("text", value) => payload["text"] = json!(value),
            (other, _) => panic!("no option of an event: {other}"),
        }
    }
    let changed = matches!(word(0), "joined" | "left").then_some(id);
    json!({
        "project": project, "roles": roles,
        "permissionsChanged": changed.is_some(), "userId": changed,
        "data": {
            "events": [names], "channels": channels,
            "timestamp": "2026-08-21T12:42:57.123+00:00", "payload": payload,
        }
    })
    .to_string()
}

/// A connection on which Appwrite publishes.
pub(crate) struct Publisher(redis::Connection);

impl Publisher {
    /// Connects to a Redis.
    ///
    /// # Panics
    /// If it is not there.
    pub(crate) fn new(url: &str) -> Self {
        let client = redis::Client::open(url).expect("an address");
        Self(client.get_connection().expect("a server"))
    }

    /// Publishes a message; gives the number of those who listen.
    pub(crate) fn publish(&mut self, message: &str) -> u64 {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg("realtime").arg(message);
        publish.query(&mut self.0).expect("an answer")
    }

    /// Number of those who listen.
    pub(crate) fn listeners(&mut self) -> u64 {
        let mut count = redis::cmd("PUBSUB");
        count.arg("NUMSUB").arg("realtime");
        let (_, count): (String, u64) = count.query(&mut self.0).expect("an answer");
        count
    }
}
