//! The request that opens a connection, and its answer.
//!
//! Owns: what is asked for, and under which reason an answer is refused.

use throng_engine::Effects;
use throng_http1::{BodyDecoder, HttpLimits, Response, ResponseBody};
use throng_types::ConnId;
use throng_ws::{WsDecoder, WsRole, handshake};

use crate::core::Core;
use crate::session::{Subscriber, Wire};
use throng_bench_measure::ConnectFailure;
use throng_bench_plan::Transport;
use throng_bench_plan::template::{Template, Values};
use throng_types::Rng;

/// Streams have no end.
const HTTP_LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: u64::MAX,
};

/// What a connection asks for.
struct Request<'a> {
    host: &'a str,
    path: String,
    headers: Vec<(&'a str, String)>,
}

impl Core<'_> {
    pub(super) fn values<'a>(&'a self, n: u32) -> Values<'a> {
        Values {
            n: u64::from(n),
            worker: u64::from(self.script.part.index),
            channel: &self.name,
            payload: &[],
        }
    }

    pub(super) fn render(&self, template: &Template, n: u32, rng: &mut Rng) -> String {
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

    pub(super) fn ws_request(
        &self,
        subscriber: &Subscriber,
        subprotocol: Option<&str>,
        out: &mut Vec<u8>,
    ) {
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

    pub(super) fn http_request(
        &self,
        subscriber: &Subscriber,
        fixed: &[(&str, &str)],
        out: &mut Vec<u8>,
    ) {
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

    /// The key of a connection's handshake: made anew when the answer is checked, so that nobody
    /// keeps it.
    fn key_of(&self, subscriber: &Subscriber) -> [u8; 16] {
        let seed = self.script.scenario.seed ^ subscriber.due_us;
        Rng::for_member(seed, u64::from(subscriber.n)).bytes()
    }

    pub(super) fn render_first(
        &self,
        n: u32,
        mut each: impl FnMut(&[u8], &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let mut rng = self.script.rng_of(u64::from(n));
        let mut text = Vec::new();
        for template in &self.script.first {
            text.clear();
            template.render(&self.values(n), &mut rng, &mut text);
            each(&text, out);
        }
    }

    pub(super) fn head_bytes(
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
        let judged = head.feed(input, &HTTP_LIMITS, |response| {
            self.judge_response(subscriber, response)
        });
        match judged {
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
                    Ok(()) => Ok(Wire::Frames(WsDecoder::new(WsRole::Client))),
                    Err(handshake::ResponseError::Status(_)) => Err(self.refused_with(status)),
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
        let goal = self.script.goals.first();
        let refusal = goal.map_or_else(|| status.to_string(), |goal| goal.refusal(status));
        self.tally.remark(refusal);
        ConnectFailure::Status
    }
}
