//! The handle to a running server.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use throng_config::Config;
use throng_engine::MailboxSender;
use throng_history::Journal;
use throng_session::Reloaded;
use throng_sys::{clock, random};
use throng_types::lock;

use crate::drain::DrainOptions;
use crate::feeds::Feeds;
use crate::gateways::Sources;
use crate::handover::{
    Given, Group, HandOver, HandOverError, Hello, Meeting, Moved, Program, Successor,
};
use crate::hooks::Webhooks;
use crate::options::{ReloadRequest, Start};
use crate::renewal::Renewal;
use crate::shard::{Message, ShardMail};
use crate::stats::Observatory;
use crate::tls::Watched;

/// Why a running server ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("shard {shard} failed: {error}")]
    Reactor { shard: usize, error: io::Error },
    /// A shard panicked; the message was printed when it did.
    #[error("shard {shard} panicked; this is a bug")]
    Panic { shard: usize },
}

/// Facts that a successor needs besides the state of shards.
pub(crate) struct Origin {
    pub(crate) start: Start,
    pub(crate) zero_us: u64,
    pub(crate) shards: u8,
    pub(crate) software: &'static str,
    /// Descriptors that keep the ports open as long as they are held.
    pub(crate) listeners: Vec<Group>,
}

/// A running server. Dropping it leaves the server running.
pub struct Handle {
    /// Until the server begins to end.
    pub(crate) origin: Mutex<Option<Origin>>,
    pub(crate) clients: Vec<SocketAddr>,
    pub(crate) api: SocketAddr,
    pub(crate) own: Vec<(&'static str, SocketAddr)>,
    pub(crate) shards: Vec<MailboxSender<ShardMail>>,
    pub(crate) threads: Vec<JoinHandle<io::Result<()>>>,
    pub(crate) feeds: Feeds,
    pub(crate) drain: Mutex<DrainOptions>,
    pub(crate) renewal: Mutex<Renewal>,
    /// Certificates, if any are shown.
    pub(crate) tls: Option<Arc<Watched>>,
    pub(crate) observatory: Arc<Observatory>,
    /// Sources from which gateways hear events of other servers.
    pub(crate) sources: Option<Arc<dyn Sources>>,
    /// Writes history to disk, if that is configured.
    pub(crate) journal: Option<Journal>,
}

impl Handle {
    pub fn client_addresses(&self) -> &[SocketAddr] {
        &self.clients
    }

    pub const fn api_address(&self) -> SocketAddr {
        self.api
    }

    /// Returns the addresses of the gateways' own ports, with the options that name them.
    pub fn own_addresses(&self) -> &[(&'static str, SocketAddr)] {
        &self.own
    }

    /// Whether every shard is at work. Once one has ended, so should the others.
    pub fn is_running(&self) -> bool {
        !self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Begins a graceful stop: no new connections, clients are told to come back, and the
    /// server ends when they have left or the drain's time is up.
    pub fn drain(&self) {
        self.take_origin();
        self.feeds.end();
        let drain = *lock(&self.drain);
        self.tell(|| Message::Drain(drain));
    }

    /// Takes over what of a configuration can change while the server runs, with its files as they
    /// are now: routes, certificates, keys. It holds on every shard when this returns, and no
    /// connection was touched. The values that need a restart must be those of the start; see
    /// [`throng_config::Loaded::renew`].
    /// Error: sentences on what is wrong; nothing has changed then.
    pub fn reload(&self, config: &Config) -> Result<(), Vec<String>> {
        lock(&self.renewal).renew(config)?;
        let mut drain = lock(&self.drain);
        *drain = DrainOptions::of(config);
        Ok(())
    }

    pub(crate) fn webhooks(&self) -> Option<Arc<Webhooks>> {
        lock(&self.renewal).webhooks.clone()
    }

    pub fn answer_reload(&self, request: ReloadRequest, what: Reloaded) {
        let ReloadRequest(conn) = request;
        self.tell_one(conn.shard().index(), Message::Reloaded(conn, what));
    }

    /// Looks whether files of certificates have changed, and shows them if so; to be called every
    /// few seconds. Connections keep what they have.
    pub fn look_after_certificates(&self) {
        if let Some(tls) = &self.tls {
            tls.look();
        }
    }

    /// Keeps the numbers of now for the dashboard's last hour; to be called every five seconds.
    pub fn remember_numbers(&self) {
        let observatory = &self.observatory;
        let totals = || observatory.totals();
        let base_bytes = observatory.base_bytes;
        { &observatory.watch }.record(clock::unix_ms(), base_bytes, totals);
    }

    /// Ends at once; connections are cut.
    pub fn stop(&self) {
        self.take_origin();
        self.feeds.end();
        self.tell(|| Message::Stop);
    }

    fn take_origin(&self) -> Option<Origin> {
        self.origin.lock().ok()?.take()
    }

    /// Starts a program that takes this server's place, and hands over to it. On success this
    /// server has nothing left but what could not move, which it drains; gives the process id of
    /// the new one. Takes as long as the program needs to be ready. Error: why not; this server
    /// serves as before.
    pub fn hand_over(&self, program: &Program) -> Result<u32, HandOverError> {
        let result = self.try_hand_over(program);
        if let Some(sources) = &self.sources {
            sources.go_on(result.is_ok());
        }
        match result {
            Ok(_) => self.feeds.end(),
            Err(_) => self.feeds.go_on(),
        }
        result
    }

    fn try_hand_over(&self, program: &Program) -> Result<u32, HandOverError> {
        let gone = || HandOverError::Here("this server is ending".to_owned());
        let mut place = self.origin.lock().map_err(|_| gone())?;
        let origin = place.as_ref().ok_or_else(gone)?;
        let hello = Hello {
            start: origin.start,
            zero_us: origin.zero_us,
            shards: origin.shards,
            addresses: origin.listeners.len() as u8,
            pid: std::process::id(),
            software: origin.software.to_owned(),
        };
        if let Some(sources) = &self.sources {
            sources.share();
        }
        let mut successor = Successor::start(program, &hello, &origin.listeners)?;
        // The successor's feeds begin where these end.
        self.feeds.pause();
        if let Some(sources) = &self.sources {
            sources.stand_still().map_err(HandOverError::Here)?;
        }
        let mut shards = Vec::new();
        let began = Instant::now();
        let drain = *lock(&self.drain);
        let cut = random::seed();
        let meeting = Arc::new(Meeting::new(self.shards.len()));
        for (shard, link) in std::mem::take(&mut successor.shards)
            .into_iter()
            .enumerate()
        {
            let (order, reports) = HandOver::new(link, meeting.clone(), drain, cut);
            if !self.tell_one(shard, Message::HandOver(order)) {
                return Err(gone());
            }
            shards.push(reports);
        }
        // If anything fails from here on, dropping the reports lets the shards go on, and dropping
        // the successor ends it before that.
        let moved = Given::all(&shards).and_then(|moved| {
            // Nobody publishes now. The new process takes the folder before it says its word.
            if let Some(journal) = &self.journal {
                journal.let_go();
            }
            successor.hear("taking everything")?;
            successor.begin().map(|()| moved)
        });
        let moved = match moved {
            Ok(moved) => moved,
            Err(error) => {
                drop(successor);
                if let Some(journal) = &self.journal {
                    journal.begin();
                }
                return Err(error);
            }
        };
        *place = None;
        drop(place);
        if let Some(journal) = &self.journal {
            journal.give_up();
        }
        for shard in shards {
            shard.say_word();
        }
        let pid = successor.pid();
        successor.release();
        let Moved { moved, stay } = moved;
        let pause_ms = began.elapsed().as_millis() as u64;
        tracing::info!(moved, stay, pause_ms, "handed over");
        Ok(pid)
    }

    fn tell(&self, message: impl Fn() -> Message) {
        for shard in 0..self.shards.len() {
            self.tell_one(shard, message());
        }
    }

    /// Sends a shard a message; false if it has ended. A full mailbox empties with the shard's next
    /// turn.
    fn tell_one(&self, shard: usize, message: Message) -> bool {
        let (Some(mailbox), Some(thread)) = (self.shards.get(shard), self.threads.get(shard))
        else {
            return false;
        };
        let mut mail = ShardMail(message);
        while let Err(back) = mailbox.send(mail) {
            if thread.is_finished() {
                return false;
            }
            mail = back;
            std::thread::yield_now();
        }
        true
    }

    /// Waits until all shards have ended, then ends the feeds and closes the history. A shard that
    /// fails does not end the others.
    ///
    /// # Errors
    /// Failure of one shard, the lowest by number.
    pub fn wait(self) -> Result<(), ServeError> {
        let mut result = Ok(());
        for (shard, thread) in self.threads.into_iter().enumerate() {
            let ended = match thread.join() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(ServeError::Reactor { shard, error }),
                Err(_) => Err(ServeError::Panic { shard }),
            };
            result = result.and(ended);
        }
        self.feeds.end();
        self.feeds.wait();
        let renewal = self.renewal.into_inner();
        if let Some(webhooks) = renewal.unwrap_or_else(PoisonError::into_inner).webhooks {
            webhooks.finish();
        }
        if let Some(journal) = self.journal {
            // What a shard that failed was about to leave is missing.
            journal.close(result.is_ok());
        }
        result
    }
}
