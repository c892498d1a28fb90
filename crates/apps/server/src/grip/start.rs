//! From `[grip]` to what shards and the driver need.

use std::net::SocketAddr;
use std::sync::Arc;

use throng_config::{Config, Grip as Section, GripRoute};
use throng_engine::Door;
use throng_grip::command::ZmqUris;
use throng_grip::proxy::XffRule;
use throng_grip::routes::{BadOrigin, Domain, Route, Routes, Target, parse_routes};
use throng_grip::sig::KeyText;
use throng_origin::{Deliver, Origin, OriginOptions};
use throng_session::{GripOptions, GripSocket};
use throng_sys::random;

use super::Grip;
use crate::build::StartError;
use crate::shard::Mail;

/// What a port of GRIP's own takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// `POST /publish/`.
    Http,
    /// A ZeroMQ socket.
    Zmq(GripSocket),
}

/// What all shards have in common.
#[derive(Clone)]
pub(crate) struct GripPlan {
    pub(crate) options: Arc<GripOptions>,
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
        let options = GripOptions {
            routes,
            sig_iss: section.sig_iss.clone(),
            sig_key,
            route_keys,
            body_bytes_max: config.limits.publish_bytes_max as usize,
            xff: XffRule {
                truncate: None,
                append: true,
            },
            cdn_loop: String::new(),
            uris: ZmqUris::default(),
            seed: random::seed(),
        };
        Ok(Some(Self {
            options: Arc::new(options),
            origin: None,
        }))
    }

    /// Notes where the ports of [`listeners`] are.
    pub(crate) fn bound(&mut self, addresses: &[(Listener, SocketAddr)]) {
        let Some(options) = Arc::get_mut(&mut self.options) else {
            return;
        };
        for &(listener, address) in addresses {
            let uri = Some(format!("tcp://{address}"));
            match listener {
                Listener::Http => {}
                Listener::Zmq(GripSocket::Pull) => options.uris.publish_pull = uri,
                Listener::Zmq(GripSocket::Sub) => options.uris.publish_sub = uri,
                Listener::Zmq(GripSocket::Rep) => options.uris.command = uri,
            }
        }
    }

    /// Starts the driver.
    pub(crate) fn start(&mut self, doors: &[Door<Mail>]) -> Result<(), StartError> {
        let doors = doors.to_vec();
        let deliver: Deliver = Arc::new(move |conn, token, event| {
            let Some(door) = doors.get(conn.shard().index()) else {
                return Ok(());
            };
            let mail = Mail::Origin { conn, token, event };
            door.send(mail).map_err(|back| match back {
                Mail::Origin { event, .. } => event,
                // A door gives back what it was given.
                _ => unreachable!("another mail"),
            })
        });
        let origin = Origin::start(OriginOptions::default(), deliver);
        self.origin = Some(Arc::new(origin.map_err(StartError::Shard)?));
        Ok(())
    }

    /// One shard's part.
    pub(crate) fn part(&self) -> Option<Grip> {
        let origin = self.origin.as_ref()?;
        Some(Grip::new(origin.client(), origin.clone()))
    }
}

impl Listener {
    /// The option that names it.
    pub(crate) const fn option(self) -> &'static str {
        match self {
            Self::Http => "http_publish",
            Self::Zmq(GripSocket::Pull) => "zmq_pull",
            Self::Zmq(GripSocket::Sub) => "zmq_sub",
            Self::Zmq(GripSocket::Rep) => "zmq_command",
        }
    }
}

/// The ports that are configured, in the order of the table.
pub(crate) fn listeners(config: &Config) -> Vec<(Listener, SocketAddr)> {
    let Some(section) = &config.grip else {
        return Vec::new();
    };
    let zmq = Listener::Zmq;
    let all = [
        (Listener::Http, section.http_publish),
        (zmq(GripSocket::Pull), section.zmq_pull),
        (zmq(GripSocket::Sub), section.zmq_sub),
        (zmq(GripSocket::Rep), section.zmq_command),
    ];
    let all = all.into_iter();
    all.filter_map(|(listener, address)| Some((listener, address?)))
        .collect()
}

fn key(what: &str, text: &str) -> Result<Option<Vec<u8>>, StartError> {
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
    if !GripOptions::can_sign(&key) {
        return Err(fail("this key cannot sign".to_owned()));
    }
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
        routes = file.routes;
    }
    for (index, wanted) in section.routes.iter().enumerate() {
        let fail = |error: String| StartError::Grip(format!("grip.route[{index}]: {error}"));
        let route = route(wanted).map_err(fail)?;
        routes.add(route).map_err(|fault| fail(fault.to_string()))?;
    }
    Ok(routes)
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
