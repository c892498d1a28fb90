//! A played PostgreSQL with one outbox table: sessions, transactions, locks, notifications.
//!
//! A session whose connection has gone may keep its transaction for a while.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use aws_lc_rs::pbkdf2::{PBKDF2_HMAC_SHA256, derive};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use throng_feeds::{PostgresFeedOptions, SourceOptions};

use super::server::{Around, Source};
use super::witness::DATA_BYTES_MAX;
use crate::cluster::broker::{Copies, Kept};
use crate::net::Net;

const PASSWORD: &str = "secret";
const SALT: &[u8] = b"salt";
const ROUNDS: u32 = 4;
/// Object ids of types.
const TEXT: u32 = 25;
const BYTEA: u32 = 17;

#[derive(Clone)]
struct Row {
    event: usize,
    xmin: u64,
}

/// Rows that are committed, by their ids.
#[derive(Clone, Default)]
struct Data {
    rows: BTreeMap<u64, Row>,
    last_id: u64,
}

/// Steps of a session.
#[derive(Default)]
enum Stage {
    #[default]
    New,
    /// The server's first message of SCRAM, with what the client said.
    Proves(String, String),
    Ready,
}

#[derive(Default)]
struct Session {
    stage: Stage,
    listens: bool,
    is_notified: bool,
    /// In a transaction, which one of its statements may have ended.
    is_open: bool,
    has_failed: bool,
}

#[derive(Default)]
pub(crate) struct Postgres {
    data: Data,
    copies: Copies<Data>,
    /// Rows of transactions that are not committed.
    coming: Vec<(u64, Row)>,
    sessions: BTreeMap<usize, Session>,
    /// The session that has the lock on the table's name.
    locker: Option<usize>,
    /// Rows that sessions have locked.
    locked: BTreeMap<u64, usize>,
    /// Transactions of connections that have gone, and when the server learns it.
    orphans: Vec<(usize, u64)>,
    last_xid: u64,
    asks_password: bool,
    data_type: u32,
    poll_ms: u64,
    /// Notifications in a hundred that are lost, now and later.
    losses: usize,
    /// Refuses to write, or whatever it is asked.
    refuses: Option<&'static str>,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[kind][..], &length, body].concat()
}

fn auth(number: u32, more: &[u8]) -> Vec<u8> {
    message(b'R', &[&number.to_be_bytes()[..], more].concat())
}

fn error(code: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0C{code}\0Mit fails\0\0").as_bytes())
}

fn complete(out: &mut Vec<u8>) {
    out.extend(message(b'C', b"DONE\0"));
}

/// A result: its columns' types, its rows.
fn rows(types: &[u32], rows: &[Vec<Option<Vec<u8>>>], out: &mut Vec<u8>) {
    let mut columns = (types.len() as u16).to_be_bytes().to_vec();
    for kind in types {
        columns.extend(b"c\0\0\0\0\0\0\0");
        columns.extend(kind.to_be_bytes());
        columns.extend(b"\xff\xff\xff\xff\xff\xff\0\0");
    }
    out.extend(message(b'T', &columns));
    for row in rows {
        let mut body = (row.len() as u16).to_be_bytes().to_vec();
        for value in row {
            match value {
                None => body.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    body.extend((bytes.len() as u32).to_be_bytes());
                    body.extend(bytes);
                }
            }
        }
        out.extend(message(b'D', &body));
    }
    complete(out);
}

fn one(text: &str) -> Vec<Option<Vec<u8>>> {
    vec![Some(text.as_bytes().to_vec())]
}

/// Takes a whole message from the front of the input; the first ones have no kind.
fn take_message(input: &mut Vec<u8>, has_kind: bool) -> Option<(u8, Vec<u8>)> {
    let at = usize::from(has_kind);
    let length = input.get(at..at + 4)?.try_into().expect("four bytes");
    let end = at + u32::from_be_bytes(length) as usize;
    let body = input.get(at + 4..end)?.to_vec();
    let kind = if has_kind { input[0] } else { 0 };
    input.drain(..end);
    Some((kind, body))
}

/// Behind a message of the client: the server's last one, if the client knows the password.
fn proven(first: &str, server: &str, last: &str) -> Option<String> {
    let (without, proof) = last.split_once(",p=").expect("a proof");
    let signed = format!("{first},{server},{without}");
    let mut salted = [0; 32];
    let rounds = ROUNDS.try_into().expect("some rounds");
    derive(
        PBKDF2_HMAC_SHA256,
        rounds,
        SALT,
        PASSWORD.as_bytes(),
        &mut salted,
    );
    let salted = Key::new(HMAC_SHA256, &salted);
    let stored = digest(&SHA256, sign(&salted, b"Client Key").as_ref());
    let mask = sign(&Key::new(HMAC_SHA256, stored.as_ref()), signed.as_bytes());
    let proof = STANDARD.decode(proof).expect("base64");
    let key: Vec<u8> = { proof.iter().zip(mask.as_ref()) }
        .map(|(proof, mask)| proof ^ mask)
        .collect();
    let server_key = Key::new(HMAC_SHA256, sign(&salted, b"Server Key").as_ref());
    let signature = sign(&server_key, signed.as_bytes());
    let is_right = digest(&SHA256, &key).as_ref() == stored.as_ref();
    is_right.then(|| format!("v={}", STANDARD.encode(signature.as_ref())))
}

impl Postgres {
    pub(crate) fn new(net: &Net) -> Self {
        Self {
            last_xid: 700,
            asks_password: net.percent(30),
            data_type: net.pick(&[TEXT, BYTEA]),
            poll_ms: net.pick(&[100, 1_000, 15_000]),
            losses: net.pick(&[0, 30, 100]),
            ..Self::default()
        }
    }

    /// Answers one message of a session that has begun.
    fn answer(
        &mut self,
        conn: usize,
        (kind, body): (u8, Vec<u8>),
        around: &mut Around<'_>,
    ) -> Vec<u8> {
        let text = String::from_utf8_lossy(&body).into_owned();
        let session = self.sessions.get_mut(&conn).expect("a session");
        match (kind, &session.stage) {
            (b'X', _) => {
                around.ended.insert(conn);
                Vec::new()
            }
            (0, Stage::New) if body[..4] == [4, 210, 22, 47] => b"N".to_vec(),
            (0, Stage::New) => {
                if self.refuses.is_some() && around.befalls(50) {
                    around.ended.insert(conn);
                    return error("57P03");
                }
                if self.asks_password {
                    return auth(10, b"SCRAM-SHA-256\0\0");
                }
                self.begin(conn)
            }
            (b'p', Stage::New) => {
                let first = text.split_once("n,,").expect("its first words").1;
                let nonce = first.split_once("r=").expect("a nonce").1;
                let salt = STANDARD.encode(SALT);
                let server = format!("r={nonce}more,s={salt},i={ROUNDS}");
                session.stage = Stage::Proves(first.to_owned(), server.clone());
                auth(11, server.as_bytes())
            }
            (b'p', Stage::Proves(first, server)) => {
                let last = proven(first, server, &text).expect("it knows the password");
                let mut out = auth(12, last.as_bytes());
                out.extend(self.begin(conn));
                out
            }
            (b'Q', Stage::Ready) => self.query(conn, text.trim_end_matches('\0'), around),
            _ => panic!("the played PostgreSQL has no {kind}"),
        }
    }

    fn begin(&mut self, conn: usize) -> Vec<u8> {
        self.sessions.get_mut(&conn).expect("a session").stage = Stage::Ready;
        let mut out = auth(0, b"");
        out.extend(message(b'S', b"server_version\x0017\0"));
        out.extend(self.ready(conn));
        out
    }

    /// Writes the end of an answer; notifications come between transactions.
    fn ready(&mut self, conn: usize) -> Vec<u8> {
        let session = self.sessions.get_mut(&conn).expect("a session");
        let mut out = Vec::new();
        if session.is_notified && !session.is_open {
            session.is_notified = false;
            out.extend(message(b'A', b"\0\0\0\x01c\0\0"));
        }
        let state = match (session.is_open, session.has_failed) {
            (false, _) => b"I",
            (true, false) => b"T",
            (true, true) => b"E",
        };
        out.extend(message(b'Z', state));
        out
    }

    fn query(&mut self, conn: usize, sql: &str, around: &mut Around<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let is_write = sql.starts_with("DELETE");
        let refused = self.refuses.filter(|code| is_write || *code != "25006");
        let session = self.sessions.get_mut(&conn).expect("a session");
        if session.has_failed && sql != "ROLLBACK" {
            out.extend(error("25P02"));
        } else if let Some(code) = refused.filter(|_| sql != "ROLLBACK") {
            session.has_failed = session.is_open;
            out.extend(error(code));
        } else if sql.starts_with("LISTEN ") {
            session.listens = true;
            complete(&mut out);
        } else if sql.starts_with("SELECT attname") {
            rows(
                &[TEXT],
                &["id", "channel", "data", "made_at"].map(one),
                &mut out,
            );
        } else if sql.starts_with("SELECT count") {
            let count = self.data.rows.len().to_string();
            rows(&[TEXT], &[one(&count)], &mut out);
        } else if sql.starts_with("BEGIN; SELECT pg_try_advisory_xact_lock") {
            session.is_open = true;
            let is_free = self.locker.is_none_or(|locker| locker == conn);
            if is_free {
                self.locker = Some(conn);
            }
            complete(&mut out);
            rows(&[TEXT], &[one(if is_free { "t" } else { "f" })], &mut out);
        } else if sql.starts_with("SELECT id, xmin") {
            self.select(conn, sql, around, &mut out);
        } else if let Some(ids) = sql.strip_prefix("DELETE FROM \"outbox\" WHERE id IN (") {
            let ids = ids
                .strip_suffix("); COMMIT")
                .expect("the end of a statement");
            for id in ids.split(',') {
                let id: u64 = id.trim_matches('\'').parse().expect("an id");
                let is_ours = self.locked.get(&id) == Some(&conn);
                let row = self.data.rows.remove(&id).filter(|_| is_ours);
                around
                    .witness
                    .acknowledged(row.expect("a row that it has locked").event);
            }
            complete(&mut out);
            complete(&mut out);
            self.unlock(conn);
        } else if sql == "ROLLBACK" {
            complete(&mut out);
            self.unlock(conn);
        } else {
            panic!("the played PostgreSQL does not know {sql}");
        }
        out.extend(self.ready(conn));
        out
    }

    fn select(&mut self, conn: usize, sql: &str, around: &Around<'_>, out: &mut Vec<u8>) {
        let (_, count) = sql.split_once("LIMIT ").expect("a limit");
        let count = count.split(' ').next().expect("a number");
        let count: usize = count.parse().expect("a number");
        assert_eq!(self.locker, Some(conn), "it reads without the lock");
        let free = { self.data.rows.iter() }
            .filter(|(id, _)| self.locked.get(id).is_none_or(|it| *it == conn));
        let free: Vec<(&u64, &Row)> = free.take(count).collect();
        let mut found = Vec::new();
        for (id, row) in free {
            let data = around.witness.data(row.event);
            // As the statement leaves out what is too long, in digits for bytes.
            let data = data.filter(|data| data.len() <= 2 * DATA_BYTES_MAX);
            let data = data.map(|data| match self.data_type {
                BYTEA => {
                    let digits = data.iter().map(|byte| format!("{byte:02x}"));
                    format!("\\x{}", digits.collect::<String>()).into_bytes()
                }
                _ => data,
            });
            let text = |text: String| Some(text.into_bytes());
            found.push(vec![
                text(id.to_string()),
                text(row.xmin.to_string()),
                text(around.witness.channel(row.event)),
                data,
                None,
            ]);
            self.locked.insert(*id, conn);
        }
        rows(&[20, 28, TEXT, self.data_type, TEXT], &found, out);
    }

    /// Ends a transaction and frees its locks.
    fn unlock(&mut self, conn: usize) {
        self.locked.retain(|_, owner| *owner != conn);
        self.locker.take_if(|locker| *locker == conn);
        if let Some(session) = self.sessions.get_mut(&conn) {
            (session.is_open, session.has_failed) = (false, false);
        }
    }

    /// Commits a row that was inserted, and notifies those who listen.
    fn commit(&mut self, at: usize, around: &mut Around<'_>) {
        let (id, row) = self.coming.remove(at);
        self.data.rows.insert(id, row);
        if around.net.percent(self.losses) {
            note!(around.net, "a notification is lost");
            return;
        }
        for (conn, session) in &mut self.sessions {
            match session.is_open {
                _ if !session.listens => {}
                true => session.is_notified = true,
                false => around.owe(*conn, &message(b'A', b"\0\0\0\x01c\0\0")),
            }
        }
    }
}

impl Source for Postgres {
    fn options(&self) -> SourceOptions {
        let url = format!("postgres://me:{PASSWORD}@10.0.0.1/db");
        let (notify, poll_ms) = (Some("c"), self.poll_ms);
        let options =
            PostgresFeedOptions::new(&url, "feed", "outbox", notify, poll_ms, DATA_BYTES_MAX);
        SourceOptions::Postgres(options.expect("a good URL"))
    }

    fn came(&mut self, conn: usize, _: usize, _: &mut Around<'_>) {
        self.sessions.insert(conn, Session::default());
    }

    fn heard(&mut self, conn: usize, input: &mut Vec<u8>, around: &mut Around<'_>) {
        loop {
            let session = self.sessions.get(&conn).expect("a session");
            // The password's messages are told by their first byte.
            let has_kind = !matches!(session.stage, Stage::New) || input.first() == Some(&b'p');
            let Some(message) = take_message(input, has_kind) else {
                return;
            };
            let answer = self.answer(conn, message, around);
            around.owe(conn, &answer);
        }
    }

    fn left(&mut self, conn: usize, around: &mut Around<'_>) {
        let session = self.sessions.remove(&conn);
        if session.is_some_and(|session| session.is_open) && around.befalls(30) {
            let until = around.now_ms() + around.net.pick(&[100, 3_000, 30_000]);
            return self.orphans.push((conn, until));
        }
        self.unlock(conn);
    }

    fn works(&mut self, around: &mut Around<'_>) -> bool {
        let now_ms = around.now_ms();
        let over = self.orphans.extract_if(.., |(_, until)| *until <= now_ms);
        let over: Vec<(usize, u64)> = over.collect();
        over.iter().for_each(|(conn, _)| self.unlock(*conn));
        let mut busy = !over.is_empty();
        while !self.coming.is_empty() && (around.is_calm || around.net.percent(20)) {
            busy = true;
            self.commit(around.net.below(self.coming.len()), around);
        }
        busy
    }

    fn add(&mut self, event: usize, around: &mut Around<'_>) {
        self.data.last_id += 1;
        self.last_xid += 1;
        // Producers of one channel wait for each other, since it is ordered.
        let order = around.witness.order(event);
        let before =
            { self.coming.iter() }.position(|(_, row)| around.witness.order(row.event) == order);
        if let Some(before) = before {
            self.commit(before, around);
        }
        let xmin = self.last_xid;
        self.coming.push((self.data.last_id, Row { event, xmin }));
    }

    fn copy(&mut self) {
        self.copies.add(&self.data);
    }

    fn stopped(&mut self, _: usize, around: &mut Around<'_>) {
        self.orphans.clear();
        self.locked.clear();
        self.locker = None;
        for (_, row) in self.coming.drain(..) {
            around.witness.lost(row.event);
        }
    }

    fn started(&mut self, _: usize, kept: Kept, around: &mut Around<'_>) {
        let events = |data: &Data| data.rows.values().map(|row| row.event).collect();
        let before: BTreeSet<usize> = events(&self.data);
        self.copies.restore(kept, &mut self.data, around.net);
        around.witness.restored(before, &events(&self.data));
    }

    fn trouble(&mut self, around: &mut Around<'_>) {
        // No disk is left; too many locks; a standby takes no writes.
        let refuses = [None, None, Some("53100"), Some("53200"), Some("25006")];
        self.refuses = around.net.pick(&refuses);
        let refuses = self.refuses;
        note!(around.net, "PostgreSQL refuses: {refuses:?}");
    }

    fn calm(&mut self) {
        self.refuses = None;
        self.orphans.iter_mut().for_each(|(_, until)| *until = 0);
    }

    fn owes(&self) -> Option<String> {
        let waiting = self.data.rows.len() + self.coming.len();
        (waiting > 0).then(|| format!("{waiting} rows are there"))
    }
}
