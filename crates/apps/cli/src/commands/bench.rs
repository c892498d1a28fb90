//! `throng bench`: load a server, count what it does, and keep the figures.
//!
//! Owns: the command lines of the load generator, its exit codes, where results go. The load itself
//! is a library's.

mod args;
mod execute;
mod loads;

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Subcommand;
use throng_bench_fleet::{AGENT_PORT, AgentOptions, AgentTls, serve_agent};
use throng_bench_report::{Results, compare, comparison_page, report_page, summary};

use self::args::stop_flag;
use self::execute::listen;
use crate::console;
use crate::exit::{Exit, Failure, Result};

/// Load a server with connections and messages, and measure what it does
///
/// Works against any server that speaks WebSocket, event streams or HTTP. A run that the generator
/// could not keep up with is marked invalid and ends with 12; a failed --check ends with 10, one
/// without data with 11.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Box<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Sub(loads::SubArgs),
    Pub(loads::PubArgs),
    Run(loads::RunFileArgs),
    Tcpkali(loads::TcpkaliArgs),
    Agent(AgentArgs),
    Report(ReportArgs),
}

pub(crate) fn run(args: Args) -> Result {
    match *args.command {
        Command::Sub(args) => loads::sub(args),
        Command::Pub(args) => loads::publish(args),
        Command::Run(args) => loads::run_file(args),
        Command::Tcpkali(args) => loads::run_tcpkali(args),
        Command::Agent(args) => agent(args),
        Command::Report(args) => report(&args),
    }
}

/// Make load for runs that are started elsewhere with --agents
///
/// Neither side sends the token itself, and an agent starts nothing for a coordinator without
/// it. The connection is encrypted if --tls-cert and --tls-key are given here, and --tls-ca at
/// the other side.
#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// Address to listen on
    #[arg(
        long,
        value_name = "ADDR",
        env = "THRONG_AGENT_LISTEN",
        default_value_t = SocketAddr::from(([127, 0, 0, 1], AGENT_PORT))
    )]
    listen: SocketAddr,
    /// Token that the other side must know too
    #[arg(long, env = "THRONG_AGENT_TOKEN", hide_env_values = true)]
    token: String,
    /// The certificate to show, a PEM file; the other side has its authority, or itself, as
    /// --tls-ca
    #[arg(
        long,
        value_name = "FILE",
        env = "THRONG_AGENT_TLS_CERT",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// The key to the certificate, a PEM file
    #[arg(
        long,
        value_name = "FILE",
        env = "THRONG_AGENT_TLS_KEY",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Number of threads that open connections
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

fn agent(args: AgentArgs) -> Result {
    if args.token.is_empty() {
        return Err(Failure::usage(
            "the token is empty: anybody could use this machine",
        ));
    }
    let tls = args.tls_cert.as_ref().zip(args.tls_key.as_ref());
    let tls = tls
        .map(|(cert, key)| AgentTls::read(cert, key))
        .transpose()
        .map_err(|error| Failure::usage(format!("TLS: {error}")))?;
    let listener = TcpListener::bind(args.listen).map_err(|error| {
        Failure::new(
            Exit::Start,
            format!("cannot listen on {}: {error}", args.listen),
        )
    })?;
    let stop = stop_flag()?;
    let address = listener.local_addr().unwrap_or(args.listen);
    let how = if tls.is_some() { " with TLS" } else { "" };
    console::note(&format!("agent listens on {address}{how}"));
    let options = AgentOptions {
        token: args.token,
        tls,
        threads: args.threads,
        stop,
    };
    serve_agent(&listener, &options, &mut console::note)
        .map_err(|error| Failure::failed(format!("the agent failed: {error}")))?;
    Ok(Exit::Good)
}

/// Show the results of a run, or compare those of two
#[derive(Debug, clap::Args)]
struct ReportArgs {
    /// The folder of a run; with --web the folder in which runs have theirs
    a: PathBuf,
    /// The folder of a run to compare it with
    b: Option<PathBuf>,
    /// Also write a page that opens from disk
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Serve a page here that lists the runs in the folder and compares any two, until Ctrl-C
    #[arg(long, value_name = "ADDR", conflicts_with_all = ["b", "html", "json"])]
    web: Option<SocketAddr>,
}

const LOOK_EVERY: Duration = Duration::from_millis(100);

fn report(args: &ReportArgs) -> Result {
    if let Some(address) = args.web {
        return serve(address, &args.a);
    }
    let a = read(&args.a)?;
    let (text, page, json) = match &args.b {
        None => (summary(&a), report_page(&a), serde_json::to_string(&a)),
        Some(folder) => {
            let b = read(folder)?;
            let names = (name(&args.a), name(folder));
            (
                compare(&a, &b).to_text(),
                comparison_page(&a, &b, (&names.0, &names.1)),
                serde_json::to_string(&[&a, &b]),
            )
        }
    };
    if let Some(path) = &args.html {
        std::fs::write(path, page).map_err(|error| {
            let failure = format!("cannot write {}: {error}", path.display());
            Failure::failed(failure)
        })?;
    }
    if args.json {
        let json =
            json.map_err(|error| Failure::failed(format!("cannot print results: {error}")))?;
        console::print(json + "\n")?;
    } else {
        console::print(text)?;
    }
    Ok(Exit::Good)
}

fn serve(address: SocketAddr, folder: &Path) -> Result {
    if !folder.is_dir() {
        return Err(
            Failure::usage(format!("{} is not a folder", folder.display()))
                .advise("name the folder in which runs have theirs, such as results"),
        );
    }
    let stop = stop_flag()?;
    let page = listen(address, folder.to_owned())?;
    page.rest();
    console::note(&format!("finished runs: http://{}/", page.address()));
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(Exit::Good)
}

fn name(folder: &Path) -> String {
    folder.file_name().map_or_else(
        || folder.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn read(folder: &Path) -> Result<Results> {
    let path = folder.join("results.json");
    let results = std::fs::read_to_string(&path).map_err(|error| {
        Failure::usage(format!("cannot read {}: {error}", path.display()))
            .advise("name the folder that a run wrote with --out")
    })?;
    // The series is a file of its own, and a run can be shown without it.
    let series = std::fs::read_to_string(folder.join("series.json")).ok();
    Results::read(&results, series.as_deref())
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
