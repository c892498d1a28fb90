//! Whole dialogues with every generation of the official web SDK, in the bytes that it sends.
//!
//! URLs and client messages were captured from the npm packages of the versions named, in a
//! program that subscribes to `files` and `account` in one call and, in another, to a collection's
//! documents (from 22.1 on those whose status is open) while it remembers a session.

use super::*;

const COLLECTION: &str = "databases.D.collections.C.documents";

fn document(role: &str, status: &str) -> Value {
    let mut event = event("X", role);
    event["data"]["channels"] = json!(["documents", COLLECTION, format!("{COLLECTION}.X")]);
    event["data"]["payload"]["status"] = json!(status);
    event
}

struct Sdk {
    version: &'static str,
    query: &'static str,
    /// The slots that `connected` answers, where they are not a plain list.
    slots: &'static [&'static str],
    /// Everything it sends after `connected`.
    sends: &'static [&'static str],
    /// Which of the subscriptions is the first call's, and which the second call's.
    files: usize,
    documents: usize,
    filters: bool,
}

const AUTHENTICATION: &str = r#"{"type":"authentication","data":{"session":"eyJpZCI6IlUifQ=="}}"#;

const SDKS: [Sdk; 5] = [
    Sdk {
        version: "9.0.2, 13.0.2, 18.2.0, and 21.5.0 through Client",
        query: "project=bench&channels%5B%5D=files&channels%5B%5D=account&\
                channels%5B%5D=databases.D.collections.C.documents",
        slots: &[],
        sends: &[AUTHENTICATION],
        files: 0,
        documents: 0,
        filters: false,
    },
    Sdk {
        version: "21.5.0 through Realtime",
        query: "project=bench&channels[]=files&channels[]=account&\
                channels[]=databases.D.collections.C.documents",
        slots: &[],
        sends: &[AUTHENTICATION],
        files: 0,
        documents: 0,
        filters: false,
    },
    Sdk {
        version: "24.2.0 through Realtime",
        query: "project=bench&channels[]=files&channels[]=account&\
             channels[]=databases.D.collections.C.documents&\
             files[1][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             account[1][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             databases.D.collections.C.documents[2][]=%7B%22method%22%3A%22equal%22%2C\
             %22attribute%22%3A%22status%22%2C%22values%22%3A%5B%22open%22%5D%7D",
        slots: &["1", "2"],
        sends: &[AUTHENTICATION],
        files: 0,
        documents: 1,
        filters: true,
    },
    Sdk {
        version: "24.2.0 through Client",
        query: "project=bench&channels[]=files&channels[]=account&\
             channels[]=databases.D.collections.C.documents&\
             files[0][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             account[0][]=%7B%22method%22%3A%22select%22%2C%22values%22%3A%5B%22*%22%5D%7D&\
             databases.D.collections.C.documents[1][]=%7B%22method%22%3A%22select%22%2C\
             %22values%22%3A%5B%22*%22%5D%7D",
        slots: &[],
        sends: &[AUTHENTICATION],
        files: 0,
        documents: 1,
        filters: false,
    },
    Sdk {
        version: "25.0.0 and 27.0.0",
        query: "project=bench",
        slots: &[],
        sends: &[
            AUTHENTICATION,
            concat!(
                r#"{"type":"subscribe","data":[{"subscriptionId":"6b00727a00234ff9e574","#,
                r#""channels":["files","account"],"queries":[]},"#,
                r#"{"subscriptionId":"6b00727a002350ffb54c","#,
                r#""channels":["databases.D.collections.C.documents"],"#,
                r#""queries":["{\"method\":\"equal\",\"attribute\":\"status\","#,
                r#"\"values\":[\"open\"]}"]}]}"#,
            ),
        ],
        files: 0,
        documents: 1,
        filters: true,
    },
];

#[test]
fn every_generation_has_its_story() {
    for sdk in SDKS {
        story(&sdk, sdk.sends);
        // SDKs send both messages at once, so either may be first.
        let mut swapped = sdk.sends.to_vec();
        swapped.reverse();
        story(&sdk, &swapped);
    }
}

/// The ids of the subscriptions that an event brings, if it comes.
fn told(server: &mut Server, event: &Value) -> Option<Value> {
    server.event(1, event);
    server.turn();
    let mut frames = server.frames(0);
    assert!(frames.len() <= 1, "{frames:?}");
    Some(frames.pop()?["data"]["subscriptions"].take())
}

#[track_caller]
fn story(sdk: &Sdk, sends: &[&str]) {
    let version = sdk.version;
    let mut server = Server::new();
    server.open(0, sdk.query, "");
    let connected = server.frames(0).remove(0);
    let data = &connected["data"];
    let in_url = ["files", "account", COLLECTION];
    let channels = &in_url[..if sdk.query == "project=bench" { 0 } else { 3 }];
    assert_eq!(data["channels"], json!(channels), "{version}");
    assert_eq!(data["user"], Value::Null, "{version}");
    let mut ids = match &data["subscriptions"] {
        Value::Object(slots) => {
            assert!(slots.keys().eq(sdk.slots), "{version}: {connected}");
            slots.values().cloned().collect()
        }
        list => {
            assert!(sdk.slots.is_empty(), "{version}: {connected}");
            list.as_array().expect("a list").clone()
        }
    };
    // A guest: nothing of the user's yet.
    let name = account("U", "update.name", json!({"$id": "U"}));
    assert_eq!(told(&mut server, &name), None, "{version}");
    let open = document("user:U", "open");
    assert_eq!(told(&mut server, &open), None, "{version}");
    sends.iter().for_each(|message| server.say(0, message));
    let lookup = server.lookup();
    server.answer(&lookup, user_of("U", &[]));
    let answers = server.frames(0);
    assert_eq!(answers.len(), sends.len(), "{version}: {answers:?}");
    for answer in answers {
        assert_eq!(answer["type"], "response", "{version}: {answer}");
        assert_eq!(answer["data"]["success"], true, "{version}: {answer}");
        let made = answer["data"]["subscriptions"].as_array();
        let made = made.into_iter().flatten();
        ids.extend(made.map(|one| one["subscriptionId"].clone()));
    }
    server.say(0, r#"{"type":"ping"}"#);
    assert_eq!(server.frames(0), [json!({"type": "pong"})]);

    let (files, documents) = (json!([ids[sdk.files]]), json!([ids[sdk.documents]]));
    let mut file = event("F", "any");
    server.event(1, &file);
    server.turn();
    file["data"]["subscriptions"] = files.clone();
    let expected = json!({"type": "event", "data": file["data"]});
    assert_eq!(server.frames(0), [expected], "{version}");
    assert_eq!(told(&mut server, &name), Some(files.clone()), "{version}");
    assert_eq!(
        told(&mut server, &open).as_ref(),
        Some(&documents),
        "{version}"
    );
    let closed = told(&mut server, &document("user:U", "closed"));
    assert_eq!(closed, (!sdk.filters).then_some(documents), "{version}");
    // Another user's document, and the session taken back.
    let other = document("user:V", "open");
    assert_eq!(told(&mut server, &other), None, "{version}");
    told(&mut server, &account("U", "sessions.delete", json!({})));
    assert_eq!(told(&mut server, &open), None, "{version}");
    assert_eq!(
        told(&mut server, &event("F", "any")),
        Some(files),
        "{version}"
    );
}
