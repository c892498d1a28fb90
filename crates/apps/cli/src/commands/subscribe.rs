//! `throng subscribe` and `throng tail`: every publication on a line, over reconnects.
//!
//! Before the first success any trouble is final, since it is most likely a wrong address; after
//! it, only a refusal is.

use std::io::{self, IsTerminal as _, Write as _};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use throng_client::{
    ResponseReadError, Subscription, SubscriptionEvent, SubscriptionNotice, SubscriptionTransport,
};
use throng_types::ChannelName;

use crate::commands::publish::{self, UNKNOWN_NAMESPACE, UNTRUSTED, said};
use crate::console;
use crate::exit::{Exit, Failure, Result};
use crate::http::{Answer, Endpoint, RequestError, TrustArgs, ask, is_plain, query, upgraded};
use crate::values::count;

const CLIENT_PORT: &str =
    "--server takes the address of Throng's port for clients, by default port 8000";

/// Print the publications of channels, one on a line
///
/// A publication with line breaks takes several lines; --json keeps each on one.
/// When the connection breaks it is made again, and where the channels keep history nothing is
/// missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    follow: FollowArgs,
    /// Use this WebSocket instead, such as ws://127.0.0.1:8000/ws; it does not resume
    #[arg(long, value_name = "URL", value_parser = websocket, conflicts_with = "json")]
    url: Option<Endpoint>,
    /// Print a JSON object for each publication, with channel, data and position
    #[arg(long)]
    json: bool,
}

/// Watch channels: a line for each publication, with the time and the channel
///
/// Like subscribe, for people: the time is when the publication arrived here. When the connection
/// breaks it is made again, and where the channels keep history nothing is missed. Ctrl-C ends it.
#[derive(Debug, clap::Args)]
pub(crate) struct TailArgs {
    #[command(flatten)]
    follow: FollowArgs,
}

/// Channels to follow, their server and the bounds.
#[derive(Debug, clap::Args)]
struct FollowArgs {
    /// The channels to follow
    #[arg(required = true, value_name = "CHANNEL", value_parser = publish::channel)]
    channels: Vec<ChannelName>,
    /// Address of the server's port for clients
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_SERVER_URL",
        default_value = "http://127.0.0.1:8000"
    )]
    server: Endpoint,
    /// Speak HTTP/2: by TLS, or with prior knowledge (listen.http2 = "plain")
    #[arg(long)]
    http2: bool,
    #[command(flatten)]
    trust: TrustArgs,
    /// A token (`throng token create` makes one)
    #[arg(long, env = "THRONG_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// End after this many publications
    #[arg(long, value_name = "N", value_parser = count)]
    count: Option<u64>,
}

/// Form in which publications are read and printed.
enum Form {
    /// Data of an event stream.
    Data,
    /// Lines of JSON as they come.
    Json,
    /// Lines of JSON with time and channel in front.
    Stamped,
    /// Messages of the WebSocket at this address.
    WebSocket(Endpoint),
}

/// Reads the URL of a WebSocket; without a path it is `/ws`.
fn websocket(url: &str) -> std::result::Result<Endpoint, String> {
    let rest = url.strip_prefix("ws").filter(|rest| rest.contains("://"));
    let Some(rest) = rest else {
        return Err("expected an address such as ws://127.0.0.1:8000/ws".to_owned());
    };
    let endpoint: Endpoint = format!("http{rest}").parse()?;
    Ok(endpoint.or_path("/ws"))
}

/// Tries whether one of a server's channels can be read. Error: why not, with advice.
pub(super) fn try_once(
    server: &Endpoint,
    trust: &TrustArgs,
    token: Option<&str>,
    channel: ChannelName,
) -> Result<()> {
    let args = FollowArgs {
        channels: vec![channel],
        server: server.clone(),
        http2: false,
        trust: trust.clone(),
        token: token.map(str::to_owned),
        count: None,
    };
    let follower = Follower::new(args, Form::Data);
    let mut exchange = { follower.open() }.map_err(|fault| follower.unreachable(&fault))?;
    follower.judge(&mut exchange).map(drop)
}

/// Prints until the count is reached, the server refuses, or the output closes.
pub(crate) fn run(args: Args) -> Result {
    let form = match (args.url, args.json) {
        (Some(url), _) => Form::WebSocket(url),
        (None, true) => Form::Json,
        (None, false) => Form::Data,
    };
    Follower::new(args.follow, form).run()
}

/// Prints as [`run`], with the time and the channel before each publication.
pub(crate) fn tail(args: TailArgs) -> Result {
    Follower::new(args.follow, Form::Stamped).run()
}

const REFUSAL_BYTES_MAX: usize = 16 * 1024;

enum End {
    /// All publications that were asked for have come.
    Counted,
    /// No answer, or the connection was lost.
    Lost(String),
}

struct Follower {
    args: FollowArgs,
    form: Form,
    subscription: Subscription,
    /// Publications still to print; none for no end.
    left: Option<u64>,
    connected_once: bool,
    backoff: Backoff,
}

impl Follower {
    fn new(mut args: FollowArgs, mut form: Form) -> Self {
        match &mut form {
            Form::WebSocket(url) => *url = url.clone().with_http2(args.http2),
            _ => args.server = args.server.with_http2(args.http2),
        }
        Self {
            subscription: Subscription::new(match form {
                Form::WebSocket(_) => SubscriptionTransport::WebSocket,
                Form::Json | Form::Stamped => SubscriptionTransport::Stream,
                Form::Data => SubscriptionTransport::Sse,
            }),
            left: args.count,
            args,
            form,
            connected_once: false,
            backoff: Backoff::default(),
        }
    }

    fn run(mut self) -> Result {
        loop {
            match self.connection()? {
                End::Counted => return Ok(Exit::Good),
                End::Lost(why) => {
                    let asked_ms = self.subscription.retry_ms();
                    let wait = self.backoff.next(asked_ms, throng_sys::random::seed());
                    console::note(&format!(
                        "{}: {why}; coming back in {:.1} s",
                        self.server(),
                        wait.as_secs_f64()
                    ));
                    thread::sleep(wait);
                }
            }
        }
    }

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
        self.backoff = Backoff::default();
        if resuming && self.subscription.last_event_id().is_empty() {
            console::note(match self.subscription.transport() {
                SubscriptionTransport::WebSocket => {
                    "connected again; publications in between are missed, since this \
                     WebSocket does not resume"
                }
                _ => {
                    "connected again; publications in between are missed, since the channels \
                     keep no history"
                }
            });
        }
        self.subscription.restart();
        if let Err(error) = exchange.stream().wait_forever() {
            return Ok(End::Lost(error.to_string()));
        }
        self.read(&mut exchange)
    }

    /// Prints until the connection ends or is of no more use.
    fn read(&mut self, exchange: &mut Answer) -> Result<End> {
        loop {
            let mut turn = Turn::default();
            let (subscription, left) = (&mut self.subscription, &mut self.left);
            let shown = match (&self.form, io::stdout().is_terminal()) {
                (Form::Stamped, _) => stamped_now,
                (_, true) => harmless,
                (_, false) => <[u8]>::to_vec,
            };
            let more = exchange.read_some(|data| turn.take(data, subscription, left, shown));
            if let Some(error) = turn.unprinted {
                return Err(error.into());
            }
            // Whether it arrives does not matter: the next read finds out whether the connection
            // lives.
            let _ = exchange.stream().write_all(&turn.answers);
            if self.left == Some(0) {
                return Ok(End::Counted);
            }
            let mut end = None;
            for notice in turn.notices {
                end = self.heed(notice)?.or(end);
            }
            let lost = match (turn.damage, more) {
                (Some(damage), _) => damage,
                (None, Ok(true)) if end.is_none() => continue,
                (None, Ok(_)) => ResponseReadError::Ended.to_string(),
                (None, Err(fault)) => RequestError::from(fault).to_string(),
            };
            return Ok(end.unwrap_or(End::Lost(lost)));
        }
    }

    /// Handles a notice of the server about the stream itself.
    fn heed(&mut self, notice: SubscriptionNotice) -> Result<Option<End>> {
        let is_final = notice.is_final();
        match notice {
            SubscriptionNotice::Subscribed { .. } | SubscriptionNotice::Dropped(_) => Ok(None),
            SubscriptionNotice::Unsubscribed(channel) => {
                self.args.channels.retain(|name| name.as_str() != channel);
                if self.args.channels.is_empty() {
                    return Err(Failure::refused("no subscription is left"));
                }
                Ok(None)
            }
            SubscriptionNotice::Disconnect { code, reason } if is_final => {
                Err(Failure::refused(format!(
                    "{} ended the connection for good: {reason} ({code})",
                    self.server()
                )))
            }
            SubscriptionNotice::Disconnect { code, reason } => Ok(Some(End::Lost(format!(
                "the server ended the connection: {reason} ({code})"
            )))),
        }
    }

    fn server(&self) -> &Endpoint {
        match &self.form {
            Form::WebSocket(url) => url,
            _ => &self.args.server,
        }
    }

    fn open(&self) -> std::result::Result<Answer, RequestError> {
        let channels = self.args.channels.iter().map(ChannelName::as_str);
        let transport = self.subscription.transport();
        let (path, accept) = form(transport);
        let path = format!("{path}{}", query(channels.map(|name| ("channel", name))));
        let token = self.args.token.as_ref();
        let token = token.map(|token| format!("Bearer {token}"));
        let mut headers = vec![("Accept", accept), ("Cache-Control", "no-store")];
        if let Some(token) = &token {
            headers.push(("Authorization", token));
        }
        if !self.subscription.last_event_id().is_empty() {
            headers.push(("Last-Event-ID", self.subscription.last_event_id()));
        }
        if transport == SubscriptionTransport::WebSocket {
            return upgraded(self.server(), &self.args.trust, &path, &headers);
        }
        let trust = &self.args.trust;
        ask(self.server(), trust, "GET", &path, &headers, None)
    }

    /// Returns none if the answer is the stream that was asked for.
    fn judge(&self, exchange: &mut Answer) -> Result<Option<End>> {
        let status = exchange.status;
        let transport = self.subscription.transport();
        if is_stream(transport, status, &exchange.media_type()) {
            return Ok(None);
        }
        let body = exchange.read_all(REFUSAL_BYTES_MAX).unwrap_or_default();
        let server = &self.server();
        if (200..300).contains(&status) {
            return Err(Failure::unreachable(format!(
                "{server} answers, but not with a stream of publications"
            ))
            .advise(CLIENT_PORT));
        }
        let passing = matches!(status, 408 | 429 | 500..);
        if passing && self.connected_once {
            return Ok(Some(End::Lost(said(status, &body))));
        }
        let failure = Failure::refused(format!("{server} refused: {}", said(status, &body)));
        // The API port asks for its own key; a channel may be what is not there.
        let said = String::from_utf8_lossy(&body);
        Err(match status {
            401 if said.contains("API key") => failure.advise(
                "this is the API port: --server takes the port for clients, by default 8000",
            ),
            401 if said.contains("expired") => {
                failure.advise("make a new one: throng token create --user USER")
            }
            403 if self.args.token.is_some() => failure
                .advise("`throng token check TOKEN` says what the token allows")
                .advise("docs/guides/channels.md says what else opens a channel"),
            404 if said.contains("namespace") => failure.advise(UNKNOWN_NAMESPACE),
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

    fn unreachable(&self, fault: &RequestError) -> Failure {
        let failure =
            Failure::unreachable(format!("cannot subscribe at {}: {fault}", self.server()));
        match fault {
            RequestError::Connect(_) => failure
                .advise("is the server running? start it with `throng serve`")
                .advise("if it is elsewhere, say where: --server http://HOST:PORT"),
            RequestError::Resolve(_) => failure.advise("check the name behind --server"),
            RequestError::Tls(error) if is_plain(error) => failure,
            RequestError::Tls(_) => failure.advise(UNTRUSTED),
            _ => failure.advise(CLIENT_PORT),
        }
    }
}

/// Path of a transport's stream, and the media types to ask for.
const fn form(transport: SubscriptionTransport) -> (&'static str, &'static str) {
    match transport {
        SubscriptionTransport::Sse => ("/sse", "text/event-stream"),
        SubscriptionTransport::Stream => ("/stream", "application/x-ndjson, application/json"),
        // The address has the path: WebSockets are addressed by whole URLs.
        SubscriptionTransport::WebSocket => ("", "*/*"),
    }
}

fn is_stream(transport: SubscriptionTransport, status: u16, media_type: &str) -> bool {
    match transport {
        SubscriptionTransport::Sse => status == 200 && media_type == "text/event-stream",
        SubscriptionTransport::Stream => {
            status == 200 && media_type.starts_with("application/") && media_type.ends_with("json")
        }
        SubscriptionTransport::WebSocket => status == 101,
    }
}

fn tell(notice: &SubscriptionNotice) {
    match notice {
        SubscriptionNotice::Subscribed {
            recovered: Some(true),
        } => {
            console::note("connected again, and nothing was missed");
        }
        SubscriptionNotice::Subscribed {
            recovered: Some(false),
        } => console::note(
            "connected again; publications were missed, since the history does not reach back so \
             far",
        ),
        SubscriptionNotice::Dropped(count) => console::note(&format!(
            "too slow: the server dropped {count} publications on the way here"
        )),
        SubscriptionNotice::Unsubscribed(channel) => {
            console::note(&format!("the server ended the subscription to {channel:?}"));
        }
        // The end of a connection is told with what is done about it.
        SubscriptionNotice::Subscribed { recovered: None }
        | SubscriptionNotice::Disconnect { .. } => {}
    }
}

/// Draws a key, fresh for each frame (RFC 6455 section 5.3).
fn mask_key() -> [u8; 4] {
    let [a, b, c, d, ..] = throng_sys::random::seed().to_be_bytes();
    [a, b, c, d]
}

#[derive(Default)]
struct Turn {
    /// Why nothing more can be printed.
    unprinted: Option<io::Error>,
    notices: Vec<SubscriptionNotice>,
    /// Bytes to send to the server in return.
    answers: Vec<u8>,
    damage: Option<String>,
}

impl Turn {
    /// Prints publications as long as somebody reads them and more are wanted, and keeps the
    /// notices.
    fn take(
        &mut self,
        data: &[u8],
        subscription: &mut Subscription,
        left: &mut Option<u64>,
        shown: fn(&[u8]) -> Vec<u8>,
    ) {
        let (unprinted, notices) = (&mut self.unprinted, &mut self.notices);
        let fed = subscription.feed(data, mask_key, &mut self.answers, |event| match event {
            SubscriptionEvent::Publication(line) if unprinted.is_none() && *left != Some(0) => {
                *unprinted = console::print([shown(line), b"\n".to_vec()].concat()).err();
                if let Some(left) = left {
                    *left -= 1;
                }
            }
            SubscriptionEvent::Publication(_) => {}
            SubscriptionEvent::Notice(notice) => {
                tell(&notice);
                notices.push(notice);
            }
        });
        if let Err(damage) = fed {
            self.damage.get_or_insert(damage);
        }
    }
}

/// First and longest wait before a reconnect.
const FIRST_MS: u64 = 200;
const LAST_MS: u64 = 15_000;

/// Backoff that doubles from try to try, and starts anew after a success.
#[derive(Debug, Default)]
struct Backoff {
    tries: u32,
}

impl Backoff {
    /// Wait before the next try. `asked_ms` is the wait that the server asked for, and
    /// holds for the first one.
    ///
    /// Between half and all of the time, by chance, so that the clients of a server that went away
    /// do not come back together.
    fn next(&mut self, asked_ms: Option<u64>, chance: u64) -> Duration {
        let own = FIRST_MS << self.tries.min(16);
        let whole = match asked_ms {
            Some(asked) if self.tries == 0 => asked.max(FIRST_MS),
            _ => own,
        }
        .min(LAST_MS);
        self.tries = self.tries.saturating_add(1);
        let half = whole / 2;
        Duration::from_millis(half + chance % (whole - half + 1))
    }
}

/// Without the control characters that a terminal obeys: data are strangers' words. Lines and tabs
/// stay.
fn harmless(line: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(line);
    let plain = line
        .chars()
        .filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    plain.collect::<String>().into_bytes()
}

/// The time, the channel and the data of what comes now.
fn stamped_now(line: &[u8]) -> Vec<u8> {
    stamped(line, throng_sys::clock::unix_ms())
}

/// The time, the channel and the data, from a line of `/stream`. A line that cannot be read is
/// shown as it came.
fn stamped(line: &[u8], unix_ms: u64) -> Vec<u8> {
    let time = clock(unix_ms);
    let told: Option<Value> = serde_json::from_slice(line).ok();
    let channel = told.as_ref().and_then(|told| told.get("channel")?.as_str());
    let data = told.as_ref().and_then(|told| told.get("data"));
    let (Some(channel), Some(data)) = (channel, data) else {
        return [time.as_bytes(), b"  ", line].concat();
    };
    let data = match data {
        // One line each, whatever is in it.
        Value::String(text) => text.replace(['\n', '\r'], " "),
        other => other.to_string(),
    };
    // Channels and data are strangers' words, and a terminal obeys control characters.
    let shown = format!("{time}  {channel}  {data}");
    let plain = shown.chars().filter(|letter| !letter.is_control());
    plain.collect::<String>().into_bytes()
}

fn clock(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000 % 86_400, unix_ms % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ms:03}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_and_start_anew() {
        let mut backoff = Backoff::default();
        let mut bounds = |asked| {
            let (mut low, mut high) = (
                Backoff {
                    tries: backoff.tries,
                },
                Backoff {
                    tries: backoff.tries,
                },
            );
            let pair = (low.next(asked, 0), high.next(asked, u64::MAX));
            let _ = backoff.next(asked, 7);
            pair
        };
        let ms = Duration::from_millis;
        assert_eq!(bounds(None).0, ms(100));
        assert_eq!(bounds(None).0, ms(200));
        for _ in 0..70 {
            let (low, high) = bounds(None);
            assert!(
                ms(200) <= low && low <= high && high <= ms(15_000),
                "{low:?} {high:?}"
            );
        }
        assert_eq!(
            bounds(Some(3_000)).0,
            ms(7_500),
            "a server that is gone asks for nothing"
        );
        backoff = Backoff::default();
        let wait = backoff.next(Some(3_000), 0);
        assert_eq!(wait, ms(1_500));
        backoff = Backoff::default();
        assert!(backoff.next(Some(u64::MAX), u64::MAX) <= ms(15_000));
    }

    #[test]
    fn a_terminal_obeys_nobody() {
        for (line, expected) in [
            ("plain\n\ttext é", "plain\n\ttext é"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "[2J]0;title"),
            ("\u{9b}31m\rover\u{8}\u{7f}", "31mover"),
        ] {
            assert_eq!(harmless(line.as_bytes()), expected.as_bytes());
        }
        assert_eq!(harmless(b"\xff\x1b["), "\u{fffd}[".as_bytes());
    }

    #[test]
    fn each_publication_has_one_line() {
        let lines = r#"
            {"channel":"news","data":{"a":1},"offset":4} => news  {"a":1}
            {"channel":"news","data":"two\nlines"} => news  two lines
            {"channel":"news","data":"\u001b[2Jred"} => news  [2Jred
            not JSON => not JSON"#;
        for (line, expected) in lines
            .lines()
            .filter_map(|line| line.trim().split_once(" => "))
        {
            let shown = stamped(line.as_bytes(), 12_345_678 + 86_400_000 * 365);
            assert_eq!(shown, format!("03:25:45.678Z  {expected}").into_bytes());
        }
    }
}
