//! One of the run's clients, from TCP to usable to gone.
//!
//! Owns: the order of the stages, what each waits for, and under which reason it ends. Never: opens a socket.
//!
//! ```text
//! Connecting → Handshake → Subscribing → Usable → (ClosedByServer | Broken | Gone)
//! ```
//!
//! Invariant: each connection that was begun is counted once, as usable or under one reason of failure; each that
//! was usable is counted once as lost or closed, or is alive.

use std::ops::ControlFlow;

use throng_engine::{Closed, Effects, Ending};
use throng_http1::{BodyDecoder, Limits, Response, ResponseBody, parse_response};
use throng_types::ConnId;
use throng_ws::{Decoder, Event, Opcode, Role, handshake};

use super::centrifugo;
use super::core::{Core, moment};
use super::session::{Stage, Subscriber, Wire};
use crate::measure::{ConnectFailure, LostReason};
use crate::payload::Message;
use crate::plan::{Dialect, Kind, Transport};
use crate::rng::Rng;
use crate::template::{Template, Values};

/// Streams have no end, and a message of a server may be large.
const HTTP_LIMITS: Limits = Limits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: u64::MAX,
};
const WS_LIMITS: throng_ws::Limits = throng_ws::Limits {
    message_bytes_max: 64 << 20,
};

/// What a connection asks for.
struct Request<'a> {
    host: &'a str,
    path: String,
    headers: Vec<(&'a str, String)>,
}

/// Told by a head that is whole.
enum Head {
    /// Not yet.
    Partial,
    /// A 1xx of this length, before the real answer.
    Interim(usize),
    /// What follows the head of this length.
    Accepted(usize, Wire),
    Refused(ConnectFailure),
}

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
                    fixed.push(("Last-Event-ID", id));
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

    /// Path and header lines of a connection's request.
    fn opening(&self, subscriber: &Subscriber) -> Option<Request<'_>> {
        let script = self.script;
        let n = subscriber.n;
        let mut rng = script.rng_of(u64::from(n));
        let goal = script.goals.get(self.goal_of(n))?;
        let path = self.render(&goal.path, n, &mut rng);
        let headers = script
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), self.render(value, n, &mut rng)))
            .collect();
        Some(Request {
            host: &goal.authority,
            path,
            headers,
        })
    }

    /// Which of the targets a connection goes to.
    pub(crate) fn goal_of(&self, n: u32) -> usize {
        let own = u64::from(n) / u64::from(self.script.part.of);
        match &self.script.ports {
            Some(plan) => plan.tuple(own).map_or(0, |tuple| tuple.target_index),
            None => (own % self.script.goals.len() as u64) as usize,
        }
    }

    fn ws_request(&self, subscriber: &Subscriber, subprotocol: Option<&str>, out: &mut Vec<u8>) {
        let Some(Request {
            host,
            path,
            headers,
        }) = self.opening(subscriber)
        else {
            return;
        };
        let mut all: Vec<(&str, &str)> = headers
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        all.extend(subprotocol.map(|name| ("Sec-WebSocket-Protocol", name)));
        handshake::encode_request(host, &path, self.key_of(subscriber), &all, out);
    }

    fn http_request(&self, subscriber: &Subscriber, fixed: &[(&str, &str)], out: &mut Vec<u8>) {
        let Some(Request {
            host,
            path,
            headers,
        }) = self.opening(subscriber)
        else {
            return;
        };
        let own = headers.iter().map(|(name, value)| (*name, value.as_str()));
        let all: Vec<(&str, &str)> = fixed
            .iter()
            .copied()
            .filter(|(name, _)| {
                !headers
                    .iter()
                    .any(|(own, _)| own.eq_ignore_ascii_case(name))
            })
            .chain(own)
            .collect();
        throng_http1::encode_request("GET", &path, host, &all, None, out);
    }

    /// The key of a connection's handshake: made anew when the answer is checked, so that nobody keeps it.
    fn key_of(&self, subscriber: &Subscriber) -> [u8; 16] {
        let mut rng = Rng::for_member(
            self.script.scenario.seed ^ subscriber.due_us,
            u64::from(subscriber.n),
        );
        let mut key = [0; 16];
        key[..8].copy_from_slice(&rng.next_u64().to_ne_bytes());
        key[8..].copy_from_slice(&rng.next_u64().to_ne_bytes());
        key
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
        self.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
    }

    fn head_bytes(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        input: &mut [u8],
        fx: &mut Effects<'_>,
    ) {
        let Wire::Head(mut kept) = std::mem::replace(&mut subscriber.wire, Wire::Bytes(None))
        else {
            return;
        };
        // A head that comes in one read is parsed where it is.
        let mut joined;
        let mut rest: &mut [u8] = if kept.is_empty() {
            input
        } else {
            kept.extend_from_slice(input);
            joined = std::mem::take(&mut kept);
            &mut joined
        };
        loop {
            match self.judge_head(subscriber, rest) {
                Head::Partial => {
                    subscriber.wire = Wire::Head(rest.to_vec());
                    return;
                }
                Head::Interim(length) => rest = rest.get_mut(length..).unwrap_or_default(),
                Head::Refused(reason) => return self.fail(subscriber, reason, fx),
                Head::Accepted(length, wire) => {
                    subscriber.wire = wire;
                    self.upgraded(id, subscriber, fx);
                    let body = rest.get_mut(length..).unwrap_or_default();
                    if !body.is_empty() {
                        self.stream_bytes(id, subscriber, body, fx);
                    }
                    return;
                }
            }
        }
    }

    fn judge_head(&mut self, subscriber: &Subscriber, bytes: &[u8]) -> Head {
        let (response, length) = match parse_response(bytes, &HTTP_LIMITS, false) {
            Ok(None) => return Head::Partial,
            Ok(Some(found)) => found,
            Err(error) => {
                self.tally
                    .remark(format!("the handshake's answer: {error}"));
                return Head::Refused(ConnectFailure::BadResponse);
            }
        };
        if matches!(response.status, 100..=199) && response.status != 101 {
            return Head::Interim(length);
        }
        match self.judge_response(subscriber, &response) {
            Ok(wire) => Head::Accepted(length, wire),
            Err(reason) => Head::Refused(reason),
        }
    }

    fn judge_response(
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
                    Ok(()) => Ok(Wire::Frames(Decoder::new(Role::Client))),
                    Err(handshake::ResponseFault::Status(_)) => Err(self.refused_with(status)),
                    Err(fault) => {
                        self.tally.remark(fault.to_string());
                        Err(ConnectFailure::Accept)
                    }
                }
            }
            Transport::Sse { .. } => self.judge_stream(response, Some("text/event-stream")),
            Transport::HttpStream { content_type, .. } => {
                self.judge_stream(response, content_type.as_deref())
            }
            Transport::Raw { .. } => match status {
                101 => Ok(Wire::Bytes(None)),
                200..=299 => Ok(Wire::Bytes(None)),
                _ => Err(self.refused_with(status)),
            },
        }
    }

    fn judge_stream(
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
        self.tally
            .remark(format!("the server answered {status} to the handshake"));
        ConnectFailure::Status
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
        if subscriber.returning {
            tally.counters.reconnected += 1;
            if std::mem::take(&mut subscriber.in_storm) {
                tally.back.record_between(self.storm_at_us, now_us);
            }
            // Centrifugo says itself whether it recovered.
            if let (Some(resume), Transport::Sse { .. }) =
                (&mut subscriber.resume, &self.script.scenario.transport)
            {
                resume.awaits_first = true;
            }
        }
        self.expect(subscriber);
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
            self.to_stall.push(id);
            fx.hold(true);
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
                                // An id is all that is wanted; a fault of the stream shows below as missing messages.
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
            Wire::Head(kept) => subscriber.wire = Wire::Head(kept),
        }
    }

    fn frame(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        event: Event<'_>,
        fx: &mut Effects<'_>,
    ) {
        match event {
            Event::Message { data, .. } => self.message(id, subscriber, data, fx),
            Event::Ping(payload) => {
                self.tally.counters.pings += 1;
                throng_ws::encode_pong(self.mask(), payload, fx.out);
            }
            Event::Pong(_) => {}
            Event::Close(close) => {
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

    fn message(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        let script = self.script;
        if let Transport::WebSocket { dialect, .. } = &script.scenario.transport {
            match dialect {
                Dialect::Plain => {}
                Dialect::Centrifugo { .. } => {
                    if data == centrifugo::PING {
                        self.tally.counters.pings += 1;
                        throng_ws::encode_message(self.mask(), Opcode::Text, data, fx.out);
                        return;
                    }
                    if subscriber.resume.is_some()
                        || matches!(subscriber.stage, Stage::Subscribing(_))
                    {
                        self.centrifugo_lines(id, subscriber, data, fx);
                    }
                }
                Dialect::Appwrite => {
                    if matches!(subscriber.stage, Stage::Subscribing(_)) {
                        self.appwrite_first(id, subscriber, data, fx);
                    }
                }
            }
        }
        self.scan_frame(subscriber, data);
    }

    fn appwrite_first(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        let message: Option<serde_json::Value> = serde_json::from_slice(data).ok();
        let kind = message
            .as_ref()
            .and_then(|message| message.get("type")?.as_str());
        match kind {
            Some("connected") => self.usable(id, subscriber, fx),
            Some("error") => {
                let text = String::from_utf8_lossy(data)
                    .chars()
                    .take(160)
                    .collect::<String>();
                self.tally.remark(format!("refused: {text}"));
                self.fail(subscriber, ConnectFailure::SubscribeRefused, fx);
            }
            _ => {}
        }
    }

    fn centrifugo_lines(
        &mut self,
        id: ConnId,
        subscriber: &mut Subscriber,
        data: &[u8],
        fx: &mut Effects<'_>,
    ) {
        for line in centrifugo::lines(data).flatten() {
            if let Some(push) = line.push
                && let (Some(publication), Some(resume)) =
                    (push.publication, &mut subscriber.resume)
                && let Some((_, position)) = resume
                    .positions
                    .iter_mut()
                    .find(|(channel, _)| *channel == push.channel)
            {
                position.offset = position.offset.max(publication.offset);
            }
            let Stage::Subscribing(left) = subscriber.stage else {
                continue;
            };
            if let Some(refusal) = line.error {
                self.tally.remark(format!(
                    "refused with {} {}",
                    refusal.code,
                    refusal.message.chars().take(80).collect::<String>()
                ));
                return self.fail(subscriber, ConnectFailure::SubscribeRefused, fx);
            }
            if line.connect.is_some() && line.id == centrifugo::CONNECT_ID {
                self.centrifugo_subscribe(subscriber, fx);
            } else if let Some(subscribed) = line.subscribe {
                self.centrifugo_subscribed(subscriber, line.id, subscribed);
            } else {
                continue;
            }
            subscriber.stage = Stage::Subscribing(left - 1);
            if left == 1 {
                self.usable(id, subscriber, fx);
            }
        }
    }

    fn centrifugo_subscribe(&mut self, subscriber: &Subscriber, fx: &mut Effects<'_>) {
        let script = self.script;
        let mut frame = Vec::new();
        let channels = script.channels.of_connection(u64::from(subscriber.n));
        for (id, channel) in (centrifugo::CONNECT_ID + 1..).zip(channels) {
            let mut name = Vec::new();
            script.channels.write_name(channel, &mut name);
            let name = String::from_utf8_lossy(&name);
            let position = subscriber.resume.as_ref().and_then(|resume| {
                let held = resume
                    .positions
                    .iter()
                    .find(|(channel, _)| *channel == name);
                held.map(|(_, position)| position)
            });
            if !frame.is_empty() {
                frame.push(b'\n');
            }
            centrifugo::encode_subscribe(id, &name, position, &mut frame);
        }
        if !frame.is_empty() {
            throng_ws::encode_message(self.mask(), Opcode::Text, &frame, fx.out);
        }
    }

    fn centrifugo_subscribed(
        &mut self,
        subscriber: &mut Subscriber,
        id: u32,
        subscribed: centrifugo::Subscribed,
    ) {
        let script = self.script;
        let Some(resume) = &mut subscriber.resume else {
            return;
        };
        if subscriber.returning {
            self.tally.counters.recovered += u64::from(subscribed.recovered);
        }
        let place = id.saturating_sub(centrifugo::CONNECT_ID + 1) as usize;
        let Some(channel) = script
            .channels
            .of_connection(u64::from(subscriber.n))
            .nth(place)
        else {
            return;
        };
        let mut name = Vec::new();
        script.channels.write_name(channel, &mut name);
        let name = String::from_utf8_lossy(&name).into_owned();
        let position = super::session::Position {
            epoch: subscribed.epoch,
            offset: subscribed.offset,
        };
        match resume.positions.iter_mut().find(|(held, _)| *held == name) {
            Some((_, held)) => *held = position,
            None => resume.positions.push((name, position)),
        }
    }

    fn broken(&mut self, subscriber: &mut Subscriber, why: String, fx: &mut Effects<'_>) {
        self.tally.remark(format!("protocol: {why}"));
        if subscriber.is_pending() {
            self.fail(subscriber, ConnectFailure::BadResponse, fx);
        } else if subscriber.stage == Stage::Usable {
            subscriber.stage = Stage::Broken;
            fx.end(Ending::Now);
        }
    }

    fn said_goodbye(&mut self, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        if subscriber.is_pending() {
            self.fail(subscriber, ConnectFailure::ClosedEarly, fx);
        } else if subscriber.stage == Stage::Usable {
            subscriber.stage = Stage::ClosedByServer;
            fx.end(Ending::Flush);
        }
    }

    /// A deadline has come.
    pub(crate) fn timeout(&mut self, subscriber: &mut Subscriber, fx: &mut Effects<'_>) {
        let reason = match subscriber.stage {
            Stage::Connecting => ConnectFailure::ConnectTimeout,
            Stage::Handshake => ConnectFailure::HandshakeTimeout,
            Stage::Subscribing(_) => ConnectFailure::SubscribeTimeout,
            Stage::Usable => return self.own_deadline(subscriber, fx),
            _ => return fx.end(Ending::Now),
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

    /// Ends a usable connection because the scenario says so, and has it come back after a while if it is to.
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
            fx.end(Ending::Flush);
        } else {
            fx.end(Ending::Now);
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
        self.tally.dropped += 1;
        subscriber.stage = Stage::Gone;
        let now_us = self.clock.now_us();
        let mut left = self.take_left(subscriber);
        left.in_storm = true;
        let wait_us = backoff_us.0 + self.rng.below(backoff_us.1 - backoff_us.0 + 1);
        self.come_back(now_us + wait_us, subscriber.n, left);
        fx.end(Ending::Now);
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
            self.tally.expecting += 1;
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
