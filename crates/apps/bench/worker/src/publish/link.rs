//! A publisher's kept connection: how it is opened, what the server answers on it, how it ends.

use throng_engine::{Closed, Effects, Ending};
use throng_http1::{BodyDecoder, Limits, parse_response};
use throng_types::ConnId;
use throng_ws::{Decoder, Opcode, Role, handshake};

use super::{Link, LinkState, Publishers, REOPEN_AFTER_US};
use crate::core::Core;
use crate::script::PublishForm;
use throng_bench_plan::template::Values;
use throng_types::Rng;

const HTTP_LIMITS: Limits = Limits {
    head_bytes_max: 32 * 1024,
    headers_max: 100,
    body_bytes_max: 16 << 20,
};
const WS_LIMITS: throng_ws::Limits = throng_ws::Limits {
    message_bytes_max: 16 << 20,
};
impl Publishers<'_> {
    /// A link's TCP stands.
    pub(crate) fn connected(
        &mut self,
        number: u32,
        id: ConnId,
        core: &mut Core<'_>,
        fx: &mut Effects<'_>,
    ) {
        let Some(link) = self.links.get_mut(number as usize) else {
            return fx.end(Ending::Now);
        };
        link.id = Some(id);
        link.partial.clear();
        link.body = None;
        link.closes = false;
        if matches!(self.form.form, PublishForm::WebSocket { .. }) {
            link.state = LinkState::Handshake;
            let mut rng = Rng::for_member(self.script.scenario.seed, u64::from(number));
            let values = Values {
                n: u64::from(number),
                ..Values::default()
            };
            let path = self.form.goal.path.render_to_string(&values, &mut rng);
            let host = &self.form.goal.authority;
            handshake::encode_request(host, &path, key_of(number), &[], fx.out);
        } else {
            self.up(number as usize, core, fx);
        }
    }

    fn up(&mut self, number: usize, core: &mut Core<'_>, fx: &mut Effects<'_>) {
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

    /// Bytes came on a link.
    pub(crate) fn bytes(
        &mut self,
        number: u32,
        input: &mut [u8],
        core: &mut Core<'_>,
        fx: &mut Effects<'_>,
    ) {
        core.tally.counters.received_bytes += input.len() as u64;
        let number = number as usize;
        let Some(link) = self.links.get_mut(number) else {
            return fx.end(Ending::Now);
        };
        match link.state {
            LinkState::Handshake => self.handshake_bytes(number, input, core, fx),
            _ if link.frames.is_some() => self.frame_bytes(number, input, core, fx),
            _ => {
                if let Err(why) = self.answer_bytes(number, input, core, fx) {
                    core.tally
                        .remark(format!("the answer to a publication: {why}"));
                    fx.end(Ending::Now);
                }
            }
        }
    }

    fn answer_bytes(
        &mut self,
        number: usize,
        input: &[u8],
        core: &mut Core<'_>,
        fx: &mut Effects<'_>,
    ) -> Result<(), String> {
        let Some(link) = self.links.get_mut(number) else {
            return Ok(());
        };
        let mut joined = std::mem::take(&mut link.partial);
        let mut rest = if joined.is_empty() {
            input
        } else {
            joined.extend_from_slice(input);
            &joined
        };
        loop {
            if let Some(body) = &mut link.body {
                let step = body.feed(rest).map_err(|fault| fault.to_string())?;
                rest = rest.get(step.consumed..).unwrap_or_default();
                if !body.is_done() {
                    if rest.is_empty() {
                        return Ok(());
                    }
                    continue;
                }
                link.body = None;
                link.unanswered.pop_front();
                if matches!(link.status, 200..=299) {
                    core.tally.counters.publish_acknowledged += 1;
                } else {
                    core.tally.counters.publish_failed += 1;
                    core.tally.remark(format!(
                        "the server answered {} to a publication",
                        link.status
                    ));
                }
                if link.closes {
                    fx.end(Ending::Now);
                    return Ok(());
                }
            }
            if rest.is_empty() {
                return Ok(());
            }
            match parse_response(rest, &HTTP_LIMITS, false) {
                Ok(None) => {
                    link.partial = rest.to_vec();
                    return Ok(());
                }
                Ok(Some((response, length))) => {
                    rest = rest.get(length..).unwrap_or_default();
                    if matches!(response.status, 100..=199) {
                        continue;
                    }
                    link.status = response.status;
                    link.closes = !response.keep_alive();
                    link.body = Some(BodyDecoder::for_response(response.body, &HTTP_LIMITS));
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    fn handshake_bytes(
        &mut self,
        number: usize,
        input: &mut [u8],
        core: &mut Core<'_>,
        fx: &mut Effects<'_>,
    ) {
        let link = &mut self.links[number];
        link.partial.extend_from_slice(input);
        let mut partial = std::mem::take(&mut link.partial);
        let length = match parse_response(&partial, &HTTP_LIMITS, false) {
            Ok(None) => {
                link.partial = partial;
                return;
            }
            Ok(Some((response, length))) => {
                let header = |name: &str| response.header(name);
                match handshake::check_response(response.status, header, key_of(number as u32)) {
                    Ok(()) => length,
                    Err(fault) => {
                        core.tally.remark(format!("a publisher: {fault}"));
                        return fx.end(Ending::Now);
                    }
                }
            }
            Err(error) => {
                core.tally
                    .remark(format!("a publisher's handshake: {error}"));
                return fx.end(Ending::Now);
            }
        };
        link.frames = Some(Decoder::new(Role::Client));
        self.up(number, core, fx);
        self.frame_bytes(
            number,
            partial.get_mut(length..).unwrap_or_default(),
            core,
            fx,
        );
    }

    fn frame_bytes(
        &mut self,
        number: usize,
        input: &mut [u8],
        core: &mut Core<'_>,
        fx: &mut Effects<'_>,
    ) {
        let Some(frames) = self
            .links
            .get_mut(number)
            .and_then(|link| link.frames.as_mut())
        else {
            return;
        };
        let fed = frames.feed(input, &WS_LIMITS, |event| {
            match event {
                throng_ws::Event::Ping(payload) => {
                    throng_ws::encode_pong(core.mask(), payload, fx.out);
                }
                throng_ws::Event::Close(_) => fx.end(Ending::Now),
                _ => {}
            }
            std::ops::ControlFlow::Continue(())
        });
        if fed.is_err() {
            fx.end(Ending::Now);
        }
    }

    /// A link is gone.
    pub(crate) fn closed(&mut self, number: u32, why: Closed, core: &mut Core<'_>) {
        let now_us = core.clock.now_us();
        let Some(link) = self.links.get_mut(number as usize) else {
            return;
        };
        link.id = None;
        link.frames = None;
        link.state = LinkState::Down;
        if link.body.take().is_some_and(|body| body.may_end_here()) {
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
    pub(super) fn back_off(&mut self, now_us: u64) {
        self.failures += 1;
        let factor = 1_u64 << self.failures.min(7).saturating_sub(1);
        self.reopen_at_us = now_us + REOPEN_AFTER_US * factor.min(100);
    }
}

/// Nobody but us reads these handshakes, so the key need not be a secret.
fn key_of(number: u32) -> [u8; 16] {
    let mut rng = Rng::new(u64::from(number) ^ 0x6b65_7973);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&rng.next_u64().to_ne_bytes());
    key[8..].copy_from_slice(&rng.next_u64().to_ne_bytes());
    key
}
