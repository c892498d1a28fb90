//! `throng bench pub`: publications at a rate that nothing slows down.

use throng_bench_plan::{Dialect, Kind, Scenario, Target, Transport};
use throng_types::units;

use super::common::Common;
use super::execute::execute;
use super::load::{DataArgs, Opening, PublishArgs, Speak, checked, transport};
use crate::failure::{Failure, Result};

/// Publish at a steady rate, or faster and faster until a promise breaks
///
/// With --subscribe the same process also listens, so that the latency of deliveries is measured;
/// --until needs it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  throng bench pub --url http://127.0.0.1:8001 --channels 'group-{n%1000}' --count 1000 \\
    --publish-rate 5000/s \\
    --subscribe 'ws://127.0.0.1:8000/ws?channel={channel:url}' --clients 10k --until 'p99<50ms'")]
pub(crate) struct Args {
    /// Where publications go
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    url: Target,
    /// The channels, a template; may be repeated
    #[arg(long, value_name = "TEMPLATE", required = true)]
    channels: Vec<String>,
    /// How many connections the channels are numbered for; with --subscribe it is --clients
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value = "1")]
    count: u64,
    /// How long to publish
    #[arg(
        long,
        value_name = "TIME",
        value_parser = units::parse_duration_us,
        default_value = "10s"
    )]
    duration: u64,
    /// How long to publish before figures count
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration_us, default_value = "0s")]
    warm_up: u64,
    /// Where random choices come from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also open connections here that receive; the path is a template
    #[arg(long, value_name = "URL", help_heading = "Receiving")]
    subscribe: Option<String>,
    /// What they speak
    #[arg(long, value_enum, help_heading = "Receiving")]
    speak: Option<Speak>,
    /// How many there are
    #[arg(
        long,
        value_name = "N",
        value_parser = units::parse_count,
        default_value = "100",
        help_heading = "Receiving"
    )]
    clients: u64,
    /// How many are opened in a second
    #[arg(
        long,
        value_name = "RATE",
        value_parser = units::parse_rate_per_s,
        default_value = "1000/s",
        help_heading = "Receiving"
    )]
    rate: f64,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    publishing: PublishArgs,
    #[command(flatten)]
    common: Common,
}

/// Runs it.
pub(super) fn run(args: Args) -> Result {
    let (target, transport, clients) = match &args.subscribe {
        Some(url) => {
            let opening = Opening {
                first_frames: Vec::new(),
                headers: Vec::new(),
                subprotocol: None,
                token: None,
                ping_interval_us: None,
            };
            let target = Target::parse(url).map_err(|error| Failure::usage(error.to_string()))?;
            (target, transport(args.speak, url, opening)?, args.clients)
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
    if args.rate <= 0.0 {
        return Err(Failure::usage("--rate must be above zero"));
    }
    let mut scenario = Scenario::new(Kind::FanOut, vec![target], transport);
    scenario.name = "publish".to_owned();
    // Connections that are not opened only number the channels, and take no time.
    let rate = if args.subscribe.is_some() {
        args.rate
    } else {
        clients.max(1) as f64 * 1e6
    };
    scenario.set_clients(clients, rate);
    scenario.channels = args.channels;
    scenario.hold_us = args.duration;
    scenario.warm_up_us = args.warm_up;
    scenario.seed = args.seed;
    scenario.data = args.data.read()?;
    scenario.publish = Some(args.publishing.publish(&args.url));
    let scenario = checked(scenario)?;
    execute(scenario, &args.common, args.subscribe.is_some(), Vec::new())
}
