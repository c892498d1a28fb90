//! A shard of the new process: takes what the old one of its number holds, and waits for the word
//! to begin.

use throng_broker::HookEvent;
use throng_engine::{Conns, Kernel, Running};
use throng_types::{Load as _, Saved};

use super::link::Link;
use super::meeting::{Reporter, Reports, reports};
use super::state::{load_conn, load_piece};
use crate::gateways::Session;
use crate::shard::ShardApp;

/// First bytes of a shard's messages.
pub(super) const HUB: u8 = 0;
pub(super) const CONNECTIONS: u8 = 1;
pub(super) const END: u8 = 2;
pub(super) const WEBHOOKS: u8 = 3;
/// Events of the connections that stay, for webhooks: they have gone.
pub(super) const GONE: u8 = 4;

/// Number of connections that a shard of the new process has taken.
pub(crate) type Taken = Reports<Result<usize, String>>;

/// Order to a shard's thread to take over its predecessor's state. Dropping its [`Taken`] ends the
/// shard before it has begun.
pub(crate) struct Taking {
    link: Link,
    way: Reporter<Result<usize, String>>,
}

impl Taking {
    pub(crate) fn new(link: Link) -> (Self, Taken) {
        let (way, taken) = reports();
        (Self { link, way }, taken)
    }

    /// Takes everything, and waits; false if the shard is to end.
    pub(crate) fn take(self, running: &mut Running<ShardApp>) -> bool {
        let taken = take(&self.link, running);
        let is_whole = taken.is_ok();
        self.way.report(taken);
        let begins = is_whole && self.way.hears_word();
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
            let heard = shard.heard.recv();
            all += heard.unwrap_or_else(|_| Err("a shard does not answer".to_owned()))?;
        }
        Ok(all)
    }
}

fn take(link: &Link, running: &mut Running<ShardApp>) -> Result<usize, String> {
    let (app, conns) = running.parts_mut();
    let mut unpacking = Unpacking::default();
    while !unpacking.is_whole {
        let (message, fds) = link
            .recv()
            .map_err(|error| format!("a shard received nothing: {error}"))?;
        let taken = unpacking.take(&message, &mut fds.into_iter(), app, conns);
        taken.ok_or(
            "the state sent to a shard is damaged, or from another kind of broker, or for clients \
             of a section that is no longer configured",
        )?;
    }
    Ok(unpacking.count)
}

/// Progress of unpacking a shard's messages, and whether the last has come.
#[derive(Default)]
pub struct Unpacking {
    count: usize,
    is_whole: bool,
    /// Records of webhooks. Bound: what the other process kept.
    webhooks: Vec<u8>,
}

impl Unpacking {
    /// Takes a message with its sockets, all of them; `None` if it is damaged.
    pub fn take<K: Kernel>(
        &mut self,
        message: &[u8],
        sockets: &mut dyn Iterator<Item = K::Socket>,
        app: &mut ShardApp,
        conns: &mut Conns<Session, K>,
    ) -> Option<()> {
        let mut from = Saved::new(message);
        match u8::load(&mut from)? {
            HUB => load_piece(app, &message[1..])?,
            CONNECTIONS => {
                while !from.is_empty() {
                    load_conn(app, &mut from, sockets, conns)?;
                    self.count += 1;
                }
                sockets.next().is_none().then_some(())?;
            }
            WEBHOOKS => self.webhooks.extend_from_slice(&message[1..]),
            GONE => {
                while !from.is_empty() {
                    let event = HookEvent::load(&mut from)?;
                    app.parts
                        .shared
                        .hooks
                        .iter()
                        .for_each(|it| it.tell(event.clone()));
                }
            }
            END => {
                let (generation, sent) = <(u32, usize)>::load(&mut from)?;
                (sent == self.count).then_some(())?;
                app.gateways.load_rest(&mut from)?;
                from.is_empty().then_some(())?;
                conns.resume_generation(generation);
                app.parts.hub.loaded(conns.now());
                // Without webhooks here nobody needs them.
                if let Some(webhooks) = app.parts.webhooks.as_ref()
                    && app.parts.shard.0 == 0
                {
                    webhooks.take(std::mem::take(&mut self.webhooks));
                }
                self.is_whole = true;
            }
            _ => return None,
        }
        Some(())
    }

    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }
}
