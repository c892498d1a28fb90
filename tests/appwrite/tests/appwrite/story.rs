//! One story, told by every generation of the SDK.

use std::fmt::Write as _;

use serde_json::{Value, json};
use throng_testkit::Proxy;

use crate::sdk::{Sdk, Version};
use crate::stage::{Event, PROJECT, Stage};

const OLD: Version = Version {
    number: "",
    api: "client",
    by_message: false,
    queries: false,
    jwt: false,
};

const NEW: Version = Version {
    by_message: true,
    queries: true,
    ..OLD
};

#[rustfmt::skip]
const VERSIONS: [Version; 11] = [
    Version { number: "9.0.2", ..OLD },
    Version { number: "13.0.2", ..OLD },
    Version { number: "18.2.0", ..OLD },
    Version { number: "21.5.0", ..OLD },
    Version { number: "21.5.0", api: "realtime", ..OLD },
    Version { number: "24.2.0", queries: true, ..OLD },
    Version { number: "24.2.0", api: "realtime", queries: true, ..OLD },
    Version { number: "25.0.0", ..NEW },
    Version { number: "25.0.0", api: "realtime", ..NEW },
    Version { number: "27.0.0", jwt: true, ..NEW },
    Version { number: "27.0.0", api: "realtime", jwt: true, ..NEW },
];

const STEPS: [&str; 11] = [
    "guest",
    "session",
    "cookie",
    "token",
    "others",
    "revoked",
    "signed out",
    "query",
    "second",
    "reconnect",
    "origin",
];

const DOCUMENTS: &str = "databases.D.collections.C.documents";
const PAGE: &str = "http://localhost:5173";

/// The story of one version. Each step ends with an event that all clients get, so what was not
/// received before it was not sent.
struct Story<'s> {
    stage: &'s Stage,
    version: Version,
    proxy: Proxy,
    guest: Sdk,
    user: Sdk,
    other: Sdk,
    /// Users of this story.
    u: String,
    v: String,
}

impl Story<'_> {
    fn session(user: &str) -> String {
        format!("session-{user}")
    }

    fn open(&self, more: Value) -> Value {
        let mut fields = json!({
            "endpoint": self.stage.server.clients().to_string(), "project": PROJECT, "origin": PAGE,
        });
        for (name, value) in more.as_object().into_iter().flatten() {
            fields[name] = value.clone();
        }
        fields
    }

    #[track_caller]
    fn run(&mut self) -> Vec<&'static str> {
        self.guest_hears_of_a_file();
        self.user_signs_in();
        let cookie = self.comes_with("cookie");
        let token = if self.version.jwt {
            self.comes_with("jwt")
        } else {
            "-"
        };
        self.others_do_not_hear();
        self.revoked();
        self.signed_out();
        let query = if self.version.queries {
            self.query_holds()
        } else {
            "-"
        };
        self.second_subscription();
        self.reconnects();
        self.refused_origin();
        vec![
            "ok", "ok", cookie, token, "ok", "ok", "ok", query, "ok", "ok", "ok",
        ]
    }

    /// A guest behind a proxy subscribes to files.
    #[track_caller]
    fn guest_hears_of_a_file(&mut self) {
        let endpoint = self.proxy.address().to_string();
        let open = self.open(json!({ "endpoint": endpoint }));
        self.guest.order("open", open);
        self.guest
            .subscribe(json!({"as": "files", "channels": ["files"]}), 1);
        let connected = self
            .guest
            .frame("connected", 1, |f| f["type"] == "connected");
        assert_eq!(connected["data"]["user"], Value::Null);
        self.stage.publish(&Event::file("F1"));
        assert_eq!(self.guest.heard("files", "F1"), ["F1"]);
    }

    /// Two users sign in as browsers without third-party cookies do: the SDK sends the session.
    #[track_caller]
    fn user_signs_in(&mut self) {
        for (who, user) in [("u", self.u.clone()), ("v", self.v.clone())] {
            let session = Self::session(&user);
            self.stage.accounts.sign_in(&session, &user);
            let name = format!("a_session_{PROJECT}");
            let open = self.open(json!({ "fallback": { name: session } }));
            let sdk = if who == "u" {
                &mut self.user
            } else {
                &mut self.other
            };
            sdk.order("open", open);
            let channels = json!(["account", DOCUMENTS]);
            sdk.subscribe(json!({"as": "documents", "channels": channels}), 1);
            let answer = sdk.frame("authentication", 1, |frame| {
                frame["type"] == "response" && frame["data"]["to"] == "authentication"
            });
            assert_eq!(answer["data"]["user"]["$id"], user.as_str());
        }
        let role = format!("user:{}", self.u);
        self.stage.publish(&Event::document("D1", &role, "open"));
        assert_eq!(self.user.heard("documents", "D1"), ["D1"]);
    }

    /// The handshake itself identifies the user.
    #[track_caller]
    fn comes_with(&self, what: &str) -> &'static str {
        let (mut sdk, user) = (Sdk::start(self.version), &self.u);
        let shown = format!("{what}-{user}");
        self.stage.accounts.sign_in(&shown, user);
        let shown = match what {
            "cookie" => json!({ "cookie": format!("a_session_{PROJECT}={shown}") }),
            _ => json!({ "jwt": shown }),
        };
        sdk.order("open", self.open(shown));
        sdk.subscribe(json!({"as": "account", "channels": ["account"]}), 1);
        let connected = sdk.frame("connected", 1, |frame| frame["type"] == "connected");
        assert_eq!(connected["data"]["user"]["$id"], user.as_str());
        let role = format!("user:{user}");
        let mut event = Event::signed_out(user, &role);
        event.names = vec![format!("users.{user}.create")];
        event.payload = json!({ "$id": what });
        self.stage.publish(&event);
        assert_eq!(sdk.heard("account", what), [what]);
        "ok"
    }

    /// Checks that events for one user reach no other.
    #[track_caller]
    fn others_do_not_hear(&self) {
        let role = format!("user:{}", self.u);
        self.stage.publish(&Event::document("D2", &role, "open"));
        self.stage.publish(&Event::document("D3", "users", "open"));
        assert_eq!(self.other.heard("documents", "D3"), ["D3"]);
        let heard = self.user.heard("documents", "D3");
        assert_eq!(heard[heard.len() - 2..], ["D2", "D3"]);
    }

    /// A member gets the team's documents until the membership ends.
    #[track_caller]
    fn revoked(&self) {
        let (team, user) = (format!("t-{}", self.u), self.u.as_str());
        let role = format!("team:{team}");
        self.stage.accounts.join(user, &team, &["member"]);
        let mut joined = Event::membership_deleted(user, &team, &role);
        joined.names = vec![format!("teams.{team}.memberships.M.create")];
        self.stage.publish(&joined);
        self.stage.publish(&Event::document("D4", &role, "open"));
        self.user.heard("documents", "D4");
        self.stage.accounts.leave(user, &team);
        let left = Event::membership_deleted(user, &team, &role);
        self.stage.publish(&left);
        self.stage.publish(&Event::document("D5", &role, "open"));
        self.stage.publish(&Event::document("D6", "users", "open"));
        let heard = self.user.heard("documents", "D6");
        assert_eq!(heard[heard.len() - 2..], ["D4", "D6"]);
        assert!(
            !self
                .other
                .heard("documents", "D6")
                .contains(&"D5".to_owned())
        );
    }

    /// A session that ended makes a guest of a live connection.
    #[track_caller]
    fn signed_out(&self) {
        let (role, session) = (format!("user:{}", self.v), Self::session(&self.v));
        self.stage.publish(&Event::document("D7", &role, "open"));
        self.other.heard("documents", "D7");
        self.stage.accounts.sign_out(&session);
        self.stage.publish(&Event::signed_out(&self.v, &role));
        self.stage.publish(&Event::document("D8", &role, "open"));
        self.stage.publish(&Event::document("D9", "any", "open"));
        let heard = self.other.heard("documents", "D9");
        assert_eq!(heard.last().map(String::as_str), Some("D9"));
        assert!(!heard.contains(&"D8".to_owned()), "{heard:?}");
    }

    /// Only events with a status are asked for.
    #[track_caller]
    fn query_holds(&self) -> &'static str {
        let mut sdk = Sdk::start(self.version);
        sdk.order("open", self.open(json!({})));
        let channels = json!([DOCUMENTS]);
        sdk.subscribe(
            json!({"as": "open", "channels": channels, "status": "open"}),
            1,
        );
        for (id, status) in [
            ("Q1", "closed"),
            ("Q2", "open"),
            ("Q3", "closed"),
            ("Q4", "open"),
        ] {
            self.stage.publish(&Event::document(id, "any", status));
        }
        assert_eq!(sdk.heard("open", "Q4"), ["Q2", "Q4"]);
        "ok"
    }

    /// A second subscription beside the first; SDKs before 25 open the socket anew for it.
    #[track_caller]
    fn second_subscription(&mut self) {
        let channels = json!(["buckets.B.files.F2"]);
        let more = json!({"as": "file", "channels": channels});
        if self.version.by_message {
            self.guest.order("subscribe", more);
            self.guest.frame("the second answer", 1, |frame| {
                frame["data"]["to"] == "subscribe"
                    && frame["data"]["subscriptions"][0]["channels"] == channels
            });
        } else {
            self.guest.subscribe(more, 2);
        }
        self.stage.publish(&Event::file("F2"));
        assert_eq!(self.guest.heard("file", "F2"), ["F2"]);
        assert_eq!(self.guest.heard("files", "F2"), ["F1", "F2"]);
    }

    /// The line is cut; the SDK comes back by itself and subscribes again.
    #[track_caller]
    fn reconnects(&self) {
        let sockets = if self.version.by_message { 1 } else { 2 };
        self.proxy.cut();
        self.proxy.mend();
        self.guest.wait_connected(sockets + 1);
        self.stage.publish(&Event::file("F3"));
        assert_eq!(self.guest.heard("files", "F3"), ["F1", "F2", "F3"]);
    }

    /// A page of a stranger is refused, with a code on which SDKs stop.
    #[track_caller]
    fn refused_origin(&self) {
        let mut sdk = Sdk::start(self.version);
        let open = self.open(json!({ "origin": "https://evil.test" }));
        sdk.order("open", open);
        sdk.order("subscribe", json!({"as": "files", "channels": ["files"]}));
        let error = sdk.frame("the refusal", 1, |frame| frame["type"] == "error");
        assert_eq!(error["data"]["code"], 1008);
        let message = error["data"]["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("Invalid Origin. Register your new client (evil.test)"));
        assert_eq!(sdk.closed(), 1008);
    }
}

#[test]
fn every_version_tells_the_story() {
    let stage = Stage::new("");
    let mut table = format!(
        "| appwrite | {} |\n|{}\n",
        STEPS.join(" | "),
        "---|".repeat(STEPS.len() + 1)
    );
    for (n, version) in VERSIONS.into_iter().enumerate() {
        let start = || Sdk::start(version);
        let mut story = Story {
            stage: &stage,
            version,
            proxy: Proxy::new(stage.server.clients()),
            guest: start(),
            user: start(),
            other: start(),
            u: format!("u{n}"),
            v: format!("v{n}"),
        };
        let results = story.run();
        assert_eq!(results.len(), STEPS.len());
        let row = results.join(" | ");
        let _ = writeln!(table, "| {} {} | {row} |", version.number, version.api);
    }
    println!("{table}");
    let refused = r#"throng_appwrite_refused_total{reason="origin"}"#;
    assert_eq!(stage.server.metric(refused), VERSIONS.len() as u64);
    stage.server.stop();
}
