//! Exact texts that a client of `/ws`, `/sse` and `/stream` gets beside the head of its answer.

use std::fmt::Write as _;
use throng_broker::{Recovery, Refusal};
use throng_gateway_plain::Plain;
use throng_session::{CloseReason, Event, Gateway, Port};
use throng_solo::{Solo, WEBSOCKET, name, position};
use throng_types::{Millis, Payload, PayloadKind, Position, Publication, Unsubscribe};

fn publication(kind: PayloadKind, bytes: &[u8], position: Option<Position>) -> Publication {
    let bytes = bytes.into();
    Publication {
        tags: position.map(|_| "{\"a\":1}".into()),
        ..Publication::new(name("news"), position, Payload { bytes, kind })
    }
}

/// Client with the texts received so far.
struct Client {
    solo: Solo<Plain>,
    heard: String,
}

impl Client {
    fn new(target: &str, fields: &str) -> Self {
        let mut solo = Solo::at(Port::Client, throng_solo::shared());
        solo.get(target, fields);
        solo.out.clear();
        let heard = String::new();
        Self { solo, heard }
    }

    /// Lets something happen and notes what is said.
    fn event(&mut self, what: &str, event: Event<'_>) {
        self.solo.event(event);
        self.note(what);
    }

    fn note(&mut self, what: &str) {
        let said = std::mem::take(&mut self.solo.out)
            .escape_ascii()
            .to_string();
        let said = said.replace("\\n", "\n").replace("\\\"", "\"");
        let end = { self.solo.actions.end }.map_or("", |_| " (ends)");
        writeln!(self.heard, "{what}: {said}{end}").expect("a string");
    }

    fn subscribed(&mut self, result: Result<Recovery, Refusal>) {
        self.solo.subscribed("news", result);
        self.note("answer");
    }

    /// All that may happen to a client that stays.
    fn whole_life(mut self, recovery: Recovery) -> String {
        self.subscribed(Ok(recovery));
        self.event("drained", Event::Drained { dropped: 5 });
        let (channel, why) = (&name("news"), Unsubscribe::Server);
        self.event("unsubscribed", Event::Unsubscribed { channel, why });
        self.solo.now.mono = Millis(60_000);
        self.event("a quiet minute", Event::Timeout);
        let drain = CloseReason::Drain { reconnect_ms: 1234 };
        self.event("drain", Event::Close(&drain));
        self.event("too late", Event::Drained { dropped: 6 });
        self.heard
    }

    /// A channel that it asks for is refused.
    fn refused(mut self) -> String {
        self.subscribed(Err(Refusal::ChannelLimit));
        self.heard
    }
}

#[test]
fn a_socket_hears_of_what_changes() {
    let client = || Client::new("/ws?channel=news", WEBSOCKET);
    let life = r"answer: 
drained: \x89\tdropped=5
unsubscribed: 
a quiet minute: \x89\x00
drain: \x88
\x03\xf4shutdown (ends)
too late: 
";
    assert_eq!(client().whole_life(Recovery::NotAsked), life);
    let refused = "answer: \\x88\\x17\\x0b\\xbcinternal server error (ends)\n";
    assert_eq!(client().refused(), refused);
}

#[test]
fn a_socket_answers_its_client() {
    let mut client = Client::new("/ws?channel=news", WEBSOCKET);
    for (what, frame) in [
        ("ping", &b"\x89\x82\0\0\0\0hi"[..]),
        ("pong", b"\x8a\x80\0\0\0\0"),
        ("text", b"\x81\x82\0\0\0\0hi"),
        ("close", b"\x88\x82\0\0\0\0\x03\xe8"),
    ] {
        client.event(what, Event::Bytes(&mut frame.to_vec()));
    }
    let heard = r"ping: \x8a\x02hi
pong: 
text: 
close: \x88\x02\x03\xe8 (ends)
";
    assert_eq!(client.heard, heard);
}

#[test]
fn an_event_stream_hears_of_what_changes() {
    let client = |fields| Client::new("/sse?channel=news", fields);
    let life = r#"answer: id: a822fa0701dfb2cc.7.3
event: subscribed
retry: 2000
data: {"recovered":RECOVERED,"resuming":RESUMING,"channels":["news"]}


drained: event: dropped
data: {"dropped":5}


unsubscribed: event: unsubscribed
data: {"unsubscribed":"news"}


a quiet minute: :

drain: event: disconnect
retry: 1234
data: {"code":3001,"reason":"shutdown"}

 (ends)
too late: 
"#;
    let told = |recovered, resuming| {
        life.replace("RECOVERED", recovered)
            .replace("RESUMING", resuming)
    };
    let new = client("").whole_life(Recovery::NotAsked);
    assert_eq!(new, told("false", "false"));
    let back = "Last-Event-ID: a822fa0701dfb2cc.7.3\r\n";
    let whole = client(back).whole_life(Recovery::Whole(Vec::new()));
    assert_eq!(whole, told("true", "true"));
    let lost = client(back).whole_life(Recovery::Lost);
    assert_eq!(lost, told("false", "true"));
}

#[test]
fn a_stream_of_lines_hears_of_what_changes() {
    let client = || Client::new("/stream?channel=news", "");
    let life = r#"answer: 55\r
{"recovered":false,"resuming":false,"channels":["news"],"id":"a822fa0701dfb2cc.7.3"}
\r

drained: E\r
{"dropped":5}
\r

unsubscribed: 18\r
{"unsubscribed":"news"}
\r

a quiet minute: 3\r
{}
\r

drain: 45\r
{"disconnect":{"code":3001,"reason":"shutdown","reconnect_ms":1234}}
\r
0\r
\r
 (ends)
too late: 
"#;
    assert_eq!(client().whole_life(Recovery::NotAsked), life);
}

#[test]
fn deliveries_have_a_form_for_each_transport() {
    let json = (PayloadKind::Json, &b"{\"n\":1}"[..]);
    let text = (PayloadKind::Text, &b"a\nb"[..]);
    let binary = (PayloadKind::Binary, &b"\xff\0"[..]);
    let id = "a822fa0701dfb2cc.7.4";
    let place = format!(r#","offset":4,"epoch":"7","id":"{id}","tags":{{"a":1}}"#);
    let line = |data: &str| format!(r#"{{"channel":"news","data":{data}{place}}}"#);
    for (form, (kind, bytes), expected) in [
        (0, json, "\u{81}\u{7}{\"n\":1}".to_owned()),
        (0, text, "\u{81}\u{3}a\nb".to_owned()),
        (0, binary, "\u{82}\u{2}\u{ff}\0".to_owned()),
        (1, json, format!("id: {id}\ndata: {{\"n\":1}}\n\n")),
        (1, text, format!("id: {id}\ndata: a\ndata: b\n\n")),
        (1, binary, format!("id: {id}\ndata: /wA=\n\n")),
        (2, json, format!("64\r\n{}\n\r\n", line("{\"n\":1}"))),
        (2, text, format!("63\r\n{}\n\r\n", line(r#""a\nb""#))),
        (2, binary, format!("63\r\n{}\n\r\n", line(r#""/wA=""#))),
    ] {
        let mut out = Vec::new();
        let publication = publication(kind, bytes, Some(position(4)));
        Plain::encode(&Default::default(), form, &publication, None, &mut out);
        // Each byte as the character of its number.
        let told: String = out.into_iter().map(char::from).collect();
        assert_eq!(told, expected, "form {form}");
    }
}

#[test]
fn what_has_no_place_has_no_id() {
    let publication = publication(PayloadKind::Json, b"1", None);
    for (form, expected) in [
        (1, "data: 1\n\n"),
        (2, "1C\r\n{\"channel\":\"news\",\"data\":1}\n\r\n"),
    ] {
        let mut out = Vec::new();
        Plain::encode(&Default::default(), form, &publication, None, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
