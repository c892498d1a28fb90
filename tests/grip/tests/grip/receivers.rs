//! The answer to a publisher that asks how many connections took its items.

use throng_testkit::{Server, Wire, request};

use crate::support::{Backend, get, item, publish, reply, server, subscribed};

#[track_caller]
fn counted(server: &Server, items: &str) -> String {
    let body = format!("{{\"items\": [{items}]}}");
    let to = server.grip("http_publish");
    let json = [("Accept", "application/json")];
    request(to, "POST", "/publish/?receivers=1", &json, &body).body
}

fn told(receivers: &str) -> String {
    format!("{{\"message\":\"Published\",\"receivers\":{receivers}}}\n")
}

#[test]
fn all_shards_are_counted() {
    let backend = Backend::start(|asked, stream| {
        let target = asked.line.split(' ').nth(1).unwrap_or_default();
        let hold = match target {
            "/poll" => [("Grip-Hold", "response"), ("Grip-Channel", "a")],
            "/skips" => [
                ("Grip-Hold", "stream"),
                ("Grip-Channel", "a; filter=require-sub"),
            ],
            _ => [("Grip-Hold", "stream"), ("Grip-Channel", "a")],
        };
        reply(stream, &hold, "")
    });
    let server = server(&[backend.address], "");
    assert_eq!(counted(&server, &item("a", "nobody", "")), told("0"));
    let targets = ["/s"; 9].into_iter().chain(["/poll", "/skips"]);
    let mut wires: Vec<Wire> = targets.map(|target| get(&server, target)).collect();
    subscribed(&server, 11);
    for (at, wire) in wires.iter_mut().enumerate() {
        if at != 9 {
            wire.head();
        }
    }
    // The filter asks about another channel that its client is not in.
    let more = "\"meta\": {\"require_sub\": \"b\"},";
    assert_eq!(counted(&server, &item("a", "one", more)), told("10"));
    // A client that was answered is gone, and an item for responses alone reaches no stream.
    assert_eq!(counted(&server, &item("a", "two", "")), told("10"));
    let response = "{\"channel\": \"a\", \"http-response\": {\"body\": \"x\"}}";
    assert_eq!(counted(&server, response), told("0"));
    // The sum of all items, and of what was published before nothing.
    let both = format!(
        "{},{}",
        item("a", "three", "\"id\": \"3\","),
        item("x", "y", "")
    );
    assert_eq!(counted(&server, &both), told("10"));
    let again = item("a", "three", "\"id\": \"3\",");
    assert_eq!(counted(&server, &again), told("0"));
    // It goes out when what comes before it has come, or not for a while: the answer does not wait
    // for that.
    let later = item("a", "five", "\"id\": \"5\", \"prev-id\": \"4\",");
    assert_eq!(counted(&server, &later), told("null"));
    assert_eq!(
        counted(
            &server,
            &item("a", "four", "\"id\": \"4\", \"prev-id\": \"3\",")
        ),
        told("10")
    );
    let to = server.grip("http_publish");
    let body = format!("{{\"items\": [{}]}}", item("a", "six", ""));
    let text = request(to, "POST", "/publish?receivers=1", &[], &body);
    assert_eq!(text.body, "Published, receivers: 10\n");
    // A publisher that does not ask gets Pushpin's usual answer.
    assert_eq!(
        publish(&server, &item("a", "seven", "")).body,
        "Published\n"
    );
    for text in ["one", "two", "three", "four", "five", "six", "seven"] {
        assert_eq!(wires[0].chunk(), text);
    }
    server.stop();
}
