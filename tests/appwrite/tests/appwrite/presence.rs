//! Presences that clients set over the socket: Appwrite keeps them, with the client's own session.

use serde_json::{Value, json};
use throng_testkit::until;

use crate::sdk::{Sdk, Version};
use crate::socket::Socket;
use crate::stage::{PROJECT, Stage};

const FILES: &str = "project=bench&channels[]=files";
const PAGE: &str = "http://localhost:5173";

fn page(stage: &Stage, more: Value) -> Sdk {
    let mut sdk = Sdk::start(Version {
        number: "27.0.0",
        api: "realtime",
        by_message: true,
        queries: true,
        jwt: true,
    });
    let mut open = json!({
        "endpoint": stage.server.clients().to_string(), "project": PROJECT, "origin": PAGE,
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        open[name] = value.clone();
    }
    sdk.order("open", open);
    sdk.order("errors", json!({}));
    sdk
}

/// The presence of a user once it has this status.
#[track_caller]
fn stored(stage: &Stage, user: &str, status: &str) -> Value {
    until(status, || {
        let presence = stage.accounts.presence(user);
        presence.filter(|presence| presence["status"] == status)
    })
}

#[track_caller]
fn gone(stage: &Stage, user: &str) {
    until("no presence", || {
        stage.accounts.presence(user).is_none().then_some(())
    });
}

fn is_response(frame: &Value) -> bool {
    frame["type"] == "response" && frame["data"]["to"] == "presence"
}

/// Each way in which a page identifies its user.
#[test]
fn the_sdk_sets_a_presence_that_lives_as_long_as_its_socket() {
    let stage = Stage::new("");
    let cookie = json!({"cookie": format!("a_session_{PROJECT}=ann")});
    let mut fallback = json!({"fallback": {}});
    fallback["fallback"][format!("a_session_{PROJECT}")] = json!("ann");
    for shown in [cookie, json!({"jwt": "ann"}), fallback] {
        stage.accounts.sign_in("ann", "ann");
        let mut sdk = page(&stage, shown.clone());
        let metadata = json!({"place": "café", "n": 7});
        let set = json!({"presenceId": "p1", "status": "online", "metadata": metadata});
        sdk.order("presence", set);
        let presence = stored(&stage, "ann", "online");
        assert_eq!(presence["$id"], "p1", "{shown}");
        assert_eq!(presence["metadata"], metadata, "{shown}");
        let told = sdk.frame("the answer", 1, is_response);
        assert_eq!(told["data"]["presence"], presence, "{shown}");
        sdk.order("presence", json!({"presenceId": "p1", "status": "away"}));
        stored(&stage, "ann", "away");
        drop(sdk);
        gone(&stage, "ann");
    }
    stage.server.stop();
}

#[test]
fn the_sdk_hears_why_a_presence_is_refused() {
    let stage = Stage::new("");
    stage.accounts.sign_in("ann", "ann");
    let cookie = json!({"cookie": format!("a_session_{PROJECT}=ann")});
    let foreign = json!({
        "presenceId": "p1", "status": "online", "permissions": ["read(\"team:other\")"],
    });
    let mut sdk = page(&stage, cookie);
    sdk.order("presence", foreign);
    let why = "Permissions must be one of: (any, users)";
    assert_eq!(sdk.error(), (401, why.to_owned()));
    // The socket is good for another.
    sdk.order("presence", json!({"presenceId": "p1", "status": "online"}));
    stored(&stage, "ann", "online");
    drop(sdk);
    let mut guest = page(&stage, json!({}));
    guest.order("presence", json!({"presenceId": "p2", "status": "online"}));
    assert_eq!(guest.error(), (401, "User must be authorized".to_owned()));
    gone(&stage, "ann");
    stage.server.stop();
}

/// The end of the socket may come before Appwrite has answered; a server that takes over knows
/// which presences to delete; and a presence whose client has no id for it gets one.
#[test]
fn a_presence_is_taken_away_however_its_socket_ends() {
    let stage = Stage::new("");
    let set = |socket: &mut Socket, data: Value| {
        socket.say(&json!({"type": "presence", "data": data}).to_string());
    };
    let mut ann = stage.open_as("ann", FILES);
    set(&mut ann, json!({"status": "online"}));
    let told = ann.frame();
    let id = told["data"]["presence"]["$id"].as_str().unwrap().to_owned();
    assert_eq!((is_response(&told), id.len()), (true, 20), "{told}");
    stage.server.upgrade_well();
    set(&mut ann, json!({"status": "away", "presenceId": "other"}));
    assert_eq!(ann.frame()["data"]["presence"]["$id"], *id);
    stage.server.upgrade_well();
    drop(ann);
    gone(&stage, "ann");
    let mut ann = stage.open_as("ann", FILES);
    stage.accounts.take_asked();
    set(&mut ann, json!({"status": "online", "presenceId": "p"}));
    drop(ann);
    until("both requests", || {
        let asked = stage.accounts.take_asked();
        asked
            .contains(&"DELETE /v1/presences/p".to_owned())
            .then_some(())
    });
    gone(&stage, "ann");
    stage.server.stop();
}
