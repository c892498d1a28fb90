//! `throng bench pub`: publications at a rate that nothing slows down.

use throng_bench_plan::{Dialect, Scenario, Target, Transport, Workload};
use throng_types::units::{parse_count, parse_rate_per_s};

use super::common::Common;
use super::execute::execute;
use super::load::{Opening, PublishArgs, RunArgs, Speak, transport};
use crate::failure::{Failure, Result};

/// Publish at a steady rate, or faster and faster until a check fails
///
/// With --subscribe the same process also listens, so that the latency of deliveries is measured;
/// --until needs it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench pub --url http://127.0.0.1:8001 --channels 'group-{n%1000}' --count 1000 \\
    --publish-rate 5000/s \\
    --subscribe 'ws://127.0.0.1:8000/ws?channel={channel:url}' --clients 10k --until 'p99<50ms'")]
pub(crate) struct Args {
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

pub(super) fn run(args: Args) -> Result {
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
            let plain = Transport::websocket(Dialect::Plain);
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
