//! Callers of HTTP backends: their requests, the pace at which they take answers, and the results
//! that they must get.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use throng_backend::{AnswerTo, AskLimits, Call, Reply, TicketId, WholeAnswer};
use throng_http1::field::Header;
use throng_http1::origin::{Destination, OriginTarget};
use throng_http1::origin::{OriginEvent, OriginFailureKind, OriginRequest, RequestRest};
use throng_outward::CallSender;
use throng_types::{ConnId, ShardId, lock};

use super::answers::{Attempt, Troubles, answered_byte};
use crate::net::Net;

/// Bytes of an answer that may come before its caller has taken any.
const WINDOW: usize = 64 << 10;
/// Bytes of one read.
const READ: usize = 64 << 10;
/// Bytes behind a request that its sender lets wait, and that are kept to be sent once more.
const UPLINK: usize = 64 << 10;
/// Time for a whole answer, in milliseconds.
const WHOLE_MS: u64 = 4_000;
/// Shards that callers are on.
const SHARDS: usize = 2;

/// Held by an exchange as long as it goes on.
pub(super) struct Token {
    n: usize,
    _held: Arc<()>,
}

/// Replies on their way to callers.
#[derive(Default)]
pub(super) struct Inbox {
    replies: VecDeque<Reply<Token>>,
    /// Offers that each shard refuses before it takes one; the last is for whole answers.
    pub(super) refuses: [u32; SHARDS + 1],
}

impl Inbox {
    /// Takes a reply, or gives it back.
    pub(super) fn take(&mut self, reply: Reply<Token>) -> Result<(), Reply<Token>> {
        let to = match &reply {
            Reply::Event(conn, ..) => conn.shard().index(),
            Reply::Whole(..) => SHARDS,
        };
        if let Some(left) = self.refuses[to].checked_sub(1) {
            self.refuses[to] = left;
            return Err(reply);
        }
        self.replies.push_back(reply);
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Submit,
    Ask { bytes_max: usize },
    Tell,
}

/// A call, and the part of its answer received.
pub(super) struct Caller {
    kind: Kind,
    rest: RequestRest,
    response_timeout_ms: u64,
    before: Troubles,
    held: Arc<()>,
    /// Bytes of the request's body so far, those that went with it among them, and of these.
    asked: usize,
    asked_at_once: usize,
    taken: usize,
    is_finished: bool,
    is_cancelled: bool,
    code: u16,
    got: usize,
    granted: usize,
    takes_from_us: u64,
    is_over: bool,
}

/// All callers of a run.
pub(super) struct Calls {
    sender: CallSender<Call<Token>>,
    inbox: Arc<Mutex<Inbox>>,
    calls: Vec<Caller>,
    /// The times that each request reached a server.
    pub(super) attempts: Vec<Vec<Attempt>>,
}

/// A byte of a request's body.
pub(super) const fn asked_byte(n: usize, at: usize) -> u8 {
    (n * 31 + at * 3 + at / 253) as u8
}

const fn ticket(n: usize) -> TicketId {
    TicketId(n as u64)
}

impl Calls {
    pub(super) const fn new(sender: CallSender<Call<Token>>, inbox: Arc<Mutex<Inbox>>) -> Self {
        Self {
            sender,
            inbox,
            calls: Vec::new(),
            attempts: Vec::new(),
        }
    }

    /// Those that are not over.
    pub(super) fn live(&self) -> Vec<usize> {
        let calls = self.calls.iter().enumerate();
        let live = calls.filter(|(_, call)| !call.is_over && !call.is_cancelled);
        live.map(|(n, _)| n).collect()
    }

    /// Whether a caller learns that its answer does not come.
    pub(super) fn gives_up(&self, n: usize) -> bool {
        let call = &self.calls[n];
        call.response_timeout_ms > 0 || matches!(call.kind, Kind::Ask { .. })
    }

    fn call(&self, call: Call<Token>) {
        assert!(self.sender.send(call), "the peer is there");
    }

    /// Begins a new call with random properties.
    pub(super) fn begin(&mut self, net: &Net, before: Troubles) {
        let n = self.calls.len();
        let mut targets = vec![net.pick(&["10.0.0.1:81", "10.0.0.1:82", "a.sim:81", "b.sim:83"])];
        if net.percent(30) {
            targets.push(net.pick(&["10.0.0.1:84", "b.sim:85"]));
        }
        let kind = match net.below(10) {
            0..7 => Kind::Submit,
            7 | 8 => Kind::Ask {
                bytes_max: net.pick(&[1_000, 1 << 20]),
            },
            _ => Kind::Tell,
        };
        let length = net.pick(&[0, 10, 3_000, 100_000]);
        let (method, rest, at_once) = match net.below(8) {
            0..3 => (net.pick(&["GET", "GET", "HEAD"]), RequestRest::Nothing, 0),
            3 => ("POST", RequestRest::Nothing, length),
            4 if kind == Kind::Submit => ("GET", RequestRest::Upgrade, 0),
            5 | 6 if kind == Kind::Submit => (
                "POST",
                RequestRest::Body(Some(length as u64)),
                net.below(length + 1),
            ),
            7 if kind == Kind::Submit => ("PUT", RequestRest::Body(None), net.pick(&[0, 100])),
            _ => ("DELETE", RequestRest::Nothing, 0),
        };
        let mut headers = vec![Header::new("Host", "sim")];
        if rest == RequestRest::Upgrade {
            headers.push(Header::new("Upgrade", "echo"));
        }
        let response_timeout_ms = net.pick(&[0, 2_000]);
        note!(net, "call {n}: {method} {rest:?} to {targets:?}");
        let targets = { targets.iter() }.map(|at| OriginTarget::from_url(&format!("http://{at}")));
        let request = OriginRequest {
            to: Arc::new(Destination {
                connect_timeout_ms: 1_000,
                response_timeout_ms,
                targets: targets.map(|target| target.expect("a target")).collect(),
            }),
            method: method.to_owned(),
            path: format!("/{n}"),
            matched_bytes: 0,
            headers,
            body: (0..at_once).map(|at| asked_byte(n, at)).collect(),
            rest,
        };
        let held = Arc::new(());
        let token = Token {
            n,
            _held: held.clone(),
        };
        let to = match kind {
            Kind::Submit => {
                let conn = ConnId::new(ShardId((n % SHARDS) as u8), n as u32, 1);
                AnswerTo::Conn(conn, n as u32)
            }
            Kind::Ask { bytes_max } => AnswerTo::Whole(AskLimits {
                bytes_max,
                timeout_ms: WHOLE_MS,
            }),
            Kind::Tell => AnswerTo::Nobody,
        };
        self.call(Call::Begin {
            ticket: ticket(n),
            to,
            request,
            token,
        });
        self.calls.push(Caller {
            kind,
            rest,
            response_timeout_ms,
            before,
            held,
            asked: at_once,
            asked_at_once: at_once,
            taken: 0,
            is_finished: rest == RequestRest::Nothing,
            is_cancelled: false,
            code: 0,
            got: 0,
            granted: 0,
            takes_from_us: 0,
            is_over: kind == Kind::Tell,
        });
        self.attempts.push(Vec::new());
    }

    /// A caller sends more, takes some of its answer, or gives up; whether there was anything to
    /// do.
    pub(super) fn act(&mut self, n: usize, is_ending: bool, net: &Net) -> bool {
        let now_us = net.now_us();
        let call = &mut self.calls[n];
        if call.kind != Kind::Submit || call.is_over || call.is_cancelled {
            return false;
        }
        if is_ending {
            call.takes_from_us = 0;
        } else if net.percent(3) {
            if net.percent(50) {
                net.count("a caller takes nothing for a while");
                call.takes_from_us = now_us + net.pick(&[10_000, 3_600_000_000]);
            } else {
                net.count("a call is cancelled");
                note!(net, "call {n} is cancelled");
                call.is_cancelled = true;
                self.call(Call::Cancel(ticket(n)));
                return true;
            }
        }
        let mut busy = false;
        let owed = call.got - call.granted;
        if call.takes_from_us <= now_us && owed > 0 {
            let bytes = match is_ending {
                true => owed,
                false => net.pick(&[1, 1_000, owed]).min(owed),
            };
            call.granted += bytes;
            busy = true;
            self.call(Call::Grant(ticket(n), bytes));
        }
        busy | self.follow(n, is_ending, net)
    }

    /// Sends more of what follows a request.
    fn follow(&mut self, n: usize, is_ending: bool, net: &Net) -> bool {
        let call = &mut self.calls[n];
        let left = match call.rest {
            RequestRest::Body(Some(length)) => length as usize - call.asked,
            // As long as it likes.
            _ if is_ending => 0,
            _ => 20_000,
        };
        let waits = call.asked - call.asked_at_once - call.taken;
        if call.is_finished || waits > UPLINK {
            return false;
        }
        if left == 0 || call.rest == RequestRest::Body(None) && net.percent(20) {
            // An upgrade ends with its caller, and nothing else of it does.
            call.is_finished = true;
            if call.rest != RequestRest::Upgrade {
                self.call(Call::Follow(ticket(n), None));
            }
            return true;
        }
        let bytes = net.pick(&[1, 50, 5_000, 20_000]).min(left);
        let from = call.asked;
        call.asked += bytes;
        let piece = (from..from + bytes).map(|at| asked_byte(n, at)).collect();
        self.call(Call::Follow(ticket(n), Some(piece)));
        true
    }

    /// Cancels tunnels, which no other party ends.
    pub(super) fn end_tunnels(&mut self) {
        for n in self.live() {
            let call = &mut self.calls[n];
            if call.code == 101 {
                call.is_cancelled = true;
                self.call(Call::Cancel(ticket(n)));
            }
        }
    }

    /// A request's body is whole at a server.
    pub(super) fn has_come(&self, n: usize, bytes: usize) {
        let call = &self.calls[n];
        let has_end = call.is_finished || call.rest != RequestRest::Body(None);
        assert!(has_end, "{n}: its body has no end yet");
        assert_eq!(bytes, call.asked, "{n}: its body is whole");
    }

    /// Reads the results that have arrived; whether there were any.
    pub(super) fn hear(&mut self, net: &Net, now: Troubles) -> bool {
        let mut inbox = lock(&self.inbox);
        let replies = std::mem::take(&mut inbox.replies);
        drop(inbox);
        let came = !replies.is_empty();
        for reply in replies {
            match reply {
                Reply::Event(conn, number, event) => {
                    let n = number as usize;
                    assert_eq!((conn.index(), conn.shard().index()), (number, n % SHARDS));
                    self.event(n, event, net, now);
                }
                Reply::Whole(token, answer) => self.whole(token.n, answer, net, now),
            }
        }
        came
    }

    fn event(&mut self, n: usize, event: OriginEvent, net: &Net, now: Troubles) {
        let call = &mut self.calls[n];
        assert!(
            call.kind == Kind::Submit && !call.is_over,
            "{n}: {event:?} after its end"
        );
        match event {
            OriginEvent::Head(head) => {
                assert_eq!(call.code, 0, "{n}: two heads");
                call.code = head.code;
            }
            OriginEvent::Body(bytes) => {
                assert!(
                    call.code > 0 && !bytes.is_empty(),
                    "{n}: a body without a head"
                );
                for byte in bytes {
                    let expected = match call.code {
                        101 => asked_byte(n, call.got),
                        _ => answered_byte(n, call.got),
                    };
                    assert_eq!(byte, expected, "{n}: byte {} of the answer", call.got);
                    call.got += 1;
                }
                let ahead = call.got - call.granted;
                assert!(
                    ahead <= WINDOW + READ,
                    "{n}: {ahead} bytes that nobody has taken"
                );
                if ahead > WINDOW {
                    net.count("an answer waits for its caller");
                }
            }
            OriginEvent::Taken(bytes) => {
                call.taken += bytes;
                let sent = call.asked - call.asked_at_once;
                assert!(
                    call.taken <= sent,
                    "{n}: {} of {sent} bytes taken",
                    call.taken
                );
            }
            OriginEvent::End => {
                note!(net, "call {n} has its answer");
                net.count("an answer is whole");
                call.is_over = true;
                let got = call.got;
                match call.code {
                    101 => assert!(now.cuts > call.before.cuts, "{n}: nobody ended it"),
                    _ => self.is_whole(n, got),
                }
            }
            OriginEvent::Failed(failure) => {
                note!(net, "call {n} has failed: {failure:?}");
                call.is_over = true;
                self.may_fail(n, failure.fault, now, net);
            }
        }
    }

    fn whole(&mut self, n: usize, answer: WholeAnswer, net: &Net, now: Troubles) {
        let call = &mut self.calls[n];
        let Kind::Ask { bytes_max } = call.kind else {
            panic!("{n}: an answer of another kind");
        };
        assert!(!call.is_over, "{n}: two answers");
        call.is_over = true;
        match answer {
            Ok((status, body)) => {
                note!(net, "call {n} has a whole answer");
                net.count("a whole answer");
                assert!(
                    body.len() <= bytes_max && matches!(status, 200 | 204),
                    "{n}"
                );
                let expected = (0..body.len()).map(|at| answered_byte(n, at));
                assert!(expected.eq(body.iter().copied()), "{n}: another body");
                self.is_whole(n, body.len());
            }
            Err(failure) => {
                note!(net, "call {n} has failed: {failure:?}");
                let last = self.attempts[n].last();
                let is_long = last.is_some_and(|attempt| attempt.body_bytes > bytes_max);
                if !is_long || failure.fault != OriginFailureKind::Garbage {
                    self.may_fail(n, failure.fault, now, net);
                }
            }
        }
    }

    /// Number of bytes that the last server sent in all.
    fn is_whole(&self, n: usize, bytes: usize) {
        let attempt = self.attempts[n].last().expect("somebody was asked");
        let all = attempt.ended_at.unwrap_or(attempt.body_bytes);
        assert_eq!(bytes, all, "{n}: bytes of the answer");
    }

    /// A call may fail only if something has happened that explains it.
    fn may_fail(&self, n: usize, fault: OriginFailureKind, now: Troubles, net: &Net) {
        let call = &self.calls[n];
        let before = &call.before;
        // Pieces behind a request are kept as far as they fit, to be sent once more.
        let is_spent = call.asked - call.asked_at_once > UPLINK;
        let is_explained = match fault {
            OriginFailureKind::Unreachable => now.unreachable > before.unreachable,
            OriginFailureKind::Timeout => now.stalls > before.stalls,
            OriginFailureKind::Cut | OriginFailureKind::Unsent => {
                now.cuts > before.cuts || is_spent && now.quiet_cuts > before.quiet_cuts
            }
            OriginFailureKind::Garbage => now.garbage > before.garbage,
            OriginFailureKind::Busy => false,
        };
        assert!(is_explained, "{n}: {fault:?} without a reason");
        net.count(match fault {
            OriginFailureKind::Unreachable => "a call fails: unreachable",
            OriginFailureKind::Timeout => "a call fails: too late",
            OriginFailureKind::Cut => "a call fails: cut",
            OriginFailureKind::Unsent => "a call fails: unsent",
            _ => "a call fails: garbage",
        });
    }

    /// Everything is over, and nothing is held.
    pub(super) fn settle(&self) {
        for (n, call) in self.calls.iter().enumerate() {
            assert!(call.is_over || call.is_cancelled, "{n}: never answered");
            assert_eq!(Arc::strong_count(&call.held), 1, "{n}: its token is held");
        }
    }
}
