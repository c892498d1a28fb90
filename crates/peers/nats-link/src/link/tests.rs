use throng_nats_protocol::{Op, ServerAddress};
use throng_peer::task::Net;
use throng_peer::{Ended, LinkEvent, LinkId, Want};
use throng_play::Talk;

use super::NatsLink;
use crate::Handshake;

const INFO: &str = "INFO {\"headers\":true,\"server_id\":\"S\",\"max_payload\":99}\r\n";
const TIMEOUT_MS: u64 = 1000;
const LINK: LinkId = LinkId(1);

/// The server's end of a connection, and the task at the other.
struct Server(Talk);

/// A server that a task connects to. `talk` is what the task does when it is in; its text, or the
/// error before it, is the outcome.
fn server<F: Future<Output = String> + 'static>(
    talk: impl FnOnce(Net, NatsLink) -> F + 'static,
) -> Server {
    let (mut task, wants) = Talk::start(|net| async move {
        let target = ServerAddress {
            host: "h".to_owned(),
            ..ServerAddress::default()
        };
        let handshake = Handshake {
            target: &target,
            credentials: None,
            authorities: None,
            timeout_ms: TIMEOUT_MS,
            replies: "in.",
        };
        match handshake.connect(&net, &[("in.*", 1), ("all", 2)]).await {
            Ok((_, link)) => talk(net, link).await,
            Err(why) => why,
        }
    });
    assert!(matches!(&*wants, [Want::Dial(LINK, _)]), "{wants:?}");
    assert_eq!(task.connected(1), []);
    Server(task)
}

impl Server {
    /// Bytes that the client writes, until it waits for something else than the kernel.
    fn hear(&mut self, mut wants: Vec<Want>) -> String {
        let mut heard = Vec::new();
        while !wants.is_empty() {
            for want in wants {
                match want {
                    Want::Write(LINK, bytes) => heard.extend(bytes),
                    Want::End(LINK) => {}
                    want => panic!("{want:?}"),
                }
            }
            wants = self.0.event(1, LinkEvent::Written);
        }
        String::from_utf8(heard).expect("text")
    }

    /// Sends something, and returns what follows.
    fn say(&mut self, text: &str) -> String {
        let wants = self.0.event(1, LinkEvent::Bytes(text.as_bytes()));
        self.hear(wants)
    }

    fn pass(&mut self, ms: u64) -> String {
        let wants = self.0.pass(ms);
        self.hear(wants)
    }

    /// Lets the client in.
    fn welcome(&mut self) -> String {
        self.say(INFO);
        self.say("PONG\r\n")
    }

    fn result(&self) -> Option<String> {
        self.0.ended()
    }
}

#[test]
fn a_client_is_in_when_the_server_believes_it() {
    let connected = || server(|_, _| async { "in".to_owned() });
    let mut server = connected();
    let said = server.say(INFO);
    let (connect, rest) = said.split_once("\r\n").expect("two lines");
    assert!(connect.starts_with("CONNECT {"), "{connect}");
    assert_eq!(rest, "SUB in.* 1\r\nSUB all 2\r\nPING\r\n");
    assert_eq!(server.result(), None);
    server.say("-ERR 'Authorization Violation'\r\n");
    let refused = "NATS refuses: 'Authorization Violation'".to_owned();
    assert_eq!(server.result(), Some(refused));
    let mut server = connected();
    server.welcome();
    assert_eq!(server.result().as_deref(), Some("in"));
    for (first, expected) in [
        ("INFO {}\r\n", "NATS is older than 2.9, or has no headers"),
        (
            "INFO {\"headers\":true,\"tls_required\":true}\r\nPING\r\n",
            "NATS sent bytes before the TLS handshake",
        ),
        (
            "-ERR 'maximum connections exceeded'\r\n",
            "NATS refuses: 'maximum connections exceeded'",
        ),
        ("", "NATS has closed the connection"),
    ] {
        let mut server = connected();
        server
            .0
            .tasks
            .event(LINK, LinkEvent::Bytes(first.as_bytes()));
        let wants = server.0.event(1, LinkEvent::Ended(Ended::ByPeer));
        server.hear(wants);
        assert_eq!(server.result().as_deref(), Some(expected));
    }
    for said in ["", INFO] {
        let mut server = connected();
        server.say(said);
        server.pass(TIMEOUT_MS - 1);
        assert_eq!(server.result(), None);
        server.pass(1);
        assert_eq!(server.result().as_deref(), Some("NATS does not answer"));
    }
}

#[test]
fn tls_begins_behind_the_first_line() {
    let mut server = server(|_, _| async { "in".to_owned() });
    let info = INFO.replace("99", "99,\"tls_required\":true");
    match &*server.0.event(1, LinkEvent::Bytes(info.as_bytes())) {
        [Want::Secure(LINK, tls)] => assert!(tls.name == "h" && !tls.insecure),
        wants => panic!("{wants:?}"),
    }
    assert_eq!(server.0.run(), []);
    let wants = server.0.connected(1);
    assert!(server.hear(wants).starts_with("CONNECT {"));
    server.say("PONG\r\n");
    assert_eq!(server.result().as_deref(), Some("in"));
}

#[test]
fn a_request_is_sent_again_and_pings_are_answered() {
    let mut server = server(|net, mut link| async move {
        let mut others = Vec::new();
        let answer = link.ask("ask", "me", |it| others.push(it.payload.to_vec()));
        assert_eq!(answer.await.as_deref(), Ok(&b"yes"[..]));
        let pong = link.ping(TIMEOUT_MS, |it| others.push(it.payload.to_vec()));
        assert_eq!(pong.await, Ok(true));
        assert_eq!(others, [&b"x"[..], b"old", b"y"]);
        let next = link.next(net.now().mono + 1, |op| match op {
            Op::Message(it) => Some(it.payload.to_vec()),
            _ => None,
        });
        assert_eq!(next.await, Ok(Some(b"z".to_vec())));
        "done".to_owned()
    });
    assert_eq!(server.welcome(), "PUB ask in.1 2\r\nme\r\n");
    let pass_ms = TIMEOUT_MS / u64::from(super::ASKED_MAX);
    assert_eq!(server.pass(pass_ms), "PUB ask in.2 2\r\nme\r\n");
    let ping = "PING\r\nMSG all 2 1\r\nx\r\nMSG in.0 1 3\r\nold\r\n";
    assert_eq!(server.say(ping), "PONG\r\n");
    // One that comes late is an answer, too.
    assert_eq!(server.say("MSG in.1 1 3\r\nyes\r\n"), "PING\r\n");
    server.say("MSG all 2 1\r\ny\r\nPONG\r\nMSG all 2 1\r\nz\r\n");
    assert_eq!(server.result().as_deref(), Some("done"));
}

/// A wait is over at its end, whatever comes meanwhile.
#[test]
fn a_busy_subject_does_not_put_off_the_end_of_a_wait() {
    let mut server = server(|_, mut link| async move {
        let answer = link.ask("ask", "", |_| {});
        answer.await.expect_err("no answer")
    });
    let mut asked = server.welcome();
    for _ in 0..TIMEOUT_MS {
        assert_eq!(server.result(), None);
        asked += &server.say("MSG all 2 1\r\nx\r\n");
        server
            .0
            .tasks
            .event(LINK, LinkEvent::Bytes(b"MSG all 2 1\r\nx\r\n"));
        asked += &server.pass(1);
    }
    assert_eq!(asked.matches("PUB ask").count(), super::ASKED_MAX as usize);
    let late = "JetStream does not answer ask";
    assert_eq!(server.result().as_deref(), Some(late));
}
