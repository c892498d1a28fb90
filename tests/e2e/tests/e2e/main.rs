//! The `throng` binary, met by clients that were written by others. See `docs/TESTING.md`.

mod browser;
mod commands;
mod curl;
mod descriptors;
mod drain;
mod http;
mod limits;
mod live;
mod observe;
mod slow;
mod story;
mod support;
mod tokens;
mod work;
