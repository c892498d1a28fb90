//! Usable connections: the meaning of a WebSocket's messages by dialect, deadlines, messages that a
//! connection sends itself, and its end.

use throng_client::centrifugo::{self, StreamPosition};
use throng_engine::{Closed, Effects, End};
use throng_types::ConnId;
use throng_ws::Opcode;

use throng_bench_measure::{ConnectFailure, LostReason};
use throng_bench_plan::payload::Message;
use throng_bench_plan::template::Values;
use throng_bench_plan::{ClientTransport, Dialect, Workload};

use crate::core::{SharedState, moment};
use crate::session::{Client, Stage, Wire};

/// Beginning of the refusal of a message that a connection of Centrifugo's protocol publishes
/// ([`ClientTransport::message`]).
const REFUSED: &[u8] = br#"{"id":1000000,"error""#;

impl SharedState<'_> {
    pub(super) fn message(
        &mut self,
        id: ConnId,
        client: &mut Client,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        let script = self.script;
        if let ClientTransport::WebSocket { dialect, .. } = &script.scenario.transport {
            match dialect {
                Dialect::Plain => {}
                Dialect::Centrifugo { .. } => {
                    if data == centrifugo::PING {
                        self.tally.counters.pings += 1;
                        throng_ws::encode_message(self.mask(), Opcode::Text, data, fx.out);
                        return;
                    }
                    if client.resume.is_some()
                        || matches!(client.stage, Stage::Subscribing(_))
                        || data.starts_with(REFUSED)
                    {
                        self.centrifugo_lines(id, client, data, fx);
                    }
                }
                Dialect::Appwrite => {
                    if matches!(client.stage, Stage::Subscribing(_)) {
                        self.appwrite_first(id, client, data, fx);
                    }
                }
            }
        }
        self.scan_frame(client, data);
    }

    fn appwrite_first(
        &mut self,
        id: ConnId,
        client: &mut Client,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        let message: Option<serde_json::Value> = serde_json::from_slice(data).ok();
        let kind = message
            .as_ref()
            .and_then(|message| message.get("type")?.as_str());
        match kind {
            Some("connected") => self.usable(id, client, fx),
            Some("error") => {
                let text: String = String::from_utf8_lossy(data).chars().take(160).collect();
                self.tally.remark(format!("refused: {text}"));
                self.fail(client, ConnectFailure::SubscribeRefused, fx);
            }
            _ => {}
        }
    }

    fn centrifugo_lines(
        &mut self,
        id: ConnId,
        client: &mut Client,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        for line in centrifugo::lines(data).flatten() {
            if let Some(push) = line.push
                && let (Some(publication), Some(resume)) = (push.publication, &mut client.resume)
                && let Some(position) = resume.position_of(&push.channel)
            {
                position.offset = position.offset.max(publication.offset);
            }
            let refused = line.error.is_some();
            if let Some(refusal) = line.error {
                let message: String = refusal.message.chars().take(80).collect();
                self.tally
                    .remark(format!("refused with {} {message}", refusal.code));
            }
            let Stage::Subscribing(left) = client.stage else {
                continue;
            };
            if refused {
                return self.fail(client, ConnectFailure::SubscribeRefused, fx);
            }
            if line.connect.is_some() && line.id == centrifugo::CONNECT_ID {
                self.centrifugo_subscribe(client, fx);
            } else if let Some(subscribed) = line.subscribe {
                self.centrifugo_subscribed(client, line.id, subscribed);
            } else {
                continue;
            }
            client.stage = Stage::Subscribing(left - 1);
            if left == 1 {
                self.usable(id, client, fx);
            }
        }
    }

    fn centrifugo_subscribe(&mut self, client: &mut Client, fx: &mut Effects<'_>) {
        let script = self.script;
        let mut frame = Vec::new();
        let channels = script.channels.of_connection(u64::from(client.n));
        for (id, channel) in (centrifugo::CONNECT_ID + 1..).zip(channels) {
            let mut name = Vec::new();
            script.channels.write_name(channel, &mut name);
            let name = String::from_utf8_lossy(&name);
            let resume = client.resume.as_mut();
            let position = resume.and_then(|resume| resume.position_of(&name));
            if !frame.is_empty() {
                frame.push(b'\n');
            }
            centrifugo::encode_subscribe(id, &name, position.as_deref(), &mut frame);
        }
        if !frame.is_empty() {
            throng_ws::encode_message(self.mask(), Opcode::Text, &frame, fx.out);
        }
    }

    fn centrifugo_subscribed(
        &mut self,
        client: &mut Client,
        id: u32,
        subscribed: centrifugo::SubscribeReply,
    ) {
        let script = self.script;
        let Some(resume) = &mut client.resume else {
            return;
        };
        if client.returning {
            self.tally.counters.recovered += u64::from(subscribed.recovered);
        }
        let place = id.saturating_sub(centrifugo::CONNECT_ID + 1) as usize;
        let mut channels = script.channels.of_connection(u64::from(client.n));
        let Some(channel) = channels.nth(place) else {
            return;
        };
        let mut name = Vec::new();
        script.channels.write_name(channel, &mut name);
        let name = String::from_utf8_lossy(&name).into_owned();
        let position = StreamPosition {
            epoch: subscribed.epoch,
            offset: subscribed.offset,
        };
        match resume.position_of(&name) {
            Some(held) => *held = position,
            None => resume.positions.push((name, position)),
        }
    }

    pub(crate) fn timeout(&mut self, client: &mut Client, fx: &mut Effects<'_>) {
        let reason = match client.stage {
            Stage::Connecting => ConnectFailure::ConnectTimeout,
            Stage::Handshake => ConnectFailure::HandshakeTimeout,
            Stage::Subscribing(_) => ConnectFailure::SubscribeTimeout,
            Stage::Usable => return self.own_deadline(client, fx),
            _ => return fx.end(End::Now),
        };
        self.fail(client, reason, fx);
    }

    fn own_deadline(&mut self, client: &mut Client, fx: &mut Effects<'_>) {
        let now_ms = fx.now.mono.0;
        let come = |at: u32| at > 0 && u64::from(at) <= now_ms;
        let scenario = &self.script.scenario;
        if come(client.end_at) && self.stays {
            // The run is at its end: connections stay, so that all can catch up.
            client.end_at = 0;
        } else if come(client.end_at) {
            let back_us = match scenario.kind {
                Workload::Resume { away_us, .. } => Some(away_us),
                Workload::Churn => Some(0),
                _ => scenario.replace_lost.then_some(0),
            };
            return self.leave(client, back_us, fx);
        }
        if come(client.ping_at)
            && let ClientTransport::WebSocket {
                ping_interval_us: Some(every_us),
                ..
            } = scenario.transport
        {
            let before = fx.out.len();
            throng_ws::encode_ping(self.mask(), &[], fx.out);
            self.tally.counters.pings += 1;
            self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
            client.ping_at = moment(fx.now.mono, every_us);
        }
        self.set_deadline(client, fx);
    }

    /// Ends a usable connection because the scenario says so; it comes back after `back_us`.
    fn leave(&mut self, client: &mut Client, back_us: Option<u64>, fx: &mut Effects<'_>) {
        self.tally.counters.closed_by_plan += 1;
        client.stage = Stage::Gone;
        let carried = self.take_carried(client);
        if let Some(back_us) = back_us {
            let at_us = self.clock.now_us() + back_us;
            self.come_back(at_us, client.n, carried);
        }
        if matches!(
            self.script.scenario.transport,
            ClientTransport::WebSocket { .. }
        ) {
            let close = throng_ws::CloseFrame {
                code: 1000,
                reason: "",
            };
            throng_ws::encode_close(self.mask(), Some(close), fx.out);
            fx.end(End::Flush);
        } else {
            fx.end(End::Now);
        }
    }

    /// Drops the connection in a storm; it comes back after a backoff in µs, drawn between two.
    pub(crate) fn drop_in_storm(
        &mut self,
        client: &mut Client,
        backoff_us: (u64, u64),
        fx: &mut Effects<'_>,
    ) {
        self.tally.counters.closed_by_plan += 1;
        self.tally.sums.dropped += 1;
        client.stage = Stage::Gone;
        let now_us = self.clock.now_us();
        let mut carried = self.take_carried(client);
        carried.in_storm = true;
        let wait_us = backoff_us.0 + self.rng.below(backoff_us.1 - backoff_us.0 + 1);
        self.come_back(now_us + wait_us, client.n, carried);
        fx.end(End::Now);
    }

    /// Sends the next message of a connection, which was due at `due_us`. Returns false after the
    /// last.
    pub(crate) fn send_message(
        &mut self,
        client: &mut Client,
        due_us: u64,
        fx: &mut Effects<'_>,
    ) -> bool {
        let script = self.script;
        let (Some(say), Some(template)) = (&script.scenario.say, &script.say) else {
            return false;
        };
        let is_last = |count| u64::from(client.said) >= count;
        if client.stage != Stage::Usable || say.count.is_some_and(is_last) {
            return false;
        }
        client.said += 1;
        let (publisher, channel) = self.own_publisher(client.n);
        let message = Message {
            publisher,
            channel,
            sequence: u64::from(client.said),
            due_us,
        };
        let mut payload = Vec::new();
        if template.has_payload() && message.encode(say.size_bytes, &mut payload).is_err() {
            return false;
        }
        if matches!(script.scenario.kind, Workload::Echo) && client.said == 1 {
            client.tracks.expect(channel, publisher, 1);
            self.tally.sums.expecting += 1;
        }
        self.name_channel(client.n);
        let mut text = std::mem::take(&mut self.scratch);
        text.clear();
        let values = Values {
            payload: &payload,
            ..self.values(client.n)
        };
        let mut rng = script.rng_of(u64::from(client.n));
        template.render(&values, &mut rng, &mut text);
        let before = fx.out.len();
        if matches!(script.scenario.transport, ClientTransport::WebSocket { .. }) {
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
        let now_us = self.clock.now_us();
        self.tally.interval.begun_late(due_us, now_us);
        true
    }

    /// Counts the end of a connection, and schedules its return.
    pub(crate) fn closed(&mut self, mut client: Client, why: Closed) {
        let lost = match client.stage {
            Stage::Gone => return,
            Stage::ClosedByServer => LostReason::ClosedByServer,
            Stage::Broken => LostReason::Protocol,
            Stage::Usable => match why {
                Closed::Error(errno) => lost_by(errno),
                Closed::Slow => LostReason::WriteFailed,
                // A stream without a length ends with its connection: that is a proper end.
                Closed::ByPeer => match &client.wire {
                    Wire::Body(decoder, _) if decoder.may_end_here() => LostReason::ClosedByServer,
                    _ => LostReason::Eof,
                },
                Closed::ByApp => return,
            },
            Stage::Connecting | Stage::Handshake | Stage::Subscribing(_) => {
                let reason = match why {
                    Closed::Error(errno) => ConnectFailure::from_errno(errno),
                    _ => ConnectFailure::ClosedEarly,
                };
                self.tally.failed(reason);
                if matches!(client.stage, Stage::Subscribing(_)) {
                    self.tally.counters.closed_by_plan += 1;
                }
                return self.retry(&mut client);
            }
        };
        self.tally.lost(lost);
        let scenario = &self.script.scenario;
        let comes_back = scenario.replace_lost
            || matches!(
                scenario.kind,
                Workload::ReconnectStorm { .. } | Workload::Resume { .. }
            );
        if comes_back {
            client.returning = true;
            self.retry(&mut client);
        } else {
            self.finish_tracks(&mut client, true);
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
