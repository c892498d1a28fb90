//! Compiled scenario: shared by all workers of a machine, constant but for the sequence numbers.
//!
//! Owns: templates, resolved addresses, the port plan, channels, the numbers of the last
//! publications. Never: a socket.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering};

use throng_bench_plan::payload::Scanner;
use throng_bench_plan::ports::{PortPlan, parse_port_range, parse_reserved_ports};
use throng_bench_plan::template::{HoleScope, Template, TemplateError};
use throng_bench_plan::{ChannelPlan, Data, Marker, Scenario, Target, TlsTrust, Via};
use throng_tls::{Authorities, ClientTls, Trust};
use throng_types::Rng;

#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("{}", .0.join("; "))]
    Scenario(Vec<String>),
    #[error("{0}")]
    Template(#[from] TemplateError),
    #[error("{0} cannot be resolved: {1}")]
    Resolve(String, String),
    #[error("TLS with {0}: {1}")]
    Tls(String, String),
    #[error("{limit}: {sentence}")]
    Limit {
        /// Name of the limit in its kernel: `nofile`, `ip_local_port_range`, …
        limit: &'static str,
        /// Sentence that says what is missing and what lifts it.
        sentence: String,
    },
    /// The system refused a thread, a descriptor or a port that the generator itself needs; the
    /// text names it.
    #[error("{0}: {1}")]
    System(&'static str, std::io::Error),
}

/// Share of a machine in a run: every event whose number modulo `of` is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunShare {
    pub index: u32,
    pub of: u32,
}

impl RunShare {
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Number of `count` events that fall to this share.
    pub const fn share(self, count: u64) -> u64 {
        let of = self.of as u64;
        count / of + (self.index as u64 % of < count % of) as u64
    }
}

/// Header lines: names, and templates of values.
pub(crate) type Headers = Vec<(String, Template)>;

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

/// Server to connect to, resolved once.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<ClientTls>,
    /// Host and port as they stand in `Host`.
    pub(crate) authority: String,
    pub(crate) path: Template,
    /// Path without its query, for people.
    pub(crate) shown_path: String,
}

impl Endpoint {
    fn new(target: &Target, scope: HoleScope, scenario: &Scenario) -> Result<Self, PrepareError> {
        let mut tls = target
            .tls
            .then(|| client_tls(target, &scenario.tls))
            .transpose()?;
        if scenario.http2.is_some() && matches!(scope, HoleScope::Connection) {
            tls = tls.map(ClientTls::with_http2);
        }
        let resolve = |why: String| PrepareError::Resolve(target.authority(), why);
        let mut addresses = (target.host.as_str(), target.port)
            .to_socket_addrs()
            .map_err(|error| resolve(error.to_string()))?;
        let address = addresses
            .next()
            .ok_or_else(|| resolve("it has no address".into()))?;
        Ok(Self {
            address,
            tls,
            authority: target.authority(),
            path: Template::compile(&target.path, scope, scenario.data.as_ref())?,
            shown_path: target.path.split('?').next().unwrap_or_default().to_owned(),
        })
    }

    /// Names a refusal in remarks: `401 Unauthorized at /pub`.
    pub(crate) fn refusal(&self, status: u16) -> String {
        let reason = throng_http1::reason_phrase(status);
        format!("{status} {reason} at {}", self.shown_path)
    }
}

/// Prepares TLS with a target. Each connection makes a full handshake, so that all cost the same.
fn client_tls(target: &Target, trust: &TlsTrust) -> Result<ClientTls, PrepareError> {
    let fail = |why: String| PrepareError::Tls(target.to_string(), why);
    let trust = match (trust.insecure, &trust.authorities) {
        (true, _) => Trust::Anybody,
        (false, Some(pem)) => {
            let authorities = Authorities::read(pem.as_bytes());
            Trust::Of(authorities.map_err(|error| fail(error.to_string()))?)
        }
        (false, None) => Trust::Of(Authorities::of_this_machine()),
    };
    ClientTls::new(&target.host, &trust, false).map_err(|error| fail(error.to_string()))
}

#[derive(Debug)]
pub(crate) struct PublishScript {
    pub(crate) endpoint: Endpoint,
    pub(crate) form: PublishForm,
}

#[derive(Debug)]
pub struct Script {
    pub scenario: Scenario,
    pub(crate) part: RunShare,
    pub(crate) channels: ChannelPlan,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ports: Option<PortPlan>,
    pub(crate) headers: Headers,
    pub(crate) first: Vec<Template>,
    pub(crate) token: Option<Template>,
    pub(crate) say: Option<Template>,
    pub(crate) publish: Option<PublishScript>,
    pub(crate) scanner: Scanner,
    /// Last number that this machine has published to each channel.
    sequences: Box<[AtomicU32]>,
}

impl Script {
    /// Checks and compiles a scenario, resolves its hosts and plans its ports.
    pub fn new(scenario: &Scenario, part: RunShare) -> Result<Self, PrepareError> {
        let problems = scenario.problems();
        if !problems.is_empty() {
            let sentences = problems.into_iter().map(|problem| problem.message);
            return Err(PrepareError::Scenario(sentences.collect()));
        }
        let data = scenario.data.as_ref();
        let channels = ChannelPlan::new(scenario)?;
        let endpoints = scenario
            .targets
            .iter()
            .map(|target| Endpoint::new(target, HoleScope::Connection, scenario))
            .collect::<Result<Vec<_>, _>>()?;
        let publish = scenario
            .publish
            .as_ref()
            .map(|publish| publish_script(&publish.via, scenario))
            .transpose()?;
        let (header_texts, first_texts, token_text) = scenario.transport.opening();
        let highest = (0..channels.len()).filter_map(|k| channels.nth(k)).max();
        let count = scenario
            .publish
            .as_ref()
            .map_or(0, |_| highest.unwrap_or(0) + 1);
        let sequences = (0..count).map(|_| AtomicU32::new(0)).collect();
        let ports = plan_ports(scenario, &endpoints, part)?;
        Ok(Self {
            part,
            endpoints,
            ports,
            headers: compile_headers(header_texts, HoleScope::Connection, data)?,
            first: compile_all(first_texts, data)?,
            token: token_text
                .map(|text| Template::compile(text, HoleScope::Connection, data))
                .transpose()?,
            say: scenario
                .say
                .as_ref()
                .map(|say| Template::compile(&say.text, HoleScope::Publish, data))
                .transpose()?,
            publish,
            scanner: Scanner::new(scenario.marker == Marker::Tcpkali),
            sequences,
            channels,
            scenario: scenario.clone(),
        })
    }

    pub fn clients(&self) -> u64 {
        self.part.share(self.scenario.clients)
    }

    /// Connections that clients need, which may share them; each worker and target may have one
    /// that is not full.
    pub fn connections(&self) -> u64 {
        connections(&self.scenario, self.part)
    }

    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.endpoints.iter().map(|endpoint| endpoint.address)
    }

    /// Random generator of one connection; begins anew whenever it connects.
    pub(crate) fn rng_of(&self, n: u64) -> Rng {
        Rng::for_member(self.scenario.seed, n)
    }

    /// Draws the next number for a channel. Only the publishing worker calls it.
    pub(crate) fn next_sequence(&self, channel: u32) -> u64 {
        self.sequences.get(channel as usize).map_or(0, |sequence| {
            u64::from(sequence.fetch_add(1, Ordering::AcqRel)) + 1
        })
    }

    pub(crate) fn last_sequence(&self, channel: u32) -> u64 {
        self.sequences
            .get(channel as usize)
            .map_or(0, |sequence| u64::from(sequence.load(Ordering::Acquire)))
    }

    /// Publisher of a channel on this machine. Numbers of different machines do not meet.
    pub(crate) fn publisher_of(&self, channel: u32) -> Option<u32> {
        let publish = self.scenario.publish.as_ref()?;
        Some(channel % publish.publishers + self.part.index * publish.publishers)
    }
}

/// Warm-up messages carry this publisher: they warm and are not counted.
pub(crate) const WARM_UP_PUBLISHER: u32 = u32::MAX;

fn publish_script(via: &Via, scenario: &Scenario) -> Result<PublishScript, PrepareError> {
    let data = scenario.data.as_ref();
    let (Via::Http { target, .. } | Via::WebSocket { target, .. }) = via;
    let compile = |text: &str| Template::compile(text, HoleScope::Publish, data);
    let form = match via {
        Via::Http {
            method,
            headers,
            body,
            ..
        } => PublishForm::Http {
            method: method.clone(),
            headers: compile_headers(headers, HoleScope::Publish, data)?,
            body: compile(body)?,
        },
        Via::WebSocket {
            first_frames,
            frame,
            ..
        } => PublishForm::WebSocket {
            first_frames: compile_all(first_frames, data)?,
            frame: compile(frame)?,
        },
    };
    let endpoint = Endpoint::new(target, HoleScope::Publish, scenario)?;
    Ok(PublishScript { endpoint, form })
}

fn compile_headers(
    texts: &[(String, String)],
    scope: HoleScope,
    data: Option<&Data>,
) -> Result<Headers, TemplateError> {
    texts
        .iter()
        .map(|(name, value)| Ok((name.clone(), Template::compile(value, scope, data)?)))
        .collect()
}

fn compile_all(texts: &[String], data: Option<&Data>) -> Result<Vec<Template>, TemplateError> {
    texts
        .iter()
        .map(|text| Template::compile(text, HoleScope::Connection, data))
        .collect()
}

fn connections(scenario: &Scenario, part: RunShare) -> u64 {
    /// Most workers of a machine.
    const WORKERS_MAX: usize = 64;
    let clients = part.share(scenario.clients);
    match scenario.http2 {
        None => clients,
        Some(streams) => {
            let full = clients.div_ceil(u64::from(streams.max(1)));
            clients.min(full + (WORKERS_MAX * scenario.targets.len()) as u64)
        }
    }
}

/// Keeps the source addresses that this machine of several has. On a single machine all stay: one
/// that is missing is an error that the first connect reports.
fn sources_here(sources: &[IpAddr], part: RunShare) -> Vec<IpAddr> {
    let here = |address: &&IpAddr| part.of == 1 || UdpSocket::bind((**address, 0)).is_ok();
    sources.iter().filter(here).copied().collect()
}

/// Plans ports if sources are named; otherwise the kernel's own range must hold all connections.
fn plan_ports(
    scenario: &Scenario,
    endpoints: &[Endpoint],
    part: RunShare,
) -> Result<Option<PortPlan>, PrepareError> {
    let clients = connections(scenario, part);
    let targets: Vec<SocketAddr> = endpoints.iter().map(|endpoint| endpoint.address).collect();
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
    // Every port that an ordinary process may bind.
    let start = read("ip_unprivileged_port_start").trim().parse();
    let ports = start.unwrap_or(1024).max(1)..=u16::MAX;
    let reserved = parse_reserved_ports(&read("ip_local_reserved_ports")).unwrap_or_default();
    let plan = PortPlan::new(&sources, &targets, ports, &reserved);
    plan.fits(clients).map_err(|sentence| PrepareError::Limit {
        limit: "source ports",
        sentence,
    })?;
    Ok(Some(plan))
}

#[cfg(test)]
mod tests {
    use throng_bench_plan::{ClientTransport, Dialect, Target, Workload};

    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        for (count, of) in [(0, 1), (1, 3), (10, 3), (12, 4), (7, 8)] {
            let sum: u64 = (0..of)
                .map(|index| RunShare { index, of }.share(count))
                .sum();
            assert_eq!(sum, count, "{count} over {of}");
        }
        assert_eq!(RunShare::WHOLE.share(5), 5);
    }

    #[test]
    fn what_cannot_run_is_refused_with_a_sentence() {
        let scenario = |target: &str| {
            let target = Target::parse(target).unwrap();
            Scenario::new(
                Workload::Hold,
                vec![target],
                ClientTransport::websocket(Dialect::Plain),
            )
        };
        let refuse = |scenario: &Scenario| Script::new(scenario, RunShare::WHOLE).unwrap_err();
        let mut secure = scenario("wss://127.0.0.1:1/");
        secure.tls.authorities = Some("no certificate".into());
        assert!(matches!(refuse(&secure), PrepareError::Tls { .. }));
        secure.tls.insecure = true;
        assert!(Script::new(&secure, RunShare::WHOLE).is_ok());
        let mut many = scenario("ws://127.0.0.1:1/");
        many.set_clients(1_000_000, 1e6);
        let text = refuse(&many).to_string();
        assert!(text.starts_with("ip_local_port_range"), "{text}");
        many.sources = throng_bench_plan::ports::parse_sources("127.0.0.2-3").unwrap();
        let text = refuse(&many).to_string();
        assert!(text.contains("more pairs"), "{text}");
        let mut none = scenario("ws://127.0.0.1:1/");
        none.clients = 0;
        assert!(matches!(refuse(&none), PrepareError::Scenario(_)));
    }
}
