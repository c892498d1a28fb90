use std::sync::Arc;

use throng_http1::field::Header;
use throng_http1::origin::{Destination, OriginTarget};
use throng_http1::origin::{OriginEvent, OriginRequest, RequestRest};
use throng_peer::{Ended, LinkEvent, LinkId, Peer as _, ReadFlow, Want};
use throng_play::Play;
use throng_types::{ConnId, Millis, ShardId};

use crate::{AskLimits, Backend, BackendLimits, Call, Reply, TicketId, UPLINK_PIECES_MAX};

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
        self.tickets += 1;
        let ticket = TicketId(self.tickets);
        let call = Call::Submit {
            ticket,
            conn: CONN,
            number: 7,
            request,
            token: 0,
        };
        (ticket, self.call(call))
    }

    fn ask(&mut self, request: OriginRequest, bytes_max: usize, timeout_ms: u64) -> Vec<String> {
        self.tickets += 1;
        self.call(Call::Ask {
            ticket: TicketId(self.tickets),
            request,
            limits: AskLimits {
                bytes_max,
                timeout_ms,
            },
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
                            told(format!("failed {:?}", failure.fault), &mut body);
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
                assert_eq!(heard.last().map(String::as_str), Some(last), "{cut}");
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
        assert_eq!(heard.last().map(String::as_str), Some("failed Garbage"));
    }
}

#[test]
fn a_kept_link_is_used_again_and_replaced_once() {
    let mut run = Run::new();
    let link = run.keep("a");
    // It dies before a byte: once more, on a new one.
    let (_, wants) = run.submit(asked("GET", &["a"]));
    assert_eq!(wants, [format!("write {link} {GET}")]);
    assert_eq!(run.written(link), NOTHING);
    let again = run.ended(link, Ended::ByPeer);
    assert_eq!(again, [format!("dial {} a:80", link + 1)]);
    assert_eq!(
        run.connected(link + 1),
        [format!("write {} {GET}", link + 1)]
    );
    run.written(link + 1);
    run.says(link + 1, OK);
    assert_eq!(run.heard(), ["head 200", "body ok", "end"]);
    // A new one that dies is the answer.
    run.submit(asked("GET", &["a"]));
    run.ended(link + 1, Ended::Broken("reset".to_owned()));
    run.connected(link + 2);
    run.written(link + 2);
    assert_eq!(run.ended(link + 2, Ended::ByPeer), NOTHING);
    assert_eq!(run.heard(), ["failed Cut"]);
}

/// The backend has begun to answer, so it may have done as it was asked.
#[test]
fn a_kept_link_that_dies_behind_a_byte_is_not_replaced() {
    for begun in ["H", "HTTP/1.1 100 Continue\r\n\r\n"] {
        let mut run = Run::new();
        let link = run.keep("a");
        run.submit(asked("GET", &["a"]));
        run.written(link);
        run.says(link, begun);
        assert_eq!(run.ended(link, Ended::ByPeer), NOTHING, "{begun:?}");
        assert_eq!(run.heard(), ["failed Cut"], "{begun:?}");
    }
}

#[test]
fn a_kept_link_that_ends_or_speaks_unasked_is_not_used() {
    let mut run = Run::new();
    let link = run.keep("a");
    assert_eq!(run.ended(link, Ended::ByPeer), NOTHING);
    let link = run.keep("a");
    assert_eq!(
        run.says(link, "HTTP/1.1 408 Late\r\n\r\n"),
        [format!("end {link}")]
    );
    let link = run.keep("a");
    let idle_until = format!("{link} 15000");
    assert_eq!(run.deadlines.last(), Some(&idle_until));
    assert_eq!(run.timeout(link, None), [format!("end {link}")]);
    let (_, wants) = run.submit(asked("GET", &["a"]));
    assert_eq!(wants, [format!("dial {} a:80", link + 1)]);
}

#[test]
fn a_body_that_comes_in_pieces_is_sent_in_pieces() {
    let mut run = Run::new();
    let (ticket, wants) = run.submit(posted(&["a"]));
    assert_eq!(wants, ["dial 1 a:80"]);
    // It waits for the link, and then for the kernel.
    assert_eq!(run.follow(ticket, "one"), NOTHING);
    assert_eq!(run.connected(1), [format!("write 1 {POST}")]);
    assert_eq!(run.follow(ticket, "three"), NOTHING);
    assert_eq!(run.written(1), ["write 1 3\r\none\r\n"]);
    assert_eq!(run.heard(), NOTHING);
    assert_eq!(run.written(1), ["write 1 5\r\nthree\r\n"]);
    assert_eq!(run.heard(), ["taken 3"]);
    assert_eq!(run.written(1), NOTHING);
    assert_eq!(run.heard(), ["taken 5"]);
    assert_eq!(run.call(Call::Follow(ticket, None)), ["write 1 0\r\n\r\n"]);
    assert_eq!(run.written(1), NOTHING);
    assert_eq!(run.says(1, OK), NOTHING);
    assert_eq!(run.heard(), ["head 200", "body ok", "end"]);
    // An answer that came before its request was sent leaves a link of no use.
    let (ticket, wants) = run.submit(posted(&["a"]));
    assert_eq!(wants, [format!("write 1 {POST}")]);
    run.written(1);
    assert_eq!(run.says(1, &OK[..OK.len() - 1]), NOTHING);
    assert_eq!(run.follow(ticket, "of no interest"), NOTHING);
    assert_eq!(run.says(1, "k"), ["end 1"]);
    assert_eq!(run.heard(), ["head 200", "body ok", "end"]);
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
    assert_eq!(run.heard(), ["failed Unsent"]);
    assert_eq!(run.follow(ticket, "x"), NOTHING);
    assert_eq!(run.play.peer.exchanges(), 0);
}

#[test]
fn a_body_is_sent_again_from_its_beginning() {
    for (bytes, is_again) in [(5, true), (64 << 10, true), ((64 << 10) + 1, false)] {
        let mut run = Run::new();
        let link = run.keep("a");
        let (ticket, _) = run.submit(posted(&["a"]));
        run.written(link);
        let body = "x".repeat(bytes);
        run.follow(ticket, &body);
        run.written(link);
        assert_eq!(run.heard(), [format!("taken {bytes}")]);
        let wants = run.ended(link, Ended::ByPeer);
        if !is_again {
            assert_eq!(wants, NOTHING);
            assert_eq!(run.heard(), ["failed Unsent"]);
            continue;
        }
        assert_eq!(wants, [format!("dial {} a:80", link + 1)]);
        let all = format!("write {} {POST}{bytes:x}\r\n{body}\r\n", link + 1);
        assert_eq!(run.connected(link + 1), [all]);
        run.written(link + 1);
        // Nothing is reported twice.
        assert_eq!(run.heard(), NOTHING);
    }
}

/// Two backends had kept links that die, and the first takes no new one.
#[test]
fn a_body_is_sent_again_to_the_next_backend_too() {
    let mut run = Run::new();
    let (first, second) = (run.keep("a"), run.keep("b"));
    let (ticket, wants) = run.submit(posted(&["a", "b"]));
    assert_eq!(wants, [format!("write {first} {POST}")]);
    run.written(first);
    run.follow(ticket, "body");
    run.written(first);
    let third = second + 1;
    assert_eq!(
        run.ended(first, Ended::ByPeer),
        [format!("dial {third} a:80")]
    );
    let refused = Ended::Unreachable("refused".to_owned());
    let all = format!("{POST}4\r\nbody\r\n");
    assert_eq!(run.ended(third, refused), [format!("write {second} {all}")]);
    let fourth = third + 1;
    assert_eq!(
        run.ended(second, Ended::ByPeer),
        [format!("dial {fourth} b:80")]
    );
    assert_eq!(run.connected(fourth), [format!("write {fourth} {all}")]);
}

#[test]
fn the_next_backend_is_asked_where_one_cannot_be_reached() {
    let mut run = Run::new();
    let (_, wants) = run.submit(asked("GET", &["a", "b"]));
    assert_eq!(wants, ["dial 1 a:80"]);
    let refused = || Ended::Unreachable("refused".to_owned());
    assert_eq!(run.ended(1, refused()), ["dial 2 b:80"]);
    assert_eq!(run.ended(2, refused()), NOTHING);
    let replies = run.play.replies();
    let [Reply::Event(.., OriginEvent::Failed(failure))] = &replies[..] else {
        panic!("{replies:?}");
    };
    assert_eq!(failure.detail, "a:80: refused; b:80: refused");
    assert_eq!(run.play.peer.exchanges(), 0);
    // One that was reached may have done what it was asked.
    run.submit(asked("POST", &["a", "b"]));
    run.connected(3);
    run.written(3);
    assert_eq!(run.ended(3, Ended::ByPeer), NOTHING);
    assert_eq!(run.heard(), ["failed Cut"]);
}

#[test]
fn a_backend_that_takes_nothing_is_given_up() {
    for (response_timeout_ms, stall_ms) in [(0, 500), (200, 200)] {
        let mut run = Run::new();
        run.at(1_000);
        run.submit(within(asked("GET", &["a"]), response_timeout_ms));
        run.connected(1);
        assert_eq!(run.deadlines, [format!("1 {}", 1_000 + stall_ms)]);
        // The kernel took some later.
        run.at(1_000 + stall_ms);
        assert_eq!(run.timeout(1, Some(1_100)), NOTHING);
        assert_eq!(run.deadlines, [format!("1 {}", 1_100 + stall_ms)]);
        // And the rest in the turn of the deadline.
        run.at(1_100 + stall_ms);
        assert_eq!(run.timeout(1, None), NOTHING);
        assert_eq!(run.deadlines, [format!("1 {}", 1_100 + 2 * stall_ms)]);
        run.at(1_100 + 2 * stall_ms);
        assert_eq!(run.timeout(1, Some(1_100 + stall_ms)), ["end 1"]);
        assert_eq!(run.heard(), ["failed Timeout"]);
    }
}

#[test]
fn an_answer_has_the_time_of_its_route() {
    let mut run = Run::new();
    run.submit(within(asked("GET", &["a"]), 200));
    run.connected(1);
    run.at(50);
    run.written(1);
    assert_eq!(run.deadlines, ["1 250"]);
    run.at(250);
    assert_eq!(run.timeout(1, None), ["end 1"]);
    assert_eq!(run.heard(), ["failed Timeout"]);
    // A client that sends more before the answer has come wins no time by it.
    let upgrade = OriginRequest {
        rest: RequestRest::Upgrade,
        ..within(asked("GET", &["a"]), 200)
    };
    let (ticket, _) = run.submit(upgrade);
    run.connected(2);
    run.written(2);
    assert_eq!(run.deadlines, ["2 450"]);
    run.at(300);
    run.follow(ticket, "early");
    assert_eq!(run.deadlines, NOTHING);
    // A body may take as long as it likes, and so may a client with its own.
    for request in [asked("GET", &["a"]), posted(&["a"])] {
        let mut run = Run::new();
        let is_whole = request.rest == RequestRest::Nothing;
        run.submit(within(request, 200));
        run.connected(1);
        run.written(1);
        if is_whole {
            run.says(1, &OK[..OK.len() - 1]);
        }
        assert_eq!(run.deadlines, ["1 none"]);
    }
}

#[test]
fn a_whole_answer_has_a_bound_and_a_time() {
    let mut run = Run::new();
    assert_eq!(run.ask(asked("GET", &["a"]), 2, 900), ["dial 1 a:80"]);
    run.connected(1);
    run.written(1);
    assert_eq!(run.deadlines, ["1 900"]);
    run.says(1, &OK[..OK.len() - 2]);
    assert_eq!(run.says(1, "ok"), NOTHING);
    assert_eq!(run.heard(), ["5: 200 ok"]);
    run.ask(asked("GET", &["a"]), 1, 900);
    run.written(1);
    assert_eq!(run.says(1, OK), ["end 1"]);
    assert_eq!(run.heard(), ["5: failed Garbage"]);
    // The time holds from the request to the last byte.
    for steps in 0..4 {
        let mut run = Run::new();
        run.ask(asked("GET", &["a"]), 99, 900);
        if steps > 0 {
            run.connected(1);
        }
        if steps > 1 {
            run.written(1);
        }
        if steps > 2 {
            run.says(1, &OK[..OK.len() - 1]);
        }
        run.at(900);
        let waits_since = (steps == 1).then_some(900);
        assert_eq!(run.timeout(1, waits_since), ["end 1"], "{steps}");
        assert_eq!(run.heard(), ["5: failed Timeout"], "{steps}");
    }
}

#[test]
fn a_call_whose_answer_is_of_no_interest_ends_with_the_head() {
    let mut run = Run::new();
    run.call(Call::Tell {
        ticket: TicketId(1),
        request: asked("GET", &["a"]),
        token: 0,
    });
    run.connected(1);
    run.written(1);
    assert_eq!(run.says(1, "HTTP/1.1 200 OK\r\n"), NOTHING);
    assert_eq!(run.says(1, "\r\nmore"), ["end 1"]);
    assert_eq!(run.heard(), NOTHING);
    assert_eq!(run.play.peer.exchanges(), 0);
}

#[test]
fn an_exchange_that_is_cancelled_is_heard_of_no_more() {
    for steps in 0..4 {
        let mut run = Run::new();
        let (ticket, _) = run.submit(asked("GET", &["a"]));
        if steps > 0 {
            run.connected(1);
        }
        if steps > 1 {
            run.written(1);
        }
        if steps > 2 {
            run.says(1, &OK[..OK.len() - 1]);
        }
        run.heard();
        assert_eq!(run.call(Call::Cancel(ticket)), ["end 1"], "{steps}");
        assert_eq!(run.play.peer.exchanges(), 0);
        for call in [
            Call::Cancel(ticket),
            Call::Grant(ticket, 1),
            Call::Follow(ticket, None),
        ] {
            assert_eq!(run.call(call), NOTHING);
        }
        assert_eq!(run.heard(), NOTHING);
        let (_, wants) = run.submit(asked("GET", &["a"]));
        assert_eq!(wants, ["dial 2 a:80"], "{steps}");
    }
}

#[test]
fn a_backend_is_read_as_far_as_its_client_takes() {
    let mut run = Run::new();
    let (ticket, _) = run.submit(asked("GET", &["a"]));
    run.connected(1);
    run.written(1);
    run.says(1, "HTTP/1.1 200 OK\r\n\r\n");
    let (flow, _) = run.bytes(1, &vec![b'x'; WINDOW - 1]);
    assert_eq!(flow, ReadFlow::More);
    // One read may bring more than there is room for.
    let (flow, _) = run.bytes(1, &[b'x'; 101]);
    assert_eq!(flow, ReadFlow::Hold);
    assert_eq!(run.call(Call::Grant(ticket, 100)), NOTHING);
    assert_eq!(run.call(Call::Grant(ticket, 1)), ["resume 1"]);
    assert_eq!(run.call(Call::Grant(ticket, 1)), NOTHING);
    let (flow, _) = run.bytes(1, b"xx");
    assert_eq!(flow, ReadFlow::Hold);
    assert_eq!(run.call(Call::Grant(ticket, WINDOW)), ["resume 1"]);
    run.ended(1, Ended::ByPeer);
    let heard = run.heard();
    assert_eq!(heard[1].len(), "body ".len() + WINDOW + 102);
    assert_eq!(heard[2], "end");
}

#[test]
fn a_link_that_was_held_is_read_on_once_its_answer_is_whole() {
    let mut run = Run::new();
    run.submit(asked("GET", &["a"]));
    run.connected(1);
    run.written(1);
    run.says(
        1,
        &format!("HTTP/1.1 200 OK\r\nContent-Length: {WINDOW}\r\n\r\n"),
    );
    let (flow, wants) = run.bytes(1, &vec![b'x'; WINDOW]);
    assert_eq!((flow, wants), (ReadFlow::More, Vec::new()));
}

#[test]
fn an_upgrade_passes_bytes_in_both_directions() {
    let mut run = Run::new();
    // A link that was used is not.
    run.keep("a");
    let upgrade = OriginRequest {
        rest: RequestRest::Upgrade,
        ..asked("GET", &["a"])
    };
    let (ticket, wants) = run.submit(upgrade);
    assert_eq!(wants, ["dial 2 a:80"]);
    run.connected(2);
    assert_eq!(run.follow(ticket, "early"), NOTHING);
    assert_eq!(run.written(2), NOTHING);
    assert_eq!(run.says(2, "HTTP/1.1 101 Go\r\n\r\nhi"), ["write 2 early"]);
    assert_eq!(run.heard(), ["head 101", "body hi"]);
    assert_eq!(run.written(2), NOTHING);
    assert_eq!(run.follow(ticket, "echo"), ["write 2 echo"]);
    run.says(2, "echo");
    assert_eq!(run.heard(), ["taken 5", "body echo"]);
    // Its backend may take nothing for as long as any.
    run.at(500);
    assert_eq!(run.timeout(2, Some(100)), NOTHING);
    assert_eq!(run.deadlines, ["2 600"]);
    assert_eq!(run.ended(2, Ended::ByPeer), NOTHING);
    assert_eq!(run.heard(), ["end"]);
}
