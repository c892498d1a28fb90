//! Everything that a test needs around the server, and the events of Appwrite.

use serde_json::{Value, json};
use throng_testkit::{Server, Setup, until};

use crate::account::AccountApi;
use crate::redis_server::RedisServer;

/// The project of all tests.
pub(crate) const PROJECT: &str = "bench";

/// Redis, the stand-in for Appwrite, and Throng between them.
pub(crate) struct Stage {
    pub(crate) redis: RedisServer,
    pub(crate) accounts: AccountApi,
    pub(crate) server: Server,
}

impl Stage {
    /// Two shards; `more` are further lines of the section `[appwrite]`.
    #[track_caller]
    pub(crate) fn new(more: &str) -> Self {
        Self::with("", more)
    }

    /// Starts a stage with sections before `[appwrite]`.
    #[track_caller]
    pub(crate) fn with(before: &str, more: &str) -> Self {
        Self::before(AccountApi::start(), before, more, None)
    }

    /// Starts a stage before this API; of authorities, only the one in a file is trusted.
    #[track_caller]
    pub(crate) fn before(
        accounts: AccountApi,
        before: &str,
        more: &str,
        believed: Option<&str>,
    ) -> Self {
        let redis = RedisServer::start();
        let config = format!(
            "{before}\n[appwrite]\nredis = {:?}\napi = {:?}\n{more}\n\
             [[appwrite.project]]\nid = {PROJECT:?}\nplatforms = [\"localhost\", \
             \"*.example.com\"]\n",
            redis.url(),
            accounts.url()
        );
        let mut setup = Setup::new(&config).shards(2);
        if let Some(believed) = believed {
            setup = setup.variable("SSL_CERT_FILE", believed);
        }
        let server = setup.start();
        redis.wait_for_subscriber();
        Self {
            redis,
            accounts,
            server,
        }
    }

    /// Publishes an event as Appwrite does.
    #[track_caller]
    pub(crate) fn publish(&self, event: &Event<'_>) {
        assert_eq!(self.redis.publish(&event.message()), 1, "one listens");
    }

    /// Waits until a metric has reached a value; series of one shard are there from the start.
    #[track_caller]
    pub(crate) fn until_metric(&self, series: &str, least: u64) {
        until(series, || {
            (self.server.metric(series) >= least).then_some(())
        });
    }
}

/// An event of Appwrite.
#[derive(Clone)]
pub(crate) struct Event<'e> {
    pub(crate) project: &'e str,
    pub(crate) roles: Vec<&'e str>,
    pub(crate) names: Vec<String>,
    pub(crate) channels: Vec<String>,
    pub(crate) payload: Value,
    /// User whose permissions have changed.
    pub(crate) changed: Option<&'e str>,
}

impl<'e> Event<'e> {
    /// A file that all users may read.
    pub(crate) fn file(id: &str) -> Self {
        Self {
            project: PROJECT,
            roles: vec!["any"],
            names: vec![format!("buckets.B.files.{id}.create")],
            channels: vec![
                "files".into(),
                "buckets.B.files".into(),
                format!("buckets.B.files.{id}"),
            ],
            payload: json!({"$id": id, "bucketId": "B"}),
            changed: None,
        }
    }

    /// A document with a status, for those with a role.
    pub(crate) fn document(id: &str, role: &'e str, status: &str) -> Self {
        let documents = "databases.D.collections.C.documents";
        Self {
            project: PROJECT,
            roles: vec![role],
            names: vec![format!("{documents}.{id}.update")],
            channels: vec![
                "documents".into(),
                documents.into(),
                format!("{documents}.{id}"),
            ],
            payload: json!({"$id": id, "status": status}),
            changed: None,
        }
    }

    /// A user is no member of a team any more.
    pub(crate) fn membership_deleted(user: &'e str, team: &str, role: &'e str) -> Self {
        Self {
            project: PROJECT,
            roles: vec![role],
            names: vec![format!("teams.{team}.memberships.M.delete")],
            channels: vec!["memberships".into(), "memberships.M".into()],
            payload: json!({"$id": "M", "userId": user}),
            changed: Some(user),
        }
    }

    /// A session has ended.
    pub(crate) fn signed_out(user: &str, role: &'e str) -> Self {
        Self {
            project: PROJECT,
            roles: vec![role],
            names: vec![format!("users.{user}.sessions.S.delete")],
            channels: vec!["account".into(), format!("account.{user}")],
            payload: json!({"$id": "S", "userId": user}),
            changed: None,
        }
    }

    pub(crate) fn message(&self) -> String {
        json!({
            "project": self.project, "roles": self.roles,
            "permissionsChanged": self.changed.is_some(), "userId": self.changed,
            "data": {
                "events": self.names, "channels": self.channels,
                "timestamp": "2026-08-21T12:42:57.123+00:00", "payload": self.payload,
            }
        })
        .to_string()
    }
}
