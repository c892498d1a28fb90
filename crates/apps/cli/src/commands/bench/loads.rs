//! `throng bench sub`, `pub`, `run` and `tcpkali`: from arguments and files to a scenario.

use std::path::{Path, PathBuf};

use throng_bench_plan::import::{Imported, TsungOptions, read_tcpkali, read_tsung};
use throng_bench_plan::ports::parse_sources;
use throng_bench_plan::schedule::Stage;
use throng_bench_plan::{
    ClientTransport, Dialect, Scenario, Target, Via, Workload, read_toml_with,
};
use throng_types::units::{parse_count, parse_duration_us, parse_rate_per_s};

use super::args::{
    Common, Opening, PublishArgs, RunArgs, Speak, bad_scenario, read_data, transport,
};
use super::execute::execute;
use crate::console;
use crate::exit::{Failure, Result};
use crate::values::header;

/// Open connections at a steady rate, keep them, and count what they receive
///
/// With --publish the same process publishes too, so that latency is measured by one clock and
/// every missing message is known.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench sub --url 'ws://127.0.0.1:8000/ws?channel={channel:url}' --clients 10k \\
    --rate 1000/s \\
    --channels 'group-{n%1000}' --publish http://127.0.0.1:8001 --publish-rate 500/s")]
pub(crate) struct SubArgs {
    /// Server to connect to; the path is a template. Several share the connections
    #[arg(long, value_name = "URL", required = true)]
    url: Vec<String>,
    /// Number of connections: 5000, 50k, 1M
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "100")]
    clients: u64,
    /// Number of connections opened in a second
    #[arg(long, value_name = "RATE", value_parser = parse_rate_per_s, default_value = "100/s")]
    rate: f64,
    /// So many connections within that time, as 10k:2m, in place of --clients and --rate; may be
    /// repeated, for one stage after another
    #[arg(
        long = "stage",
        value_name = "N:TIME",
        value_parser = Stage::parse,
        conflicts_with_all = ["clients", "rate"]
    )]
    stages: Vec<Stage>,
    /// Channel that each connection subscribes to, a template; several make several subscriptions
    /// each
    #[arg(long, value_name = "TEMPLATE")]
    channels: Vec<String>,
    #[command(flatten)]
    run: RunArgs,
    /// Protocol of connections; by default a WebSocket for ws:// and an event stream for http://
    #[arg(long, value_enum)]
    speak: Option<Speak>,
    /// Source addresses of connections: 127.0.0.2-127.0.0.40; their ports are planned
    #[arg(long, value_name = "ADDRESSES", value_parser = sources)]
    source: Option<Sources>,
    /// Speak HTTP/2, with so many clients' streams on each connection; http:// and ws:// with prior
    /// knowledge
    #[arg(long, value_name = "N")]
    http2: Option<u32>,
    /// A frame that each connection sends once it is open, a template; may be repeated
    #[arg(long, value_name = "TEMPLATE")]
    first_frame: Vec<String>,
    /// A header line of each handshake, `Name: value`; may be repeated
    #[arg(long, value_name = "LINE", value_parser = header)]
    header: Vec<(String, String)>,
    /// The WebSocket subprotocol to ask for
    #[arg(long, value_name = "NAME")]
    subprotocol: Option<String>,
    /// The connection token of --speak centrifugo, a template
    #[arg(long)]
    token: Option<String>,
    /// Interval at which each WebSocket pings the server
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us)]
    ping_interval: Option<u64>,
    /// Time in which a connection must become usable
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us, default_value = "10s")]
    timeout: u64,
    /// Life of each connection; by default to the end
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us)]
    lifetime: Option<u64>,
    /// Open a new connection for each that is lost
    #[arg(long)]
    replace_lost: bool,
    /// Publish to the channels too, through this server
    #[arg(long, value_name = "URL", value_parser = Target::parse, help_heading = "Publishing")]
    publish: Option<Target>,
    #[command(flatten)]
    publishing: PublishArgs,
    #[command(flatten)]
    common: Common,
}

/// Source addresses of one argument.
#[derive(Clone, Debug)]
struct Sources(Vec<std::net::IpAddr>);

fn sources(text: &str) -> std::result::Result<Sources, String> {
    parse_sources(text).map(Sources)
}

pub(super) fn sub(args: SubArgs) -> Result {
    let targets: Vec<Target> = args
        .url
        .iter()
        .map(|url| Target::parse(url).map_err(Failure::usage))
        .collect::<Result<_>>()?;
    let first = args.url.first().map_or("", String::as_str);
    let opening = Opening {
        first_frames: args.first_frame,
        headers: args.header,
        subprotocol: args.subprotocol,
        token: args.token,
        ping_interval_us: args.ping_interval,
    };
    let transport = transport(args.speak, first, opening)?;
    let kind = if args.publish.is_some() {
        Workload::FanOut
    } else {
        Workload::Hold
    };
    let mut scenario = Scenario::new(kind, targets, transport);
    if args.rate <= 0.0 {
        return Err(Failure::usage("--rate must be above zero"));
    }
    if args.stages.is_empty() {
        scenario.set_clients(args.clients, args.rate);
    } else {
        scenario.arrivals = Stage::schedule(&args.stages).map_err(Failure::usage)?;
        scenario.clients = scenario.arrivals.count();
    }
    scenario.channels = args.channels;
    scenario.sources = args.source.map(|sources| sources.0).unwrap_or_default();
    scenario.http2 = args.http2;
    scenario.connect_timeout_us = args.timeout;
    scenario.lifetime_us = args.lifetime;
    scenario.replace_lost = args.replace_lost;
    scenario.publish = args
        .publish
        .as_ref()
        .map(|target| args.publishing.publish(target));
    if args.publish.is_none() && args.publishing.searches() {
        return Err(Failure::usage(
            "--until needs --publish URL: it searches for a rate of publications",
        ));
    }
    execute(args.run.complete(scenario)?, &args.common, true, Vec::new())
}

/// Publish at a steady rate, or faster and faster until a check fails
///
/// With --subscribe the same process also listens, so that the latency of deliveries is measured;
/// --until needs it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench pub --url http://127.0.0.1:8001 --channels 'group-{n%1000}' --count 1000 \\
    --publish-rate 5000/s \\
    --subscribe 'ws://127.0.0.1:8000/ws?channel={channel:url}' --clients 10k --until 'p99<50ms'")]
pub(crate) struct PubArgs {
    /// Server that takes publications
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    url: Target,
    /// The channels, a template; may be repeated
    #[arg(long, value_name = "TEMPLATE", required = true)]
    channels: Vec<String>,
    /// Number of connections that the channels are numbered for; with --subscribe it is --clients
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "1")]
    count: u64,
    #[command(flatten)]
    run: RunArgs,
    #[command(flatten)]
    receiving: ReceiveArgs,
    #[command(flatten)]
    publishing: PublishArgs,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Receiving")]
struct ReceiveArgs {
    /// Also open connections here that receive; the path is a template
    #[arg(long, value_name = "URL")]
    subscribe: Option<String>,
    /// Protocol of these connections
    #[arg(long, value_enum)]
    speak: Option<Speak>,
    /// Number of these connections
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "100")]
    clients: u64,
    /// Number of connections opened in a second
    #[arg(long, value_name = "RATE", value_parser = parse_rate_per_s, default_value = "1000/s")]
    rate: f64,
}

pub(super) fn publish(args: PubArgs) -> Result {
    let receiving = &args.receiving;
    let (target, transport, clients) = match &receiving.subscribe {
        Some(url) => {
            let target = Target::parse(url).map_err(Failure::usage)?;
            let transport = transport(receiving.speak, url, Opening::default())?;
            (target, transport, receiving.clients)
        }
        None if args.publishing.searches() => {
            return Err(Failure::usage(
                "--until needs --subscribe URL: without receivers no latency is measured",
            ));
        }
        None => {
            let plain = ClientTransport::websocket(Dialect::Plain);
            (args.url.with_path("/"), plain, args.count)
        }
    };
    if receiving.rate <= 0.0 {
        return Err(Failure::usage("--rate must be above zero"));
    }
    let mut scenario = Scenario::new(Workload::FanOut, vec![target], transport);
    scenario.name = "publish".to_owned();
    // Connections that are not opened only number the channels, and take no time.
    let receives = receiving.subscribe.is_some();
    let rate = if receives {
        receiving.rate
    } else {
        clients.max(1) as f64 * 1e6
    };
    scenario.set_clients(clients, rate);
    scenario.channels = args.channels;
    scenario.publish = Some(args.publishing.publish(&args.url));
    execute(
        args.run.complete(scenario)?,
        &args.common,
        receives,
        Vec::new(),
    )
}

/// Run a scenario: a TOML file, or the XML of Tsung
#[derive(Debug, clap::Args)]
#[command(after_help = "Example, a file groups.toml:
  scenario = \"fan-out\"
  targets = [\"ws://127.0.0.1:8000/ws?channel={channel:url}\"]
  channels = \"group-{n%10}\"
  duration = \"1m\"
  checks = [\"missing==0\", \"p99<50ms\"]
  [connect]
  clients = 1000
  rate = \"100/s\"
  [publish]
  to = \"http://127.0.0.1:8001\"
  rate = \"50/s\"
Every key, template and check: docs/guides/load-testing.md.")]
pub(crate) struct RunFileArgs {
    /// The scenario; a file whose name ends in .xml is read as Tsung's
    file: PathBuf,
    /// Go here instead of where the file says; several nodes with commas between, whose clients are
    /// dealt out evenly
    #[arg(long = "target", value_name = "URL", value_delimiter = ',', value_parser = Target::parse)]
    targets: Vec<Target>,
    /// Publish through this server instead of the file's
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    publish: Option<Target>,
    /// Multiply numbers of clients and rates: 0.001
    #[arg(long, value_name = "FACTOR", value_parser = factor)]
    scale: Option<f64>,
    /// An upper bound of the whole run: 10s
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us)]
    duration: Option<u64>,
    #[command(flatten)]
    common: Common,
}

fn factor(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(factor) if factor > 0.0 && factor <= 1e6 => Ok(factor),
        _ => Err(format!("`{text}` is not a factor above 0, such as 0.001")),
    }
}

pub(super) fn run_file(args: RunFileArgs) -> Result {
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| Failure::usage(format!("cannot read {}: {error}", args.file.display())))?;
    let Imported { scenario, notes } = if is_xml(&args.file, &text) {
        let options = TsungOptions {
            target: args.targets.first().cloned(),
            scale: args.scale.unwrap_or(1.0),
            duration_us: args.duration,
        };
        let mut imported = read_tsung(&text, &options)
            .map_err(|problem| bad_scenario(&args.file.display().to_string(), vec![problem]))?;
        go_to(&mut imported.scenario.targets, &args.targets);
        imported
    } else {
        // Files that it names are beside it.
        let folder = args.file.parent().unwrap_or_else(|| Path::new(""));
        let scenario = read_toml_with(&text, &|name| read_data(&folder.join(name)))
            .map_err(|problems| bad_scenario(&args.file.display().to_string(), problems))?;
        Imported {
            scenario: adapted(scenario, &args),
            notes: Vec::new(),
        }
    };
    imported(scenario, &args.common, notes)
}

/// Run a command line of TCPKali
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench tcpkali -- -c 250 --connect-rate 200 -T 10s --ws 127.0.0.1:8000/ws")]
pub(crate) struct TcpkaliArgs {
    #[command(flatten)]
    common: Common,
    /// Arguments as they would follow `tcpkali`
    #[arg(last = true, required = true, value_name = "ARGUMENTS")]
    arguments: Vec<String>,
}

pub(super) fn run_tcpkali(args: TcpkaliArgs) -> Result {
    let Imported { scenario, notes } = read_tcpkali(&args.arguments).map_err(Failure::usage)?;
    imported(scenario, &args.common, notes)
}

fn imported(scenario: Scenario, common: &Common, notes: Vec<String>) -> Result {
    for note in &notes {
        console::note(&format!("note: {note}"));
    }
    execute(scenario, common, true, notes)
}

fn is_xml(path: &Path, text: &str) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("xml"))
        || text.trim_start().starts_with("<?xml")
}

fn adapted(mut scenario: Scenario, args: &RunFileArgs) -> Scenario {
    go_to(&mut scenario.targets, &args.targets);
    if let Some(publish) = &mut scenario.publish {
        let (Via::Http { target, .. } | Via::WebSocket { target, .. }) = &mut publish.via;
        let mut to = vec![target.clone()];
        go_to(&mut to, args.publish.as_slice());
        to.swap_with_slice(std::slice::from_mut(target));
    }
    if let Some(factor) = args.scale {
        scenario.scale(factor);
    }
    if let Some(bound_us) = args.duration {
        scenario.bound_duration(bound_us);
    }
    scenario
}

/// Replaces the targets by the given ones, if there are any.
fn go_to(targets: &mut Vec<Target>, given: &[Target]) {
    if given.is_empty() {
        return;
    }
    // A path of `/` is what a URL without one has, and keeps the file's.
    let path = targets.first().map(|first| first.path.clone());
    let there = given.iter().map(|target| match &path {
        Some(path) if target.path == "/" => target.with_path(path),
        _ => target.clone(),
    });
    *targets = there.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_targets_keep_the_path_of_the_file() {
        let parse = |url: &str| Target::parse(url).unwrap();
        let mut targets = vec![parse("ws://a:1/ws")];
        go_to(&mut targets, &[]);
        assert_eq!(targets, [parse("ws://a:1/ws")]);
        go_to(&mut targets, &[parse("ws://b:1"), parse("ws://c:2/other")]);
        assert_eq!(targets, [parse("ws://b:1/ws"), parse("ws://c:2/other")]);
    }
}
