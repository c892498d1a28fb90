//! The scenario, compiled: what all workers of a machine share and nobody changes, save the
//! sequence numbers.
//!
//! Owns: templates, resolved addresses, the port plan, channels, the numbers of the last
//! publications. Never: a socket.

mod error;
mod goal;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use throng_bench_plan::payload::Scanner;
use throng_bench_plan::ports::{PortPlan, PortSpace, parse_port_range};
use throng_bench_plan::template::{Place, Template, TemplateError};
use throng_bench_plan::{Channels, Data, Dialect, Marker, Scenario, Transport, Via};
use throng_types::Rng;

pub use error::PrepareError;
pub(crate) use goal::Goal;
use goal::goal;

/// A machine's part of a run: every event whose number modulo `of` is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which part.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl Part {
    /// All of it.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// How many of `count` events fall to this part.
    #[must_use]
    pub const fn share(self, count: u64) -> u64 {
        let of = self.of as u64;
        count / of + (self.index as u64 % of < count % of) as u64
    }
}

/// Header lines: names, and templates of values.
pub(crate) type Headers = Vec<(String, Template)>;

/// How a publication is written.
#[derive(Debug)]
pub(crate) enum PublishForm {
    Http {
        method: String,
        headers: Headers,
        body: Template,
    },
    WebSocket {
        first_frames: Vec<Template>,
        frame: Template,
    },
}

#[derive(Debug)]
pub(crate) struct PublishScript {
    pub(crate) goal: Goal,
    pub(crate) form: PublishForm,
}

/// A scenario, ready to run on this machine.
#[derive(Debug)]
pub struct Script {
    /// What runs.
    pub scenario: Scenario,
    pub(crate) part: Part,
    pub(crate) channels: Channels,
    pub(crate) goals: Vec<Goal>,
    pub(crate) ports: Option<PortPlan>,
    pub(crate) headers: Headers,
    pub(crate) first: Vec<Template>,
    pub(crate) token: Option<Template>,
    pub(crate) say: Option<Template>,
    pub(crate) publish: Option<PublishScript>,
    pub(crate) scanner: Scanner,
    /// The last number that was published to each channel by this machine.
    sequences: Box<[AtomicU32]>,
}

impl Script {
    /// Compiles a scenario, resolves its hosts and plans its ports.
    ///
    /// # Errors
    /// Why it cannot run here.
    pub fn new(scenario: &Scenario, part: Part) -> Result<Self, PrepareError> {
        let problems = scenario.problems();
        if !problems.is_empty() {
            let sentences = problems.into_iter().map(|problem| problem.message);
            return Err(PrepareError::Scenario(sentences.collect()));
        }
        let data = scenario.data.as_ref();
        let channels = Channels::new(scenario)?;
        let goals = scenario
            .targets
            .iter()
            .map(|target| goal(target, Place::Connection, scenario))
            .collect::<Result<Vec<_>, _>>()?;
        let publish = scenario
            .publish
            .as_ref()
            .map(|publish| publish_script(&publish.via, scenario))
            .transpose()?;
        let (header_texts, first_texts, token_text) = opening(&scenario.transport);
        let sequences = if scenario.publish.is_some() {
            let numbers = (0..channels.len()).filter_map(|k| channels.nth(k)).max();
            (0..=numbers.unwrap_or(0))
                .map(|_| AtomicU32::new(0))
                .collect()
        } else {
            Box::default()
        };
        let ports = plan_ports(scenario, &goals, part)?;
        Ok(Self {
            part,
            goals,
            ports,
            headers: compile_headers(header_texts, Place::Connection, data)?,
            first: compile_all(first_texts, data)?,
            token: token_text
                .map(|text| Template::compile_with(text, Place::Connection, data))
                .transpose()?,
            say: scenario
                .say
                .as_ref()
                .map(|say| Template::compile_with(&say.text, Place::Publish, data))
                .transpose()?,
            publish,
            scanner: match scenario.marker {
                Marker::Throng => Scanner::new(),
                Marker::Tcpkali => Scanner::with_tcpkali(),
            },
            sequences,
            channels,
            scenario: scenario.clone(),
        })
    }

    /// How many connections are this machine's.
    #[must_use]
    pub fn clients(&self) -> u64 {
        self.part.share(self.scenario.clients)
    }

    /// The addresses of the scenario's targets, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.goals.iter().map(|goal| goal.address)
    }

    /// The randomness of one connection; the same whenever it connects.
    pub(crate) fn rng_of(&self, n: u64) -> Rng {
        Rng::for_member(self.scenario.seed, n)
    }

    /// The next number for a channel. Only the publishing worker calls it.
    pub(crate) fn next_sequence(&self, channel: u32) -> u64 {
        self.sequences.get(channel as usize).map_or(0, |sequence| {
            u64::from(sequence.fetch_add(1, Ordering::AcqRel)) + 1
        })
    }

    /// The last number that was published to a channel by this machine.
    pub(crate) fn last_sequence(&self, channel: u32) -> u64 {
        self.sequences
            .get(channel as usize)
            .map_or(0, |sequence| u64::from(sequence.load(Ordering::Acquire)))
    }

    /// Who publishes to a channel here. Numbers of different machines do not meet.
    pub(crate) fn publisher_of(&self, channel: u32) -> Option<u32> {
        let publish = self.scenario.publish.as_ref()?;
        Some(channel % publish.publishers + self.part.index * publish.publishers)
    }
}

/// Warm-up messages carry this publisher: they warm and are not counted.
pub(crate) const WARM_UP_PUBLISHER: u32 = u32::MAX;

fn publish_script(via: &Via, scenario: &Scenario) -> Result<PublishScript, PrepareError> {
    let data = scenario.data.as_ref();
    Ok(match via {
        Via::Http {
            target,
            method,
            headers,
            body,
        } => PublishScript {
            goal: goal(target, Place::Publish, scenario)?,
            form: PublishForm::Http {
                method: method.clone(),
                headers: compile_headers(headers, Place::Publish, data)?,
                body: Template::compile_with(body, Place::Publish, data)?,
            },
        },
        Via::WebSocket {
            target,
            first_frames,
            frame,
        } => PublishScript {
            goal: goal(target, Place::Publish, scenario)?,
            form: PublishForm::WebSocket {
                first_frames: compile_all(first_frames, data)?,
                frame: Template::compile_with(frame, Place::Publish, data)?,
            },
        },
    })
}

type Opening<'a> = (&'a [(String, String)], &'a [String], Option<&'a String>);

fn opening(transport: &Transport) -> Opening<'_> {
    match transport {
        Transport::WebSocket {
            dialect,
            first_frames,
            headers,
            ..
        } => {
            let token = match dialect {
                Dialect::Centrifugo { token } => token.as_ref(),
                _ => None,
            };
            (headers, first_frames, token)
        }
        Transport::Sse { headers } | Transport::HttpStream { headers, .. } => (headers, &[], None),
        Transport::Raw { first, .. } => (&[], first, None),
    }
}

fn compile_headers(
    texts: &[(String, String)],
    place: Place,
    data: Option<&Data>,
) -> Result<Headers, TemplateError> {
    texts
        .iter()
        .map(|(name, value)| Ok((name.clone(), Template::compile_with(value, place, data)?)))
        .collect()
}

fn compile_all(texts: &[String], data: Option<&Data>) -> Result<Vec<Template>, TemplateError> {
    texts
        .iter()
        .map(|text| Template::compile_with(text, Place::Connection, data))
        .collect()
}

/// Each machine of a run has only some of its source addresses. Alone, one that is missing here is
/// an error that the first connect tells.
fn sources_here(sources: &[std::net::IpAddr], part: Part) -> Vec<std::net::IpAddr> {
    let here = |address: &&std::net::IpAddr| {
        part.of == 1 || std::net::UdpSocket::bind((**address, 0)).is_ok()
    };
    sources.iter().filter(here).copied().collect()
}

/// A plan where sources are named; otherwise the kernel's own range must hold all connections.
fn plan_ports(
    scenario: &Scenario,
    goals: &[Goal],
    part: Part,
) -> Result<Option<PortPlan>, PrepareError> {
    let clients = part.share(scenario.clients);
    let targets: Vec<SocketAddr> = goals.iter().map(|goal| goal.address).collect();
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
    };
    let sources = sources_here(&scenario.sources, part);
    if sources.is_empty() {
        let Some((first, last)) = parse_port_range(&read("ip_local_port_range")) else {
            return Ok(None);
        };
        let mut distinct = targets;
        distinct.sort_unstable();
        distinct.dedup();
        let ports = u64::from(last - first) + 1;
        let capacity = ports * distinct.len() as u64;
        if capacity < clients {
            return Err(PrepareError::Limit {
                limit: "ip_local_port_range",
                sentence: format!(
                    "{clients} connections do not fit: the kernel has {ports} source ports for \
                     each of {} addresses of the server; name source addresses (--source \
                     127.0.0.2-127.0.0.40), whose ports are planned up to 65535, or further ports \
                     of the server",
                    distinct.len()
                ),
            });
        }
        return Ok(None);
    }
    let start = read("ip_unprivileged_port_start")
        .trim()
        .parse()
        .unwrap_or(1024);
    let space = PortSpace::all_unprivileged(start);
    let space = space
        .clone()
        .without_reserved(&read("ip_local_reserved_ports"))
        .unwrap_or(space);
    let plan = PortPlan::new(&sources, &targets, &space);
    plan.fits(clients)?;
    Ok(Some(plan))
}

#[cfg(test)]
mod tests;
