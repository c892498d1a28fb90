//! Connects, prints, and comes back when the connection breaks.
//!
//! Before the first success any trouble is final, since it is most likely a wrong address; after it,
//! only a refusal is.

use std::io;
use std::thread;

use serde_json::Value;
use throng_types::ChannelName;

use super::Args;
use super::backoff::Backoff;
use super::wire::{Found, Wire};
use crate::commands::publish::said;
use crate::console;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::http::{Exchange, Fault, Request, query};

const REFUSAL_BYTES_MAX: usize = 16 * 1024;

/// How a connection ended.
enum End {
    /// As many publications as were asked for.
    Counted,
    /// Nobody answers, or no longer.
    Lost(String),
}

/// The state that outlives a connection.
pub(super) struct Follower {
    args: Args,
    wire: Wire,
    /// Publications still to print; none for no end.
    left: Option<u64>,
    connected_once: bool,
    backoff: Backoff,
}

impl Follower {
    pub(super) fn new(args: Args) -> Self {
        Self {
            wire: Wire::new(args.json),
            left: args.count,
            args,
            connected_once: false,
            backoff: Backoff::default(),
        }
    }

    pub(super) fn run(mut self) -> Result {
        loop {
            match self.connection()? {
                End::Counted => return Ok(Exit::Good),
                End::Lost(why) => {
                    let wait = self
                        .backoff
                        .next(self.wire.retry_ms(), throng_sys::random::seed());
                    console::note(&format!(
                        "{}: {why}; coming back in {:.1} s",
                        self.args.server,
                        wait.as_secs_f64()
                    ));
                    thread::sleep(wait);
                }
            }
        }
    }

    /// One connection from its request to its end.
    fn connection(&mut self) -> Result<End> {
        let mut exchange = match self.open() {
            Ok(exchange) => exchange,
            Err(fault) if self.connected_once => return Ok(End::Lost(fault.to_string())),
            Err(fault) => return Err(self.unreachable(&fault)),
        };
        if let Some(end) = self.judge(&mut exchange)? {
            return Ok(end);
        }
        let resuming = self.connected_once;
        self.connected_once = true;
        self.backoff.reset();
        if resuming && self.wire.last_event_id().is_empty() {
            console::note(
                "connected again; what was published in between is missed, since the channels keep no history",
            );
        }
        self.wire.restart();
        if let Err(error) = exchange.wait_forever() {
            return Ok(End::Lost(error.to_string()));
        }
        let mut told = !resuming;
        loop {
            let mut printed: io::Result<()> = Ok(());
            let mut damage = None;
            let (wire, left) = (&mut self.wire, &mut self.left);
            let more = exchange.read_some(|data| {
                let fed = wire.feed(data, |found| match found {
                    Found::Publication(line) => {
                        if printed.is_ok() && *left != Some(0) {
                            printed = console::print([line, b"\n"].concat());
                            if let Some(left) = left {
                                *left -= 1;
                            }
                        }
                    }
                    Found::News(news) => told = told || tell(&news),
                });
                damage = damage.take().or_else(|| fed.err());
            });
            printed?;
            if self.left == Some(0) {
                return Ok(End::Counted);
            }
            match (damage, more) {
                (Some(damage), _) => return Ok(End::Lost(damage)),
                (None, Ok(true)) => {}
                (None, Ok(false)) => return Ok(End::Lost(Fault::Ended.to_string())),
                (None, Err(fault)) => return Ok(End::Lost(fault.to_string())),
            }
        }
    }

    fn open(&self) -> std::result::Result<Exchange, Fault> {
        let channels = self.args.channels.iter().map(ChannelName::as_str);
        let target = self.args.server.target(self.wire.path())
            + &query(channels.map(|name| ("channel", name)));
        let token = self
            .args
            .token
            .as_ref()
            .map(|token| format!("Bearer {token}"));
        let mut headers = vec![
            ("Accept", self.wire.media_type()),
            ("Cache-Control", "no-store"),
        ];
        if let Some(token) = &token {
            headers.push(("Authorization", token));
        }
        if !self.wire.last_event_id().is_empty() {
            headers.push(("Last-Event-ID", self.wire.last_event_id()));
        }
        Exchange::open(
            &self.args.server,
            Request {
                method: "GET",
                target: &target,
                headers: &headers,
                body: None,
            },
        )
    }

    /// Nothing if the answer is what was asked for.
    fn judge(&self, exchange: &mut Exchange) -> Result<Option<End>> {
        let status = exchange.status;
        if status == 200 && exchange.media_type == self.wire.media_type() {
            return Ok(None);
        }
        let body = exchange.read_all(REFUSAL_BYTES_MAX).unwrap_or_default();
        let server = &self.args.server;
        if (200..300).contains(&status) {
            return Err(Failure::new(
                Exit::Unreachable,
                format!("{server} answers, but not with a stream of publications"),
            )
            .advise(
                "--server takes the address of Throng's port for clients, by default port 8000",
            ));
        }
        let passing = matches!(status, 408 | 429 | 500..);
        if passing && self.connected_once {
            return Ok(Some(End::Lost(said(status, &body))));
        }
        let failure = Failure::new(
            Exit::Refused,
            format!("{server} refused: {}", said(status, &body)),
        );
        Err(match status {
            401 | 403 if self.args.token.is_none() => {
                failure.advise("give a token: --token TOKEN, or THRONG_TOKEN in the environment")
            }
            401 | 403 => failure.advise("`throng token check TOKEN` says what the token allows"),
            404 | 405 => {
                failure.advise("is this the clients' port (by default 8000), not the API one?")
            }
            _ => failure,
        })
    }

    fn unreachable(&self, fault: &Fault) -> Failure {
        let failure = Failure::new(
            Exit::Unreachable,
            format!("cannot subscribe at {}: {fault}", self.args.server),
        );
        match fault {
            Fault::Connect(_) => failure
                .advise("is the server running? start it with `throng serve`")
                .advise("if it is elsewhere, say where: --server http://HOST:PORT"),
            Fault::Resolve(_) => failure.advise("check the name behind --server"),
            _ => failure.advise(
                "--server takes the address of Throng's port for clients, by default port 8000",
            ),
        }
    }
}

/// Tells whether anything was missed; false if these are other news.
fn tell(news: &Value) -> bool {
    match news.get("recovered").and_then(Value::as_bool) {
        Some(true) => console::note("connected again, and nothing was missed"),
        Some(false) => console::note(
            "connected again; messages were missed, since the history does not reach back",
        ),
        None => return false,
    }
    true
}
