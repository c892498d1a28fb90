//! A simulated client: real bytes both ways, one connection at a time, comes back and recovers.
//!
//! Owns what a client of its protocol would remember between connections. Never: looks into
//! the server; it asks the [`Witness`] whether what it got is what it had to get.

mod centrifuge;
mod connect;
mod stream;
mod wire;

use std::collections::BTreeMap;

use throng_types::{ConnId, Epoch};

use crate::feed::Feed;
use crate::net::{Net, Port};
use crate::rng::Rng;
use crate::witness::Witness;
use centrifuge::Commands;
use wire::Wire;

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Sse,
    Lines,
    Plain,
    Centrifuge,
    UniWs,
    UniSse,
    UniHttp,
}

impl Protocol {
    pub(crate) const ALL: [Self; 7] = [
        Self::Sse,
        Self::Lines,
        Self::Plain,
        Self::Centrifuge,
        Self::UniWs,
        Self::UniSse,
        Self::UniHttp,
    ];
}

/// One connection.
struct Link {
    pipe: usize,
    /// Its id at the server; for the witness alone.
    conn: Option<ConnId>,
    wire: Wire,
    feed: Feed,
    commands: Commands,
    /// Where the client said it had been, per channel.
    since: BTreeMap<usize, (Epoch, u64)>,
    /// It said that it comes back.
    resuming: bool,
    /// The first words have come.
    open: bool,
    /// The server has said its last word.
    over: bool,
}

/// See the module's head.
pub(crate) struct Client {
    number: usize,
    protocol: Protocol,
    /// What it listens to; a Centrifugo client decides as it goes.
    channels: Vec<usize>,
    /// Empty for a client without a token.
    user: String,
    /// Never answers a ping.
    mute: bool,
    /// Most bytes that it reads at once.
    read_bytes_max: usize,
    link: Option<Link>,
    /// Where it was: per channel, and in the words of `/sse` and `/stream`.
    positions: BTreeMap<usize, (Epoch, u64)>,
    cursor: String,
    /// The newest place that it has of each channel.
    places: BTreeMap<usize, usize>,
    /// The run comes to its end: behave.
    calm: bool,
}

/// What a client needs of its surroundings.
pub(crate) struct Around<'a> {
    pub(crate) net: &'a mut Net,
    pub(crate) witness: &'a mut Witness,
    pub(crate) rng: &'a mut Rng,
}

impl Client {
    pub(crate) fn new(number: usize, around: &mut Around<'_>) -> Self {
        let rng = &mut *around.rng;
        let protocol = rng.pick(&Protocol::ALL);
        let protocol = if rng.percent(25) {
            Protocol::Centrifuge
        } else {
            protocol
        };
        let mut channels: Vec<usize> = Vec::new();
        let nameless = matches!(protocol, Protocol::Plain | Protocol::Sse);
        let single = nameless && around.witness.broadcasts;
        let count = if single { 1 } else { rng.pick(&[1, 1, 2, 3]) };
        while channels.len() < count {
            // A token of its own can only be brought by one protocol.
            let channel = around.witness.draw_channel(true, rng);
            if !channels.contains(&channel) {
                channels.push(channel);
            }
        }
        let user = if rng.percent(60) {
            format!("u{}", rng.below(3))
        } else {
            String::new()
        };
        Self {
            number,
            protocol,
            channels,
            user,
            mute: rng.percent(10),
            read_bytes_max: rng.pick(&[3, 40, 400, 100_000]),
            link: None,
            positions: BTreeMap::new(),
            cursor: String::new(),
            places: BTreeMap::new(),
            calm: false,
        }
    }

    /// From now on it reads quickly, answers, and stays.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.mute = false;
        self.read_bytes_max = 1 << 20;
    }

    pub(crate) const fn pipe(&self) -> Option<usize> {
        match &self.link {
            Some(link) => Some(link.pipe),
            None => None,
        }
    }

    pub(crate) fn accepted(&mut self, pipe: usize, conn: ConnId) {
        if let Some(link) = self.link.as_mut().filter(|link| link.pipe == pipe) {
            link.conn = Some(conn);
        }
    }

    /// Opens a connection; returns the pipe for a shard's backlog.
    pub(crate) fn connect(&mut self, kernel_bytes: usize, around: &mut Around<'_>) -> usize {
        let pipe = around.net.open(Port::Client, kernel_bytes);
        let link = self.begin(pipe, around);
        self.link = Some(link);
        pipe
    }

    /// Ends the connection at once, in one of the ways in which connections end.
    pub(crate) fn cut(&mut self, around: &mut Around<'_>) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        let (number, pipe) = (self.number, link.pipe);
        if around.rng.percent(25) {
            // It has nothing more to say and goes on listening.
            around.net.pipe(pipe).client_fin = true;
            return around
                .witness
                .note(|| format!("client {number} shuts its side of pipe {pipe}"));
        }
        self.leave(around);
    }

    /// Is gone at once.
    pub(crate) fn leave(&mut self, around: &mut Around<'_>) {
        let Some(link) = self.link.take() else {
            return;
        };
        let (number, pipe) = (self.number, link.pipe);
        let reset = around.rng.percent(50);
        around.net.leave(pipe, reset);
        around
            .witness
            .note(|| format!("client {number} leaves pipe {pipe}, reset: {reset}"));
    }

    /// Reads what has arrived, and the end if that is all. True if anything happened.
    pub(crate) fn read(&mut self, around: &mut Around<'_>) -> bool {
        let Some(link) = self.link.as_ref() else {
            return false;
        };
        let pipe = around.net.pipe(link.pipe);
        let wanted = around.rng.between(1, self.read_bytes_max);
        let count = pipe.down.len().min(if self.calm {
            self.read_bytes_max
        } else {
            wanted
        });
        let mut bytes: Vec<u8> = pipe.down.drain(..count).collect();
        let ended = pipe.down.is_empty() && (pipe.server_fin || pipe.server_gone);
        if !bytes.is_empty() {
            assert!(
                !link.over,
                "client {}: bytes after the last word: {:?}",
                self.number,
                String::from_utf8_lossy(&bytes)
            );
            self.take(&mut bytes, around);
        }
        if ended && let Some(link) = self.link.take() {
            around.net.leave(link.pipe, false);
            around
                .witness
                .note(|| format!("client {} sees the end of pipe {}", self.number, link.pipe));
            return true;
        }
        count > 0
    }

    fn write(&self, bytes: &[u8], around: &mut Around<'_>) {
        if let Some(link) = self.link.as_ref() {
            let pipe = around.net.pipe(link.pipe);
            // It may have shut its side.
            if !pipe.client_fin && !pipe.server_gone {
                pipe.up.extend(bytes);
            }
        }
    }

    /// Checks, when everything has come to rest, that nothing is owed.
    pub(crate) fn settle(&mut self, witness: &mut Witness) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        assert!(!link.over, "client {}: an end without an end", self.number);
        if self.protocol == Protocol::Plain {
            link.begin_plain(&self.channels, witness);
            let conn = link.conn.expect("accepted");
            for &channel in &self.channels {
                if witness.was_ended(conn, channel) {
                    link.feed.end(channel);
                } else {
                    let name = witness.name(channel);
                    assert!(
                        link.feed.has_begun(channel),
                        "client {}: {name} never began",
                        self.number
                    );
                }
            }
        } else {
            assert!(
                link.open,
                "client {} never heard the first words",
                self.number
            );
        }
        link.commands.settle(self.number);
        link.feed.settle(witness);
    }
}
