//! State that a worker's connections share: script, figures, queues of due events.
//!
//! Owns: the queue of reconnects, the heap of messages to send, scratch memory. Never: sockets;
//! those are the engine's.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use throng_engine::{Conns, Effects};
use throng_types::{ConnId, Millis, Rng};
use throng_ws::Masking;

use throng_bench_measure::{ConnectFailure, SequenceOutcome, Tally};
use throng_bench_plan::Workload;
use throng_bench_plan::payload::ScanMatch;

use crate::clock::{Clock, NEVER};
use crate::script::{Script, WARM_UP_PUBLISHER};
use crate::session::{Carried, Carry, Client, Session, Stage};

/// First publisher number of messages that connections send themselves; no publisher has it.
const SELF_PUBLISHER: u32 = 1 << 31;

pub(crate) struct SharedState<'s> {
    pub(crate) script: &'s Script,
    pub(crate) clock: Clock,
    pub(crate) tally: Tally,
    pub(crate) rng: Rng,
    // Due times within this span count for latency, in µs.
    pub(crate) measured_us: (u64, u64),
    // Begin of the last storm, in µs.
    pub(crate) storm_at_us: u64,
    // Arrival of the bytes at hand, in µs.
    pub(crate) arrived_us: u64,
    // Connections that will come back, by due time in µs and number.
    returns: BTreeMap<(u64, u32), Carried>,
    // Due times of messages to send, with their connections.
    pub(crate) says: BinaryHeap<Reverse<(u64, u64)>>,
    // Times at which slow readers read on, with their connections.
    pub(crate) reads: BinaryHeap<Reverse<(u64, u64)>>,
    // True when no connection leaves by plan any more.
    pub(crate) stays: bool,
    // True when no connection comes back any more.
    pub(crate) ended: bool,
    pub(crate) scratch: Vec<u8>,
    pub(crate) name: String,
}

impl<'s> SharedState<'s> {
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

    pub(crate) fn mask(&mut self) -> Masking {
        Masking::Client(self.mask_key())
    }

    pub(crate) fn mask_key(&mut self) -> [u8; 4] {
        self.rng.bytes()
    }

    /// Returns true if connections of this run keep their position in a stream when they leave.
    pub(crate) fn resumes(&self) -> bool {
        let kind = matches!(
            self.script.scenario.kind,
            Workload::Resume { .. } | Workload::ReconnectStorm { .. }
        );
        kind && self.script.scenario.transport.resumes()
    }

    pub(crate) fn is_slow(&self, n: u32) -> bool {
        match self.script.scenario.kind {
            Workload::SlowReaders { share, .. } => {
                let seed = self.script.scenario.seed ^ 0x736c_6f77;
                Rng::for_member(seed, u64::from(n)).unit() < share
            }
            _ => false,
        }
    }

    /// Pauses a slow reader until its bytes fit its rate; without a rate it never reads again.
    pub(crate) fn rest(&mut self, id: ConnId, read_bytes: usize, fx: &mut Effects<'_>) {
        let Workload::SlowReaders { bytes_per_s, .. } = self.script.scenario.kind else {
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

    pub(crate) fn come_back(&mut self, at_us: u64, n: u32, carried: Carried) {
        if !self.ended {
            self.returns.insert((at_us, n), carried);
        }
    }

    pub(crate) fn away(&self) -> u64 {
        self.returns.len() as u64
    }

    /// Forgets connections that are away; their counts end where they left.
    pub(crate) fn forget_away(&mut self) {
        for ((_, n), carried) in std::mem::take(&mut self.returns) {
            self.finish_tracks(&mut Client::new(n, 0, carried), false);
        }
    }

    pub(crate) fn next_return_us(&self) -> Option<u64> {
        self.returns.first_key_value().map(|(&(at_us, _), _)| at_us)
    }

    pub(crate) fn take_return(&mut self, now_us: u64) -> Option<(u64, u32, Carried)> {
        let entry = self.returns.first_entry()?;
        if entry.key().0 > now_us {
            return None;
        }
        let ((at_us, n), carried) = entry.remove_entry();
        Some((at_us, n, carried))
    }

    /// Writes the name of a connection's first channel to `self.name`; empty if it has none.
    pub(crate) fn name_channel(&mut self, n: u32) {
        let mut bytes = std::mem::take(&mut self.name).into_bytes();
        bytes.clear();
        if let Some(channel) = self.script.channels.of_connection(u64::from(n)).next() {
            self.script.channels.write_name(channel, &mut bytes);
        }
        // Names come from templates, which are text.
        self.name = String::from_utf8(bytes).unwrap_or_default();
    }

    pub(crate) fn fail(
        &mut self,
        client: &mut Client,
        reason: ConnectFailure,
        fx: &mut Effects<'_>,
    ) {
        self.tally.failed(reason);
        if matches!(client.stage, Stage::Subscribing(_)) {
            // It counts as upgraded already, and must not count as alive.
            self.tally.counters.closed_by_plan += 1;
        }
        client.stage = Stage::Gone;
        self.retry(client);
        fx.end(throng_engine::End::Now);
    }

    /// Schedules another try for a connection that came back; a first failure is a result.
    pub(crate) fn retry(&mut self, client: &mut Client) {
        if client.returning || self.script.scenario.replace_lost {
            let wait_us = 100_000 + self.rng.below(900_000);
            let at_us = self.clock.now_us() + wait_us;
            let carried = self.take_carried(client);
            self.come_back(at_us, client.n, carried);
        }
    }

    /// Takes the state that the connection needs when it comes back.
    pub(crate) fn take_carried(&mut self, client: &mut Client) -> Carried {
        let mut carried = Carried {
            said: client.said,
            returning: true,
            in_storm: client.in_storm,
            ..Carried::default()
        };
        if self.resumes() && client.has_place() {
            carried.tracks = std::mem::take(&mut client.tracks);
            carried.resume = client.resume.take();
        } else {
            self.finish_tracks(client, false);
        }
        carried
    }

    /// Ends the counts of a connection. `to_the_end` also counts messages that never came after
    /// the last one.
    pub(crate) fn finish_tracks(&mut self, client: &mut Client, to_the_end: bool) {
        let tracks = std::mem::take(&mut client.tracks);
        if tracks.is_empty() {
            return;
        }
        if client.slow {
            return tracks.finish(|_, _| None, &mut self.tally.sums.slowly);
        }
        let before = self.tally.deliveries.missing;
        let (script, said, n) = (self.script, client.said, client.n);
        let last = |channel, publisher| match to_the_end {
            true => last_due(script, n, said, channel, publisher),
            false => None,
        };
        tracks.finish(last, &mut self.tally.deliveries);
        self.tally.sums.with_loss += u64::from(self.tally.deliveries.missing > before);
    }

    /// Number of deliveries that are due to a connection after the last one. Slow readers owe none.
    pub(crate) fn behind(&self, client: &Client) -> u64 {
        if client.stage != Stage::Usable || client.slow {
            return 0;
        }
        let (n, said) = (client.n, client.said);
        let due = |channel, publisher| last_due(self.script, n, said, channel, publisher);
        client.tracks.behind(due)
    }

    /// Notes the messages that a connection dropped by a storm has missed.
    pub(crate) fn begin_catching_up(&mut self, client: &mut Client) {
        let script = self.script;
        let missed = client.tracks.missed(|channel, publisher| {
            (script.publisher_of(channel) == Some(publisher)).then(|| script.last_sequence(channel))
        });
        match &mut client.resume {
            Some(resume) if !missed.is_empty() => resume.catches_up_to = missed,
            // Without a position, missed messages never come.
            _ => self.caught_up(),
        }
    }

    fn caught_up(&mut self) {
        let now_us = self.clock.now_us();
        let caught_up = &mut self.tally.sums.caught_up;
        caught_up.record_between(self.storm_at_us, now_us);
    }

    /// Notes that a connection is subscribed to its channels.
    pub(crate) fn expect(&mut self, client: &mut Client) {
        if self.script.scenario.publish.is_none() {
            return;
        }
        let mut any = false;
        for channel in self.script.channels.of_connection(u64::from(client.n)) {
            if let Some(publisher) = self.script.publisher_of(channel) {
                let first = self.script.last_sequence(channel) + 1;
                client.tracks.expect(channel, publisher, first);
                any = true;
            }
        }
        self.tally.sums.expecting += u64::from(any && !client.returning);
    }

    /// Publisher and channel of a connection's own messages.
    pub(crate) fn own_publisher(&self, n: u32) -> (u32, u32) {
        let channel = self.script.channels.of_connection(u64::from(n)).next();
        (SELF_PUBLISHER | n, channel.unwrap_or(n))
    }

    /// Finds the measured messages of a whole frame.
    pub(crate) fn scan_frame(&mut self, client: &mut Client, frame: &[u8]) {
        let script = self.script;
        script.scanner.scan_frame(frame, |found| {
            if !found.is_whole_in(frame) {
                self.tally.deliveries.damaged += 1;
            }
            self.found(client, found);
        });
    }

    /// Finds the measured messages of a stream; keeps the possible beginning of another in `carry`.
    pub(crate) fn scan_stream(&mut self, client: &mut Client, carry: &mut Carry, data: &[u8]) {
        let script = self.script;
        let mut joined = std::mem::take(&mut self.scratch);
        let bytes = match carry.take() {
            Some(kept) => {
                joined.clear();
                joined.extend_from_slice(&kept);
                joined.extend_from_slice(data);
                &joined
            }
            None => data,
        };
        let keep = script
            .scanner
            .scan_stream(bytes, |found| self.found(client, found));
        *carry = tail(bytes, keep);
        self.scratch = joined;
    }

    fn found(&mut self, client: &mut Client, found: ScanMatch) {
        let deliveries = if client.slow {
            &mut self.tally.sums.slowly
        } else {
            &mut self.tally.deliveries
        };
        let missing = deliveries.missing;
        let (due_us, first_time) = match found {
            ScanMatch::Message { message, .. } if message.publisher == WARM_UP_PUBLISHER => return,
            ScanMatch::Message { message, .. } => {
                if client.tracks.is_unheard() {
                    self.tally.sums.with_data += 1;
                }
                let heard = client.tracks.on(&message, deliveries);
                if let Some(resume) = client.resume.as_mut().filter(|r| r.awaits_first) {
                    resume.awaits_first = false;
                    self.tally.counters.recovered +=
                        u64::from(heard == Some(SequenceOutcome::InOrder));
                }
                if let Some(resume) = &mut client.resume
                    && !resume.catches_up_to.is_empty()
                {
                    let reached = client.tracks.highest(message.channel, message.publisher);
                    let lost =
                        heard == Some(SequenceOutcome::Ahead) || missing < deliveries.missing;
                    if resume.reached(message.channel, reached, lost) {
                        self.caught_up();
                    }
                }
                let first_time = !matches!(
                    heard,
                    Some(SequenceOutcome::Duplicate | SequenceOutcome::BeforeJoin)
                );
                (message.due_us, first_time)
            }
            ScanMatch::Tcpkali { unix_us } => {
                deliveries.received += 1;
                deliveries.untracked += 1;
                (unix_us, true)
            }
        };
        let (from_us, to_us) = self.measured_us;
        if !first_time || client.slow || due_us < from_us || due_us >= to_us {
            return;
        }
        self.tally
            .interval
            .delivery
            .record_between(due_us, self.arrived_us);
        if let Some(running) = &mut self.tally.running {
            running.record((self.arrived_us as f64 - due_us as f64) / 1000.0);
        }
    }
}

/// Finds the clients of a kind.
pub(crate) fn subscribers(conns: &Conns<Session>, wanted: impl Fn(&Client) -> bool) -> Vec<ConnId> {
    let is_wanted = |session: &Session| match session {
        Session::Client(client) => wanted(client),
        Session::Publisher(_) | Session::Carrier(_) => false,
    };
    { conns.sessions() }
        .filter(|(_, session)| is_wanted(session))
        .map(|(id, _)| id)
        .collect()
}

/// Lets a client act, if it is still there.
pub(crate) fn with_subscriber(
    conns: &mut Conns<Session>,
    id: ConnId,
    change: impl FnOnce(&mut Client, &mut Effects<'_>),
) {
    conns.with(id, |session, fx| {
        if let Session::Client(client) = session {
            change(client, fx);
        }
    });
}

/// Last number that is due to connection `n` from a publisher, if it is known here.
fn last_due(script: &Script, n: u32, said: u32, channel: u32, publisher: u32) -> Option<u64> {
    if publisher == SELF_PUBLISHER | n {
        let echo = matches!(script.scenario.kind, Workload::Echo);
        return echo.then_some(u64::from(said));
    }
    (script.publisher_of(channel) == Some(publisher)).then(|| script.last_sequence(channel))
}

/// Converts a moment to engine milliseconds; never 0, which means never.
pub(crate) fn moment(now: Millis, in_us: u64) -> u32 {
    u32::try_from(now.0 + in_us.div_ceil(1000))
        .unwrap_or(u32::MAX)
        .max(1)
}

fn tail(bytes: &[u8], keep: usize) -> Carry {
    let kept = bytes.get(bytes.len().checked_sub(keep)?..)?;
    (!kept.is_empty()).then(|| kept.into())
}
