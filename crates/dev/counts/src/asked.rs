//! Commands of Centrifugo's protocol, each by itself: what a stranger can ask for.
//!
//! Each client of a crowd sends the command once. Members of the channel are as many, so an answer
//! with members has that many; its history has [`HISTORY`] publications.

use std::fmt::Write as _;

use anyhow::{Result, ensure};
use throng_auth::Algorithm;
use throng_centrifuge::{ClientRequest, Codec};
use throng_gateway_centrifuge::price;
use throng_session::Work;

use crate::play::{API, CLIENT, MEMBERS, REHEARSALS, Stage, begin};
use crate::requests::{Kind, native_ping, publication, text};

/// Publications in the channel's history: as many as its namespace keeps.
const HISTORY: usize = 10;
/// Bytes of the text that is sent as a difference.
const DELTA_BYTES: usize = 16 << 10;
/// Number of publications sent as differences.
const DIFFERENCES: usize = 8;

/// A command, and what is in its answer.
pub(crate) struct Asked {
    name: &'static str,
    command: &'static str,
    /// Publications or members in the answer.
    items: usize,
    /// Length of the answer, about; it is checked.
    bytes: usize,
    ends: bool,
}

/// Commands of `asked.txt`, in their order.
pub(crate) fn all() -> impl Iterator<Item = Asked> {
    let rows = include_str!("asked.txt").lines();
    rows.filter(|row| !row.starts_with('#')).map(|row| {
        let [name, items, bytes, command] = row.splitn(4, " | ").collect::<Vec<_>>()[..] else {
            panic!("a row has four parts: {row}");
        };
        Asked {
            name,
            command: command.trim_start_matches('!'),
            items: match items {
                "history" => HISTORY,
                "members" => MEMBERS,
                _ => 0,
            },
            bytes: bytes.parse().expect("a length"),
            ends: command.starts_with('!'),
        }
    })
}

/// Whether a kind of command is in `asked.txt`; a new kind does not compile without a line here.
const fn is_played(request: &ClientRequest<'_>) -> bool {
    match request {
        // With the opening of each connection.
        ClientRequest::Connect(_) => false,
        // Free: it answers our own ping.
        ClientRequest::Pong => false,
        ClientRequest::Subscribe(_)
        | ClientRequest::Unsubscribe { .. }
        | ClientRequest::Publish { .. }
        | ClientRequest::Presence { .. }
        | ClientRequest::PresenceStats { .. }
        | ClientRequest::History(_)
        | ClientRequest::Ping
        | ClientRequest::Send { .. }
        | ClientRequest::Rpc { .. }
        | ClientRequest::Refresh { .. }
        | ClientRequest::SubRefresh { .. }
        | ClientRequest::Refused(_) => true,
    }
}

impl Asked {
    pub(crate) fn operation(&self) -> String {
        format!("asked {}", self.name)
    }

    /// Work that it is charged for; none if it is not a command that is played.
    pub(crate) fn works(&self) -> Option<Vec<Work>> {
        let command = Codec::Json.commands(self.command.as_bytes()).next()?.ok()?;
        let own = price(&command.request).filter(|_| is_played(&command.request))?;
        let answer = Work::answer(self.items, self.bytes);
        // The token is checked when the command is done.
        let token = matches!(command.request, ClientRequest::Refresh { .. });
        let more = token.then_some(Work::Token {
            algorithm: Algorithm::Hs256,
            is_good: true,
        });
        Some([own, answer].into_iter().chain(more).collect())
    }
}

fn words(command: &str) -> Vec<u8> {
    let mut out = Vec::new();
    text(command, &mut out);
    out
}

/// Lets each client of a crowd send each command. The channel's past is made in the first of the
/// rehearsals, which are counted down.
pub(crate) fn ask(stage: &mut Stage, rehearsal: usize) -> Result<()> {
    let is_rehearsal = rehearsal > 0;
    let begin = |name: &str, times: usize| begin(name, times, is_rehearsal);
    let openings = vec![Kind::Centrifuge.opening(""); MEMBERS];
    let mut crowd = stage.connect(CLIENT, &openings)?;
    let join = r#"{"id":8,"subscribe":{"channel":"asked:room"}}"#;
    stage.send_each(&crowd, &words(join))?;
    let publisher = stage.connect(API, &[Vec::new()])?;
    let missing = if rehearsal == REHEARSALS { HISTORY } else { 0 };
    for _ in 0..missing {
        stage.send_each(&publisher, &publication("pub", "asked:past"))?;
    }
    begin("asked native ping", MEMBERS);
    stage.send_each(&crowd, &native_ping())?;
    begin("-", 1);
    for asked in all() {
        let command = words(asked.command);
        let before = stage.received(&crowd);
        begin(&asked.operation(), MEMBERS);
        stage.send_each(&crowd, &command)?;
        begin("-", 1);
        let bytes = (stage.received(&crowd) - before) / MEMBERS;
        let name = asked.name;
        ensure!(bytes > 0, "{name}: no answer");
        ensure!(
            bytes.abs_diff(asked.bytes) <= asked.bytes / 10 + 300,
            "{name}: an answer of {bytes} bytes, not of {}",
            asked.bytes
        );
        if asked.ends {
            stage.end(&crowd)?;
            crowd = stage.connect(CLIENT, &openings)?;
        }
    }
    stage.end(&crowd)?;
    stage.end(&publisher)?;
    difference(stage, is_rehearsal)
}

/// A long text is published that differs a little from the one before, and what that costs.
pub(crate) const DIFFERENCE: (&str, [Work; 2]) = (
    "asked publish a difference",
    [
        Work::Command,
        Work::Delta {
            bytes: DELTA_BYTES as u32,
        },
    ],
);

fn difference(stage: &mut Stage, is_rehearsal: bool) -> Result<()> {
    let clients = stage.connect(CLIENT, &[Kind::Centrifuge.opening("")])?;
    let join = r#"{"id":8,"subscribe":{"channel":"delta:a","delta":"fossil"}}"#;
    stage.send_each(&clients, &words(join))?;
    let mut long = String::new();
    for n in 0..DELTA_BYTES / 16 {
        write!(
            long,
            "{n:07x}-{:07x},",
            n.wrapping_mul(0x9e_3779) & 0xfff_ffff
        )?;
    }
    let publish = |n: usize| {
        let data = format!("\"{n} {long} {n}\"");
        words(&format!(
            r#"{{"id":9,"publish":{{"channel":"delta:a","data":{data}}}}}"#
        ))
    };
    for n in 0..REHEARSALS {
        stage.send_each(&clients, &publish(n))?;
    }
    let before = stage.received(&clients);
    let all: Vec<_> = (0..DIFFERENCES).map(|n| publish(n + REHEARSALS)).collect();
    begin(DIFFERENCE.0, DIFFERENCES, is_rehearsal);
    for publish in &all {
        stage.send_each(&clients, publish)?;
    }
    begin("-", 1, is_rehearsal);
    let bytes = stage.received(&clients) - before;
    ensure!(
        bytes > 0 && bytes < DIFFERENCES * DELTA_BYTES / 2,
        "{bytes} bytes of differences"
    );
    stage.end(&clients)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_a_command_with_a_price() {
        for asked in all() {
            assert!(asked.works().is_some(), "{}", asked.name);
        }
    }
}
