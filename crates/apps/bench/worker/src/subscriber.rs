//! One of the run's clients, from TCP to usable to gone.
//!
//! Owns: the order of the stages, what each waits for, and under which reason it ends. Never: opens
//! a socket.
//!
//! ```text
//! Connecting → Handshake → Subscribing → Usable → (ClosedByServer | Broken | Gone)
//! ```
//!
//! Invariant: each connection that was begun is counted once, as usable or under one reason of
//! failure; each that was usable is counted once as lost or closed, or is alive.

mod dialect;
mod leaving;
mod opening;

use std::ops::ControlFlow;

use throng_client::centrifugo;
use throng_engine::{Effects, End};
use throng_types::ConnId;
use throng_ws::{Opcode, WsEvent};

use crate::core::{Core, moment};
use crate::session::{Resume, Stage, Subscriber, Wire};
use throng_bench_measure::ConnectFailure;
use throng_bench_plan::{Dialect, Kind, Transport};

/// A message of a server may be large.
const WS_LIMITS: throng_ws::WsLimits = throng_ws::WsLimits::new(64 << 20);

impl Core<'_> {
    /// TCP stands: the request goes out.
    pub(crate) fn connected(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        fx: &mut Effects<'_>,
    ) {
        self.tally.counters.tcp_connected += 1;
        subscriber.stage = Stage::Handshake;
        self.name_channel(subscriber.n);
        let before = fx.out.len();
        let script = self.script;
        match &script.scenario.transport {
            Transport::WebSocket { subprotocol, .. } => {
                self.ws_request(subscriber, subprotocol.as_deref(), fx.out);
            }
            Transport::Sse { .. } => {
                let id = subscriber
                    .resume
                    .as_ref()
                    .map(|resume| resume.events.last_event_id().to_owned());
                let mut fixed = vec![
                    ("Accept", "text/event-stream"),
                    ("Cache-Control", "no-cache"),
                ];
                if let Some(id) = id.as_deref().filter(|id| !id.is_empty()) {
                    fixed.push(("Last-WsEvent-ID", id));
                }
                self.http_request(subscriber, &fixed, fx.out);
            }
            Transport::HttpStream { .. } => self.http_request(subscriber, &[], fx.out),
            Transport::Raw { expect_http, .. } => {
                self.render_first(
                    subscriber.n,
                    |text, out| out.extend_from_slice(text),
                    fx.out,
                );
                if !expect_http {
                    subscriber.wire = Wire::Bytes(None);
                    self.tally.counters.upgraded += 1;
                    self.usable(id, subscriber, fx);
                }
            }
        }
        self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
    }

    /// Bytes came.
    pub(crate) fn bytes(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        self.tally.counters.received_bytes += input.len() as u64;
        self.arrived_us = self.clock.now_us();
        let before = fx.out.len();
        if subscriber.stage == Stage::Handshake {
            self.head_bytes(id, subscriber, input, fx);
        } else {
            self.stream_bytes(id, subscriber, input, fx);
        }
        if subscriber.slow {
            self.rest(id, input.len(), fx);
        }
        self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
    }

    /// The handshake is accepted: subscribe, or be usable at once.
    fn upgraded(&mut self, id: ConnId, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        self.tally.counters.upgraded += 1;
        if self.resumes() && subscriber.resume.is_none() {
            subscriber.resume = Some(Box::default());
        }
        let script = self.script;
        let Transport::WebSocket { dialect, .. } = &script.scenario.transport else {
            return self.usable(id, subscriber, fx);
        };
        match dialect {
            Dialect::Plain => {}
            Dialect::Centrifugo { .. } => {
                let token = script.token.as_ref().map(|token| {
                    self.name_channel(subscriber.n);
                    self.render(
                        token,
                        subscriber.n,
                        &mut script.rng_of(u64::from(subscriber.n)),
                    )
                });
                let mut frame = Vec::new();
                centrifugo::encode_connect(token.as_deref(), &mut frame);
                throng_ws::encode_message(self.mask(), Opcode::Text, &frame, fx.out);
                let channels = script
                    .channels
                    .of_connection(u64::from(subscriber.n))
                    .count();
                subscriber.stage = Stage::Subscribing(channels as u16 + 1);
            }
            Dialect::Appwrite => subscriber.stage = Stage::Subscribing(1),
        }
        if !script.first.is_empty() {
            self.name_channel(subscriber.n);
            let masking = self.mask();
            let say = |text: &[u8], out: &mut Vec<u8>| {
                throng_ws::encode_message(masking, Opcode::Text, text, out);
            };
            self.render_first(subscriber.n, say, fx.out);
        }
        if subscriber.stage == Stage::Handshake {
            self.usable(id, subscriber, fx);
        }
    }

    /// The connection is as the scenario wants it.
    fn usable(&mut self, id: ConnId, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        subscriber.stage = Stage::Usable;
        let tally = &mut self.tally;
        tally.counters.subscribed += 1;
        tally.pending = tally.pending.saturating_sub(1);
        let now_us = self.clock.now_us();
        tally.connect.record_between(subscriber.due_us, now_us);
        let mut catches_up = false;
        if subscriber.returning {
            tally.counters.reconnected += 1;
            let in_storm = std::mem::take(&mut subscriber.in_storm);
            if in_storm {
                tally.sums.back.record_between(self.storm_at_us, now_us);
            }
            let catching_up = |resume: &Resume| !resume.catches_up_to.is_empty();
            catches_up = in_storm || subscriber.resume.as_deref().is_some_and(catching_up);
            // Centrifugo says itself whether it recovered.
            if let (Some(resume), Transport::Sse { .. }) =
                (&mut subscriber.resume, &self.script.scenario.transport)
            {
                resume.awaits_first = true;
            }
        }
        self.expect(subscriber);
        if catches_up {
            self.begin_catching_up(subscriber);
        }
        let scenario = &self.script.scenario;
        let now = fx.now.mono;
        if let Transport::WebSocket {
            ping_interval_us: Some(every_us),
            ..
        } = scenario.transport
        {
            // Spread over the interval, so that a ramp does not become a pulse.
            subscriber.ping_at = moment(now, 1 + self.rng.below(every_us));
        }
        if let Some(life_us) = scenario.lifetime_us {
            subscriber.end_at = moment(now, life_us);
        }
        if let Kind::Resume { every_us, .. } = scenario.kind {
            let wait_us = if subscriber.returning {
                every_us
            } else {
                1 + self.rng.below(every_us)
            };
            subscriber.end_at = moment(now, wait_us);
        }
        if let Some(say) = &scenario.say {
            let first_us = now_us + 1 + self.rng.below(say.every_us);
            self.says.push(std::cmp::Reverse((first_us, id.to_bits())));
        }
        if self.is_slow(subscriber.n) {
            subscriber.slow = true;
            self.rest(id, 0, fx);
        }
        self.set_deadline(subscriber, fx);
    }

    fn set_deadline(&self, subscriber: &Subscriber, fx: &mut Effects<'_>) {
        let next = subscriber.next_at();
        fx.set_deadline(next.map(|at| throng_types::Millis(u64::from(at))));
    }

    fn stream_bytes(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        // Out of the session while its bytes are looked at, and back unless it has ended.
        match std::mem::replace(&mut subscriber.wire, Wire::Bytes(None)) {
            Wire::Frames(mut decoder) => {
                let fed = decoder.feed(input, &WS_LIMITS, |event| {
                    self.frame(id, subscriber, event, fx);
                    if matches!(subscriber.stage, Stage::Usable | Stage::Subscribing(_)) {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
                if let Err(fault) = fed {
                    self.broken(subscriber, fault.to_string(), fx);
                }
                subscriber.wire = Wire::Frames(decoder);
            }
            Wire::Body(mut decoder, mut carry) => {
                let mut rest: &[u8] = input;
                while !rest.is_empty() {
                    match decoder.feed(rest) {
                        Ok(step) => {
                            if let Some(resume) = &mut subscriber.resume {
                                // An id is all that is wanted; a fault of the stream shows below as
                                // missing messages.
                                let _ = resume.events.feed(step.data, |_| {});
                            }
                            self.scan_stream(subscriber, &mut carry, step.data);
                            if step.done {
                                self.said_goodbye(subscriber, fx);
                                break;
                            }
                            rest = rest.get(step.consumed..).unwrap_or_default();
                        }
                        Err(fault) => {
                            self.broken(subscriber, fault.to_string(), fx);
                            break;
                        }
                    }
                }
                subscriber.wire = Wire::Body(decoder, carry);
            }
            Wire::Bytes(mut carry) => {
                self.scan_stream(subscriber, &mut carry, input);
                subscriber.wire = Wire::Bytes(carry);
            }
            // Bytes before the request was sent are nobody's answer.
            Wire::Head(head) => subscriber.wire = Wire::Head(head),
        }
    }

    fn frame(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        event: WsEvent<'_>,
        fx: &mut Effects<'_>,
    ) {
        match event {
            WsEvent::Message { data, .. } => self.message(id, subscriber, data, fx),
            WsEvent::Ping(payload) => {
                self.tally.counters.pings += 1;
                throng_ws::encode_pong(self.mask(), payload, fx.out);
            }
            WsEvent::Pong(_) => {}
            WsEvent::Close(close) => {
                if let Some(close) = close {
                    self.tally.remark(format!(
                        "closed by the server with {} {}",
                        close.code,
                        close.reason.chars().take(80).collect::<String>()
                    ));
                }
                throng_ws::encode_close(self.mask(), close, fx.out);
                self.said_goodbye(subscriber, fx);
            }
        }
    }

    fn broken(&mut self, subscriber: &mut Subscriber, why: String, fx: &mut Effects<'_>) {
        self.tally.remark(format!("protocol: {why}"));
        if subscriber.is_pending() {
            self.fail(subscriber, ConnectFailure::BadResponse, fx);
        } else if subscriber.stage == Stage::Usable {
            subscriber.stage = Stage::Broken;
            fx.end(End::Now);
        }
    }

    fn said_goodbye(&mut self, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        if subscriber.is_pending() {
            self.fail(subscriber, ConnectFailure::ClosedEarly, fx);
        } else if subscriber.stage == Stage::Usable {
            subscriber.stage = Stage::ClosedByServer;
            fx.end(End::Flush);
        }
    }
}
