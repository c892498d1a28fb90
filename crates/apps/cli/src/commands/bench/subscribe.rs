//! `throng bench sub`: connections that subscribe and are kept.

use throng_bench_plan::ports::parse_sources;
use throng_bench_plan::schedule::Stage;
use throng_bench_plan::{Scenario, Target, Workload};
use throng_types::units::{parse_count, parse_duration_us, parse_rate_per_s};

use super::common::Common;
use super::execute::execute;
use super::load::{Opening, PublishArgs, RunArgs, Speak, header, transport};
use crate::failure::{Failure, Result};

/// Open connections at a steady rate, keep them, and count what they receive
///
/// With --publish the same process publishes too, so that latency is measured by one clock and
/// every missing message is known.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench sub --url 'ws://127.0.0.1:8000/ws?channel={channel:url}' --clients 10k \\
    --rate 1000/s \\
      --channels 'group-{n%1000}' --publish http://127.0.0.1:8001 --publish-rate 500/s")]
pub(crate) struct Args {
    /// Server to connect to; the path is a template. Several share the connections
    #[arg(long, value_name = "URL", required = true)]
    url: Vec<String>,
    /// Number of connections: 5000, 50k, 1M
    #[arg(long, value_name = "N", value_parser = parse_count, default_value = "100")]
    clients: u64,
    /// Number of connections opened in a second
    #[arg(long, value_name = "RATE", value_parser = parse_rate_per_s, default_value = "100/s")]
    rate: f64,
    /// Instead of both: so many connections within that time, 10k:2m; may be repeated, for one
    /// stage after another
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
pub(super) struct Sources(Vec<std::net::IpAddr>);

fn sources(text: &str) -> std::result::Result<Sources, String> {
    parse_sources(text)
        .map(Sources)
        .map_err(|error| error.to_string())
}

pub(super) fn run(args: Args) -> Result {
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
