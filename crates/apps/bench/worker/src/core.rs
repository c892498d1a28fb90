//! What a worker's connections share: the script, the figures, the queues of what is to come.
//!
//! Owns: the heap of returns, the heap of things to say, scratch memory. Never: sockets; those are
//! the engine's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use throng_engine::Effects;
use throng_types::{ConnId, Millis};
use throng_ws::Masking;

use crate::clock::{Clock, NEVER};
use crate::script::{Script, WARM_UP_PUBLISHER};
use crate::session::{Left, Stage, Subscriber};
use throng_bench_measure::Tally;
use throng_bench_measure::{ConnectFailure, Heard};
use throng_bench_plan::payload::Found;
use throng_bench_plan::{Kind, Transport};
use throng_types::Rng;

/// Publishers of what connections say themselves are numbered from here, so that they meet no
/// others.
const SAID_BY: u32 = 1 << 31;

/// What all connections of one worker share.
pub(crate) struct Core<'s> {
    pub(crate) script: &'s Script,
    pub(crate) clock: Clock,
    pub(crate) tally: Tally,
    pub(crate) rng: Rng,
    /// Due times within this span count for latency, in µs.
    pub(crate) measured_us: (u64, u64),
    /// When the last storm began, in µs.
    pub(crate) storm_at_us: u64,
    /// When the bytes at hand came.
    pub(crate) arrived_us: u64,
    /// Connections that will come back: when, and with what.
    returns: BTreeMap<(u64, u32), Left>,
    /// Who says something when, by connection.
    pub(crate) says: BinaryHeap<Reverse<(u64, u64)>>,
    /// Slow readers that read on, and when, by connection.
    pub(crate) reads: BinaryHeap<Reverse<(u64, u64)>>,
    /// Nobody leaves by plan any more.
    pub(crate) stays: bool,
    /// After the end nobody comes back.
    pub(crate) ended: bool,
    pub(crate) scratch: Vec<u8>,
    pub(crate) name: String,
}

impl<'s> Core<'s> {
    pub(crate) fn new(script: &'s Script, clock: Clock, worker: usize) -> Self {
        Self {
            script,
            clock,
            tally: Tally::default(),
            rng: Rng::for_member(script.scenario.seed ^ 0x7772_6b72, worker as u64),
            measured_us: (0, NEVER),
            storm_at_us: 0,
            arrived_us: 0,
            returns: BTreeMap::new(),
            says: BinaryHeap::new(),
            reads: BinaryHeap::new(),
            stays: false,
            ended: false,
            scratch: Vec::new(),
            name: String::new(),
        }
    }

    /// A fresh mask for a frame of ours.
    pub(crate) fn mask(&mut self) -> Masking {
        Masking::Client(self.mask_key())
    }

    /// A fresh key for a mask.
    pub(crate) fn mask_key(&mut self) -> [u8; 4] {
        self.rng.bytes()
    }

    /// Whether connections of this run keep their place in a stream when they leave.
    pub(crate) fn resumes(&self) -> bool {
        let kind = matches!(
            self.script.scenario.kind,
            Kind::Resume { .. } | Kind::ReconnectStorm { .. }
        );
        let able = match &self.script.scenario.transport {
            Transport::Sse { .. } => true,
            Transport::WebSocket { dialect, .. } => {
                matches!(dialect, throng_bench_plan::Dialect::Centrifugo { .. })
            }
            _ => false,
        };
        kind && able
    }

    /// Whether this connection is one of those that read slowly or not at all.
    pub(crate) fn is_slow(&self, n: u32) -> bool {
        match self.script.scenario.kind {
            Kind::SlowReaders { share, .. } => {
                Rng::for_member(self.script.scenario.seed ^ 0x736c_6f77, u64::from(n)).unit()
                    < share
            }
            _ => false,
        }
    }

    /// A slow reader has read so much, so it reads no more until that was so much in all the time
    /// since; without a rate it never reads again.
    pub(crate) fn rest(&mut self, id: ConnId, read_bytes: usize, fx: &mut Effects<'_>) {
        let Kind::SlowReaders { bytes_per_s, .. } = self.script.scenario.kind else {
            return;
        };
        match (read_bytes as u64 * 1_000_000).checked_div(bytes_per_s) {
            None => fx.pause(true),
            Some(0) => {}
            Some(rest_us) => {
                fx.pause(true);
                let at_us = self.clock.now_us() + rest_us;
                self.reads.push(Reverse((at_us, id.to_bits())));
            }
        }
    }

    /// A connection comes back at `at_us`.
    pub(crate) fn come_back(&mut self, at_us: u64, n: u32, left: Left) {
        if !self.ended {
            self.returns.insert((at_us, n), left);
        }
    }

    /// How many are away.
    pub(crate) fn away(&self) -> u64 {
        self.returns.len() as u64
    }

    /// Forgets who is away; their counts end where they left.
    pub(crate) fn forget_away(&mut self) {
        for ((_, n), left) in std::mem::take(&mut self.returns) {
            self.finish_tracks(&mut Subscriber::new(n, 0, left), false);
        }
    }

    /// The next return.
    pub(crate) fn next_return_us(&self) -> Option<u64> {
        self.returns.first_key_value().map(|(&(at_us, _), _)| at_us)
    }

    /// Takes a return that is due.
    pub(crate) fn take_return(&mut self, now_us: u64) -> Option<(u64, u32, Left)> {
        let entry = self.returns.first_entry()?;
        if entry.key().0 > now_us {
            return None;
        }
        let ((at_us, n), left) = entry.remove_entry();
        Some((at_us, n, left))
    }

    /// The name of a connection's first channel, in `self.name`; empty if it has none.
    pub(crate) fn name_channel(&mut self, n: u32) {
        let mut bytes = std::mem::take(&mut self.name).into_bytes();
        bytes.clear();
        if let Some(channel) = self.script.channels.of_connection(u64::from(n)).next() {
            self.script.channels.write_name(channel, &mut bytes);
        }
        // Names come from templates, which are text.
        self.name = String::from_utf8(bytes).unwrap_or_default();
    }

    /// The connection did not become usable.
    pub(crate) fn fail(
        &mut self,
        subscriber: &mut Subscriber,
        reason: ConnectFailure,
        fx: &mut Effects<'_>,
    ) {
        self.tally.failed(reason);
        if matches!(subscriber.stage, Stage::Subscribing(_)) {
            // It counts as upgraded already, and must not count as alive.
            self.tally.counters.closed_by_plan += 1;
        }
        subscriber.stage = Stage::Gone;
        self.retry(subscriber);
        fx.end(throng_engine::End::Now);
    }

    /// Who has been here before tries again; a first attempt that failed is a result.
    pub(crate) fn retry(&mut self, subscriber: &mut Subscriber) {
        if subscriber.returning || self.script.scenario.replace_lost {
            let wait_us = 100_000 + self.rng.below(900_000);
            let at_us = self.clock.now_us() + wait_us;
            let left = self.take_left(subscriber);
            self.come_back(at_us, subscriber.n, left);
        }
    }

    /// What the connection takes with it.
    pub(crate) fn take_left(&mut self, subscriber: &mut Subscriber) -> Left {
        let mut left = Left {
            said: subscriber.said,
            returning: true,
            in_storm: subscriber.in_storm,
            ..Left::default()
        };
        if self.resumes() && subscriber.has_place() {
            left.tracks = std::mem::take(&mut subscriber.tracks);
            left.resume = subscriber.resume.take();
        } else {
            self.finish_tracks(subscriber, false);
        }
        left
    }

    /// Ends the counts of a connection. `to_the_end` also counts what never came after the last
    /// that did.
    pub(crate) fn finish_tracks(&mut self, subscriber: &mut Subscriber, to_the_end: bool) {
        let tracks = std::mem::take(&mut subscriber.tracks);
        if tracks.is_empty() {
            return;
        }
        if subscriber.slow {
            return tracks.finish(|_, _| None, &mut self.tally.sums.slowly);
        }
        let before = self.tally.deliveries.missing;
        let (script, said, n) = (self.script, subscriber.said, subscriber.n);
        let last = |channel, publisher| {
            to_the_end
                .then(|| last_due(script, n, said, channel, publisher))
                .flatten()
        };
        tracks.finish(last, &mut self.tally.deliveries);
        self.tally.sums.with_loss += u64::from(self.tally.deliveries.missing > before);
    }

    /// How many deliveries are due to a connection after the last that came. Who reads slowly by
    /// plan owes none.
    pub(crate) fn behind(&self, subscriber: &Subscriber) -> u64 {
        if subscriber.stage != Stage::Usable || subscriber.slow {
            return 0;
        }
        let (n, said) = (subscriber.n, subscriber.said);
        let due = |channel, publisher| last_due(self.script, n, said, channel, publisher);
        subscriber.tracks.behind(due)
    }

    /// A connection that a storm dropped is usable again: notes what it has missed meanwhile.
    pub(crate) fn begin_catching_up(&mut self, subscriber: &mut Subscriber) {
        let script = self.script;
        let missed = subscriber.tracks.missed(|channel, publisher| {
            (script.publisher_of(channel) == Some(publisher)).then(|| script.last_sequence(channel))
        });
        match &mut subscriber.resume {
            Some(resume) if !missed.is_empty() => resume.catches_up_to = missed,
            // Where nothing can be resumed, nothing that was missed will come.
            _ => self.caught_up(),
        }
    }

    fn caught_up(&mut self) {
        let now_us = self.clock.now_us();
        self.tally
            .sums
            .caught_up
            .record_between(self.storm_at_us, now_us);
    }

    /// Notes that a connection now hears its channels.
    pub(crate) fn expect(&mut self, subscriber: &mut Subscriber) {
        if self.script.scenario.publish.is_none() {
            return;
        }
        let mut any = false;
        for channel in self.script.channels.of_connection(u64::from(subscriber.n)) {
            if let Some(publisher) = self.script.publisher_of(channel) {
                let first = self.script.last_sequence(channel) + 1;
                subscriber.tracks.expect(channel, publisher, first);
                any = true;
            }
        }
        self.tally.sums.expecting += u64::from(any && !subscriber.returning);
    }

    /// Who a connection's own messages are from, and in which channel they are.
    pub(crate) fn said_as(&self, n: u32) -> (u32, u32) {
        let channel = self.script.channels.of_connection(u64::from(n)).next();
        (SAID_BY | n, channel.unwrap_or(n))
    }

    /// Finds the measured messages of a whole frame.
    pub(crate) fn scan_frame(&mut self, subscriber: &mut Subscriber, frame: &[u8]) {
        let script = self.script;
        script.scanner.scan_frame(frame, |found| {
            if !found.is_whole_in(frame) {
                self.tally.deliveries.damaged += 1;
            }
            self.found(subscriber, found);
        });
    }

    /// Finds the measured messages of a stream; what may be the beginning of another is kept in
    /// `carry`.
    pub(crate) fn scan_stream(
        &mut self,
        subscriber: &mut Subscriber,
        carry: &mut super::session::Carry,
        data: &[u8],
    ) {
        let script = self.script;
        let keep = if let Some(kept) = carry.take() {
            let mut joined = std::mem::take(&mut self.scratch);
            joined.clear();
            joined.extend_from_slice(&kept);
            joined.extend_from_slice(data);
            let keep = script
                .scanner
                .scan_stream(&joined, |found| self.found(subscriber, found));
            *carry = tail(&joined, keep);
            self.scratch = joined;
            return;
        } else {
            script
                .scanner
                .scan_stream(data, |found| self.found(subscriber, found))
        };
        *carry = tail(data, keep);
    }

    fn found(&mut self, subscriber: &mut Subscriber, found: Found) {
        let deliveries = if subscriber.slow {
            &mut self.tally.sums.slowly
        } else {
            &mut self.tally.deliveries
        };
        let missing = deliveries.missing;
        let (due_us, first_time) = match found {
            Found::Message { message, .. } if message.publisher == WARM_UP_PUBLISHER => return,
            Found::Message { message, .. } => {
                if subscriber.tracks.heard_nothing() {
                    self.tally.sums.with_data += 1;
                }
                let heard = subscriber.tracks.on(&message, deliveries);
                if let Some(resume) = subscriber.resume.as_mut().filter(|r| r.awaits_first) {
                    resume.awaits_first = false;
                    self.tally.counters.recovered += u64::from(heard == Some(Heard::InOrder));
                }
                if let Some(resume) = &mut subscriber.resume
                    && !resume.catches_up_to.is_empty()
                {
                    let reached = subscriber
                        .tracks
                        .highest(message.channel, message.publisher);
                    let lost = heard == Some(Heard::Ahead) || missing < deliveries.missing;
                    if resume.reached(message.channel, reached, lost) {
                        self.caught_up();
                    }
                }
                let first_time = !matches!(heard, Some(Heard::Duplicate | Heard::BeforeJoin));
                (message.due_us, first_time)
            }
            Found::Tcpkali { unix_us } => {
                deliveries.received += 1;
                deliveries.untracked += 1;
                (unix_us, true)
            }
        };
        let (from_us, to_us) = self.measured_us;
        if !first_time || subscriber.slow || due_us < from_us || due_us >= to_us {
            return;
        }
        self.tally.delivery.record_between(due_us, self.arrived_us);
        if let Some(running) = &mut self.tally.running {
            running.record((self.arrived_us as f64 - due_us as f64) / 1000.0);
        }
    }
}

/// The last number that is due to connection `n` from a publisher, if it is known here.
fn last_due(script: &Script, n: u32, said: u32, channel: u32, publisher: u32) -> Option<u64> {
    if publisher == SAID_BY | n {
        let echo = matches!(script.scenario.kind, Kind::Echo);
        return echo.then_some(u64::from(said));
    }
    (script.publisher_of(channel) == Some(publisher)).then(|| script.last_sequence(channel))
}

/// A moment as a session keeps it: never 0, which is never.
pub(crate) fn moment(now: Millis, in_us: u64) -> u32 {
    u32::try_from(now.0 + in_us.div_ceil(1000))
        .unwrap_or(u32::MAX)
        .max(1)
}

fn tail(bytes: &[u8], keep: usize) -> super::session::Carry {
    let kept = bytes.get(bytes.len().checked_sub(keep)?..)?;
    (!kept.is_empty()).then(|| kept.into())
}
