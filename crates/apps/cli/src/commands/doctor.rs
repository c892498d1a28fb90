//! `throng doctor`: what this machine can hold, what binds first, and how to lift it.

use clap::ValueEnum;
use throng_doctor::{Options, Plan, Role};

use crate::console::{self, Paint};
use crate::exit::{Exit, Result};
use crate::values::count;

/// Find out how many connections this machine can hold, which limit binds first, and how to lift it
///
/// Ends with 1 if the machine cannot hold the connections asked for, with 3 if a change was
/// refused.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Number of wanted connections: 50000, 50k, 1M; without it, as many as the memory holds
    #[arg(long, value_name = "N", value_parser = count)]
    connections: Option<u64>,
    /// Side of the connections that this machine takes
    #[arg(long, value_enum, default_value_t = End::Server)]
    role: End,
    /// Number of processes that share the connections; with --role both these are the clients, and
    /// the server is one
    #[arg(long, value_name = "N", value_parser = count, default_value = "1")]
    processes: u64,
    /// Judge the limits of this process instead of your shell's, such as a running server
    #[arg(long)]
    pid: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Lift what can be lifted now, after asking
    #[arg(long)]
    fix: bool,
    /// Write files that keep it lifted after a reboot, after asking
    #[arg(long)]
    persist: bool,
    /// Apply without asking first
    #[arg(long)]
    yes: bool,
    /// The systemd service that --persist is for
    #[arg(long, value_name = "NAME", default_value = "throng")]
    unit: String,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum End {
    /// Machine that accepts the connections
    Server,
    /// Machine that opens them, towards another one
    Loadgen,
    /// Machine that does both, over loopback
    Both,
}

impl From<End> for Role {
    fn from(end: End) -> Self {
        match end {
            End::Server => Self::Server,
            End::Loadgen => Self::Loadgen,
            End::Both => Self::Both,
        }
    }
}

pub(crate) fn run(args: Args) -> Result {
    let options = Options {
        pid: args.pid,
        fix: args.fix,
        persist: args.persist,
        yes: args.yes,
        json: args.json,
        unit: args.unit,
        ..Options::new(Plan {
            processes: args.processes,
            ..Plan::new(args.role.into(), args.connections)
        })
    };
    let mut out = Vec::new();
    let outcome = throng_doctor::run(&options, &mut out, &mut console::ask)?;
    let paint = Paint::stdout();
    if args.json || !paint.is_on() {
        console::print(&out)?;
    } else {
        console::print(painted(&String::from_utf8_lossy(&out), paint))?;
    }
    Ok(Exit::from(outcome))
}

const VERDICT_LINES: usize = 2;

/// Lines of the table begin with their status, so the first word decides; the verdict stands above
/// it.
fn painted(text: &str, paint: Paint) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for (n, line) in text.split_inclusive('\n').enumerate() {
        if n < VERDICT_LINES {
            out.push_str(&paint.bold(line.trim_end()));
            out.push('\n');
            continue;
        }
        let start = line.len() - line.trim_start().len();
        let end = line[start..]
            .find(' ')
            .map_or(line.len(), |end| start + end);
        out.push_str(&line[..start]);
        out.push_str(&paint.status(&line[start..end]));
        out.push_str(&line[end..]);
    }
    out
}
