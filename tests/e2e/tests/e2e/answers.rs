//! A publication is a line, and an event, whatever it contains.

use throng_testkit::Setup;

/// A line is a publication, whatever line ends its parts were written with.
#[test]
fn nothing_in_a_publication_ends_its_line() {
    let server = Setup::default().shards(1).start();
    let mut lines = server.get("/stream?channel=news");
    lines.head();
    lines.chunk();
    let mut events = server.get("/sse?channel=news");
    events.through("subscribed");
    events.through("\n\n");
    for body in [
        "{\"channel\":\"news\",\"data\":1,\"tags\":{\n\"a\"\r\n:\r\"b\"\n\n}}",
        "{\"channel\":\"news\",\"data\":\n{\r\n\"a\":\n\n1}\r}",
        "{\"channel\":\"news\",\"data\":\"id: 1\\n\\nevent: x\"}",
    ] {
        let response = server.ask("POST", "/api/publish", body);
        assert_eq!(response.status, 200, "{response:?}");
        let line = lines.chunk();
        assert!(
            line.ends_with("}\n") && line.matches(['\n', '\r']).count() == 1,
            "{line:?}"
        );
        assert!(
            serde_json::from_str::<serde_json::Value>(&line).is_ok(),
            "{line:?}"
        );
        let event = events.through("\n\n");
        let is_data = |line: &str| line.is_empty() || line.starts_with("data: ");
        assert!(
            event.trim_end().split(['\n', '\r']).all(is_data),
            "{event:?}"
        );
    }
    // And a body that is no JSON.
    server.publish("news", "a\nid: 1\r\n\r\ndata: b\revent: c");
    assert_eq!(lines.chunk().matches('\n').count(), 1);
    let event = events.through("\n\n");
    assert!(
        event
            .trim_end()
            .split(['\n', '\r'])
            .all(|line| line.starts_with("data: ")),
        "{event:?}"
    );
    server.stop();
}
