//! Arguments that several commands of the load generator take, a block each.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::ValueEnum;
use signal_hook::consts::TERM_SIGNALS;
use throng_bench_fleet::{ControllerTls, RunOptions, WatchServer};
use throng_bench_plan::check::{BenchExit, Check};
use throng_bench_plan::payload::MESSAGE_BYTES_MIN;
use throng_bench_plan::schedule::Growth;
use throng_bench_plan::{
    ChannelChoice, ClientTransport, DATA_BYTES_MAX, Data, Dialect, Problem, Publish, RateSearch,
    Scenario, Target, Via,
};
use throng_types::units::{parse_duration_us, parse_rate_per_s, parse_size_bytes};

use crate::exit::{Failure, Result};
use crate::http::TrustArgs;
use crate::values::header;

#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) results: ResultArgs,
    #[command(flatten)]
    pub(super) progress: ProgressArgs,
    #[command(flatten)]
    pub(super) generator: GeneratorArgs,
    #[command(flatten)]
    pub(super) server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub(super) struct ResultArgs {
    /// Write a folder of results: manifest, time series, histograms, report.html
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// A condition to meet, such as p99<50ms or lost==0; may be repeated
    #[arg(long = "check", value_name = "CHECK")]
    pub(super) checks: Vec<Check>,
    /// Print the results as one JSON object on standard output, and nothing while the run goes on
    #[arg(long)]
    pub(super) json: bool,
    /// Title of the report
    #[arg(long)]
    title: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Progress")]
pub(super) struct ProgressArgs {
    /// Print MigratoryData's running statistics every five seconds
    #[arg(long)]
    pub(super) running_stats: bool,
    /// Print one line a second even on a terminal
    #[arg(long)]
    pub(super) plain: bool,
    /// Serve a live page, and Prometheus metrics at /metrics, here
    #[arg(long, value_name = "ADDR")]
    pub(super) web: Option<SocketAddr>,
    /// Send statsd lines here
    #[arg(long, value_name = "HOST:PORT")]
    pub(super) statsd: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Generator")]
pub(super) struct GeneratorArgs {
    /// Time to wait at the end for messages that are on their way; by default 10s
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us)]
    pub(super) grace: Option<u64>,
    /// Largest lag of the generator, in percent of the measured p99, before latencies are called
    /// invalid
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(1..=100),
        default_value = "10"
    )]
    lag_tolerance: u8,
    /// Number of threads that open connections
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Make the load on these machines, each running `throng bench agent`: host1,host2:8092
    #[arg(
        long,
        value_name = "HOSTS",
        value_delimiter = ',',
        requires = "agents_token"
    )]
    pub(super) agents: Vec<String>,
    /// Token of the agents
    #[arg(
        long,
        value_name = "TOKEN",
        env = "THRONG_AGENT_TOKEN",
        hide_env_values = true
    )]
    pub(super) agents_token: Option<String>,
    /// Use TLS with the agents, and accept certificates of these authorities: a PEM file
    #[arg(long, value_name = "FILE", requires = "agents")]
    tls_ca: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Server")]
pub(super) struct ServerArgs {
    #[command(flatten)]
    pub(super) trust: TrustArgs,
    /// The server's process, if it is not found by its port; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// The server's metrics page, for its own count of connections
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    server_metrics: Option<Target>,
}

impl Common {
    /// Makes the options of the run; `notes` go into its results.
    pub(super) fn options(&self, subscribers: bool, notes: Vec<String>) -> Result<RunOptions> {
        let authorities = self.generator.tls_ca.as_deref();
        let agents_tls = authorities
            .map(ControllerTls::read)
            .transpose()
            .map_err(|error| Failure::usage(format!("--tls-ca: {error}")))?;
        Ok(RunOptions {
            agents_tls,
            title: self.results.title.clone(),
            command: std::env::args().collect(),
            threads: self.generator.threads,
            subscribers,
            watch: match &self.server.server_pid[..] {
                [] => WatchServer::Auto,
                pids => WatchServer::Processes(pids.to_vec()),
            },
            metrics: self.server.server_metrics.clone(),
            running: self.progress.running_stats,
            lag_share_max: f64::from(self.generator.lag_tolerance) / 100.0,
            notes,
            stop: stop_flag()?,
        })
    }
}

/// Makes a flag that the first signal sets, so that results are kept. The second one ends the
/// process.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>> {
    let failed = |error| Failure::failed(format!("cannot catch signals: {error}"));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        let code = BenchExit::Interrupted.code().into();
        signal_hook::flag::register_conditional_shutdown(*signal, code, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(*signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}

/// Protocol of a connection.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Speak {
    /// A WebSocket; the URL or the first frames subscribe
    Websocket,
    /// Centrifugo's client protocol in JSON
    Centrifugo,
    /// Appwrite Realtime; the URL subscribes
    Appwrite,
    /// An event stream (text/event-stream)
    Sse,
    /// A chunked response that never ends
    Stream,
}

/// Form in which publications reach the server.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Form {
    /// POST /pub?channel=… with the bare message
    Plain,
    /// POST /api/publish of Centrifugo's server API
    Centrifugo,
    /// POST /publish/ of GRIP
    Grip,
    /// A request of your own: the URL's path and --body are templates
    Http,
    /// A frame of your own on a WebSocket: --body is the template
    Websocket,
}

/// Times of a run, its random choices, and data for templates.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Time in which figures are taken
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us, default_value = "10s")]
    duration: u64,
    /// Time before figures count, once all connections stand
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us, default_value = "0s")]
    warm_up: u64,
    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A CSV file whose first line names columns: `{data.NAME}` in templates is a cell of the row
    /// with the connection's number, from 0; after the last row comes the first
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

impl RunArgs {
    /// Puts times, seed and data into a scenario, and checks it as a whole.
    pub(super) fn complete(&self, mut scenario: Scenario) -> Result<Scenario> {
        scenario.hold_us = self.duration;
        scenario.warm_up_us = self.warm_up;
        scenario.seed = self.seed;
        scenario.data = self.read_data()?;
        match scenario.problems() {
            problems if problems.is_empty() => Ok(scenario),
            problems => Err(bad_scenario("this run makes no sense", problems)),
        }
    }

    fn read_data(&self) -> Result<Option<Data>> {
        let Some(file) = &self.data else {
            return Ok(None);
        };
        let read = read_data(file).and_then(|text| {
            Data::from_csv(&text).map_err(|error| format!("{}: {error}", file.display()))
        });
        read.map(Some)
            .map_err(|why| Failure::usage(format!("--data: {why}")))
    }
}

/// Tells the problems of a scenario, each with its line.
pub(super) fn bad_scenario(what: &str, problems: Vec<Problem>) -> Failure {
    let mut problems = problems.iter().map(Problem::to_string);
    let first = problems.next().unwrap_or_else(|| "it is empty".to_owned());
    let failure = Failure::usage(format!("{what}: {first}"));
    problems.fold(failure, Failure::advise)
}

/// Reads a file of data, if it is not too large to be one.
pub(super) fn read_data(file: &Path) -> std::result::Result<String, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read {}: {why}", file.display());
    let bytes = std::fs::metadata(file)
        .map_err(|error| cannot(&error))?
        .len();
    if bytes > DATA_BYTES_MAX as u64 {
        return Err(cannot(&format!(
            "it has {bytes} bytes, {DATA_BYTES_MAX} are allowed"
        )));
    }
    std::fs::read_to_string(file).map_err(|error| cannot(&error))
}

#[derive(Debug, clap::Args)]
pub(super) struct PublishArgs {
    #[command(flatten)]
    publications: PublicationArgs,
    #[command(flatten)]
    search: SearchArgs,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Publishing")]
struct PublicationArgs {
    /// Form in which the server takes them
    #[arg(long = "as", value_enum, value_name = "FORM", default_value_t = Form::Plain)]
    form: Form,
    /// Publications a second, all publishers together, whatever the answers do: 1000/s
    #[arg(long, value_name = "RATE", value_parser = parse_rate_per_s, default_value = "100/s")]
    publish_rate: f64,
    /// Bytes of a message: 512, 4k
    #[arg(long, value_name = "BYTES", value_parser = parse_size_bytes, default_value = "128")]
    size: u64,
    /// Kept connections that publish
    #[arg(long, value_name = "N", default_value_t = 1)]
    publishers: u32,
    /// Choose channels at random instead of in turn
    #[arg(long)]
    random: bool,
    /// The key of Centrifugo's server API
    #[arg(long)]
    key: Option<String>,
    /// A header line of publications, `Name: value`; may be repeated
    #[arg(long, value_name = "LINE", value_parser = header)]
    publish_header: Vec<(String, String)>,
    /// The template of a body or frame
    #[arg(long, default_value = "{payload}")]
    body: String,
    /// The method of publications
    #[arg(long, default_value = "POST")]
    method: String,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Search")]
struct SearchArgs {
    /// Raise the rate until this check fails: p99<50ms
    #[arg(long, value_name = "CHECK")]
    until: Option<Check>,
    /// Growth of the rate from step to step: x2 or +500/s
    #[arg(long, value_name = "STEP", value_parser = Growth::parse, default_value = "x2")]
    step: Growth,
    /// Time in which each step is measured
    #[arg(long, value_name = "TIME", value_parser = parse_duration_us, default_value = "10s")]
    step_duration: u64,
    /// Highest rate to try
    #[arg(long, value_name = "RATE", value_parser = parse_rate_per_s, default_value = "10M/s")]
    rate_max: f64,
}

impl PublishArgs {
    pub(super) fn publish(&self, target: &Target) -> Publish {
        let (args, search) = (&self.publications, &self.search);
        let mut via = match args.form {
            Form::Plain => Via::plain(target),
            Form::Centrifugo => Via::centrifugo(target, args.key.as_deref()),
            Form::Grip => Via::grip(target),
            Form::Http => Via::Http {
                target: target.clone(),
                method: args.method.clone(),
                headers: Vec::new(),
                body: args.body.clone(),
            },
            Form::Websocket => Via::WebSocket {
                target: target.clone(),
                first_frames: Vec::new(),
                frame: args.body.clone(),
            },
        };
        if let Via::Http { headers, .. } = &mut via {
            headers.extend(args.publish_header.iter().cloned());
        }
        Publish {
            via,
            per_s: args.publish_rate,
            publishers: args.publishers,
            // Too small a size is refused with the scenario, with a sentence that says how small it
            // may be.
            size_bytes: usize::try_from(args.size).unwrap_or(usize::MAX),
            choose: if args.random {
                ChannelChoice::Random
            } else {
                ChannelChoice::RoundRobin
            },
            until: search.until.clone().map(|check| RateSearch {
                check,
                growth: search.step,
                per_s_max: search.rate_max,
                step_us: search.step_duration,
            }),
        }
    }

    pub(super) const fn searches(&self) -> bool {
        self.search.until.is_some()
    }
}

/// Makes the protocol of connections to a URL; by default its scheme chooses.
pub(super) fn transport(
    speak: Option<Speak>,
    url: &str,
    opening: Opening,
) -> Result<ClientTransport> {
    let websocket = url.starts_with("ws://") || url.starts_with("wss://");
    let speak = match speak {
        Some(speak) => speak,
        None if websocket => Speak::Websocket,
        None if url.starts_with("http") => Speak::Sse,
        None => {
            let advice = "write ws:// or http://, or add --speak \
                          websocket|centrifugo|appwrite|sse|stream";
            let failure = format!("`{url}` does not name a protocol");
            return Err(Failure::usage(failure).advise(advice));
        }
    };
    let dialect = match speak {
        Speak::Websocket => Dialect::Plain,
        Speak::Centrifugo => Dialect::Centrifugo {
            token: opening.token.clone(),
        },
        Speak::Appwrite => Dialect::Appwrite,
        Speak::Sse | Speak::Stream if !opening.first_frames.is_empty() => {
            return Err(Failure::usage("--first-frame needs a WebSocket"));
        }
        Speak::Sse => {
            return Ok(ClientTransport::Sse {
                headers: opening.headers,
            });
        }
        Speak::Stream => {
            let headers = opening.headers;
            return Ok(ClientTransport::HttpStream {
                headers,
                content_type: None,
            });
        }
    };
    if opening.token.is_some() && !matches!(speak, Speak::Centrifugo) {
        return Err(Failure::usage("--token belongs to --speak centrifugo")
            .advise("elsewhere write it into the URL or a --header"));
    }
    Ok(ClientTransport::WebSocket {
        dialect,
        first_frames: opening.first_frames,
        headers: opening.headers,
        subprotocol: opening.subprotocol,
        ping_interval_us: opening.ping_interval_us,
    })
}

/// Frames and headers that open a connection.
#[derive(Default)]
pub(super) struct Opening {
    pub(super) first_frames: Vec<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) subprotocol: Option<String>,
    pub(super) token: Option<String>,
    pub(super) ping_interval_us: Option<u64>,
}

// A message carries its number and its stamp, so it has a least size; the default is above it.
const _: () = assert!(MESSAGE_BYTES_MIN <= 128);
