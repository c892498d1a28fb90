//! Kept connection of a publisher: its handshake, the server's answers, its end.

use std::ops::ControlFlow;

use throng_client::{ResponseEvent, ResponseReader, WebSocketClient};
use throng_engine::{Closed, Effects, End};
use throng_http1::HttpLimits;
use throng_types::ConnId;
use throng_ws::{Opcode, WsEvent};

use super::{Link, LinkState, Publishers, REOPEN_AFTER_US, Reader};
use crate::core::SharedState;
use crate::script::{Endpoint, PublishForm};
use throng_bench_plan::template::Values;
use throng_types::Rng;

/// Bytes kept of the body of a refusal, for the remark. Bound of `Link::refusal`.
const REFUSAL_BYTES_MAX: usize = 160;
const HTTP_LIMITS: HttpLimits = HttpLimits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: 16 << 20,
};
const WS_LIMITS: throng_ws::WsLimits = throng_ws::WsLimits::new(16 << 20);

impl Publishers<'_> {
    /// Begins to speak on a link whose TCP connection stands.
    pub(crate) fn connected(
        &mut self,
        number: u32,
        id: ConnId,
        core: &mut SharedState<'_>,
        fx: &mut Effects<'_>,
    ) {
        let Some(link) = self.links.get_mut(number as usize) else {
            return fx.end(End::Now);
        };
        link.id = Some(id);
        link.closes = false;
        if matches!(self.form.form, PublishForm::WebSocket { .. }) {
            link.state = LinkState::Handshake;
            let mut rng = Rng::for_member(self.script.scenario.seed, u64::from(number));
            let values = Values {
                n: u64::from(number),
                ..Values::default()
            };
            let path = self.form.endpoint.path.render_to_string(&values, &mut rng);
            let host = &self.form.endpoint.authority;
            // Nobody but us reads these handshakes, so the key need not be a secret.
            let key = Rng::new(u64::from(number) ^ 0x6b65_7973).bytes();
            let socket = WebSocketClient::open(host, &path, key, &[], WS_LIMITS, fx.out);
            link.reader = Some(Reader::Socket(socket));
        } else {
            link.reader = Some(Reader::Answers(ResponseReader::new(HTTP_LIMITS)));
            self.up(number as usize, core, fx);
        }
    }

    fn up(&mut self, number: usize, core: &mut SharedState<'_>, fx: &mut Effects<'_>) {
        self.links[number].state = LinkState::Up;
        self.links[number].failures = 0;
        if let PublishForm::WebSocket { first_frames, .. } = &self.form.form {
            let values = Values {
                n: number as u64,
                ..Values::default()
            };
            for template in first_frames {
                let mut text = Vec::new();
                template.render(&values, &mut self.rng, &mut text);
                throng_ws::encode_message(core.mask(), Opcode::Text, &text, fx.out);
            }
        }
        for sent in std::mem::take(&mut self.links[number].backlog) {
            let before = fx.out.len();
            self.encode(sent, core, fx.out);
            core.tally.counters.sent_bytes += (fx.out.len() - before) as u64;
            self.after_write(number, sent, core);
        }
    }

    pub(crate) fn bytes(
        &mut self,
        number: u32,
        input: &mut [u8],
        core: &mut SharedState<'_>,
        fx: &mut Effects<'_>,
    ) {
        core.tally.counters.received_bytes += input.len() as u64;
        let number = number as usize;
        let Some(link) = self.links.get_mut(number) else {
            return fx.end(End::Now);
        };
        let fed = match &mut link.reader {
            None => return fx.end(End::Now),
            Some(Reader::Answers(_)) => link.answers(input, &self.form.endpoint, core, fx),
            Some(Reader::Socket(socket)) => {
                let mut closed = false;
                let mask = || core.mask_key();
                let fed = socket.feed(input, mask, fx.out, |event| {
                    closed |= matches!(event, WsEvent::Close(_));
                });
                if closed {
                    fx.end(End::Now);
                }
                fed.map_err(|fault| format!("a publisher: {fault}"))
            }
        };
        if let Err(why) = fed {
            core.tally.remark(why);
            return fx.end(End::Now);
        }
        let link = &self.links[number];
        if link.state == LinkState::Handshake
            && matches!(&link.reader, Some(Reader::Socket(socket)) if socket.is_open())
        {
            self.up(number, core, fx);
        }
    }

    /// Counts the outcome of what was unanswered on a link that has ended.
    pub(crate) fn closed(&mut self, number: u32, why: Closed, core: &mut SharedState<'_>) {
        let now_us = core.clock.now_us();
        let Some(link) = self.links.get_mut(number as usize) else {
            return;
        };
        link.id = None;
        link.state = LinkState::Down;
        if let Some(Reader::Answers(mut reader)) = link.reader.take()
            && reader.end() == Ok(true)
        {
            // An answer without a length ends with its connection.
            link.unanswered.pop_front();
            core.tally.counters.publish_acknowledged += 1;
        }
        if link.closes {
            // The server said so beforehand: what came behind its last answer it has not taken.
            while let Some(sent) = link.unanswered.pop_back() {
                link.backlog.push_front(sent);
            }
            link.reopen_at_us = now_us;
        } else {
            let lost = link.unanswered.len() as u64;
            link.unanswered.clear();
            core.tally.counters.publish_failed += lost;
            if self.pace.is_some() {
                core.tally.remark(match why {
                    Closed::Error(errno) => format!(
                        "a publisher's connection failed: {}",
                        std::io::Error::from_raw_os_error(errno)
                    ),
                    _ => "a publisher's connection ended".to_owned(),
                });
            }
            link.back_off(now_us);
        }
        link.closes = false;
    }
}

impl Link {
    fn answers(
        &mut self,
        input: &[u8],
        endpoint: &Endpoint,
        core: &mut SharedState<'_>,
        fx: &mut Effects<'_>,
    ) -> Result<(), String> {
        let Some(Reader::Answers(reader)) = &mut self.reader else {
            return Ok(());
        };
        let fed = reader.feed(input, |event| {
            match event {
                ResponseEvent::Head(response) => {
                    self.status = response.status;
                    self.refusal.clear();
                    self.closes = !response.keep_alive();
                }
                ResponseEvent::Data(bytes) => {
                    if !matches!(self.status, 200..=299) {
                        let room = REFUSAL_BYTES_MAX.saturating_sub(self.refusal.len());
                        self.refusal
                            .extend_from_slice(&bytes[..bytes.len().min(room)]);
                    }
                }
                ResponseEvent::End => {
                    self.unanswered.pop_front();
                    if matches!(self.status, 200..=299) {
                        core.tally.counters.publish_acknowledged += 1;
                    } else {
                        core.tally.counters.publish_failed += 1;
                        let body = String::from_utf8_lossy(&self.refusal);
                        let refusal = endpoint.refusal(self.status);
                        core.tally
                            .remark(match body.lines().next().unwrap_or_default().trim() {
                                "" => refusal,
                                line => format!("{refusal}: {line}"),
                            });
                    }
                    if self.closes {
                        fx.end(End::Now);
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        fed.map_err(|fault| format!("the answer to a publication: {fault}"))
    }

    pub(super) fn back_off(&mut self, now_us: u64) {
        self.failures += 1;
        let factor = 1_u64 << self.failures.min(7).saturating_sub(1);
        self.reopen_at_us = now_us + REOPEN_AFTER_US * factor.min(100);
    }
}
