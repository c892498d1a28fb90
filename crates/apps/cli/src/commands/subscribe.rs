//! `throng subscribe` and `throng tail`: every publication on a line, over reconnects.

mod args;
mod backoff;
mod follow;
mod stamp;

use args::Form;
pub(crate) use args::{Args, TailArgs};

use crate::failure::Result;

/// Prints until the count is reached, the server refuses, or the output closes.
pub(crate) fn run(args: Args) -> Result {
    let form = match (args.url, args.json) {
        (Some(url), _) => Form::WebSocket(url),
        (None, true) => Form::Json,
        (None, false) => Form::Data,
    };
    follow::Follower::new(args.follow, form).run()
}

/// Prints as [`run`], with the time and the channel before each publication.
pub(crate) fn tail(args: TailArgs) -> Result {
    follow::Follower::new(args.follow, Form::Stamped).run()
}
