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
use throng_bench_plan::{ClientTransport, Dialect, Workload};

use crate::core::{SharedState, moment};
use crate::session::{Client, Resume, Stage, Wire};

const WS_LIMITS: throng_ws::WsLimits = throng_ws::WsLimits::new(64 << 20);

const HTTP_LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: u64::MAX,
};

impl SharedState<'_> {
    /// Sends the request when TCP stands.
    pub(crate) fn connected(&mut self, id: ConnId, client: &mut Client, fx: &mut Effects<'_>) {
        self.tally.counters.tcp_connected += 1;
        client.stage = Stage::Handshake;
        self.name_channel(client.n);
        let before = fx.out.len();
        let script = self.script;
        match &script.scenario.transport {
            ClientTransport::WebSocket { subprotocol, .. } => {
                let fixed =
                    { subprotocol.iter() }.map(|name| ("Sec-WebSocket-Protocol", name.as_str()));
                let key = self.key_of(client);
                self.request(client, fixed, |host, path, headers| {
                    handshake::encode_request(host, path, key, headers, fx.out);
                });
            }
            ClientTransport::Sse { .. } => {
                let resume = client.resume.as_ref();
                let id = resume.map_or("", |resume| resume.events.last_event_id());
                let last = Some(("Last-Event-ID", id)).filter(|_| !id.is_empty());
                let accept = ("Accept", "text/event-stream");
                let fixed = [accept, ("Cache-Control", "no-cache")]
                    .into_iter()
                    .chain(last);
                self.request(client, fixed, |host, path, headers| {
                    throng_http1::encode_request("GET", path, host, headers, None, fx.out);
                });
            }
            ClientTransport::HttpStream { .. } => {
                self.request(client, [], |host, path, headers| {
                    throng_http1::encode_request("GET", path, host, headers, None, fx.out);
                });
            }
            ClientTransport::Raw { expect_http, .. } => {
                let raw = |text: &[u8], out: &mut Vec<u8>| out.extend_from_slice(text);
                self.render_first(client.n, raw, fx.out);
                if !expect_http {
                    client.wire = Wire::Bytes(None);
                    self.tally.counters.upgraded += 1;
                    self.usable(id, client, fx);
                }
            }
        }
        self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
    }

    pub(crate) fn bytes(
        &mut self,
        id: ConnId,
        client: &mut Client,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        self.tally.counters.received_bytes += input.len() as u64;
        self.arrived_us = self.clock.now_us();
        let before = fx.out.len();
        if client.stage == Stage::Handshake {
            self.head_bytes(id, client, input, fx);
        } else {
            self.stream_bytes(id, client, input, fx);
        }
        if client.slow {
            self.rest(id, input.len(), fx);
        }
        self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
    }

    /// Subscribes after the handshake, or is usable at once.
    fn upgraded(&mut self, id: ConnId, client: &mut Client, fx: &mut Effects<'_>) {
        self.tally.counters.upgraded += 1;
        if self.resumes() && client.resume.is_none() {
            client.resume = Some(Box::default());
        }
        let script = self.script;
        let ClientTransport::WebSocket { dialect, .. } = &script.scenario.transport else {
            return self.usable(id, client, fx);
        };
        match dialect {
            Dialect::Plain => {}
            Dialect::Centrifugo { .. } => {
                let n = client.n;
                let token = script.token.as_ref().map(|token| {
                    self.name_channel(n);
                    self.render(token, n, &mut script.rng_of(u64::from(n)))
                });
                let mut frame = Vec::new();
                centrifugo::encode_connect(token.as_deref(), &mut frame);
                throng_ws::encode_message(self.mask(), Opcode::Text, &frame, fx.out);
                let channels = script.channels.of_connection(u64::from(n)).count();
                client.stage = Stage::Subscribing(channels as u16 + 1);
            }
            Dialect::Appwrite => client.stage = Stage::Subscribing(1),
        }
        if !script.first.is_empty() {
            self.name_channel(client.n);
            let masking = self.mask();
            let say = |text: &[u8], out: &mut Vec<u8>| {
                throng_ws::encode_message(masking, Opcode::Text, text, out);
            };
            self.render_first(client.n, say, fx.out);
        }
        if client.stage == Stage::Handshake {
            self.usable(id, client, fx);
        }
    }

    fn usable(&mut self, id: ConnId, client: &mut Client, fx: &mut Effects<'_>) {
        client.stage = Stage::Usable;
        let tally = &mut self.tally;
        tally.counters.subscribed += 1;
        tally.pending = tally.pending.saturating_sub(1);
        let now_us = self.clock.now_us();
        tally.interval.connect.record_between(client.due_us, now_us);
        let mut catches_up = false;
        if client.returning {
            tally.counters.reconnected += 1;
            let in_storm = std::mem::take(&mut client.in_storm);
            if in_storm {
                tally.sums.back.record_between(self.storm_at_us, now_us);
            }
            let catching_up = |resume: &Resume| !resume.catches_up_to.is_empty();
            catches_up = in_storm || client.resume.as_deref().is_some_and(catching_up);
            // Centrifugo says itself whether it recovered.
            if let (Some(resume), ClientTransport::Sse { .. }) =
                (&mut client.resume, &self.script.scenario.transport)
            {
                resume.awaits_first = true;
            }
        }
        self.expect(client);
        if catches_up {
            self.begin_catching_up(client);
        }
        let scenario = &self.script.scenario;
        let now = fx.now.mono;
        if let ClientTransport::WebSocket {
            ping_interval_us: Some(every_us),
            ..
        } = scenario.transport
        {
            // Spread over the interval, so that a ramp does not become a pulse.
            client.ping_at = moment(now, 1 + self.rng.below(every_us));
        }
        if let Some(life_us) = scenario.lifetime_us {
            client.end_at = moment(now, life_us);
        }
        if let Workload::Resume { every_us, .. } = scenario.kind {
            let wait_us = if client.returning {
                every_us
            } else {
                1 + self.rng.below(every_us)
            };
            client.end_at = moment(now, wait_us);
        }
        if let Some(say) = &scenario.say {
            let first_us = now_us + 1 + self.rng.below(say.every_us);
            self.says.push(std::cmp::Reverse((first_us, id.to_bits())));
        }
        if self.is_slow(client.n) {
            client.slow = true;
            self.rest(id, 0, fx);
        }
        self.set_deadline(client, fx);
    }

    fn set_deadline(&self, client: &Client, fx: &mut Effects<'_>) {
        let next = client.next_at();
        fx.set_deadline(next.map(|at| throng_types::Millis(u64::from(at))));
    }

    fn stream_bytes(
        &mut self,
        id: ConnId,
        client: &mut Client,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        // Out of the session while its bytes are looked at, and back unless it has ended.
        match std::mem::replace(&mut client.wire, Wire::Bytes(None)) {
            Wire::Frames(mut decoder) => {
                let fed = decoder.feed(input, &WS_LIMITS, |event| {
                    self.frame(id, client, event, fx);
                    if matches!(client.stage, Stage::Usable | Stage::Subscribing(_)) {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                });
                if let Err(error) = fed {
                    self.broken(client, error.to_string(), fx);
                }
                client.wire = Wire::Frames(decoder);
            }
            Wire::Body(mut decoder, mut carry) => {
                let mut rest: &[u8] = input;
                while !rest.is_empty() {
                    match decoder.feed(rest) {
                        Ok(step) => {
                            if let Some(resume) = &mut client.resume {
                                // Only its id is wanted; a broken stream shows below as missing
                                // messages.
                                let _ = resume.events.feed(step.data, |_| {});
                            }
                            self.scan_stream(client, &mut carry, step.data);
                            if step.done {
                                self.closed_by_server(client, fx);
                                break;
                            }
                            rest = rest.get(step.consumed..).unwrap_or_default();
                        }
                        Err(error) => {
                            self.broken(client, error.to_string(), fx);
                            break;
                        }
                    }
                }
                client.wire = Wire::Body(decoder, carry);
            }
            Wire::Bytes(mut carry) => {
                self.scan_stream(client, &mut carry, input);
                client.wire = Wire::Bytes(carry);
            }
            // Bytes before the request was sent answer nothing.
            Wire::Head(head) => client.wire = Wire::Head(head),
        }
    }

    fn frame(&mut self, id: ConnId, client: &mut Client, event: WsEvent<'_>, fx: &mut Effects<'_>) {
        match event {
            WsEvent::Message { data, .. } => self.message(id, client, data, fx),
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
                self.closed_by_server(client, fx);
            }
        }
    }

    fn broken(&mut self, client: &mut Client, why: String, fx: &mut Effects<'_>) {
        self.tally.remark(format!("protocol: {why}"));
        if client.is_pending() {
            self.fail(client, ConnectFailure::BadResponse, fx);
        } else if client.stage == Stage::Usable {
            client.stage = Stage::Broken;
            fx.end(End::Now);
        }
    }

    fn closed_by_server(&mut self, client: &mut Client, fx: &mut Effects<'_>) {
        if client.is_pending() {
            self.fail(client, ConnectFailure::ClosedEarly, fx);
        } else if client.stage == Stage::Usable {
            client.stage = Stage::ClosedByServer;
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
        client: &'a Client,
        fixed: impl IntoIterator<Item = (&'a str, &'a str)>,
        encode: impl FnOnce(&str, &str, &[(&str, &str)]),
    ) {
        let (script, n) = (self.script, client.n);
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
            Some(plan) if self.script.scenario.http2.is_none() => {
                plan.tuple(own).map_or(0, |tuple| tuple.target_index)
            }
            _ => (own % self.script.endpoints.len() as u64) as usize,
        }
    }

    /// Key of a connection's handshake: computed again when the answer is checked, so that it takes
    /// no memory.
    fn key_of(&self, client: &Client) -> [u8; 16] {
        if self.script.scenario.http2.is_some() {
            return throng_http2::UPGRADE_KEY;
        }
        let seed = self.script.scenario.seed ^ client.due_us;
        Rng::for_member(seed, u64::from(client.n)).bytes()
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
        client: &mut Client,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        let Wire::Head(mut head) = std::mem::replace(&mut client.wire, Wire::Bytes(None)) else {
            return;
        };
        let checked = head.feed(input, &HTTP_LIMITS, |response| {
            self.check_response(client, response)
        });
        match checked {
            Ok(None) => client.wire = Wire::Head(head),
            Err(error) => {
                self.tally
                    .remark(format!("the handshake's answer: {error}"));
                self.fail(client, ConnectFailure::BadResponse, fx);
            }
            Ok(Some((Err(reason), _))) => self.fail(client, reason, fx),
            Ok(Some((Ok(wire), mut rest))) => {
                client.wire = wire;
                self.upgraded(id, client, fx);
                let body = rest.bytes();
                if !body.is_empty() {
                    self.stream_bytes(id, client, body, fx);
                }
            }
        }
    }

    fn check_response(
        &mut self,
        client: &Client,
        response: &Response<'_>,
    ) -> Result<Wire, ConnectFailure> {
        let script = self.script;
        let status = response.status;
        match &script.scenario.transport {
            ClientTransport::WebSocket { .. } => {
                let key = self.key_of(client);
                match handshake::check_response(status, |name| response.header(name), key) {
                    Ok(()) => Ok(Wire::Frames(WsDecoder::new(WsRole::Client))),
                    Err(handshake::UpgradeError::Status(_)) => Err(self.refused_with(status)),
                    Err(error) => {
                        self.tally.remark(error.to_string());
                        Err(ConnectFailure::Accept)
                    }
                }
            }
            ClientTransport::Sse { .. } => self.check_stream(response, Some("text/event-stream")),
            ClientTransport::HttpStream { content_type, .. } => {
                self.check_stream(response, content_type.as_deref())
            }
            ClientTransport::Raw { .. } => match status {
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
