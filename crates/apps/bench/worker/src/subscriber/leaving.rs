//! Deadlines of a connection, what it says, and how it ends.

use throng_engine::{Closed, Effects, End};
use throng_ws::Opcode;

use crate::core::{Core, moment};
use crate::session::{Stage, Subscriber, Wire};
use throng_bench_measure::{ConnectFailure, LostReason};
use throng_bench_plan::payload::Message;
use throng_bench_plan::template::Values;
use throng_bench_plan::{Kind, Transport};

impl Core<'_> {
    /// A deadline has come.
    pub(crate) fn timeout(&mut self, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        let reason = match subscriber.stage {
            Stage::Connecting => ConnectFailure::ConnectTimeout,
            Stage::Handshake => ConnectFailure::HandshakeTimeout,
            Stage::Subscribing(_) => ConnectFailure::SubscribeTimeout,
            Stage::Usable => return self.own_deadline(subscriber, fx),
            _ => return fx.end(End::Now),
        };
        self.fail(subscriber, reason, fx);
    }

    fn own_deadline(&mut self, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        let now_ms = fx.now.mono.0;
        let come = |at: u32| at > 0 && u64::from(at) <= now_ms;
        let scenario = &self.script.scenario;
        if come(subscriber.end_at) && self.stays {
            // The run is at its end: who is here stays, so that all can catch up.
            subscriber.end_at = 0;
        } else if come(subscriber.end_at) {
            let back_us = match scenario.kind {
                Kind::Resume { away_us, .. } => Some(away_us),
                Kind::Churn => Some(0),
                _ => scenario.replace_lost.then_some(0),
            };
            return self.leave(subscriber, back_us, fx);
        }
        if come(subscriber.ping_at)
            && let Transport::WebSocket {
                ping_interval_us: Some(every_us),
                ..
            } = scenario.transport
        {
            let before = fx.out.len();
            throng_ws::encode_ping(self.mask(), &[], fx.out);
            self.tally.counters.pings += 1;
            self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
            subscriber.ping_at = moment(fx.now.mono, every_us);
        }
        self.set_deadline(subscriber, fx);
    }

    /// Ends a usable connection because the scenario says so, and has it come back after a while if
    /// it is to.
    fn leave(&mut self, subscriber: &mut Subscriber, back_us: Option<u64>, fx: &mut Effects<'_>) {
        self.tally.counters.closed_by_plan += 1;
        subscriber.stage = Stage::Gone;
        let left = self.take_left(subscriber);
        if let Some(back_us) = back_us {
            let at_us = self.clock.now_us() + back_us;
            self.come_back(at_us, subscriber.n, left);
        }
        if matches!(self.script.scenario.transport, Transport::WebSocket { .. }) {
            let bye = throng_ws::CloseFrame {
                code: 1000,
                reason: "",
            };
            throng_ws::encode_close(self.mask(), Some(bye), fx.out);
            fx.end(End::Flush);
        } else {
            fx.end(End::Now);
        }
    }

    /// A storm drops the connection; it comes back after its backoff.
    pub(crate) fn drop_in_storm(
        &mut self,
        subscriber: &mut Subscriber,
        backoff_us: (u64, u64),
        fx: &mut Effects<'_>,
    ) {
        self.tally.counters.closed_by_plan += 1;
        self.tally.sums.dropped += 1;
        subscriber.stage = Stage::Gone;
        let now_us = self.clock.now_us();
        let mut left = self.take_left(subscriber);
        left.in_storm = true;
        let wait_us = backoff_us.0 + self.rng.below(backoff_us.1 - backoff_us.0 + 1);
        self.come_back(now_us + wait_us, subscriber.n, left);
        fx.end(End::Now);
    }

    /// A connection says its next message, which was due at `due_us`. False if it says no more.
    pub(crate) fn say(
        &mut self,
        subscriber: &mut Subscriber,
        due_us: u64,
        fx: &mut Effects<'_>,
    ) -> bool {
        let script = self.script;
        let (Some(say), Some(template)) = (&script.scenario.say, &script.say) else {
            return false;
        };
        if subscriber.stage != Stage::Usable
            || say
                .count
                .is_some_and(|count| u64::from(subscriber.said) >= count)
        {
            return false;
        }
        subscriber.said += 1;
        let (publisher, channel) = self.said_as(subscriber.n);
        let message = Message {
            publisher,
            channel,
            sequence: u64::from(subscriber.said),
            due_us,
        };
        let mut payload = Vec::new();
        if template.has_payload() && message.encode(say.size_bytes, &mut payload).is_err() {
            return false;
        }
        if matches!(script.scenario.kind, Kind::Echo) && subscriber.said == 1 {
            subscriber.tracks.expect(channel, publisher, 1);
            self.tally.sums.expecting += 1;
        }
        self.name_channel(subscriber.n);
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let values = Values {
            payload: &payload,
            ..self.values(subscriber.n)
        };
        template.render(
            &values,
            &mut script.rng_of(u64::from(subscriber.n)),
            &mut text,
        );
        let before = fx.out.len();
        if matches!(script.scenario.transport, Transport::WebSocket { .. }) {
            let opcode = if say.binary {
                Opcode::Binary
            } else {
                Opcode::Text
            };
            throng_ws::encode_message(self.mask(), opcode, &text, fx.out);
        } else {
            fx.out.extend_from_slice(&text);
        }
        self.scratch = text;
        let counters = &mut self.tally.counters;
        counters.published += 1;
        counters.sent_bytes += (fx.out.len() - before) as u64;
        self.tally.due_events += 1;
        self.tally.lag.record_between(due_us, self.clock.now_us());
        true
    }

    /// The connection is gone.
    pub(crate) fn closed(&mut self, mut subscriber: Subscriber, why: Closed) {
        let lost = match subscriber.stage {
            Stage::Gone => return,
            Stage::ClosedByServer => LostReason::ClosedByServer,
            Stage::Broken => LostReason::Protocol,
            Stage::Usable => match why {
                Closed::Error(errno) => lost_by(errno),
                Closed::Slow => LostReason::WriteFailed,
                // A stream without a length ends with its connection: that is a proper end.
                Closed::ByPeer => match &subscriber.wire {
                    Wire::Body(decoder, _) if decoder.may_end_here() => LostReason::ClosedByServer,
                    _ => LostReason::Eof,
                },
                Closed::ByApp => return,
            },
            Stage::Connecting | Stage::Handshake | Stage::Subscribing(_) => {
                let reason = match (why, subscriber.stage) {
                    (Closed::Error(errno), _) => ConnectFailure::from_errno(errno),
                    _ => ConnectFailure::ClosedEarly,
                };
                self.tally.failed(reason);
                if matches!(subscriber.stage, Stage::Subscribing(_)) {
                    self.tally.counters.closed_by_plan += 1;
                }
                return self.retry(&mut subscriber);
            }
        };
        self.tally.lost(lost);
        let scenario = &self.script.scenario;
        let comes_back = scenario.replace_lost
            || matches!(
                scenario.kind,
                Kind::ReconnectStorm { .. } | Kind::Resume { .. }
            );
        if comes_back {
            subscriber.returning = true;
            self.retry(&mut subscriber);
        } else {
            self.finish_tracks(&mut subscriber, true);
        }
    }
}

fn lost_by(errno: i32) -> LostReason {
    match std::io::Error::from_raw_os_error(errno).kind() {
        std::io::ErrorKind::BrokenPipe => LostReason::WriteFailed,
        std::io::ErrorKind::TimedOut => LostReason::TimedOut,
        _ => LostReason::Reset,
    }
}
