//! Coming and leaving.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use super::PUBLISHERS_MAX;
use super::flow::{Load, Pace};
use super::publisher::{Publisher, Sending};
use super::reactor::Client;
use super::subscriber::Subscriber;

/// Longest wait for a burst of connections.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest wait of one turn.
const TURN: Duration = Duration::from_millis(100);

impl Client {
    /// Adds subscribers until there are `total`, as fast as the server takes them. `channel` names
    /// the channel of each. Returns when every one is subscribed.
    ///
    /// # Errors
    /// If one is refused or lost, or if it takes minutes.
    pub(crate) fn connect(
        &mut self,
        total: usize,
        channel: impl Fn(usize) -> String,
    ) -> Result<()> {
        let dialect = self.dialect;
        self.connect_to(total, |n| dialect.target(&channel(n)))
    }

    /// As [`Client::connect`]; `target` gives the request target of each.
    pub(crate) fn connect_to(
        &mut self,
        total: usize,
        target: impl Fn(usize) -> String,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.open < total {
            while self.subscribers.len() < total
                && self.subscribers.len() - self.open < self.dialect.handshakes_max()
            {
                self.start(&target(self.subscribers.len()))?;
            }
            self.turn(TURN)?;
            ensure!(
                Instant::now() < deadline,
                "only {} of {total} connections opened in {} s",
                self.open,
                PATIENCE.as_secs()
            );
        }
        Ok(())
    }

    fn start(&mut self, target: &str) -> Result<()> {
        let (registry, token) = (self.poll.registry(), self.next_subscriber());
        let address = self.addresses.subscribe;
        let subscriber = Subscriber::start(self.dialect, address, target, registry, token)
            .with_context(|| format!("connection {}", token.0 + 1))?;
        self.subscribers.push(subscriber);
        Ok(())
    }

    /// Opens the publishing connections of a load anew: servers close those that idled.
    pub(crate) fn open_publishers(&mut self, load: &Load) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        self.publishers.clear();
        let (sending, wanted) = match load.pace {
            Pace::InFlight(_) | Pace::PerSecond(_) => (Sending::OneByOne, PUBLISHERS_MAX),
            Pace::Pipelined(_) => (Sending::Pipelined, 1),
            Pace::Socket(_) => (Sending::Socket, 1),
        };
        while self.publishers.len() < wanted {
            let (registry, token) = (self.poll.registry(), self.next_publisher());
            let address = self.addresses.publish;
            let publisher = Publisher::start(self.dialect, address, registry, token, sending)?;
            self.publishers.push(publisher);
        }
        while !self.publishers.iter().all(Publisher::is_idle) {
            self.turn(TURN)?;
            ensure!(
                Instant::now() < deadline,
                "publishing connections do not open"
            );
        }
        Ok(())
    }

    /// Closes every connection and forgets it.
    pub(crate) fn leave(&mut self) {
        self.subscribers.clear();
        self.publishers.clear();
        self.open = 0;
    }
}
