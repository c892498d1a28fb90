//! Client of the run, from TCP to usable to gone.
//!
//! Owns: the request that opens a connection, the order of the stages, the condition of each, and
//! the reason under which it ends. Never: opens
//! a socket.
//!
//! ```text
//! Connecting → Handshake → Subscribing → Usable → (ClosedByServer | Broken | Gone)
//! ```
//!
//! Invariant: each connection that was begun is counted once, as usable or under one reason of
//! failure; each that was usable is counted once as lost or closed, or is alive.

mod usable;

use std::ops::ControlFlow;

use throng_client::centrifugo;
use throng_engine::{Effects, End};
use throng_http1::{BodyDecoder, HttpLimits, Response, ResponseBody};
use throng_types::{ConnId, Rng};
use throng_ws::{Opcode, WsDecoder, WsEvent, WsRole, handshake};

use throng_bench_measure::ConnectFailure;
use throng_bench_plan::template::{Template, Values};
use throng_bench_plan::{Dialect, Transport, Workload};

use crate::core::{SharedState, moment};
use crate::session::{Resume, Stage, Subscriber, Wire};

const WS_LIMITS: throng_ws::WsLimits = throng_ws::WsLimits::new(64 << 20);

const HTTP_LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: u64::MAX,
};

impl SharedState<'_> {
    /// Sends the request when TCP stands.
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
                let fixed =
                    { subprotocol.iter() }.map(|name| ("Sec-WebSocket-Protocol", name.as_str()));
                let key = self.key_of(subscriber);
                self.request(subscriber, fixed, |host, path, headers| {
                    handshake::encode_request(host, path, key, headers, fx.out);
                });
            }
            Transport::Sse { .. } => {
                let resume = subscriber.resume.as_ref();
                let id = resume.map_or("", |resume| resume.events.last_event_id());
                let last = Some(("Last-Event-ID", id)).filter(|_| !id.is_empty());
                let accept = ("Accept", "text/event-stream");
                let fixed = [accept, ("Cache-Control", "no-cache")]
                    .into_iter()
                    .chain(last);
                self.request(subscriber, fixed, |host, path, headers| {
                    throng_http1::encode_request("GET", path, host, headers, None, fx.out);
                });
            }
            Transport::HttpStream { .. } => {
                self.request(subscriber, [], |host, path, headers| {
                    throng_http1::encode_request("GET", path, host, headers, None, fx.out);
                });
            }
            Transport::Raw { expect_http, .. } => {
                let raw = |text: &[u8], out: &mut Vec<u8>| out.extend_from_slice(text);
                self.render_first(subscriber.n, raw, fx.out);
                if !expect_http {
                    subscriber.wire = Wire::Bytes(None);
                    self.tally.counters.upgraded += 1;
                    self.usable(id, subscriber, fx);
                }
            }
        }
        self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
    }

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

    /// Subscribes after the handshake, or is usable at once.
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
                let n = subscriber.n;
                let token = script.token.as_ref().map(|token| {
                    self.name_channel(n);
                    self.render(token, n, &mut script.rng_of(u64::from(n)))
                });
                let mut frame = Vec::new();
                centrifugo::encode_connect(token.as_deref(), &mut frame);
                throng_ws::encode_message(self.mask(), Opcode::Text, &frame, fx.out);
                let channels = script.channels.of_connection(u64::from(n)).count();
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

    fn usable(&mut self, id: ConnId, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        subscriber.stage = Stage::Usable;
        let tally = &mut self.tally;
        tally.counters.subscribed += 1;
        tally.pending = tally.pending.saturating_sub(1);
        let now_us = self.clock.now_us();
        tally
            .interval
            .connect
            .record_between(subscriber.due_us, now_us);
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
        if let Workload::Resume { every_us, .. } = scenario.kind {
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
                if let Err(error) = fed {
                    self.broken(subscriber, error.to_string(), fx);
                }
                subscriber.wire = Wire::Frames(decoder);
            }
            Wire::Body(mut decoder, mut carry) => {
                let mut rest: &[u8] = input;
                while !rest.is_empty() {
                    match decoder.feed(rest) {
                        Ok(step) => {
                            if let Some(resume) = &mut subscriber.resume {
                                // Only its id is wanted; a broken stream shows below as missing
                                // messages.
                                let _ = resume.events.feed(step.data, |_| {});
                            }
                            self.scan_stream(subscriber, &mut carry, step.data);
                            if step.done {
                                self.closed_by_server(subscriber, fx);
                                break;
                            }
                            rest = rest.get(step.consumed..).unwrap_or_default();
                        }
                        Err(error) => {
                            self.broken(subscriber, error.to_string(), fx);
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
            // Bytes before the request was sent answer nothing.
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
                    let reason: String = close.reason.chars().take(80).collect();
                    let code = close.code;
                    self.tally
                        .remark(format!("closed by the server with {code} {reason}"));
                }
                throng_ws::encode_close(self.mask(), close, fx.out);
                self.closed_by_server(subscriber, fx);
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

    fn closed_by_server(&mut self, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        if subscriber.is_pending() {
            self.fail(subscriber, ConnectFailure::ClosedEarly, fx);
        } else if subscriber.stage == Stage::Usable {
            subscriber.stage = Stage::ClosedByServer;
            fx.end(End::Flush);
        }
    }

    fn values<'a>(&'a self, n: u32) -> Values<'a> {
        Values {
            n: u64::from(n),
            worker: u64::from(self.script.part.index),
            channel: &self.name,
            payload: &[],
        }
    }

    fn render(&self, template: &Template, n: u32, rng: &mut Rng) -> String {
        template.render_to_string(&self.values(n), rng)
    }

    /// Renders a connection's request for `encode`: its host, path and header lines. A `fixed` line
    /// gives way to one of the scenario's.
    fn request<'a>(
        &self,
        subscriber: &'a Subscriber,
        fixed: impl IntoIterator<Item = (&'a str, &'a str)>,
        encode: impl FnOnce(&str, &str, &[(&str, &str)]),
    ) {
        let (script, n) = (self.script, subscriber.n);
        let Some(endpoint) = script.endpoints.get(self.endpoint_of(n)) else {
            return;
        };
        let mut rng = script.rng_of(u64::from(n));
        let path = self.render(&endpoint.path, n, &mut rng);
        let own: Vec<(&str, String)> = { script.headers.iter() }
            .map(|(name, value)| (name.as_str(), self.render(value, n, &mut rng)))
            .collect();
        let is_free =
            |(name, _): &(&str, &str)| own.iter().all(|(own, _)| !own.eq_ignore_ascii_case(name));
        let mut all: Vec<(&str, &str)> = fixed.into_iter().filter(is_free).collect();
        all.extend(own.iter().map(|(name, value)| (*name, value.as_str())));
        encode(&endpoint.authority, &path, &all);
    }

    pub(crate) fn endpoint_of(&self, n: u32) -> usize {
        let own = u64::from(n) / u64::from(self.script.part.of);
        match &self.script.ports {
            Some(plan) => plan.tuple(own).map_or(0, |tuple| tuple.target_index),
            None => (own % self.script.endpoints.len() as u64) as usize,
        }
    }

    /// Key of a connection's handshake: computed again when the answer is checked, so that it takes
    /// no memory.
    fn key_of(&self, subscriber: &Subscriber) -> [u8; 16] {
        let seed = self.script.scenario.seed ^ subscriber.due_us;
        Rng::for_member(seed, u64::from(subscriber.n)).bytes()
    }

    fn render_first(&self, n: u32, mut each: impl FnMut(&[u8], &mut Vec<u8>), out: &mut Vec<u8>) {
        let mut rng = self.script.rng_of(u64::from(n));
        let mut text = Vec::new();
        for template in &self.script.first {
            text.clear();
            template.render(&self.values(n), &mut rng, &mut text);
            each(&text, out);
        }
    }

    fn head_bytes(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        let Wire::Head(mut head) = std::mem::replace(&mut subscriber.wire, Wire::Bytes(None))
        else {
            return;
        };
        let checked = head.feed(input, &HTTP_LIMITS, |response| {
            self.check_response(subscriber, response)
        });
        match checked {
            Ok(None) => subscriber.wire = Wire::Head(head),
            Err(error) => {
                self.tally
                    .remark(format!("the handshake's answer: {error}"));
                self.fail(subscriber, ConnectFailure::BadResponse, fx);
            }
            Ok(Some((Err(reason), _))) => self.fail(subscriber, reason, fx),
            Ok(Some((Ok(wire), mut rest))) => {
                subscriber.wire = wire;
                self.upgraded(id, subscriber, fx);
                let body = rest.bytes();
                if !body.is_empty() {
                    self.stream_bytes(id, subscriber, body, fx);
                }
            }
        }
    }

    fn check_response(
        &mut self,
        subscriber: &Subscriber,
        response: &Response<'_>,
    ) -> Result<Wire, ConnectFailure> {
        let script = self.script;
        let status = response.status;
        match &script.scenario.transport {
            Transport::WebSocket { .. } => {
                let key = self.key_of(subscriber);
                match handshake::check_response(status, |name| response.header(name), key) {
                    Ok(()) => Ok(Wire::Frames(WsDecoder::new(WsRole::Client))),
                    Err(handshake::UpgradeError::Status(_)) => Err(self.refused_with(status)),
                    Err(error) => {
                        self.tally.remark(error.to_string());
                        Err(ConnectFailure::Accept)
                    }
                }
            }
            Transport::Sse { .. } => self.check_stream(response, Some("text/event-stream")),
            Transport::HttpStream { content_type, .. } => {
                self.check_stream(response, content_type.as_deref())
            }
            Transport::Raw { .. } => match status {
                101 | 200..=299 => Ok(Wire::Bytes(None)),
                _ => Err(self.refused_with(status)),
            },
        }
    }

    fn check_stream(
        &mut self,
        response: &Response<'_>,
        wanted: Option<&str>,
    ) -> Result<Wire, ConnectFailure> {
        if response.status != 200 {
            return Err(self.refused_with(response.status));
        }
        let full = response.header("content-type").unwrap_or_default();
        let media = full.split(';').next().unwrap_or_default().trim();
        if wanted.is_some_and(|wanted| !media.eq_ignore_ascii_case(wanted)) {
            self.tally
                .remark(format!("200 with the content type `{full}`"));
            return Err(ConnectFailure::ContentType);
        }
        if response.body == ResponseBody::None {
            return Err(ConnectFailure::BadResponse);
        }
        let decoder = BodyDecoder::for_response(response.body, &HTTP_LIMITS);
        Ok(Wire::Body(decoder, None))
    }

    fn refused_with(&mut self, status: u16) -> ConnectFailure {
        let endpoint = self.script.endpoints.first();
        let refusal =
            endpoint.map_or_else(|| status.to_string(), |endpoint| endpoint.refusal(status));
        self.tally.remark(refusal);
        ConnectFailure::Status
    }
}
