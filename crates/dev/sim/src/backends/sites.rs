//! Played HTTP servers: they read requests at their pace, answer in one of all the ways that there
//! are, and cut, reset, stall or speak garbage.
//!
//! A request counts as carried out from the moment when its head is whole.

use throng_http1::{BodyDecoder, HttpLimits, parse_request};

use super::answers::{Answer, Attempt, Troubles};
use super::calls::{Calls, asked_byte};
use crate::net::Net;

/// An answer that is not HTTP.
const GARBAGE: &[u8] = b"SSH-2.0\r\n\r\n";
/// Time that a late answer takes, in microseconds.
const LATE_US: u64 = 3_000_000;

/// Everything else in a run, for played servers.
pub(super) struct Around<'a> {
    pub(super) net: &'a Net,
    pub(super) calls: &'a mut Calls,
    pub(super) troubles: &'a mut Troubles,
    /// Nothing goes wrong any more.
    pub(super) is_calm: bool,
    /// Servers say more than they are asked.
    pub(super) strays: bool,
}

/// A request that is being answered.
struct Serving {
    n: usize,
    /// Reads the request's body, until that is whole.
    decoder: BodyDecoder,
    /// Bytes of the request's body so far.
    asked: usize,
    answer: Answer,
    /// Bytes of the answer that were sent.
    said: usize,
    /// When the answer begins.
    starts_us: u64,
    /// Waits for the whole request.
    waits: bool,
    /// Ends the connection after so many bytes; true with a reset.
    cut: Option<(usize, bool)>,
}

/// One connection to a played server.
#[derive(Default)]
pub(super) struct Site {
    conn: usize,
    input: Vec<u8>,
    /// Bytes sent on the connection so far.
    sent: usize,
    served: usize,
    serving: Option<Serving>,
    /// The request that came last, and the bytes sent before its answer.
    last: Option<(usize, usize)>,
    /// Sends back what comes, after an upgrade.
    echoes: bool,
    /// Reads nothing until then.
    reads_from_us: u64,
    /// Its answer said that the connection ends: the other side is to end it, too.
    is_closing: bool,
    /// Bytes up to the end of the answer behind which it said more, if it did.
    strayed_at: Option<usize>,
    /// The other side has read some of that, and no request was on its way.
    is_spoiled: bool,
    pub(super) is_over: bool,
}

impl Site {
    pub(super) fn new(conn: usize) -> Self {
        Self {
            conn,
            ..Self::default()
        }
    }

    /// Whether it has said more than it was asked.
    pub(super) const fn has_strayed(&self) -> bool {
        self.strayed_at.is_some()
    }

    fn send(&mut self, bytes: &[u8], around: &Around<'_>) {
        self.sent += bytes.len();
        around.net.client_send(self.conn, bytes);
    }

    /// Bytes that the other side has not read.
    fn unread(&self, around: &Around<'_>) -> usize {
        let world = around.net.0.borrow();
        let conn = &world.conns[self.conn];
        conn.flying.len() + conn.up.len()
    }

    /// Notes whether the other side knows that the connection cannot carry another request.
    fn notice_stray(&mut self, around: &Around<'_>) {
        let is_asked = {
            let world = around.net.0.borrow();
            let conn = &world.conns[self.conn];
            !conn.down.is_empty() || conn.wants_room || !self.input.is_empty()
        };
        let is_asked = is_asked || self.serving.is_some();
        let read = self.sent - self.unread(around);
        self.is_spoiled |= !is_asked && self.strayed_at.is_some_and(|end| read > end);
    }

    /// Leaves, and notes whether a request may fail because of it.
    fn leave(&mut self, reset: bool, around: &mut Around<'_>) {
        // A reset takes away what was not read.
        let unread = usize::from(reset) * self.unread(around);
        let read = self.sent - unread;
        let serving = self.serving.take();
        // The answer before is no longer waited for, if all of it was read.
        let last = self
            .last
            .filter(|_| serving.is_some() || self.echoes || unread > 0);
        let is_answered = last.is_some_and(|(_, begun_at)| read > begun_at);
        note!(
            around.net,
            "the server of {} leaves, reset: {reset}, in the midst of {last:?}, {read} read",
            self.conn
        );
        let mut is_kept = self.served > 0;
        if let Some((n, _)) = last
            && let Some(attempt) = around.calls.attempts[n].last_mut()
        {
            is_kept = attempt.is_kept;
            attempt.died_unanswered = !is_answered;
            if let Some(serving) = serving.filter(|it| it.answer.is_until_close && !reset) {
                let said = serving.said.saturating_sub(serving.answer.head_bytes);
                attempt.ended_at = Some(said);
            }
        }
        match !is_kept || is_answered || self.has_strayed() {
            true => around.troubles.cuts += 1,
            // A request on its way here is to be repeated, if it still can be.
            false => around.troubles.quiet_cuts += 1,
        }
        around.troubles.garbage += u64::from(self.has_strayed());
        around.net.client_leaves(self.conn, reset);
        self.is_over = true;
    }

    /// Does something; whether there was anything to do.
    pub(super) fn act(&mut self, bytes_max: usize, around: &mut Around<'_>) -> bool {
        if self.is_over {
            return false;
        }
        let net = around.net;
        let now_us = net.now_us();
        let mut busy = false;
        self.notice_stray(around);
        if self.reads_from_us <= now_us {
            let Some(bytes) = net.client_recv(self.conn, bytes_max) else {
                self.is_over = true;
                around.troubles.garbage += u64::from(self.has_strayed());
                note!(net, "the connection {} was ended", self.conn);
                return true;
            };
            busy |= !bytes.is_empty();
            self.input.extend(bytes);
        }
        if !around.is_calm && net.percent(2) {
            let kind = net.below(3);
            if kind == 0 {
                around.net.count("a server reads nothing for a while");
                self.reads_from_us = now_us + net.pick(&[1_000, 100_000, 3_600_000_000]);
                around.troubles.stalls += 1;
            } else if self.echoes {
                around.net.count("a tunnel is ended");
                self.leave(kind == 1, around);
                return true;
            } else if self.serving.is_none() && self.served > 0 {
                around.net.count("a kept connection is ended");
                self.leave(kind == 1, around);
                return true;
            }
        }
        if self.echoes {
            let came = std::mem::take(&mut self.input);
            if !came.is_empty() {
                self.send(&came, around);
            }
            return busy;
        }
        busy |= self.take(around);
        busy | self.answer(around)
    }

    /// From now on it reads, and answers where that is waited for.
    pub(super) fn hurry(&mut self, around: &Around<'_>) {
        self.reads_from_us = 0;
        if let Some(serving) = &mut self.serving
            && !around.calls.gives_up(serving.n)
        {
            serving.starts_us = 0;
        }
    }

    /// Takes the bytes of a request that have arrived.
    fn take(&mut self, around: &mut Around<'_>) -> bool {
        if self.is_closing {
            assert!(self.input.is_empty(), "a request behind Connection: close");
            return false;
        }
        if self.serving.is_none() && !self.begin(around) {
            return false;
        }
        let Some(serving) = &mut self.serving else {
            return false;
        };
        let mut used = 0;
        while !serving.decoder.is_done() && used < self.input.len() {
            let step = serving.decoder.feed(&self.input[used..]);
            let step = step.expect("bodies are good");
            for &byte in step.data {
                let expected = asked_byte(serving.n, serving.asked);
                assert_eq!(byte, expected, "byte {} of {}", serving.asked, serving.n);
                serving.asked += 1;
            }
            used += step.consumed;
        }
        self.input.drain(..used);
        if serving.decoder.is_done() && used > 0 {
            around.calls.has_come(serving.n, serving.asked);
        }
        used > 0
    }

    /// Begins with a request, if its head is whole, and draws how it is answered.
    fn begin(&mut self, around: &mut Around<'_>) -> bool {
        let limits = HttpLimits {
            body_bytes_max: u64::MAX,
            ..HttpLimits::default()
        };
        let parsed = parse_request(&self.input, &limits).expect("requests are good");
        let Some((request, bytes)) = parsed else {
            return false;
        };
        let n = request.path().trim_start_matches('/').parse();
        let n: usize = n.expect("a number");
        let (is_head, upgrade) = (request.method == "HEAD", request.wants_upgrade("echo"));
        let decoder = BodyDecoder::new(request.body, &limits);
        self.input.drain(..bytes);
        assert!(!self.is_spoiled, "{n} goes behind what nobody asked for");
        for before in &around.calls.attempts[n] {
            let may_repeat = before.is_kept && before.died_unanswered;
            assert!(may_repeat, "the request {n} was carried out twice");
            around.net.count("a request is repeated");
        }
        let net = around.net;
        let mut answer = Answer::draw(n, is_head, upgrade, net);
        let (mut cut, mut starts_us) = (None, 0);
        if !around.is_calm && net.percent(25) {
            match net.below(5) {
                0 => {
                    around.net.count("an answer is not HTTP");
                    around.troubles.garbage += 1;
                    answer.wire = GARBAGE.to_vec();
                }
                1 => {
                    around.net.count("an answer comes late or never");
                    around.troubles.stalls += 1;
                    let now_us = net.now_us();
                    starts_us = net.pick(&[now_us + LATE_US, u64::MAX]);
                }
                kind => {
                    let reset = kind == 2;
                    let at = match net.percent(30) {
                        true => 0,
                        false => net.below(answer.wire.len() + 1),
                    };
                    cut = Some((at, reset));
                }
            }
        }
        let is_kept = self.served > 0;
        around.calls.attempts[n].push(Attempt {
            is_kept,
            body_bytes: answer.body_bytes,
            ..Attempt::default()
        });
        note!(net, "the server of {} has {n}", self.conn);
        self.last = Some((n, self.sent));
        let waits = !net.percent(20);
        if !waits {
            around.net.count("an answer may come early");
        }
        self.serving = Some(Serving {
            n,
            decoder,
            asked: 0,
            answer,
            said: 0,
            starts_us,
            waits,
            cut,
        });
        true
    }

    /// Sends more of the answer.
    fn answer(&mut self, around: &mut Around<'_>) -> bool {
        let Some(serving) = &mut self.serving else {
            return false;
        };
        let net = around.net;
        let is_whole = serving.decoder.is_done();
        if net.now_us() < serving.starts_us || serving.waits && !is_whole {
            return false;
        }
        let wire = &serving.answer.wire;
        let end = serving.cut.map_or(wire.len(), |(at, _)| at.min(wire.len()));
        let piece = net.pick(&[1, 20, 2_000, 1 << 20]).min(end - serving.said);
        let bytes = wire[serving.said..serving.said + piece].to_vec();
        serving.said += piece;
        let is_all = serving.said == end;
        let (cut, closes) = (serving.cut, serving.answer.closes);
        let lingers = is_whole && !serving.answer.is_until_close;
        if !bytes.is_empty() {
            self.send(&bytes, around);
        }
        if !is_all {
            return true;
        }
        if let Some((_, reset)) = cut {
            around.net.count(match (reset, end) {
                (_, 0) => "a connection is cut before an answer",
                (true, _) => "an answer is reset",
                (false, _) => "an answer is cut",
            });
            self.leave(reset, around);
        } else if closes && lingers && net.percent(50) {
            self.serving = None;
            self.is_closing = true;
        } else if closes {
            self.leave(false, around);
        } else if let Some(serving) = { self.serving.take_if(|_| is_whole) } {
            self.served += 1;
            self.echoes = serving.answer.is_upgrade;
            if around.strays && !around.is_calm && !self.echoes && net.percent(20) {
                around.net.count("a server says more than it was asked");
                self.strayed_at.get_or_insert(self.sent);
                self.send(GARBAGE, around);
            }
        } else {
            return !bytes.is_empty();
        }
        true
    }
}
