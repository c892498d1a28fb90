//! From `[grip]` to what shards and the driver need.

pub(crate) mod reload;
pub(crate) mod routes;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use throng_auth::Verifier;
use throng_config::{Config, ForwardedFor, Grip as Section};
use throng_engine::MailboxSender;
use throng_gateway_grip::{
    Grip, GripOptions, GripShared, Mail as GripMail, OriginClient, OriginExchange, PortKind,
    StatsOptions, ZmqSocket,
};
use throng_grip::command::ZmqUris;
use throng_grip::proxy::XffRule;
use throng_grip::sequence::SequenceLimits;
use throng_grip::stats::StatsFormat;
use throng_http1::origin::{OriginEvent, OriginFailure, OriginRequest};
use throng_sys::random;
use throng_types::{ConnId, lock};

use super::GatewayMail;
use super::origin::{Client, Deliver, Origin, OriginOptions};
use crate::options::StartError;
use crate::shard::ShardMail;
use crate::stats::PushpinMetrics;
use reload::{Reload, Watch};

#[derive(Clone)]
pub(crate) struct GripPlan {
    options: Arc<GripOptions>,
    origin_options: OriginOptions,
    origin: Option<Arc<Origin>>,
    /// Taken at the start.
    watch: Arc<Mutex<Option<Watch>>>,
    reload: Reload,
}

impl GripPlan {
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, StartError> {
        let Some(section) = &config.grip else {
            return Ok(None);
        };
        // Skipped lines were reported when the configuration was read.
        let read = routes::read(section);
        if let Some(fault) = read.refused.into_iter().next() {
            return Err(StartError::Grip(fault));
        }
        let sig_key = match &section.sig_key {
            Some(secret) => key("grip.sig_key", secret.expose())?,
            None => None,
        };
        let upstream = match &section.upstream_key {
            Some(secret) => upstream(secret.expose())?,
            None => None,
        };
        let options = GripOptions {
            book: Arc::new(read.book),
            upstream,
            accept_route: section.accept_pushpin_route,
            own_endpoints: section.own_endpoints,
            channels_max: section.channels_per_connection as usize,
            order: SequenceLimits {
                wait_ms: section.message_wait_ms,
                id_ttl_ms: section.id_cache_ttl_ms,
                ..SequenceLimits::default()
            },
            sig_iss: section.sig_iss.clone(),
            sig_key,
            body_bytes_max: config.limits.publish_bytes_max as usize,
            xff: rule(section.forwarded_for),
            xff_trusted: rule(section.forwarded_for_trusted),
            accept_forwarded_proto: section.accept_forwarded_proto,
            set_forwarded_proto: section.set_forwarded_proto,
            cdn_loop: section.cdn_loop.clone().unwrap_or_default(),
            uris: ZmqUris::default(),
            tells_topics: section.zmq_sub.is_some(),
            stats: statistics(section),
            ports: ports(section).into_iter().map(|(port, _)| port).collect(),
            seed: random::seed(),
        };
        let (reload, watch) = reload::channel(section);
        Ok(Some(Self {
            options: Arc::new(options),
            watch: Arc::new(Mutex::new(Some(watch))),
            reload,
            origin_options: OriginOptions {
                requests_max: section.requests_max as usize,
                tunnels_max: section.tunnels_max as usize,
                ..OriginOptions::default()
            },
            origin: None,
        }))
    }

    /// The way to other routes while the server runs.
    pub(crate) fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// Channels that a client may be held in; 0 for as many as any connection may have.
    pub(crate) fn channels_max(&self) -> usize {
        self.options.channels_max
    }

    /// Notes where the own ports are, in their order.
    pub(crate) fn bound(&mut self, addresses: &[SocketAddr]) {
        let Some(options) = Arc::get_mut(&mut self.options) else {
            return;
        };
        for (port, address) in options.ports.iter().zip(addresses) {
            // Whoever asks puts the host there by which it reached us.
            let uri = Some(match address.ip().is_unspecified() {
                true => format!("tcp://*:{}", address.port()),
                false => format!("tcp://{address}"),
            });
            match port {
                PortKind::Http | PortKind::Metrics | PortKind::Stats => {}
                PortKind::Zmq(ZmqSocket::Pull) => options.uris.publish_pull = uri,
                PortKind::Zmq(ZmqSocket::Sub) => options.uris.publish_sub = uri,
                PortKind::Zmq(ZmqSocket::Rep) => options.uris.command = uri,
            }
        }
    }

    pub(crate) fn start(
        &mut self,
        mailboxes: &[MailboxSender<ShardMail>],
    ) -> Result<(), StartError> {
        let mailboxes = mailboxes.to_vec();
        if let Some(watch) = lock(&self.watch).take() {
            watch.start(mailboxes.clone()).map_err(StartError::Shard)?;
        }
        let deliver: Deliver =
            Arc::new(move |conn, token, event| deliver(&mailboxes, conn, token, event));
        let origin = Origin::start(self.origin_options, deliver);
        self.origin = Some(Arc::new(origin.map_err(StartError::Shard)?));
        Ok(())
    }

    /// One shard's way to backends, once the driver was started.
    pub(crate) fn driver(&self) -> Option<Box<dyn OriginClient>> {
        let origin = self.origin.as_ref()?.clone();
        Some(Box::new(Driver {
            client: origin.client(),
            _origin: origin,
            _reload: self.reload.clone(),
        }))
    }

    /// One shard's gateway; on its thread.
    pub(crate) fn gateway(&self, backends: Box<dyn OriginClient>) -> Grip {
        Grip::new(GripShared::new(self.options.clone()), backends)
    }
}

/// Delivers a backend's event to the shard of its connection. Error: the event, if the shard has no
/// room or has ended.
pub(crate) fn deliver(
    mailboxes: &[MailboxSender<ShardMail>],
    conn: ConnId,
    token: u32,
    event: OriginEvent,
) -> Result<(), OriginEvent> {
    let Some(mailbox) = mailboxes.get(conn.shard().index()) else {
        return Ok(());
    };
    let mail = GripMail::Origin { conn, token, event };
    let sent = mailbox.send(ShardMail::to_gateway(GatewayMail::Grip(mail)));
    sent.map_err(|back| match back.into_gateway() {
        Some(GatewayMail::Grip(GripMail::Origin { event, .. })) => event,
        // A mailbox gives back what it was given.
        _ => unreachable!("another mail"),
    })
}

/// The driver as the gateway sees it.
struct Driver {
    client: Client,
    /// Ends with the last shard.
    _origin: Arc<Origin>,
    /// While a shard has it, the routes are watched.
    _reload: Reload,
}

impl OriginClient for Driver {
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn OriginExchange>, OriginFailure> {
        let ticket = self.client.submit(conn, token, request)?;
        Ok(Box::new(ticket))
    }

    fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure> {
        self.client.tell(request)
    }
}

pub(crate) const fn option(port: PortKind) -> &'static str {
    match port {
        PortKind::Http => "http_publish",
        PortKind::Metrics => "prometheus",
        PortKind::Stats => "zmq_stats",
        PortKind::Zmq(ZmqSocket::Pull) => "zmq_pull",
        PortKind::Zmq(ZmqSocket::Sub) => "zmq_sub",
        PortKind::Zmq(ZmqSocket::Rep) => "zmq_command",
    }
}

/// Returns the form in which Pushpin's metrics are shown.
pub(crate) fn metrics(section: &Section) -> PushpinMetrics {
    PushpinMetrics {
        prefix: section
            .prometheus_prefix
            .clone()
            .unwrap_or_else(|| "pushpin_".to_owned()),
        is_apart: section.prometheus.is_some(),
    }
}

const fn rule(option: ForwardedFor) -> XffRule {
    XffRule {
        truncate: option.truncate,
        append: option.append,
    }
}

/// Returns the options of reports for `zmq_stats`; `None` without that port.
fn statistics(section: &Section) -> Option<StatsOptions> {
    section.zmq_stats?;
    Some(StatsOptions {
        format: match section.stats_json {
            true => StatsFormat::Json,
            false => StatsFormat::Tnetstring,
        },
        report_interval_ms: section.stats_report_interval_ms,
        sends_connections: section.stats_connections,
        connection_ttl_ms: section.stats_connection_ttl_ms,
        subscription_ttl_ms: section.stats_subscription_ttl_ms,
        linger_ms: section.subscription_linger_ms,
    })
}

/// The ports that are configured, in the order of their numbers.
pub(crate) fn ports(section: &Section) -> Vec<(PortKind, SocketAddr)> {
    let zmq = PortKind::Zmq;
    let all = [
        (PortKind::Http, section.http_publish),
        (zmq(ZmqSocket::Pull), section.zmq_pull),
        (zmq(ZmqSocket::Sub), section.zmq_sub),
        (zmq(ZmqSocket::Rep), section.zmq_command),
        (PortKind::Metrics, section.prometheus),
        (PortKind::Stats, section.zmq_stats),
    ];
    all.into_iter()
        .filter_map(|(port, address)| Some((port, address?)))
        .collect()
}

fn key(what: &str, text: &str) -> Result<Option<Vec<u8>>, StartError> {
    routes::signing_key(what, text, Path::new("")).map_err(StartError::Grip)
}

fn upstream(text: &str) -> Result<Option<Arc<Verifier>>, StartError> {
    const WHAT: &str = "grip.upstream_key";
    let key = routes::key_bytes(WHAT, text, Path::new(""));
    let Some(key) = key.map_err(StartError::Grip)? else {
        return Ok(None);
    };
    let verifier = GripOptions::upstream(&key);
    let verifier = verifier.map_err(|fault| StartError::Grip(format!("{WHAT}: {fault}")))?;
    Ok(Some(Arc::new(verifier)))
}
