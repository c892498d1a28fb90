//! Dialogues with a played PostgreSQL.

use throng_peer::{Dial, DialTls, LinkEvent, LinkId, Want};
use throng_play::Talk;
use throng_postgres_protocol::write;
use throng_types::Rng;

use super::super::options::PostgresFeedOptions;
use super::Session;
use crate::source::ANSWER_MS;

const LET_IN: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
const WANTS_PASSWORD: &[u8] = b"R\0\0\0\x08\0\0\0\x03";
const LINK: LinkId = LinkId(1);

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Want {
    let mut bytes = Vec::new();
    write(&mut bytes);
    Want::Write(LINK, bytes)
}

/// Connects, is let in, asks for rows, and returns the outcome.
fn talk(user: &str, ssl_mode: &str) -> (Talk, Vec<Want>) {
    let url = format!("postgres://{user}@db/d?sslmode={ssl_mode}");
    let options = PostgresFeedOptions::new(&url, "f", "t", None, 1_000, 10).expect("a URL");
    Talk::start(|net| async move {
        let mut session = match Session::connect(&net, &options, 3).await {
            Ok(session) => session,
            Err(fault) => return format!("unreachable: {fault}"),
        };
        let said = async {
            session.introduce(&options, &mut Rng::new(1)).await?;
            session.ask("SELECT 1").await
        };
        let said = match said.await {
            Ok(found) => format!("{} rows", found.rows.len()),
            Err(fault) => fault.0,
        };
        session.terminate();
        said
    })
}

fn is_startup(wants: &[Want]) -> bool {
    matches!(wants, [Want::Write(LINK, bytes)] if bytes.windows(4).any(|it| it == b"user"))
}

#[test]
fn rows_and_a_good_bye() {
    let (mut talk, wants) = talk("me", "disable");
    let dial = Dial {
        host: "db".to_owned(),
        port: 5432,
        tls: None,
        timeout_ms: ANSWER_MS,
    };
    assert_eq!(wants, [Want::Dial(LINK, dial)]);
    assert!(is_startup(&talk.connected(1)));
    let ask = written(|out| write::query("SELECT 1", out));
    assert_eq!(talk.says(1, LET_IN), [ask]);
    let good_bye = [written(write::terminate), Want::Finish(LINK)];
    let two_rows = b"D\0\0\0\x06\0\0D\0\0\0\x06\0\0Z\0\0\0\x05I";
    assert_eq!(talk.says(1, two_rows), good_bye);
    assert_eq!(talk.outcome(), "2 rows");
}

#[test]
fn rows_without_end_are_a_fault() {
    let (mut talk, _) = talk("me", "disable");
    talk.connected(1);
    talk.says(1, LET_IN);
    talk.says(1, &b"D\0\0\0\x06\0\0".repeat(4));
    assert_eq!(talk.outcome(), "it sends more rows than were asked for");
}

#[test]
fn a_server_that_is_silent_is_left() {
    let (mut talk, _) = talk("me", "disable");
    talk.connected(1);
    talk.says(1, &LET_IN[..5]);
    talk.pass(ANSWER_MS - 1);
    talk.says(1, &LET_IN[5..6]);
    assert_eq!(talk.pass(ANSWER_MS - 1), []);
    talk.pass(1);
    assert_eq!(talk.outcome(), "it does not answer");
}

#[test]
fn tls_is_asked_for_first() {
    let ask = || written(write::ask_tls);
    let secure = |insecure| {
        let tls = DialTls {
            name: "db".to_owned(),
            insecure,
            authorities: None,
            http2: false,
        };
        [Want::Secure(LINK, tls)]
    };
    for (ssl_mode, insecure) in [("prefer", true), ("require", true), ("verify-full", false)] {
        let (mut talk, _) = talk("me", ssl_mode);
        assert_eq!(talk.connected(1), [ask()]);
        assert_eq!(talk.says(1, b"S"), secure(insecure));
        assert!(is_startup(&talk.connected(1)), "{ssl_mode}");
    }
    let (mut without, _) = talk("me", "prefer");
    without.connected(1);
    assert!(is_startup(&without.says(1, b"N")));
    for (ssl_mode, answer, fault) in [
        (
            "require",
            &b"N"[..],
            "the server does not support TLS, and sslmode requires it",
        ),
        ("prefer", b"X", "it does not answer like PostgreSQL"),
        // Somebody in between may have added what is not sealed.
        ("require", b"SR", "it does not answer like PostgreSQL"),
    ] {
        let (mut talk, _) = talk("me", ssl_mode);
        talk.connected(1);
        assert_eq!(talk.event(1, LinkEvent::Bytes(answer)), [Want::End(LINK)]);
        assert_eq!(talk.outcome(), format!("unreachable: {fault}"));
    }
}

#[test]
fn a_password_in_clear_text_wants_tls() {
    let (mut plain, _) = talk("me:secret", "disable");
    plain.connected(1);
    plain.says(1, WANTS_PASSWORD);
    assert!(plain.outcome().contains("without TLS"));
    let (mut secure, _) = talk("me:secret", "require");
    secure.connected(1);
    secure.says(1, b"S");
    secure.connected(1);
    let password = written(|out| write::password("secret", out));
    assert_eq!(secure.says(1, WANTS_PASSWORD), [password]);
    assert_eq!(secure.says(1, LET_IN).len(), 1);
}
