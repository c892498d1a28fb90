//! `throng subscribe`: every publication on a line, over reconnects.

mod args;
mod backoff;
mod follow;

use crate::failure::Result;

pub(crate) use args::Args;

/// Prints until the count is reached, the server says no, or nobody reads.
pub(crate) fn run(args: Args) -> Result {
    follow::Follower::new(args).run()
}
