//! The arguments that every kind of run takes.

use std::path::PathBuf;

use throng_bench_fleet::{ControllerTls, RunOptions, WatchServer};
use throng_bench_plan::check::Check;
use throng_bench_plan::{Target, TlsTrust};
use throng_types::units;

use super::signals::stop_flag;
use crate::failure::{Failure, Result};

/// What every kind of run takes.
#[derive(Debug, clap::Args)]
pub(super) struct Common {
    /// Write a folder of results: manifest, time series, histograms, report.html
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub(super) out: Option<PathBuf>,
    /// A promise to keep, such as p99<50ms or lost==0; may be repeated
    #[arg(long = "check", value_name = "CHECK", help_heading = "Results")]
    pub(super) checks: Vec<Check>,
    /// Print the results as one JSON object on standard output, and nothing while the run goes on
    #[arg(long, help_heading = "Results")]
    pub(super) json: bool,
    /// What the report is called
    #[arg(long, help_heading = "Results")]
    pub(super) title: Option<String>,
    /// Print MigratoryData's running statistics every five seconds
    #[arg(long, help_heading = "Progress")]
    pub(super) running_stats: bool,
    /// Print one line a second even on a terminal
    #[arg(long, help_heading = "Progress")]
    pub(super) plain: bool,
    /// Serve a live page, and Prometheus metrics at /metrics, here
    #[arg(long, value_name = "ADDR", help_heading = "Progress")]
    pub(super) web: Option<std::net::SocketAddr>,
    /// Send statsd lines here
    #[arg(long, value_name = "HOST:PORT", help_heading = "Progress")]
    pub(super) statsd: Option<String>,
    /// How long to wait at the end, once nothing is published any more, for what is on its way; by
    /// default 10s
    #[arg(
        long,
        value_name = "TIME",
        value_parser = units::parse_duration_us,
        help_heading = "Generator"
    )]
    pub(super) grace: Option<u64>,
    /// How large a part of the measured p99 the generator's own lag may be before latencies are
    /// called invalid
    #[arg(
        long,
        value_name = "PERCENT",
        value_parser = clap::value_parser!(u8).range(1..=100),
        default_value = "10",
        help_heading = "Generator"
    )]
    pub(super) lag_tolerance: u8,
    /// Threads that open connections
    #[arg(long, value_name = "N", help_heading = "Generator")]
    pub(super) threads: Option<usize>,
    /// Have these machines make the load, each running `throng bench agent`: host1,host2:8092
    #[arg(
        long,
        value_name = "HOSTS",
        value_delimiter = ',',
        requires = "agents_token",
        help_heading = "Generator"
    )]
    pub(super) agents: Vec<String>,
    /// What the agents were given as their token
    #[arg(
        long,
        value_name = "TOKEN",
        env = "THRONG_AGENT_TOKEN",
        hide_env_values = true,
        help_heading = "Generator"
    )]
    pub(super) agents_token: Option<String>,
    /// Speak TLS with the agents, and believe those with a certificate of these authorities: a PEM
    /// file
    #[arg(
        long,
        value_name = "FILE",
        requires = "agents",
        help_heading = "Generator"
    )]
    pub(super) tls_ca: Option<PathBuf>,
    /// Where TLS is spoken (wss://, https://), believe whoever answers
    #[arg(long, conflicts_with = "ca", help_heading = "Server")]
    pub(super) insecure: bool,
    /// Where TLS is spoken, believe servers with a certificate of these authorities instead of this
    /// machine's: a PEM file
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub(super) ca: Option<PathBuf>,
    /// The server's process, if it is not found by its port; may be repeated
    #[arg(long, value_name = "PID", help_heading = "Server")]
    pub(super) server_pid: Vec<u32>,
    /// The server's metrics page, for its own count of connections
    #[arg(long, value_name = "URL", value_parser = Target::parse, help_heading = "Server")]
    pub(super) server_metrics: Option<Target>,
}

impl Common {
    /// Whom connections by TLS believe.
    pub(super) fn trust(&self) -> Result<TlsTrust> {
        let read = |file: &PathBuf| {
            std::fs::read_to_string(file)
                .map_err(|error| Failure::usage(format!("--ca {}: {error}", file.display())))
        };
        Ok(TlsTrust {
            insecure: self.insecure,
            authorities: self.ca.as_ref().map(read).transpose()?,
        })
    }

    /// What the run itself is told; `notes` come into its results.
    pub(super) fn options(&self, subscribers: bool, notes: Vec<String>) -> Result<RunOptions> {
        let stop = stop_flag()?;
        let authorities = self.tls_ca.as_deref();
        let agents_tls = authorities
            .map(ControllerTls::read)
            .transpose()
            .map_err(|error| Failure::usage(format!("--tls-ca: {error}")))?;
        Ok(RunOptions {
            agents_tls,
            title: self.title.clone(),
            command: std::env::args().collect(),
            threads: self.threads,
            subscribers,
            watch: if self.server_pid.is_empty() {
                WatchServer::Auto
            } else {
                WatchServer::Processes(self.server_pid.clone())
            },
            metrics: self.server_metrics.clone(),
            running: self.running_stats,
            lag_share_max: f64::from(self.lag_tolerance) / 100.0,
            notes,
            stop,
        })
    }
}
