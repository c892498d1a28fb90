//! From `[grip]` to what shards and the driver need.

use std::net::SocketAddr;
use std::sync::Arc;

use throng_auth::Verifier;
use throng_config::{Config, Grip as Section, GripRoute};
use throng_engine::MailboxSender;
use throng_gateway_grip::{
    Backends, Grip, GripOptions, GripShared, Mail, PortKind, Socket, Ticket,
};
use throng_grip::command::ZmqUris;
use throng_grip::exchange::{OriginFailure, OriginRequest};
use throng_grip::routes::{BadOrigin, Domain, Route, Routes, Target, parse_routes};
use throng_grip::sequence::SequenceLimits;
use throng_grip::sig::KeyText;
use throng_origin::{Client, Deliver, Origin, OriginOptions};
use throng_sys::random;
use throng_types::ConnId;

use crate::options::StartError;
use crate::stats::PushpinMetrics;

/// What all shards have in common.
#[derive(Clone)]
pub(crate) struct GripPlan {
    options: Arc<GripOptions>,
    origin_options: OriginOptions,
    origin: Option<Arc<Origin>>,
}

impl GripPlan {
    /// Reads the section, if it is there.
    pub(crate) fn new(config: &Config) -> Result<Option<Self>, StartError> {
        let Some(section) = &config.grip else {
            return Ok(None);
        };
        let routes = routes(section)?;
        let mut route_keys: Vec<(String, Vec<u8>)> = Vec::new();
        for text in routes.iter().filter_map(|route| route.sig_key.as_ref()) {
            if let Some(key) = key("sig_key of a route", text)? {
                route_keys.push((text.clone(), key));
            }
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
            routes,
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
            route_keys,
            body_bytes_max: config.limits.publish_bytes_max as usize,
            xff: section.forwarded_for,
            xff_trusted: section.forwarded_for_trusted,
            accept_forwarded_proto: section.accept_forwarded_proto,
            set_forwarded_proto: section.set_forwarded_proto,
            cdn_loop: section.cdn_loop.clone().unwrap_or_default(),
            uris: ZmqUris::default(),
            tells_topics: section.zmq_sub.is_some(),
            ports: ports(section).into_iter().map(|(port, _)| port).collect(),
            seed: random::seed(),
        };
        Ok(Some(Self {
            options: Arc::new(options),
            origin_options: OriginOptions {
                requests_max: section.requests_max as usize,
                tunnels_max: section.tunnels_max as usize,
                ..OriginOptions::default()
            },
            origin: None,
        }))
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
            let uri = Some(format!("tcp://{address}"));
            match port {
                PortKind::Http | PortKind::Metrics => {}
                PortKind::Zmq(Socket::Pull) => options.uris.publish_pull = uri,
                PortKind::Zmq(Socket::Sub) => options.uris.publish_sub = uri,
                PortKind::Zmq(Socket::Rep) => options.uris.command = uri,
            }
        }
    }

    /// Starts the driver; `wrap` and `unwrap` carry its mail in the server's.
    pub(crate) fn start<M: Send + 'static>(
        &mut self,
        mailboxes: &[MailboxSender<M>],
        wrap: fn(Mail) -> M,
        unwrap: fn(M) -> Option<Mail>,
    ) -> Result<(), StartError> {
        let mailboxes = mailboxes.to_vec();
        let deliver: Deliver = Arc::new(move |conn, token, event| {
            let Some(mailbox) = mailboxes.get(conn.shard().index()) else {
                return Ok(());
            };
            let mail = wrap(Mail::Origin { conn, token, event });
            mailbox.send(mail).map_err(|back| match unwrap(back) {
                Some(Mail::Origin { event, .. }) => event,
                // A mailbox gives back what it was given.
                _ => unreachable!("another mail"),
            })
        });
        let origin = Origin::start(self.origin_options, deliver);
        self.origin = Some(Arc::new(origin.map_err(StartError::Shard)?));
        Ok(())
    }

    /// One shard's way to backends, once the driver was started.
    pub(crate) fn driver(&self) -> Option<Box<dyn Backends>> {
        let origin = self.origin.as_ref()?.clone();
        Some(Box::new(Driver {
            client: origin.client(),
            _origin: origin,
        }))
    }

    /// One shard's gateway; on its thread.
    pub(crate) fn gateway(&self, backends: Box<dyn Backends>) -> Grip {
        Grip::new(GripShared::new(self.options.clone()), backends)
    }
}

/// The driver as the gateway sees it.
struct Driver {
    client: Client,
    /// Ends with the last shard.
    _origin: Arc<Origin>,
}

impl Backends for Driver {
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn Ticket>, OriginFailure> {
        let ticket = self.client.submit(conn, token, request)?;
        Ok(Box::new(DriverTicket(ticket)))
    }

    fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure> {
        self.client.tell(request)
    }
}

struct DriverTicket(throng_origin::Ticket);

impl Ticket for DriverTicket {
    fn grant(&self, bytes: usize) {
        self.0.grant(bytes);
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.0.send(bytes);
    }

    fn finish(&mut self) {
        self.0.finish();
    }
}

/// The option that names a port.
pub(crate) const fn option(port: PortKind) -> &'static str {
    match port {
        PortKind::Http => "http_publish",
        PortKind::Metrics => "prometheus",
        PortKind::Zmq(Socket::Pull) => "zmq_pull",
        PortKind::Zmq(Socket::Sub) => "zmq_sub",
        PortKind::Zmq(Socket::Rep) => "zmq_command",
    }
}

/// How Pushpin's metrics are shown.
pub(crate) fn metrics(section: &Section) -> PushpinMetrics {
    PushpinMetrics {
        prefix: section
            .prometheus_prefix
            .clone()
            .unwrap_or_else(|| "pushpin_".to_owned()),
        is_apart: section.prometheus.is_some(),
    }
}

/// The ports that are configured, in the order of their numbers.
pub(crate) fn ports(section: &Section) -> Vec<(PortKind, SocketAddr)> {
    let zmq = PortKind::Zmq;
    let all = [
        (PortKind::Http, section.http_publish),
        (zmq(Socket::Pull), section.zmq_pull),
        (zmq(Socket::Sub), section.zmq_sub),
        (zmq(Socket::Rep), section.zmq_command),
        (PortKind::Metrics, section.prometheus),
    ];
    all.into_iter()
        .filter_map(|(port, address)| Some((port, address?)))
        .collect()
}

fn key(what: &str, text: &str) -> Result<Option<Vec<u8>>, StartError> {
    let key = key_bytes(what, text)?;
    if key.as_ref().is_some_and(|key| !GripOptions::can_sign(key)) {
        return Err(StartError::Grip(format!("{what}: this key cannot sign")));
    }
    Ok(key)
}

fn upstream(text: &str) -> Result<Option<Arc<Verifier>>, StartError> {
    const WHAT: &str = "grip.upstream_key";
    let Some(key) = key_bytes(WHAT, text)? else {
        return Ok(None);
    };
    let verifier = GripOptions::upstream(&key);
    let verifier = verifier.map_err(|fault| StartError::Grip(format!("{WHAT}: {fault}")))?;
    Ok(Some(Arc::new(verifier)))
}

fn key_bytes(what: &str, text: &str) -> Result<Option<Vec<u8>>, StartError> {
    let fail = |error: String| StartError::Grip(format!("{what}: {error}"));
    let key = match KeyText::parse(text).map_err(|fault| fail(fault.to_string()))? {
        None => return Ok(None),
        Some(KeyText::Bytes(key)) => key,
        Some(KeyText::File(path)) => {
            let content = std::fs::read(&path);
            let content = content.map_err(|error| fail(format!("{path}: {error}")))?;
            KeyText::of_file(&content)
        }
    };
    Ok(Some(key))
}

fn routes(section: &Section) -> Result<Routes, StartError> {
    let mut routes = Routes::default();
    if let Some(path) = &section.routes_file {
        let fail = |error: String| StartError::Grip(format!("grip.routes_file: {path}: {error}"));
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        let file = parse_routes(&text);
        if let Some(fault) = file.faults.first() {
            return Err(fail(fault.to_string()));
        }
        for route in file.routes.iter() {
            let mut route = on_all(route.clone(), section);
            route.response_timeout_ms = section.response_timeout_ms;
            // What was taken once is taken again.
            routes.add(route).map_err(|fault| fail(fault.to_string()))?;
        }
    }
    for (index, wanted) in section.routes.iter().enumerate() {
        let fail = |error: String| StartError::Grip(format!("grip.route[{index}]: {error}"));
        let route = on_all(route(wanted).map_err(fail)?, section);
        routes.add(route).map_err(|fault| fail(fault.to_string()))?;
    }
    Ok(routes)
}

/// A route with what holds for all.
fn on_all(route: Route, section: &Section) -> Route {
    Route {
        auto_cross_origin: route.auto_cross_origin || section.cross_origin,
        debug: route.debug || section.debug,
        ..route
    }
}

fn route(wanted: &GripRoute) -> Result<Route, String> {
    let targets = wanted.origin.iter().map(|url| {
        let mut target = Target::from_url(url)?;
        target.over_http = wanted.over_http;
        Ok::<_, BadOrigin>(target)
    });
    let targets: Result<Vec<_>, _> = targets.collect();
    Ok(Route {
        domain: Domain::Any,
        path_prefix: wanted.path.clone(),
        channel_prefix: wanted.channel_prefix.clone().unwrap_or_default(),
        auto_cross_origin: wanted.cross_origin,
        debug: wanted.debug,
        connect_timeout_ms: wanted.connect_timeout_ms,
        response_timeout_ms: wanted.response_timeout_ms,
        targets: targets.map_err(|fault| fault.to_string())?,
        ..Route::default()
    })
}
