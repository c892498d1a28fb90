//! Sessions moved to another process keep the state of their clients.

use serde_json::json;
use throng_gateway_centrifuge::{Centrifuge, Session};
use throng_session::{Event, Gateway as _, Port};
use throng_types::{Load as _, Save as _, check_saved};

use crate::scene::{BEGIN_S, Scene, sign};

/// The session goes to another process, if it can.
fn moves(scene: &mut Scene) -> bool {
    let session = scene.session().expect("a session");
    let moves = Centrifuge::moves(session);
    if moves {
        check_saved(session);
        *session = Session::load_whole(&session.saved()).expect("what was saved");
    }
    moves
}

#[test]
fn a_client_goes_on_as_who_it_was() {
    let mut scene = Scene::open("/connection/websocket", "");
    scene.connect(&json!({ "sub": "ann", "exp": BEGIN_S + 60 }));
    scene.say(r#"{"id":2,"subscribe":{"channel":"open:a"}}"#);
    assert!(moves(&mut scene));
    let session = scene.session().expect("a session");
    let class = Centrifuge::class(session);
    assert_eq!(class.identity.map(|who| &*who.user), Some("ann"));
    assert_eq!(scene.publish("open:a", "1").len(), 1);
    // It has connected, so it may ask, and not connect again.
    assert_eq!(
        scene.say(r#"{"id":3,"ping":{}}"#),
        [r#"{"id":3,"ping":{}}"#]
    );
    // A ping from before is answered after, once.
    let told = scene.wait_s(25);
    assert_eq!(told, ["{}"]);
    assert!(moves(&mut scene));
    assert!(scene.say("{}").is_empty());
    assert_eq!(scene.say("{}"), ["close 3501"]);
}

/// A client in Protobuf stays one.
#[test]
fn a_client_keeps_its_form() {
    let mut scene = Scene::open("/connection/websocket?format=protobuf", "");
    let before = scene
        .session()
        .map(|session| Centrifuge::class(session).transport);
    assert!(moves(&mut scene));
    let after = scene
        .session()
        .map(|session| Centrifuge::class(session).transport);
    assert_eq!(before, after);
}

#[test]
fn a_listener_goes_on_listening_until_its_end() {
    for path in ["uni_sse", "uni_http_stream"] {
        let mut scene = Scene::new(Port::Client);
        let token = sign(&json!({ "sub": "ann", "exp": BEGIN_S + 60, "channels": ["open:a"] }));
        let connect = json!({ "token": token }).to_string();
        let escaped: String = connect.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let bytes = connect.len();
        scene.raw(&match path {
            "uni_sse" => {
                format!("GET /connection/uni_sse?cf_connect={escaped} HTTP/1.1\r\nHost: a\r\n\r\n")
            }
            _ => format!(
                "POST /connection/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {bytes}\r\n\r\n\
                 {connect}"
            ),
        });
        assert!(moves(&mut scene));
        let session = scene.session().expect("a session");
        let user = Centrifuge::class(session)
            .identity
            .map(|who| who.user.clone());
        assert_eq!(user.as_deref(), Some("ann"));
        scene.publish_text("open:a", "1");
        let told = scene.take_text();
        assert!(
            told.contains(r#"{"channel":"open:a","pub":{"data":1}}"#),
            "{told}"
        );
        assert_eq!(told.starts_with("data: "), path == "uni_sse");
        scene.pass_s(60);
        let told = scene.happens(Event::Timeout);
        assert!(told.contains("3005"), "{told}");
    }
}

#[test]
fn a_client_with_a_filter_moves() {
    let mut scene = Scene::ann();
    let filter = json!({ "key": "team", "cmp": "ex" });
    let subscribe = json!({ "channel": "changed:a", "tf": filter });
    scene.say(&json!({ "id": 2, "subscribe": subscribe }).to_string());
    scene.say(r#"{"id":3,"subscribe":{"channel":"open:a"}}"#);
    assert!(moves(&mut scene));
    assert_eq!(scene.publish("open:a", "1").len(), 1);
    scene.say(r#"{"id":4,"unsubscribe":{"channel":"changed:a"}}"#);
    assert!(moves(&mut scene));
}

/// A session with an open request does not move before the answer.
#[test]
fn what_waits_does_not_move() {
    // A call of the server API that waits for all shards.
    let mut scene = Scene::new(Port::Api);
    scene.raw("POST /api/info HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}");
    assert!(!moves(&mut scene));
    // One that has ended is not another process's business.
    let mut scene = Scene::ann();
    scene.say("nonsense");
    assert!(scene.has_ended());
    assert!(!moves(&mut scene));
}
