//! `throng probe`: clients of each protocol subscribe, and what is published must come, once and in
//! time.
//!
//! Owns: the list of protocols, the verdict and its forms. The clients are those of the load
//! generator, a run of one for each protocol; the runs go on side by side.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::str::FromStr;
use std::thread;

use serde_json::{Value, json};
use throng_bench_fleet::{Finished, RunOptions, WatchServer, run_scenario};
use throng_bench_plan::template::escape;
use throng_bench_plan::{
    ChannelChoice, ClientTransport, Dialect, Publish, Scenario, TlsTrust, Via, Workload,
};
use throng_bench_report::live::{METRICS_TYPE, read_get, whole};
use throng_types::ChannelName;
use throng_types::fill::fill;
use throng_types::units::parse_duration_us;

use crate::commands::publish::said;
use crate::commands::subscribe::try_once;
use crate::console::{self, Paint};
use crate::exit::{Exit, Failure, Result};
use crate::http::{ApiArgs, Endpoint};

/// Publications to each client, and their rate.
const PUBLISHED: u64 = 5;
const PER_S: f64 = 20.0;
const MESSAGE_BYTES: usize = 128;
/// Bytes of the longest configuration that is read to learn what is on.
const CONFIG_BYTES_MAX: usize = 4 << 20;

/// Try a server as its clients do: connect, subscribe, publish, and time what comes
///
/// A client of each protocol subscribes to a channel of its own through --server; five messages are
/// published there through --api. Ends with 0 if all came, once, in order and in time; with 1 if a
/// protocol failed, and with 5 if no client reached the server.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  throng probe
  throng probe --server https://push.example.com --api http://10.0.0.5:8001 --speak sse,websocket
  throng probe --listen 127.0.0.1:9710      (metrics: deploy/prometheus/slo.yml)")]
pub(crate) struct Args {
    /// Address that clients connect to: the port for clients, or what stands before it
    #[arg(
        long,
        value_name = "URL",
        env = "THRONG_SERVER_URL",
        default_value = "http://127.0.0.1:8000"
    )]
    server: Endpoint,
    #[command(flatten)]
    api: ApiArgs,
    /// A token for clients (`throng token create` makes one)
    #[arg(long, env = "THRONG_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Protocols: websocket, centrifugo, sse, stream, http2, pusher:ID:KEY, appwrite:PROJECT and
    /// grip:/PATH/{channel}; by default those that the server's configuration has, if the key may
    /// read it, but for GRIP
    #[arg(long, value_name = "PROTOCOLS", value_delimiter = ',')]
    speak: Vec<Protocol>,
    /// Beginning of the names of channels; each client adds a name that nobody else has
    #[arg(long, value_name = "NAME", default_value = "probe")]
    channel: String,
    /// Time in which a client must have subscribed, and a message must come
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us, default_value = "5s")]
    within: u64,
    /// Print the outcome as JSON
    #[arg(long, conflicts_with = "listen")]
    json: bool,
    /// Listen here, and probe whenever somebody asks for /metrics, until Ctrl-C
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Protocol {
    WebSocket,
    Centrifugo,
    Sse,
    Stream,
    /// Event streams over HTTP/2.
    Http2,
    /// Id of the app, and the path that its clients connect to.
    Pusher(String, String),
    /// Id of the project.
    Appwrite(String),
    /// Path at which a back end holds the channel that the path names, a template.
    Grip(String),
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(path) = text.strip_prefix("grip:/") {
            return match path.contains("{channel") {
                true => Ok(Self::Grip(format!("/{path}"))),
                false => Err(format!(
                    "the path has to say where the channel's name stands: grip:/{path}{{channel}}"
                )),
            };
        }
        let parts: Vec<&str> = text.split(':').collect();
        Ok(match parts[..] {
            ["websocket"] => Self::WebSocket,
            ["centrifugo"] => Self::Centrifugo,
            ["sse"] => Self::Sse,
            ["stream"] => Self::Stream,
            ["http2"] => Self::Http2,
            ["pusher", id, key] => Self::Pusher(id.to_owned(), format!("/app/{key}")),
            ["appwrite", project] => Self::Appwrite(project.to_owned()),
            _ => {
                return Err(
                    "expected websocket, centrifugo, sse, stream, http2, pusher:ID:KEY, \
                     appwrite:PROJECT or grip:/PATH/{channel}"
                        .to_owned(),
                );
            }
        })
    }
}

impl Protocol {
    /// Returns the name under which the outcome is told.
    fn name(&self) -> String {
        match self {
            Self::WebSocket => "websocket".to_owned(),
            Self::Centrifugo => "centrifugo".to_owned(),
            Self::Sse => "sse".to_owned(),
            Self::Stream => "stream".to_owned(),
            Self::Http2 => "http2".to_owned(),
            Self::Pusher(id, _) => format!("pusher:{id}"),
            Self::Appwrite(project) => format!("appwrite:{project}"),
            Self::Grip(_) => "grip".to_owned(),
        }
    }

    /// Lists the protocols of a configuration as the API port shows it; without one, those that no
    /// option turns off.
    fn all_on(config: &Value, by_tls: bool) -> Vec<Self> {
        let option = |path: &str| {
            let options = config["options"].as_array().into_iter().flatten();
            let mut found = options.filter(|option| option["option"] == path);
            let value = found.next()?["value"].as_str()?;
            Some(value.trim_matches('"').to_owned())
        };
        let mut all = vec![Self::WebSocket, Self::Centrifugo, Self::Sse, Self::Stream];
        match option("listen.http2").as_deref() {
            Some("plain") => all.push(Self::Http2),
            Some("tls") if by_tls => all.push(Self::Http2),
            _ => {}
        }
        let base = option("pusher.path").unwrap_or_default();
        for n in 0.. {
            let of_app = |name: &str| option(&format!("app[{n}].{name}"));
            let Some((id, key)) = of_app("id").zip(of_app("key")) else {
                break;
            };
            if of_app("enabled").as_deref() != Some("false") {
                all.push(Self::Pusher(id, format!("{base}/app/{key}")));
            }
        }
        let projects = (0..).map_while(|n| option(&format!("appwrite.project[{n}].id")));
        // Any project will do where all are served.
        all.extend(projects.map(|id| Self::Appwrite(id.replace('*', "probe"))));
        all
    }

    fn transport(&self, token: Option<&str>) -> (String, ClientTransport) {
        let bearer = token.map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
        let bearer: Vec<(String, String)> = bearer.into_iter().collect();
        let socket = |dialect, first_frames: &[&str], headers| ClientTransport::WebSocket {
            dialect,
            first_frames: first_frames.iter().map(|&frame| frame.to_owned()).collect(),
            headers,
            subprotocol: None,
            ping_interval_us: None,
        };
        let path = match self {
            Self::WebSocket => "/ws?channel={channel:url}".to_owned(),
            Self::Centrifugo => "/connection/websocket".to_owned(),
            Self::Sse | Self::Http2 => "/sse?channel={channel:url}".to_owned(),
            Self::Stream => "/stream?channel={channel:url}".to_owned(),
            Self::Pusher(_, path) => format!("{}?protocol=7&client=throng-probe", escape(path)),
            Self::Appwrite(project) => format!(
                "/v1/realtime?project={}&channels[]={{channel:url}}",
                escape(project)
            ),
            Self::Grip(path) => path.clone(),
        };
        let transport = match self {
            Self::WebSocket => socket(Dialect::Plain, &[], bearer),
            Self::Centrifugo => {
                let token = token.map(str::to_owned);
                socket(Dialect::Centrifugo { token }, &[], Vec::new())
            }
            Self::Sse | Self::Http2 => ClientTransport::Sse { headers: bearer },
            Self::Stream | Self::Grip(_) => ClientTransport::HttpStream {
                headers: bearer,
                content_type: None,
            },
            Self::Pusher(..) => {
                let subscribe = r#"{"event":"pusher:subscribe","data":{"channel":"{channel}"}}"#;
                socket(Dialect::Plain, &[subscribe], Vec::new())
            }
            Self::Appwrite(_) => socket(Dialect::Appwrite, &[], Vec::new()),
        };
        (path, transport)
    }

    /// Makes the call of the API that publishes to the channel of the client.
    fn via(&self, args: &ApiArgs) -> Via {
        let api = args.api.at("");
        let mut via = Via::centrifugo(&api, args.api_key.as_deref());
        if let Via::Http { target, body, .. } = &mut via {
            let mut path = "/api/publish";
            match self {
                Self::Pusher(id, _) => {
                    let channel = format!("pusher:{}:{{channel}}", escape(id));
                    *body = body.replace("{channel}", &channel);
                }
                Self::Appwrite(project) => {
                    path = "/v1/realtime/events";
                    let event = include_str!("probe_event.json").trim_end();
                    *body = event.replace("PROJECT", &escape(project));
                }
                Self::Grip(_) => {
                    path = "/publish/";
                    if let Via::Http { body: items, .. } = Via::grip(&api) {
                        *body = items;
                    }
                }
                _ => {}
            }
            *target = args.api.at(path);
        }
        via
    }

    fn scenario(&self, args: &Args, tls: TlsTrust) -> Scenario {
        let token = args.token.as_deref().map(escape);
        let (path, transport) = self.transport(token.as_deref());
        let mut scenario = Scenario::new(Workload::FanOut, vec![args.server.at(&path)], transport);
        let (kind, own) = (self.name(), throng_sys::random::seed());
        let kind = kind.split(':').next().unwrap_or_default();
        scenario.channels = vec![format!("{}-{kind}-{own:016x}", escape(&args.channel))];
        scenario.set_clients(1, 100.0);
        scenario.http2 = matches!(self, Self::Http2).then_some(1);
        scenario.tls = tls;
        scenario.connect_timeout_us = args.within;
        scenario.hold_us = (PUBLISHED as f64 / PER_S * 1e6) as u64;
        scenario.grace_us = args.within;
        scenario.publish = Some(Publish {
            via: self.via(&args.api),
            per_s: PER_S,
            publishers: 1,
            size_bytes: MESSAGE_BYTES,
            choose: ChannelChoice::RoundRobin,
            until: None,
        });
        scenario
    }

    fn probe(&self, args: &Args, tls: TlsTrust) -> Value {
        let options = RunOptions {
            watch: WatchServer::Off,
            threads: Some(1),
            ..RunOptions::default()
        };
        let outcome = match run_scenario(&self.scenario(args, tls), &options) {
            Ok(finished) => outcome(&finished, args.within),
            Err(error) => json!({"good": false, "reached": false, "why": [error.to_string()]}),
        };
        let mut told = json!({"protocol": self.name()});
        if let (Value::Object(told), Value::Object(outcome)) = (&mut told, outcome) {
            told.extend(outcome);
        }
        told
    }
}

/// Judges a run: everything that was published has come, once, in order and in time.
fn outcome(finished: &Finished, within_us: u64) -> Value {
    let totals = &finished.results.totals;
    let (counters, deliveries) = (&totals.counters, &totals.deliveries);
    let longest = totals.delivery.as_ref().map(|delivery| delivery.max_us);
    let failures = counters.connect_failures().into_iter();
    let mut why: Vec<String> = failures
        .map(|(reason, _)| format!("the client did not connect: {}", reason.as_str()))
        .collect();
    let faults = [
        (counters.lost(), "connections were lost"),
        (counters.publish_failed, "publications failed"),
        (deliveries.missing, "messages did not come"),
        (deliveries.duplicates, "messages came twice"),
        (deliveries.out_of_order, "messages came out of order"),
        (deliveries.damaged, "messages were damaged"),
    ];
    let faults = faults.into_iter().filter(|(count, _)| *count > 0);
    why.extend(faults.map(|(count, fault)| format!("{count} {fault}")));
    if longest.is_some_and(|us| us > within_us) {
        why.push("a message came too late".to_owned());
    }
    if why.is_empty() && deliveries.distinct == 0 {
        why.push("nothing came".to_owned());
    }
    let good = why.is_empty();
    // What servers say belongs to a failure alone.
    why.extend(finished.results.notes.iter().filter(|_| !good).cloned());
    json!({
        "good": good,
        "reached": counters.tcp_connected > 0,
        "published": counters.published,
        "delivered": deliveries.distinct,
        "connect_us": totals.connect.as_ref().map(|connect| connect.max_us),
        "delivery_us": longest,
        "why": why,
    })
}

/// Protocols of a server by its configuration, as read last. A probe that goes on keeps them over
/// an outage: a series that vanishes raises no alert.
#[derive(Default)]
struct LastSeen {
    /// Empty until the configuration was read once.
    protocols: Vec<Protocol>,
    /// Why it could not be read the last time; it is told once.
    fault: Option<String>,
}

impl LastSeen {
    /// Lists the protocols that are on, or were.
    fn list(&self, by_tls: bool) -> Vec<Protocol> {
        match self.protocols.is_empty() {
            true => Protocol::all_on(&Value::Null, by_tls),
            false => self.protocols.clone(),
        }
    }

    /// Takes the configuration, or why it cannot be read.
    fn take(&mut self, read: std::result::Result<Value, String>, args: &Args) {
        let fault = match read {
            Ok(config) => {
                let options = config["options"].as_array().into_iter().flatten();
                let mut options = options.filter_map(|option| option["option"].as_str());
                if self.protocols.is_empty() && options.any(|it| it.starts_with("grip.route[")) {
                    console::note(
                        "probe: grip: not tried; name a path with --speak grip:/PATH/{channel}",
                    );
                }
                self.protocols = Protocol::all_on(&config, args.server.at("").tls);
                None
            }
            Err(fault) => Some(fault),
        };
        if let Some(fault) = fault.as_ref().filter(|_| fault != self.fault) {
            let tried = match self.protocols.is_empty() {
                true => "are always on",
                false => "were on before",
            };
            console::note(&format!(
                "probe: the configuration cannot be read at {}: {fault}; the protocols that \
                 {tried} are tried",
                args.api.api
            ));
        }
        self.fault = fault;
    }
}

/// Reads the configuration as the API port shows it. An error says why that fails.
fn config(api: &ApiArgs) -> std::result::Result<Value, String> {
    let mut answer = api.get("/config").map_err(|fault| fault.to_string())?;
    let body = answer.read_all(CONFIG_BYTES_MAX);
    let body = body.map_err(|fault| fault.to_string())?;
    match answer.status {
        200 => serde_json::from_slice(&body).map_err(|error| error.to_string()),
        status => Err(said(status, &body)),
    }
}

/// Probes every protocol once; the outcomes are in the order of the protocols.
fn probe(args: &Args, tls: &TlsTrust, last_seen: &mut LastSeen) -> Vec<Value> {
    let reads = args.speak.is_empty();
    // Later it is read meanwhile: a server that is away would use up the time of a scrape.
    let reads_first = reads && last_seen.protocols.is_empty();
    if reads_first {
        last_seen.take(config(&args.api), args);
    }
    let protocols = match reads {
        true => last_seen.list(args.server.at("").tls),
        false => args.speak.clone(),
    };
    thread::scope(|scope| {
        let reading = (reads && !reads_first).then(|| scope.spawn(|| config(&args.api)));
        let runs: Vec<_> = protocols
            .iter()
            .map(|protocol| scope.spawn(|| protocol.probe(args, tls.clone())))
            .collect();
        // Whoever panics gives no verdict.
        let outcomes = { runs.into_iter() }.map(joined).collect();
        if let Some(reading) = reading {
            last_seen.take(joined(reading), args);
        }
        outcomes
    })
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    let outcome = thread.join();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

pub(crate) fn run(args: &Args) -> Result {
    let tls = args.api.trust.of_run()?;
    if let Some(address) = args.listen {
        return serve(args, &tls, address);
    }
    let probes = probe(args, &tls, &mut LastSeen::default());
    let count = |name: &str| probes.iter().filter(|probe| probe[name] == true).count();
    let good = count("good") == probes.len();
    if probes.iter().any(|probe| probe["connect_us"].is_null()) {
        explain(args);
    }
    if args.json {
        let outcome = json!({"good": good, "protocols": probes});
        console::print(format!("{outcome}\n"))?;
    } else {
        let paint = Paint::stdout();
        for mut probe in probes.iter().cloned() {
            let status = if probe["good"] == true {
                "ok  "
            } else {
                "FAIL"
            };
            probe["status"] = paint.status(status).into();
            let why = probe["why"].as_array().into_iter().flatten();
            let why: Vec<&str> = why.filter_map(Value::as_str).collect();
            probe["reasons"] = why.join("; ").into();
            console::print(fill(include_str!("probe.txt"), &probe))?;
        }
    }
    Ok(match good {
        true => Exit::Good,
        false if count("reached") == 0 => Exit::Unreachable,
        false => Exit::Failed,
    })
}

/// Says why clients do not get in, and what to do, if `throng subscribe` would not get in either.
fn explain(args: &Args) {
    let Ok(channel) = ChannelName::new(&format!("{}-sse", args.channel)) else {
        return;
    };
    let token = args.token.as_deref();
    if let Err(failure) = try_once(&args.server, &args.api.trust, token, channel) {
        console::note(&failure.to_string());
    }
}

/// Answers each request for metrics with a probe, one after the other.
fn serve(args: &Args, tls: &TlsTrust, address: SocketAddr) -> Result {
    let cannot = |error| Failure::new(Exit::Start, format!("cannot listen on {address}: {error}"));
    let listener = TcpListener::bind(address).map_err(cannot)?;
    let address = listener.local_addr().unwrap_or(address);
    console::note(&format!("probe: http://{address}/metrics"));
    let mut last_seen = LastSeen::default();
    for stream in listener.incoming().flatten() {
        // A scraper that goes away is not news.
        let _ = answer(stream, args, tls, &mut last_seen);
    }
    Ok(Exit::Good)
}

fn answer(
    mut stream: TcpStream,
    args: &Args,
    tls: &TlsTrust,
    last_seen: &mut LastSeen,
) -> std::io::Result<()> {
    match read_get(&stream)?.as_deref() {
        Some("/metrics") => {
            let view = json!({"probes": probe(args, tls, last_seen)});
            let metrics = fill(include_str!("probe_metrics.txt"), &view);
            whole(&mut stream, "200 OK", METRICS_TYPE, &metrics)
        }
        _ => whole(
            &mut stream,
            "404 Not Found",
            "text/plain",
            "There is /metrics.\n",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_those_of_the_configuration() {
        let options = |options: &[(&str, &str)]| -> Value {
            let options = options.iter();
            let options = options.map(|(path, value)| json!({"option": path, "value": value}));
            json!({"options": options.collect::<Vec<_>>()})
        };
        let names = |config: &Value, by_tls| -> String {
            let all = Protocol::all_on(config, by_tls);
            let names: Vec<String> = all.iter().map(Protocol::name).collect();
            names.join(" ")
        };
        let always = "websocket centrifugo sse stream";
        assert_eq!(names(&Value::Null, true), always);
        let tls = options(&[("listen.http2", "\"tls\"")]);
        assert_eq!(names(&tls, false), always);
        assert_eq!(names(&tls, true), format!("{always} http2"));
        let all = options(&[
            ("listen.http2", "\"plain\""),
            ("pusher.path", "\"/push\""),
            ("app[0].id", "\"1\""),
            ("app[0].key", "\"k\""),
            ("app[0].enabled", "true"),
            ("app[1].id", "\"2\""),
            ("app[1].key", "\"l\""),
            ("app[1].enabled", "false"),
            ("appwrite.project[0].id", "\"*\""),
        ]);
        let expected = format!("{always} http2 pusher:1 appwrite:probe");
        assert_eq!(names(&all, false), expected);
        let pusher = Protocol::Pusher("1".into(), "/push/app/k".into());
        assert_eq!(Protocol::all_on(&all, false)[5], pusher);
    }
}
