//! The `throng` binary, met by clients that were written by others. See `docs/TESTING.md`.

mod answers;
mod backend;
mod batches;
mod browser;
mod commands;
mod compression;
mod curl;
mod descriptors;
mod drain;
mod handshake;
mod http;
mod limits;
mod live;
mod logged;
mod nginx;
mod observe;
mod pages;
mod pipelined;
mod presence;
mod proxies;
mod publisher;
mod slow;
mod story;
mod support;
mod tokens;
mod work;
