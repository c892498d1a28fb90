//! The server API: one call, many in one request, and refusals.

use throng_session::Port;
use throng_types::cases;

use crate::scene::{Scene, channel_on};

/// As `gocent` sends it: a command a line, answered in their order, a line each.
#[test]
fn commands_a_line() {
    for shard in [0, 1] {
        let channel = channel_on(shard, "kept:");
        let publish = format!(r#"{{"channel":"{channel}","data":{{"n":1}}}}"#);
        let history = format!(r#"{{"channel":"{channel}","limit":10}}"#);
        let body = format!(
            "{{\"id\":1,\"method\":\"publish\",\"params\":{publish}}}\n\
             {{\"method\":\"unheard_of\",\"params\":{{}}}}\n\
             {{\"method\":\"publish\",\"params\":[]}}\n\
             {{\"id\":2,\"method\":\"history\",\"params\":{history}}}"
        );
        let (status, told) = Scene::new(Port::Api).post("/api", "", &body);
        let lines: Vec<&str> = told.lines().collect();
        let [published, unknown, wrong, found] = lines[..] else {
            panic!("{told}");
        };
        assert_eq!(status, 200);
        assert!(
            published.starts_with(r#"{"id":1,"result":{"epoch":""#),
            "{published}"
        );
        assert_eq!(unknown, r#"{"error":{"code":104,"message":"not found"}}"#);
        assert_eq!(wrong, r#"{"error":{"code":107,"message":"bad request"}}"#);
        let expected = r#"{"id":2,"result":{"publications":[{"data":{"n":1},"offset":1}]"#;
        assert!(found.starts_with(expected), "{found}");
    }
}

#[test]
fn a_batch_is_answered_in_its_order() {
    let channels = [channel_on(1, "kept:"), channel_on(0, "open:")];
    let [kept, open] = &channels;
    let broadcast = format!(r#"{{"channels":["{open}","no:where"],"data":2}}"#);
    let body = format!(
        "{{\"commands\":[{{\"publish\":{{\"channel\":\"{kept}\",\"data\":1}}}},\
         {{\"nothing\":{{}}}},{{\"broadcast\":{broadcast}}}],\"parallel\":true}}"
    );
    let (status, told) = Scene::new(Port::Api).post("/api/batch", "", &body);
    assert_eq!(status, 200);
    assert!(
        told.starts_with(r#"{"replies":[{"publish":{"epoch":""#),
        "{told}"
    );
    let rest = concat!(
        r#"{"error":{"code":104,"message":"not found"}},{"broadcast":{"responses":[{"result":{}},"#,
        r#"{"error":{"code":102,"message":"unknown channel"}}]}}]}"#,
    );
    assert!(told.ends_with(rest), "{told}");
    let none = Scene::new(Port::Api).post("/api/batch", "", r#"{"commands":[]}"#);
    assert_eq!(none, (200, r#"{"replies":[]}"#.to_owned()));
}

#[test]
fn what_is_refused_is_refused_in_json() {
    for (call, expected) in cases(include_str!("refused_calls.txt")) {
        let (path, body) = call.split_once(' ').expect("METHOD BODY");
        let told = Scene::new(Port::Api).post(&format!("/api/{path}"), "", body);
        assert_eq!(told, (200, expected.to_owned()), "{call}");
    }
    for (path, body) in [
        ("publish", "[]"),
        ("publish", r#"["open:a",1]"#),
        ("info", "[]"),
        ("batch", r#"{"commands":[["x"]]}"#),
        ("", "[1]"),
        ("", ""),
    ] {
        let (status, told) = Scene::new(Port::Api).post(&format!("/api/{path}"), "", body);
        assert_eq!(status, 400, "{path} {body}");
        assert!(
            told.starts_with(r#"{"error":{"code":107,"message":"bad request: "#),
            "{told}"
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&told).is_ok(),
            "{told}"
        );
    }
    let header = "X-Centrifugo-Error-Mode: transport\r\n";
    let body = r#"{"channel":"no:where","data":1}"#;
    let told = Scene::new(Port::Api).post("/api/publish", header, body);
    let expected = r#"{"code":102,"message":"unknown channel"}"#;
    assert_eq!(told, (404, expected.to_owned()));
}

/// A publication that is not newer than the channel's newest is answered and not kept, and a
/// history that was forgotten is gone.
#[test]
fn versions_are_compared_and_histories_forgotten() {
    for shard in [0, 1] {
        let channel = channel_on(shard, "kept:");
        let mut scene = Scene::new(Port::Api);
        let mut say = |path: &str, body: String| {
            let (status, told) = scene.post(&format!("/api/{path}"), "", &body);
            assert_eq!(status, 200, "{told}");
            told
        };
        for (version, offset) in [(2, 1), (1, 1), (2, 1), (3, 2)] {
            let body = format!(r#"{{"channel":"{channel}","data":{version},"version":{version}}}"#);
            let told = say("publish", body);
            assert!(
                told.ends_with(&format!(r#""offset":{offset}}}}}"#)),
                "{told}"
            );
        }
        let history = format!(r#"{{"channel":"{channel}","limit":10}}"#);
        let told = say("history", history.clone());
        assert!(
            told.contains(r#"[{"data":2,"offset":1},{"data":3,"offset":2}]"#),
            "{told}"
        );
        let told = say("history_remove", format!(r#"{{"channel":"{channel}"}}"#));
        assert_eq!(told, r#"{"result":{}}"#);
        let told = say("history", history);
        assert!(told.contains(r#""publications":[]"#), "{told}");
        assert!(told.ends_with(r#""offset":2}}"#), "{told}");
    }
}
