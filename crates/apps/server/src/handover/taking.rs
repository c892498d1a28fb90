//! A shard of the new process: takes what the old one of its number holds, and waits for the word
//! to begin.

use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};

use throng_engine::Running;
use throng_types::{Save as _, Saved};

use super::link::Link;
use crate::list::GatewayList;
use crate::shard::ShardApp;

/// What a message of a shard begins with.
pub(super) const HUB: u8 = 0;
pub(super) const CONNECTIONS: u8 = 1;
pub(super) const END: u8 = 2;

/// What a shard needs to take over.
pub(crate) struct Taking {
    link: Link,
    report: Sender<Result<usize, String>>,
    begin: Receiver<()>,
}

/// The other end. Dropping it ends the shard before it has begun.
pub(crate) struct Taken {
    report: Receiver<Result<usize, String>>,
    begin: Sender<()>,
}

impl Taking {
    pub(crate) fn new(link: Link) -> (Self, Taken) {
        let (report, heard) = channel();
        let (said, begin) = channel();
        let taking = Self {
            link,
            report,
            begin,
        };
        let taken = Taken {
            report: heard,
            begin: said,
        };
        (taking, taken)
    }

    /// Takes everything, and waits; false if the shard is to end.
    pub(crate) fn take<L: GatewayList>(self, running: &mut Running<ShardApp<L>>) -> bool {
        let taken = take(&self.link, running);
        let is_whole = taken.is_ok();
        let heard = self.report.send(taken);
        let begins = is_whole && heard.is_ok() && self.begin.recv().is_ok();
        if begins {
            running.begin();
        }
        begins
    }
}

impl Taken {
    /// Waits until all shards have everything; gives the number of connections. Each message of the
    /// old process has its time, and its end is heard, so this ends.
    pub(crate) fn all(shards: &[Self]) -> Result<usize, String> {
        let mut all = 0;
        for shard in shards {
            let heard = shard.report.recv();
            all += heard.unwrap_or_else(|_| Err("a shard does not answer".to_owned()))?;
        }
        Ok(all)
    }

    /// All of it is this process's now.
    pub(crate) fn begin(self) {
        let _ = self.begin.send(());
    }
}

fn take<L: GatewayList>(link: &Link, running: &mut Running<ShardApp<L>>) -> Result<usize, String> {
    let damaged = || "what a shard was sent is damaged".to_owned();
    let (app, conns) = running.parts_mut();
    let mut count = 0;
    loop {
        let (message, fds) = link
            .recv()
            .map_err(|error| format!("a shard hears nothing: {error}"))?;
        let mut from = Saved::new(&message);
        match u8::load(&mut from) {
            Some(HUB) => app.load_piece(&message[1..]).ok_or_else(damaged)?,
            Some(CONNECTIONS) => {
                count += fds.len();
                for socket in fds {
                    let socket: OwnedFd = socket;
                    app.load_conn(&mut from, socket, conns)
                        .ok_or_else(damaged)?;
                }
                if !from.is_empty() {
                    return Err(damaged());
                }
            }
            Some(END) => {
                let (generation, sent) = <(u32, usize)>::load(&mut from).ok_or_else(damaged)?;
                if sent != count {
                    return Err(damaged());
                }
                conns.resume_generation(generation);
                let now = conns.now();
                app.loaded(now);
                return Ok(count);
            }
            _ => return Err(damaged()),
        }
    }
}
