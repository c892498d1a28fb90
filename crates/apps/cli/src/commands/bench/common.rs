//! Arguments that every kind of run takes.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::TERM_SIGNALS;
use throng_bench_fleet::{ControllerTls, RunOptions, WatchServer};
use throng_bench_plan::check::Check;
use throng_bench_plan::{Target, TlsTrust, check};
use throng_types::units::parse_duration_us;

use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// Arguments that every kind of run takes.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) results: ResultArgs,
    #[command(flatten)]
    pub(super) progress: ProgressArgs,
    #[command(flatten)]
    pub(super) generator: GeneratorArgs,
    #[command(flatten)]
    server: ServerArgs,
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
    /// Wait so long at the end for messages on their way, once nothing is published any more; by
    /// default 10s
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
struct ServerArgs {
    /// With TLS (wss://, https://), accept any certificate
    #[arg(long, conflicts_with = "ca")]
    insecure: bool,
    /// With TLS, accept certificates of these authorities instead of this machine's: a PEM file
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The server's process, if it is not found by its port; may be repeated
    #[arg(long, value_name = "PID")]
    server_pid: Vec<u32>,
    /// The server's metrics page, for its own count of connections
    #[arg(long, value_name = "URL", value_parser = Target::parse)]
    server_metrics: Option<Target>,
}

impl Common {
    /// Reads the certificates that connections by TLS accept.
    pub(super) fn trust(&self) -> Result<TlsTrust> {
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("--ca {}: {error}", file.display())))
        };
        Ok(TlsTrust {
            insecure: self.server.insecure,
            authorities: self.server.ca.as_ref().map(read).transpose()?,
        })
    }

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
    let failed = |error| Failure::new(Exit::Failed, format!("cannot catch signals: {error}"));
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        let code = check::BenchExit::Interrupted.code().into();
        signal_hook::flag::register_conditional_shutdown(*signal, code, stop.clone())
            .map_err(failed)?;
        signal_hook::flag::register(*signal, stop.clone()).map_err(failed)?;
    }
    Ok(stop)
}
