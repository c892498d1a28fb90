//! How the faults of the load generator look to the user, and with which code the process ends.

use throng_bench_fleet::FleetError;
use throng_bench_plan::{Problem, check};
use throng_bench_worker::PrepareError;

use crate::exit::Exit;
use crate::failure::Failure;

/// The agents could not run the scenario.
pub(super) fn no_agents(error: FleetError) -> Failure {
    Failure::new(Exit::Unreachable, error.to_string())
        .advise("each machine runs `throng bench agent --listen ADDR --token TOKEN`")
}

/// The run could not begin on this machine.
pub(super) fn cannot_run(error: PrepareError) -> Failure {
    let exit = match &error {
        PrepareError::Limit { .. } | PrepareError::System { .. } => {
            Exit::Bench(check::Exit::Preflight)
        }
        PrepareError::Resolve { .. } => Exit::Unreachable,
        _ => Exit::Usage,
    };
    let limit = matches!(error, PrepareError::Limit { .. });
    let failure = Failure::new(exit, error.to_string());
    if limit {
        failure.advise("`throng doctor --role loadgen` says what this machine can hold")
    } else {
        failure
    }
}

/// Problems of a scenario, each with its line.
pub(super) fn bad_scenario(what: &str, problems: Vec<Problem>) -> Failure {
    let mut problems = problems.into_iter().map(|problem| match problem.line {
        Some(line) => format!("line {line}: {}", problem.message),
        None => problem.message,
    });
    let first = problems.next().unwrap_or_else(|| "it is empty".to_owned());
    let failure = Failure::usage(format!("{what}: {first}"));
    problems.fold(failure, Failure::advise)
}
