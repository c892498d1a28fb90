//! `throng subscribe`: every publication on a line, over reconnects.

mod args;
mod backoff;
mod follow;
mod stamp;

use crate::failure::Result;

pub(crate) use args::{Args, TailArgs};

/// Prints until the count is reached, the server says no, or nobody reads.
pub(crate) fn run(args: Args) -> Result {
    follow::Follower::new(args).run()
}

/// The same, with the time and the channel before each publication.
pub(crate) fn tail(args: TailArgs) -> Result {
    follow::Follower::new(args.into()).run()
}
