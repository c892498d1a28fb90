//! Publishers: kept connections, an open loop of publications, and the server's answers.
//!
//! Owns: when each publication is due, to which channel it goes, on which link it is written, its
//! outcome.
//!
//! Requests are pipelined: a publication leaves when it is due, whatever the answers before it are
//! doing. When the server says that it ends a connection (`Connection: close`), it has not taken
//! what came behind (RFC 9112 section 9.6), so that goes out again on the next one; when the
//! connection just ends, nobody knows, and what was unanswered counts as failed.

mod link;

use std::collections::VecDeque;

use throng_client::{ResponseReader, WebSocketClient};
use throng_engine::{Accepted, Conns};
use throng_types::ConnId;
use throng_ws::Opcode;

use crate::clock::NEVER;
use crate::core::SharedState;
use crate::script::{PublishForm, PublishScript, Script, WARM_UP_PUBLISHER};
use crate::session::Session;
use throng_bench_plan::ChannelChoice;
use throng_bench_plan::payload::Message;
use throng_bench_plan::template::{Template, Values};
use throng_types::Rng;

const BEGUN_PER_TURN: usize = 512;
/// Most publications that wait for a link that is down; later ones have failed.
const BACKLOG_MAX: usize = 65_536;
/// First wait before a lost link is opened again; it doubles up to a hundred times as much.
const REOPEN_AFTER_US: u64 = 20_000;

#[derive(Clone, Copy)]
struct Sent {
    channel: u32,
    sequence: u64,
    due_us: u64,
    warm_up: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum LinkState {
    #[default]
    Down,
    Connecting,
    // A WebSocket's handshake is under way.
    Handshake,
    Up,
}

enum Reader {
    Answers(ResponseReader),
    Socket(WebSocketClient),
}

#[derive(Default)]
struct Link {
    state: LinkState,
    id: Option<ConnId>,
    // There from the moment that TCP stands.
    reader: Option<Reader>,
    // Of the answer at hand.
    status: u16,
    /// Beginning of its body, if it is a refusal. Bound: 160 bytes.
    refusal: Vec<u8>,
    // The server ends this connection after the answer at hand.
    closes: bool,
    unanswered: VecDeque<Sent>,
    backlog: VecDeque<Sent>,
    reopen_at_us: u64,
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishPace {
    /// Publications a second of all machines together.
    pub per_s: f64,
    pub begin_us: u64,
    /// Time from which none is due, in µs.
    pub end_us: u64,
    pub warm_up: bool,
}

/// Due time of the k-th event of a pace; none after its end.
fn due_at(pace: &PublishPace, k: u64) -> Option<u64> {
    let due_us = pace.begin_us + (k as f64 / pace.per_s * 1e6) as u64;
    (due_us < pace.end_us).then_some(due_us)
}

/// Number of events of a pace that are due before a moment.
fn due_until(pace: &PublishPace, until_us: u64) -> u64 {
    let span_us = until_us.saturating_sub(pace.begin_us);
    (span_us as f64 / 1e6 * pace.per_s).ceil() as u64
}

pub(crate) struct Publishers<'s> {
    script: &'s Script,
    form: &'s PublishScript,
    links: Vec<Link>,
    pace: Option<PublishPace>,
    // Number of the next event of the pace, over all machines.
    next: u64,
    // Publications so far: the round of channels goes on when the pace changes.
    round: u64,
    rng: Rng,
    // Header values, where they are constant.
    fixed_headers: Option<Vec<String>>,
    payload: Vec<u8>,
    name: Vec<u8>,
    warm_up_sequence: u64,
}

impl<'s> Publishers<'s> {
    pub(crate) fn new(script: &'s Script) -> Option<Self> {
        let form = script.publish.as_ref()?;
        let publish = script.scenario.publish.as_ref()?;
        let fixed_headers = match &form.form {
            PublishForm::Http { headers, .. }
                if headers.iter().all(|(_, value)| value.is_constant()) =>
            {
                let mut rng = Rng::new(0);
                let values = Values::default();
                let mut render = |value: &Template| value.render_to_string(&values, &mut rng);
                Some(headers.iter().map(|(_, value)| render(value)).collect())
            }
            _ => None,
        };
        Some(Self {
            script,
            form,
            links: (0..publish.publishers).map(|_| Link::default()).collect(),
            pace: None,
            next: 0,
            round: u64::from(script.part.index),
            rng: Rng::for_member(
                script.scenario.seed ^ 0x7075_6273,
                u64::from(script.part.index),
            ),
            fixed_headers,
            payload: Vec::new(),
            name: Vec::new(),
            warm_up_sequence: 0,
        })
    }

    /// Begins a new pace. Events of the one before that were due and not begun are missed.
    pub(crate) fn set_pace(&mut self, pace: PublishPace, core: &mut SharedState<'_>) {
        self.end_pace(core);
        self.next = u64::from(self.script.part.index);
        self.pace = Some(pace);
    }

    pub(crate) fn end_pace(&mut self, core: &mut SharedState<'_>) {
        let Some(pace) = self.pace.take() else {
            return;
        };
        let now_us = core.clock.now_us();
        let until_us = pace.end_us.min(now_us);
        let of = u64::from(self.script.part.of);
        let due = due_until(&pace, until_us);
        let missed = due.saturating_sub(self.next).div_ceil(of);
        core.tally.counters.missed_events += missed;
        core.tally.due_events += missed;
    }

    /// Time of the next event or reconnect, in µs.
    pub(crate) fn next_us(&self) -> u64 {
        let event = self.pace.as_ref().and_then(|pace| due_at(pace, self.next));
        let down = |link: &&Link| link.state == LinkState::Down && self.is_needed(link);
        let reopen = self.links.iter().filter(down).map(|link| link.reopen_at_us);
        event.into_iter().chain(reopen).min().unwrap_or(NEVER)
    }

    /// Begins due publications, and opens links that are down. Returns true if more are due.
    pub(crate) fn turn(&mut self, core: &mut SharedState<'_>, conns: &mut Conns<Session>) -> bool {
        let now_us = core.clock.now_us();
        self.open_links(now_us, core, conns);
        for _ in 0..BEGUN_PER_TURN {
            let Some(pace) = self.pace else { return false };
            let Some(due_us) = due_at(&pace, self.next) else {
                return false;
            };
            let now_us = core.clock.now_us();
            if due_us > now_us {
                return false;
            }
            self.next += u64::from(self.script.part.of);
            core.tally.due_events += 1;
            core.tally.interval.begun_late(due_us, now_us);
            self.begin(due_us, pace.warm_up, core, conns);
        }
        true
    }

    /// Returns true if a link has something to carry, now or soon.
    fn is_needed(&self, link: &Link) -> bool {
        self.pace.is_some() || !link.backlog.is_empty()
    }

    fn open_links(&mut self, now_us: u64, core: &mut SharedState<'_>, conns: &mut Conns<Session>) {
        for number in 0..self.links.len() {
            let link = &self.links[number];
            let rests = link.state != LinkState::Down || link.reopen_at_us > now_us;
            if rests || !self.is_needed(link) {
                continue;
            }
            let link = &mut self.links[number];
            let accepted = Accepted {
                session: Session::Publisher(number as u32),
                tag: 0,
                deadline: None,
            };
            let endpoint = &self.form.endpoint;
            let opened = match &endpoint.tls {
                None => conns.connect(None, endpoint.address, accepted),
                Some(tls) => conns.connect_secure(None, endpoint.address, accepted, tls),
            };
            match opened {
                Ok(_) => link.state = LinkState::Connecting,
                Err(error) => {
                    core.tally
                        .remark(format!("a publisher cannot connect: {error}"));
                    link.back_off(now_us);
                }
            }
        }
    }

    fn begin(
        &mut self,
        due_us: u64,
        warm_up: bool,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) {
        let channels = &self.script.channels;
        let count = u64::from(channels.len());
        if count == 0 {
            return;
        }
        let publish = self.script.scenario.publish.as_ref();
        let rank = match publish.map(|publish| publish.choose) {
            Some(ChannelChoice::Random) => self.rng.below(count),
            _ => self.round % count,
        };
        self.round += u64::from(self.script.part.of);
        let Some(channel) = channels.nth(rank as u32) else {
            return;
        };
        let number = channel as usize % self.links.len();
        let link = &mut self.links[number];
        if link.backlog.len() >= BACKLOG_MAX {
            core.tally.counters.publish_failed += 1;
            core.tally
                .remark("a publisher's link was down for too long".to_owned());
            return;
        }
        let sequence = if warm_up {
            self.warm_up_sequence += 1;
            self.warm_up_sequence
        } else {
            self.script.next_sequence(channel)
        };
        core.tally.counters.published += 1;
        let sent = Sent {
            channel,
            sequence,
            due_us,
            warm_up,
        };
        match (link.state, link.id) {
            (LinkState::Up, Some(id)) if !link.closes => self.write(number, id, sent, core, conns),
            _ => link.backlog.push_back(sent),
        }
    }

    fn write(
        &mut self,
        number: usize,
        id: ConnId,
        sent: Sent,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) {
        let mut out = std::mem::take(&mut core.scratch);
        out.clear();
        self.encode(sent, core, &mut out);
        core.tally.counters.sent_bytes += out.len() as u64;
        conns.with(id, |_, fx| fx.out.extend_from_slice(&out));
        core.scratch = out;
        self.after_write(number, sent, core);
    }

    fn after_write(&mut self, number: usize, sent: Sent, core: &mut SharedState<'_>) {
        match self.form.form {
            PublishForm::Http { .. } => self.links[number].unanswered.push_back(sent),
            // Nobody answers on a WebSocket: written is as good as it gets.
            PublishForm::WebSocket { .. } => core.tally.counters.publish_acknowledged += 1,
        }
    }

    fn encode(&mut self, sent: Sent, core: &mut SharedState<'_>, out: &mut Vec<u8>) {
        let script = self.script;
        let Some(publish) = &script.scenario.publish else {
            return;
        };
        let publisher = if sent.warm_up {
            WARM_UP_PUBLISHER
        } else {
            script.publisher_of(sent.channel).unwrap_or(0)
        };
        let message = Message {
            publisher,
            channel: sent.channel,
            sequence: sent.sequence,
            due_us: sent.due_us,
        };
        self.payload.clear();
        // The size was checked with the scenario, and 2^48 messages are more than a run has.
        let _ = message.encode(publish.size_bytes, &mut self.payload);
        self.name.clear();
        script.channels.write_name(sent.channel, &mut self.name);
        let values = Values {
            n: sent.sequence,
            worker: u64::from(script.part.index),
            channel: str::from_utf8(&self.name).unwrap_or_default(),
            payload: &self.payload,
        };
        match &self.form.form {
            PublishForm::Http {
                method,
                headers,
                body,
            } => {
                let mut text = Vec::with_capacity(self.payload.len() + 64);
                body.render(&values, &mut self.rng, &mut text);
                let path = self
                    .form
                    .endpoint
                    .path
                    .render_to_string(&values, &mut self.rng);
                let rendered: Vec<String>;
                let fixed = match &self.fixed_headers {
                    Some(fixed) => fixed,
                    None => {
                        let rng = &mut self.rng;
                        rendered = headers
                            .iter()
                            .map(|(_, value)| value.render_to_string(&values, rng))
                            .collect();
                        &rendered
                    }
                };
                let all: Vec<(&str, &str)> = headers
                    .iter()
                    .zip(fixed)
                    .map(|((name, _), value)| (name.as_str(), value.as_str()))
                    .collect();
                let host = &self.form.endpoint.authority;
                throng_http1::encode_request(method, &path, host, &all, Some(&text), out);
            }
            PublishForm::WebSocket { frame, .. } => {
                let mut text = Vec::with_capacity(self.payload.len() + 64);
                frame.render(&values, &mut self.rng, &mut text);
                throng_ws::encode_message(core.mask(), Opcode::Text, &text, out);
            }
        }
    }

    /// Number of publications that are written and not answered, or wait for a link.
    pub(crate) fn outstanding(&self) -> u64 {
        let of = |link: &Link| link.unanswered.len() + link.backlog.len();
        self.links.iter().map(of).sum::<usize>() as u64
    }

    pub(crate) fn give_up(&mut self, core: &mut SharedState<'_>) {
        core.tally.counters.publish_failed += self.outstanding();
        for link in &mut self.links {
            link.unanswered.clear();
            link.backlog.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_has_its_events_and_no_more() {
        let pace = PublishPace {
            per_s: 1000.0,
            begin_us: 5_000_000,
            end_us: 6_000_000,
            warm_up: false,
        };
        assert_eq!(due_at(&pace, 0), Some(5_000_000));
        assert_eq!(due_at(&pace, 999), Some(5_999_000));
        assert_eq!(due_at(&pace, 1000), None);
        assert_eq!(due_until(&pace, 6_000_000), 1000);
        assert_eq!(due_until(&pace, 5_500_000), 500);
        assert_eq!(due_until(&pace, 1), 0);
    }
}
