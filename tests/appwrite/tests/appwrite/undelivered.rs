//! Events that cannot be delivered are logged: with the user, and one line for many.

use throng_testkit::until;

use crate::stage::{Event, Stage};

#[test]
fn a_malformed_message_is_told_by_its_project_and_channel() {
    let stage = Stage::new("");
    // A whole one lacks its end.
    let whole = Event::document("X", "team:T", "new").message();
    let cut = &whole[..whole.len() - 20];
    for _ in 0..50 {
        assert_eq!(stage.redis.publish(cut), 1, "one listens");
    }
    stage.until_metric(
        "throng_appwrite_events_refused_total{reason=\"malformed\"}",
        50,
    );
    let told = || {
        let log = stage.server.log().into_iter();
        let lines = log.filter(|line| line["message"] == "an event from Appwrite is not delivered");
        lines.collect::<Vec<_>>()
    };
    let lines = until("a line", || Some(told()).filter(|lines| !lines.is_empty()));
    let first = &lines[0];
    assert_eq!(first["level"], "WARN", "{first}");
    assert_eq!(first["project"], "bench", "{first}");
    assert_eq!(first["channel"], "documents", "{first}");
    assert_eq!(first["bytes"], cut.len(), "{first}");
    assert_eq!(first["error"], "the feed message is malformed", "{first}");
    // One line stands for many: a line a second would be ten times as many as there are.
    assert!(lines.len() < 10, "{lines:#?}");
    // The next line, when it is due, gives the number it stands for; and the feed goes on.
    let next = until("a line that stands for others", || {
        stage
            .redis
            .publish(r#"{"project":"other","data":{"channels":["files"]"#);
        told()
            .into_iter()
            .find(|line| line["unsaid"].as_u64() > Some(0))
    });
    assert_eq!(
        (&next["project"], &next["channel"]),
        (&"other".into(), &"files".into())
    );
    let (mut socket, _) = stage.open(crate::plain::FILES);
    stage.publish(&Event::file("A"));
    assert_eq!(socket.event(), "A");
    stage.server.stop();
}
