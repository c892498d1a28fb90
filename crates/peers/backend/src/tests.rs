use std::sync::Arc;

use throng_http1::field::Header;
use throng_http1::origin::{Destination, OriginTarget};
use throng_http1::origin::{OriginEvent, OriginRequest, RequestRest};
use throng_peer::{Ended, LinkEvent, LinkId, Peer as _, ReadFlow, Want};
use throng_play::Play;
use throng_types::{ConnId, Millis, ShardId, cases};

use crate::{
    AnswerTo, AskLimits, Backend, BackendLimits, Call, Reply, TicketId, UPLINK_PIECES_MAX,
};

const CONN: ConnId = ConnId::new(ShardId(0), 1, 1);
const WINDOW: usize = 64 << 10;

/// A request to `http://HOST` of each.
fn asked(method: &str, hosts: &[&str]) -> OriginRequest {
    let targets = { hosts.iter() }.map(|host| OriginTarget::from_url(&format!("http://{host}")));
    let to = Destination {
        connect_timeout_ms: 1_000,
        response_timeout_ms: 0,
        targets: targets.map(|target| target.expect("a target")).collect(),
    };
    let headers = vec![Header::new("Host", "a")];
    OriginRequest::new(Arc::new(to), method, "/".to_owned(), headers)
}

/// A request whose body comes behind it.
fn posted(hosts: &[&str]) -> OriginRequest {
    OriginRequest {
        rest: RequestRest::Body(None),
        ..asked("POST", hosts)
    }
}

fn within(mut request: OriginRequest, response_timeout_ms: u64) -> OriginRequest {
    let to = Arc::get_mut(&mut request.to).expect("ours alone");
    to.response_timeout_ms = response_timeout_ms;
    request
}

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A peer, and all its output, as text.
struct Run {
    play: Play<Backend<u32>>,
    tickets: u64,
    deadlines: Vec<String>,
}

impl Run {
    fn new() -> Self {
        Self::with(BackendLimits {
            stall_timeout_ms: 500,
            ..BackendLimits::default()
        })
    }

    fn with(limits: BackendLimits) -> Self {
        Self {
            play: Play::new(Backend::new(limits)),
            tickets: 0,
            deadlines: Vec::new(),
        }
    }

    /// Runs an event; gives the wishes, but for deadlines.
    fn act<R>(
        &mut self,
        event: impl FnOnce(&mut Backend<u32>, &mut throng_peer::PeerContext<'_, Reply<u32>>) -> R,
    ) -> (R, Vec<String>) {
        let (result, wants) = self.play.act(event);
        let mut shown = Vec::new();
        self.deadlines.clear();
        for want in wants {
            let text = match &want {
                Want::Dial(link, dial) => format!("dial {} {}:{}", link.0, dial.host, dial.port),
                Want::Write(link, bytes) => {
                    format!("write {} {}", link.0, String::from_utf8_lossy(bytes))
                }
                Want::Resume(link) => format!("resume {}", link.0),
                Want::End(link) => format!("end {}", link.0),
                Want::Wake(at) => format!("wake {at:?}"),
                Want::Secure(..) | Want::Finish(_) => panic!("{want:?} is not for backends"),
                Want::Deadline(link, at) => {
                    let at = at.map_or_else(|| "none".to_owned(), |at| at.0.to_string());
                    self.deadlines.push(format!("{} {at}", link.0));
                    continue;
                }
            };
            shown.push(text);
        }
        (result, shown)
    }

    fn call(&mut self, call: Call<u32>) -> Vec<String> {
        self.act(|peer, cx| peer.call(call, cx)).1
    }

    fn submit(&mut self, request: OriginRequest) -> (TicketId, Vec<String>) {
        let ticket = TicketId(self.tickets + 1);
        (ticket, self.begin(AnswerTo::Conn(CONN, 7), request))
    }

    fn begin(&mut self, to: AnswerTo, request: OriginRequest) -> Vec<String> {
        self.tickets += 1;
        self.call(Call::Begin {
            ticket: TicketId(self.tickets),
            to,
            request,
            token: 5,
        })
    }

    fn follow(&mut self, ticket: TicketId, piece: &str) -> Vec<String> {
        self.call(Call::Follow(ticket, Some(piece.into())))
    }

    fn event(&mut self, link: u64, event: LinkEvent<'_>) -> (ReadFlow, Vec<String>) {
        self.act(|peer, cx| peer.event(LinkId(link), event, cx))
    }

    fn connected(&mut self, link: u64) -> Vec<String> {
        self.event(link, LinkEvent::Connected).1
    }

    fn written(&mut self, link: u64) -> Vec<String> {
        self.event(link, LinkEvent::Written).1
    }

    fn bytes(&mut self, link: u64, bytes: &[u8]) -> (ReadFlow, Vec<String>) {
        self.event(link, LinkEvent::Bytes(bytes))
    }

    fn says(&mut self, link: u64, text: &str) -> Vec<String> {
        self.bytes(link, text.as_bytes()).1
    }

    fn ended(&mut self, link: u64, why: Ended) -> Vec<String> {
        self.event(link, LinkEvent::Ended(why)).1
    }

    fn timeout(&mut self, link: u64, waits_since: Option<u64>) -> Vec<String> {
        let waits_since = waits_since.map(Millis);
        self.event(link, LinkEvent::Timeout(waits_since)).1
    }

    fn at(&mut self, ms: u64) {
        self.play.now.mono = Millis(ms);
    }

    /// Replies so far, with bodies in one piece.
    fn heard(&mut self) -> Vec<String> {
        let (mut heard, mut body): (Vec<String>, Vec<u8>) = (Vec::new(), Vec::new());
        let mut told = |text: String, body: &mut Vec<u8>| {
            if !body.is_empty() {
                let body = std::mem::take(body);
                heard.push(format!("body {}", String::from_utf8_lossy(&body)));
            }
            heard.extend((!text.is_empty()).then_some(text));
        };
        for reply in self.play.replies() {
            match reply {
                Reply::Event(conn, number, event) => {
                    assert_eq!((conn, number), (CONN, 7));
                    match event {
                        OriginEvent::Head(head) => told(format!("head {}", head.code), &mut body),
                        OriginEvent::Body(bytes) => body.extend(bytes),
                        OriginEvent::Taken(bytes) => told(format!("taken {bytes}"), &mut body),
                        OriginEvent::End => told("end".to_owned(), &mut body),
                        OriginEvent::Failed(failure) => {
                            let text = format!("failed {:?}: {}", failure.fault, failure.detail);
                            told(text, &mut body);
                        }
                    }
                }
                Reply::Whole(token, Ok((status, bytes))) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    told(format!("{token}: {status} {text}"), &mut body);
                }
                Reply::Whole(token, Err(failure)) => {
                    told(format!("{token}: failed {:?}", failure.fault), &mut body);
                }
            }
        }
        told(String::new(), &mut body);
        heard
    }

    /// A link to `host` in the pool, whose number it gives.
    fn keep(&mut self, host: &str) -> u64 {
        let (_, wants) = self.submit(asked("GET", &[host]));
        let link = wants[0].split(' ').nth(1).expect("a number");
        let link = link.parse().expect("a number");
        assert_eq!(wants, [format!("dial {link} {host}:80")]);
        assert_eq!(self.connected(link), [format!("write {link} {GET}")]);
        assert_eq!(self.written(link), NOTHING);
        assert_eq!(self.says(link, OK), NOTHING);
        assert_eq!(self.heard(), ["head 200", "body ok", "end"]);
        link
    }
}

const NOTHING: [&str; 0] = [];
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// An answer in two pieces, cut anywhere, and byte by byte.
#[track_caller]
fn check_answer(method: &str, answer: &str, closes: bool, heard: &[&str], is_kept: bool) {
    let pieces = |cut: usize| vec![&answer.as_bytes()[..cut], &answer.as_bytes()[cut..]];
    let cuts = (0..=answer.len()).map(pieces);
    for pieces in cuts.chain([answer.as_bytes().chunks(1).collect()]) {
        let mut run = Run::new();
        run.submit(asked(method, &["a"]));
        run.connected(1);
        run.written(1);
        let mut wants = Vec::new();
        for piece in pieces.iter().filter(|piece| !piece.is_empty()) {
            let (flow, wanted) = run.bytes(1, piece);
            assert_eq!(flow, ReadFlow::More);
            wants.extend(wanted);
        }
        if closes {
            run.ended(1, Ended::ByPeer);
        }
        let shown = pieces.iter().map(|piece| String::from_utf8_lossy(piece));
        let shown: Vec<_> = shown.collect();
        assert_eq!(run.heard(), heard, "{shown:?}");
        let kept = run.submit(asked("GET", &["a"])).1[0].starts_with("write 1");
        assert_eq!(kept, is_kept, "{shown:?}");
        assert_eq!(
            wants.contains(&"end 1".to_owned()),
            !is_kept && !closes,
            "{shown:?}"
        );
    }
}

#[test]
fn answers_at_every_split_point() {
    let length = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let whole = ["head 200", "body hello", "end"];
    check_answer("GET", length, false, &whole, true);
    let close = length.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    check_answer("GET", &close, false, &whole, false);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nT: 1\r\n\r\n";
    check_answer("GET", chunked, false, &whole, true);
    let until_close = "HTTP/1.1 200 OK\r\n\r\nhello";
    check_answer("GET", until_close, true, &whole, false);
    let none = "HTTP/1.1 204 No\r\n\r\n";
    check_answer("GET", none, false, &["head 204", "end"], true);
    let head = length.trim_end_matches("hello");
    check_answer("HEAD", head, false, &["head 200", "end"], true);
    let interim =
        format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n{length}");
    check_answer("GET", &interim, false, &whole, true);
    // Bytes behind an answer belong to no request.
    let more = format!("{length}HTTP/1.1 200 OK\r\n");
    let mut run = Run::new();
    run.submit(asked("GET", &["a"]));
    run.connected(1);
    run.written(1);
    assert_eq!(run.says(1, &more), ["end 1"]);
    assert_eq!(run.heard(), whole);
}

#[test]
fn answers_that_are_cut_have_failed() {
    for (answer, may_end_from) in [
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            usize::MAX,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            usize::MAX,
        ),
        ("HTTP/1.1 200 OK\r\n\r\nhello", 19),
    ] {
        let head = answer.find("\r\n\r\n").expect("a head") + 4;
        for cut in 0..answer.len() {
            for is_broken in [false, true] {
                let mut run = Run::new();
                run.submit(asked("GET", &["a"]));
                run.connected(1);
                run.written(1);
                if cut > 0 {
                    run.says(1, &answer[..cut]);
                }
                let why = match is_broken {
                    true => Ended::Broken("reset".to_owned()),
                    false => Ended::ByPeer,
                };
                assert_eq!(run.ended(1, why), NOTHING);
                let last = match may_end_from <= cut && !is_broken {
                    true => "end",
                    false => "failed Cut",
                };
                let heard = run.heard();
                let found = heard.last().expect("an end");
                assert!(found.starts_with(last), "{cut}: {found}");
                let has_head = heard.first().is_some_and(|first| first == "head 200");
                assert_eq!(has_head, head <= cut, "{cut}");
                assert_eq!(run.play.peer.exchanges(), 0);
            }
        }
    }
}

#[test]
fn garbage_has_failed() {
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(WINDOW));
    let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(17);
    for answer in [
        "SSH-2.0\r\n\r\n",
        "HTTP/1.1 101 Go\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        &long,
        &many,
    ] {
        let mut run = Run::new();
        run.submit(asked("GET", &["a"]));
        run.connected(1);
        run.written(1);
        assert_eq!(run.says(1, answer), ["end 1"], "{answer:.60}");
        let heard = run.heard();
        let last = heard.last().expect("an end");
        assert!(last.starts_with("failed Garbage"), "{last}");
        assert_eq!(run.play.peer.exchanges(), 0);
    }
}

#[test]
fn a_sender_that_does_not_stop_has_its_exchange_fail() {
    let mut run = Run::new();
    let (ticket, _) = run.submit(posted(&["a"]));
    run.connected(1);
    for _ in 0..UPLINK_PIECES_MAX {
        assert_eq!(run.follow(ticket, "x"), NOTHING);
    }
    assert_eq!(run.heard(), NOTHING);
    assert_eq!(run.follow(ticket, "x"), ["end 1"]);
    assert!(run.heard()[0].starts_with("failed Unsent"));
    assert_eq!(run.follow(ticket, "x"), NOTHING);
    assert_eq!(run.play.peer.exchanges(), 0);
}

/// Plays dialogues: each step with all that comes of it. Wishes of the peer, deadlines as in
/// `1 by 250`, a link that is held, replies, and that no exchange is left. `GET` and `POST` are the
/// heads that are written, `|` is a line end, `<9>` nine times `x`.
#[test]
fn dialogues() {
    let mut run = Run::new();
    for (step, expected) in cases(include_str!("dialogues.txt")) {
        let found = run.step(step);
        assert_eq!(found, expected, "{step}");
    }
}

impl Run {
    fn step(&mut self, step: &str) -> String {
        let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (first, what) = rest.split_once(' ').unwrap_or((rest, ""));
        let link = first.parse().unwrap_or(0);
        let ticket = TicketId(self.tickets);
        let hosts: Vec<&str> = rest.split(' ').collect();
        let before = self.play.peer.exchanges();
        let mut flow = ReadFlow::More;
        self.deadlines.clear();
        let mut told = match verb {
            "begin" => {
                *self = Self::new();
                Vec::new()
            }
            "at" => {
                self.at(link);
                Vec::new()
            }
            "keeps" => vec![self.keep(rest).to_string()],
            "get" => self.submit(asked("GET", &hosts)).1,
            "post" => self.submit(posted(&hosts)).1,
            "upgrade" => self.submit(upgrade(&hosts)).1,
            "within" => {
                let (kind, host) = what.split_once(' ').expect("a host");
                let request = match kind {
                    "get" => asked("GET", &[host]),
                    "post" => posted(&[host]),
                    _ => upgrade(&[host]),
                };
                self.submit(within(request, link)).1
            }
            "ask" => {
                let limits = AskLimits {
                    bytes_max: link as usize,
                    timeout_ms: what.parse().expect("milliseconds"),
                };
                self.begin(AnswerTo::Whole(limits), asked("GET", &["a"]))
            }
            "tell" => self.begin(AnswerTo::Nobody, asked("GET", &hosts)),
            "follows" => self.follow(ticket, &unshown(rest)),
            "finishes" => self.call(Call::Follow(ticket, None)),
            "granted" => self.call(Call::Grant(ticket, link as usize)),
            "cancels" => self.call(Call::Cancel(ticket)),
            "connected" => self.connected(link),
            "written" => self.written(link),
            "says" => {
                let (now, told) = self.bytes(link, unshown(what).as_bytes());
                flow = now;
                told
            }
            "closed" => self.ended(link, Ended::ByPeer),
            "broken" => self.ended(link, Ended::Broken("reset".to_owned())),
            "refused" => self.ended(link, Ended::Unreachable("refused".to_owned())),
            "timeout" => self.timeout(link, what.parse().ok()),
            _ => panic!("there is no step {step}"),
        };
        let deadlines = self.deadlines.iter();
        told.extend(deadlines.map(|deadline| deadline.replace(' ', " by ")));
        told.extend((flow == ReadFlow::Hold).then(|| "hold".to_owned()));
        told.extend(self.heard());
        let is_over = before > 0 && self.play.peer.exchanges() == 0;
        told.extend(is_over.then(|| "none left".to_owned()));
        match told.is_empty() {
            true => "-".to_owned(),
            false => shown(&told.join(" / ")),
        }
    }
}

fn upgrade(hosts: &[&str]) -> OriginRequest {
    OriginRequest {
        rest: RequestRest::Upgrade,
        ..asked("GET", hosts)
    }
}

/// Text as dialogues show it.
fn shown(text: &str) -> String {
    let text = text
        .replace(GET, "GET")
        .replace(POST, "POST")
        .replace("\r\n", "|");
    let letters: Vec<char> = text.chars().collect();
    let same = letters.chunk_by(|a, b| a == b);
    same.map(|same| match same {
        ['x', ..] if same.len() > 4 => format!("<{}>", same.len()),
        _ => same.iter().collect(),
    })
    .collect()
}

fn unshown(text: &str) -> String {
    let text = text.replace('|', "\r\n");
    let Some((before, (times, after))) =
        { text.split_once('<') }.and_then(|(before, rest)| Some((before, rest.split_once('>')?)))
    else {
        return text;
    };
    format!(
        "{before}{}{after}",
        "x".repeat(times.parse().expect("a number"))
    )
}
