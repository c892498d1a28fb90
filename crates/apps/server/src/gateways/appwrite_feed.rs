//! Appwrite Realtime outside the shards: the thread that serves the peer, the queues of news, and a
//! count of openings.
//!
//! Rule for "full": the host of the peer offers news again; the peer then takes no more events.

use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use throng_appwrite::FeedMessage;
use throng_appwrite_api::{AppwriteOptions, AppwritePeer, Call, Offers, Reply};
use throng_engine::MailboxSender;
use throng_gateway_appwrite::{Inbox, Lookup, News, Outside, PresenceCall, QueueFull};
use throng_outward::{Deliver, Host};
use throng_session::counted_as;
use throng_types::Now;

use super::Sources;
use crate::shard::ShardMail;

/// News that may wait for one shard. Queue: `news`.
const NEWS_MAX: usize = 1024;
/// Bound of the wait until everything is taken that came before a new process listened.
const CATCH_UP: Duration = Duration::from_secs(8);
/// Addresses counted in one minute; beyond that no new address is counted, nor refused.
const ADDRESSES_MAX: usize = 1 << 20;

/// A shard's end of its queue.
pub(crate) struct ShardInbox(pub(crate) Receiver<News>);

impl Inbox for ShardInbox {
    fn next(&mut self) -> Option<News> {
        self.0.try_recv().ok()
    }
}

/// Hands news to one shard and wakes it. Gives them back while there is no room.
pub(crate) type Inlet = Arc<dyn Fn(News) -> Result<(), News> + Send + Sync>;

pub(crate) fn inlet(mailbox: MailboxSender<ShardMail>) -> (Inlet, Receiver<News>) {
    let (sender, receiver): (SyncSender<News>, _) = sync_channel(NEWS_MAX);
    let inlet = move |news| {
        let sent = sender.try_send(news);
        mailbox.ring();
        match sent {
            Err(TrySendError::Full(back)) => Err(back),
            // A shard that has ended needs none.
            Ok(()) | Err(TrySendError::Disconnected(_)) => Ok(()),
        }
    };
    (Arc::new(inlet), receiver)
}

/// Makes the peer, on the thread that serves it.
pub(crate) type MakePeer = Box<dyn FnOnce() -> AppwritePeer + Send>;

/// State outside the shards, for all of them.
pub(crate) struct World {
    pub(crate) openings: Openings,
    offers: Offers,
    /// Set before the first connection is accepted.
    peer: OnceLock<Host<Call>>,
}

impl World {
    pub(crate) fn new(openings: Openings) -> Self {
        Self {
            openings,
            offers: Offers::default(),
            peer: OnceLock::new(),
        }
    }

    /// Has `host` serve the peer. `offers` of its options is set here.
    pub(crate) fn start(
        &self,
        inlets: Vec<Inlet>,
        options: AppwriteOptions,
        host: impl FnOnce(MakePeer, Deliver<Reply>) -> io::Result<Host<Call>>,
    ) -> io::Result<()> {
        let options = AppwriteOptions {
            offers: self.offers.clone(),
            ..options
        };
        let deliver = move |reply| {
            match reply {
                Reply::News(shard, news) => {
                    let sent = inlets.get(shard).map_or(Ok(()), |inlet| inlet(news));
                    return sent.map_err(|back| Reply::News(shard, back));
                }
                Reply::Stands(stood) => stood(),
            }
            Ok(())
        };
        let make = Box::new(move || AppwritePeer::new(options));
        let host = host(make, Box::new(deliver))?;
        host.calls().send(Call::Begin);
        let _ = self.peer.set(host);
        Ok(())
    }

    fn call(&self, call: Call) -> Result<(), QueueFull> {
        let peer = self.peer.get().ok_or(QueueFull)?;
        peer.calls().send(call).then_some(()).ok_or(QueueFull)
    }
}

impl Sources for World {
    fn share(&self) {
        let _ = self.call(Call::Share);
    }

    fn stand_still(&self) -> Result<(), String> {
        let (stood, stands) = sync_channel(1);
        let stood = Box::new(move || {
            let _ = stood.try_send(());
        });
        // A peer that has ended takes no calls.
        let asked = self.call(Call::StandStill(stood));
        match asked.map(|()| stands.recv_timeout(CATCH_UP)) {
            Ok(Err(RecvTimeoutError::Timeout)) => Err(
                "Appwrite's events come faster than they go out, so the new process cannot go on \
                 where this one stops"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn go_on(&self, has_taken_over: bool) {
        let _ = self.call(Call::GoOn { has_taken_over });
    }
}

impl Outside for World {
    fn admit(&self, address: IpAddr, now: Now) -> bool {
        self.openings.admit(address, now)
    }

    fn identify(&self, lookup: Lookup) -> Result<(), QueueFull> {
        self.call(Call::LookUp(lookup))
    }

    fn presence(&self, call: PresenceCall) -> Result<(), QueueFull> {
        self.call(Call::Presence(call))
    }

    fn publish(&self, event: FeedMessage) -> Result<(), QueueFull> {
        self.offers.add()?;
        self.call(Call::Offer(event))
    }
}

/// Connections that each address has opened in this window, over all shards.
pub(crate) struct Openings {
    opens_max: u32,
    window_ms: u64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    window: u64,
    by_address: std::collections::HashMap<IpAddr, u32>,
}

impl Openings {
    /// So many in a window; zero is no limit.
    pub(crate) fn new(opens_max: u32, window_ms: u64) -> Self {
        Self {
            opens_max,
            window_ms,
            counts: Mutex::default(),
        }
    }

    fn admit(&self, address: IpAddr, now: Now) -> bool {
        if self.opens_max == 0 {
            return true;
        }
        let Ok(mut counts) = self.counts.lock() else {
            return true;
        };
        let window = now.mono.0 / self.window_ms.max(1);
        if counts.window != window {
            *counts = Counts {
                window,
                ..Counts::default()
            };
        }
        let address = counted_as(address);
        if counts.by_address.len() >= ADDRESSES_MAX && !counts.by_address.contains_key(&address) {
            return true;
        }
        let count = counts.by_address.entry(address).or_insert(0);
        *count = count.saturating_add(1);
        *count <= self.opens_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openings_are_counted_by_address_and_window() {
        let openings = Openings::new(2, 1000);
        let at = |ms| Now::new(ms, 0);
        let admit = |address: &str, ms| openings.admit(address.parse().unwrap(), at(ms));
        assert!(admit("203.0.113.1", 0) && admit("203.0.113.1", 999));
        assert!(!admit("203.0.113.1", 999));
        assert!(admit("203.0.113.2", 999));
        assert!(admit("203.0.113.1", 1000));
        assert!(admit("2001:db8::1", 1000) && admit("2001:db8::2", 1000));
        assert!(!admit("2001:db8::3", 1000) && admit("2001:db8:0:1::3", 1000));
        assert!(Openings::new(0, 1000).admit("203.0.113.1".parse().unwrap(), at(0)));
    }
}
