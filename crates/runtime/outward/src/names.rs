//! Look-ups of names, on helper threads: the system's resolver blocks.
//!
//! Threads: [`THREADS_MAX`], started when names come. Rule for "full": a name beyond
//! [`WAITING_MAX`] has no addresses, and the text says so.

use std::net::{IpAddr, ToSocketAddrs as _};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use throng_engine::MailboxSender;
use throng_types::lock;

/// Look-ups at a time.
const THREADS_MAX: usize = 4;
/// Names that wait for a thread. Queue: `names`.
const WAITING_MAX: usize = 1024;

/// The addresses of a name, or why there are none.
pub type Addresses = Result<Vec<IpAddr>, String>;

pub enum ResolvedName {
    Found(String, Addresses),
}

/// Threads that look names up, at most [`THREADS_MAX`]; each is started by a look-up.
pub(crate) struct Names {
    send: SyncSender<String>,
    wanted: Arc<Mutex<Receiver<String>>>,
    found: MailboxSender<ResolvedName>,
    threads: Mutex<usize>,
}

impl Names {
    pub(crate) fn new(found: MailboxSender<ResolvedName>) -> Self {
        let (send, wanted) = sync_channel(WAITING_MAX);
        Self {
            send,
            wanted: Arc::new(Mutex::new(wanted)),
            found,
            threads: Mutex::new(0),
        }
    }

    /// Looks a name up; [`ResolvedName::Found`] follows.
    ///
    /// # Errors
    /// A sentence, if nothing follows.
    pub(crate) fn look_up(&self, name: &str) -> Result<(), String> {
        self.start().map_err(|error| error.to_string())?;
        match self.send.try_send(name.to_owned()) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => Err("too many names are being looked up".to_owned()),
            Err(TrySendError::Disconnected(_)) => {
                Err("the threads for name look-ups have ended".to_owned())
            }
        }
    }

    /// One more thread, until there are enough.
    fn start(&self) -> io::Result<()> {
        let mut threads = lock(&self.threads);
        if *threads == THREADS_MAX {
            return Ok(());
        }
        let (wanted, found) = (self.wanted.clone(), self.found.clone());
        let thread = thread::Builder::new().name("names".to_owned());
        let started = thread.spawn(move || serve(&wanted, &found)).map(drop);
        *threads += usize::from(started.is_ok());
        match *threads {
            0 => started,
            _ => Ok(()),
        }
    }
}

fn serve(wanted: &Mutex<Receiver<String>>, found: &MailboxSender<ResolvedName>) {
    loop {
        let name = lock(wanted).recv();
        let Ok(name) = name else {
            return;
        };
        let addresses = match (name.as_str(), 0).to_socket_addrs() {
            Ok(all) => Ok(all.map(|address| address.ip()).collect()),
            Err(error) => Err(error.to_string()),
        };
        // As many mails at most as names that wait: there is room.
        let _ = found.send(ResolvedName::Found(name, addresses));
    }
}
