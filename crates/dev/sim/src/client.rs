//! A simulated client: real bytes both ways, one connection at a time, comes back and recovers.
//!
//! Owns what a client of its protocol would remember between connections. Never: looks into
//! the server; it shows the [`Witness`] what it asked and what it got.

mod appwrite;
mod centrifuge;
mod connect;
mod kind;
mod protobuf;
mod state;
mod streams;
mod upstream;
mod wire;

use std::collections::BTreeMap;

use crate::setup::{APPWRITE, CHANNELS, GRIP, PORT_CLIENT};

use kind::Kind;
use state::Link;

pub(crate) use state::{Around, Client};
pub(crate) use streams::{json_of, place_of};
pub(crate) use wire::{Message, Shape, Wire};

impl Client {
    pub(crate) fn new(number: usize, around: &Around<'_>) -> Self {
        let net = around.net;
        let mut kind = net.pick(&Kind::ALL);
        while around.setup.hands_over && matches!(kind, Kind::Grip | Kind::Appwrite) {
            kind = net.pick(&Kind::ALL);
        }
        let mut channels: Vec<usize> = Vec::new();
        let count = net.pick(&[1, 1, 2, 3]);
        let count = match kind {
            Kind::Grip | Kind::Appwrite => count.min(2),
            Kind::Sse | Kind::Plain if around.setup.broadcasts => 1,
            _ => count,
        };
        while channels.len() < count {
            // A token of its own can only be brought by one protocol.
            let channel = match kind {
                Kind::Grip => GRIP + net.below(2),
                Kind::Appwrite => APPWRITE + net.below(2),
                _ => around.setup.draw_channel(true, net),
            };
            if !channels.contains(&channel) {
                channels.push(channel);
            }
        }
        Self {
            number,
            kind,
            channels,
            user: if net.percent(60) && !matches!(kind, Kind::Grip | Kind::Appwrite) {
                format!("u{}", net.below(3))
            } else {
                String::new()
            },
            mute: net.percent(10),
            read_bytes_max: net.pick(&[3, 40, 400, 100_000]),
            link: None,
            positions: BTreeMap::new(),
            cursor: String::new(),
            before: BTreeMap::new(),
            calm: false,
        }
    }

    fn who(&self) -> String {
        let conn = self.link.as_ref().map(|link| link.conn);
        format!("client {} ({:?}, {conn:?})", self.number, self.kind)
    }

    /// From now on it reads quickly, answers, and stays.
    pub(crate) const fn calm_down(&mut self) {
        self.calm = true;
        self.mute = false;
        self.read_bytes_max = 1 << 20;
    }

    pub(crate) fn conn(&self) -> Option<usize> {
        self.link.as_ref().map(|link| link.conn)
    }

    /// Opens a connection and sends its first bytes.
    pub(crate) fn connect(&mut self, around: &mut Around<'_>) {
        let conn = around.net.connect(PORT_CLIENT, around.setup.kernel_bytes);
        note!(
            around.net,
            "client {} ({:?}, {:?}) connects: {conn}",
            self.number,
            self.kind,
            self.channels
        );
        self.begin(conn, around);
    }

    /// Ends the connection, in one of the ways in which connections end.
    pub(crate) fn cut(&mut self, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        if around.net.percent(25) {
            // Sends nothing more and goes on reading.
            link.shut = true;
            around.net.client_fin(link.conn);
            around.net.count("a client shuts its sending side");
            note!(around.net, "{} shuts its side", self.who());
        } else {
            self.leave(around);
        }
    }

    /// Is gone at once.
    pub(crate) fn leave(&mut self, around: &mut Around<'_>) {
        let who = self.who();
        if let Some(link) = self.forget_link(around) {
            let reset = around.net.client_drops(link.conn);
            note!(around.net, "{who} leaves, reset: {reset}");
        }
    }

    fn forget_link(&mut self, around: &mut Around<'_>) -> Option<Link> {
        let link = self.link.take()?;
        for request in &link.upstream {
            around.net.client_leaves(request.conn, false);
        }
        for &track in link.tracks.values() {
            around.witness.ends(track);
        }
        for (&channel, &track) in &link.tracks {
            if around.witness.has_begun(track) {
                self.before.insert(channel, track);
            }
        }
        Some(link)
    }

    /// Reads what has arrived, and the end if that is all. True if anything happened.
    pub(crate) fn read(&mut self, around: &mut Around<'_>) -> bool {
        let answered = self.read_upstream(around);
        self.read_stream(around) || answered
    }

    fn read_stream(&mut self, around: &mut Around<'_>) -> bool {
        let Some(link) = self.link.as_mut() else {
            return false;
        };
        let mut wanted = self.read_bytes_max;
        if !self.calm {
            let Some(bytes) = around.net.reads(&mut link.reads_from_us, wanted) else {
                return false;
            };
            wanted = bytes;
        }
        let Some(mut bytes) = around.net.client_recv(link.conn, wanted) else {
            let who = self.who();
            note!(around.net, "{who} sees the end");
            self.was_told_of_the_end(around);
            if let Some(link) = self.forget_link(around) {
                around.net.client_leaves(link.conn, false);
            }
            return true;
        };
        if bytes.is_empty() {
            return false;
        }
        assert!(!link.over, "{}: bytes after the last word", self.who());
        let messages = link.wire.take(&mut bytes, self.kind.shape(), &self.cursor);
        for message in messages {
            note!(around.net, "{} gets {}", self.who(), message.shown());
            self.message(message, around);
        }
        true
    }

    /// Checks that a client that was too slow got the reason before the end, if the kernel can
    /// still deliver it. GRIP's streams carry no such message, and the end of a drain waits for no
    /// client.
    fn was_told_of_the_end(&self, around: &Around<'_>) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        let is_owed = link.open
            && !link.shut
            && self.kind != Kind::Grip
            && around.setup.drain_at.is_none()
            && around.net.owed_last_word(link.conn);
        assert!(
            !is_owed || link.over,
            "{}: it was too slow, and nobody said so",
            self.who()
        );
    }

    fn say(&self, bytes: &[u8], around: &Around<'_>) {
        if let Some(link) = self.link.as_ref().filter(|link| !link.shut) {
            around.net.client_send(link.conn, bytes);
        }
    }

    fn message(&mut self, message: Message, around: &mut Around<'_>) {
        let Some(link) = self.link.as_mut() else {
            return;
        };
        assert!(!link.over, "client {}: words after the last", self.number);
        match message {
            Message::Begun => self.head_came(around),
            Message::Refused(status) => {
                // Going down, the request was too slow, its token was, or its backend failed.
                let late = status == 401 && !self.user.is_empty();
                let failed = self.kind == Kind::Grip && matches!(status, 502 | 504);
                let excused = late || failed || matches!(status, 503 | 408);
                assert!(excused, "{}: refused with {status}", self.who());
                link.over = true;
                // It has no reason to stay.
                self.leave(around);
            }
            Message::Close(code) => {
                let code = code.map(u64::from);
                let good = code.is_some_and(|code| around.may_close(code));
                // Appwrite has one code for everything.
                let good = good || self.kind == Kind::Appwrite;
                assert!(good, "{}: closed with {code:?}", self.who());
                link.over = true;
                self.was_sent_away(code, around);
            }
            Message::LastChunk if self.kind == Kind::Grip => self.stream_ended(around),
            Message::LastChunk => link.over = true,
            Message::Ping(payload) => self.ping(&payload, around),
            Message::Data { text, data } => {
                let binary = matches!(self.kind, Kind::Plain | Kind::Protobuf);
                assert!(text || binary, "JSON travels as text");
                match self.kind {
                    Kind::Protobuf => {
                        for words in protobuf::replies(&data) {
                            self.spoken(&words, around);
                        }
                    }
                    Kind::Plain => self.plain(&data, around),
                    Kind::Appwrite => self.appwrite(&json_of(&data), around),
                    _ => {
                        for line in data.split(|&byte| byte == b'\n') {
                            self.spoken(&json_of(line), around);
                        }
                    }
                }
            }
            Message::Event { event, data, id } => match self.kind {
                Kind::Sse => self.event(&event, &data, &id, around),
                _ => self.spoken(&json_of(&data), around),
            },
            Message::Line(line) => match self.kind {
                Kind::Lines => self.line(&json_of(&line), around),
                Kind::Grip => self.grip_line(&line, around),
                _ => self.spoken(&json_of(&line), around),
            },
        }
    }

    /// A hand-over tells no client to come back later whose connection can move.
    pub(super) fn was_sent_away(&self, code: Option<u64>, around: &Around<'_>) {
        let may_be = !around.setup.hands_over || around.setup.drain_at.is_some();
        // On a stream it stays if another of the same connection does, that ends, for one.
        let is_free = |link: &Link| link.shut || around.net.is_lane(link.conn);
        let is_leaving = self.link.as_ref().is_none_or(is_free);
        let is_drain = matches!(code, Some(1012 | 3001));
        assert!(
            may_be || is_leaving || !is_drain,
            "{}: {code:?}",
            self.who()
        );
    }

    /// The track of a channel of this connection; asked for now if it was not yet.
    fn track(&mut self, channel: usize, around: &mut Around<'_>) -> usize {
        let who = self.who();
        let link = self.link.as_mut().expect("a track is a connection's");
        if let Some(&track) = link.tracks.get(&channel) {
            return track;
        }
        self.asks(channel, around);
        let link = self.link.as_ref().expect("still there");
        *link
            .tracks
            .get(&channel)
            .unwrap_or_else(|| panic!("{who}: asked for"))
    }

    /// Notes that a channel is asked for now.
    fn asks(&mut self, channel: usize, around: &mut Around<'_>) {
        let who = self.who();
        let Some(link) = self.link.as_mut() else {
            return;
        };
        link.lossy |= CHANNELS[channel].lossy;
        let lossless = !CHANNELS[channel].lossy;
        let track = around
            .witness
            .asks(who, link.conn, &self.user, channel, lossless);
        if link.tracks.insert(channel, track).is_some() {
            around.witness.blurs(link.conn);
        }
    }

    /// The channels in whose presence it is listed.
    pub(crate) fn listed_in(&self, around: &Around<'_>) -> Vec<usize> {
        let link = self.link.as_ref().filter(|_| self.kind.is_listed());
        let tracks = link.iter().flat_map(|link| &link.tracks);
        let stands =
            |track: usize| around.witness.is_active(track) && around.witness.has_begun(track);
        let stands = tracks.filter(|(_, track)| stands(**track));
        stands.map(|(&channel, _)| channel).collect()
    }

    /// Checks, at rest, that nothing is owed.
    pub(crate) fn settle(&self, around: &Around<'_>) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        if around.net.was_aborted(link.conn) {
            return;
        }
        assert!(!link.shut, "{}: its end was not seen", self.who());
        assert!(!link.over, "{}: an end without an end", self.who());
        let open = link.open || self.kind == Kind::Plain;
        assert!(open, "{} never heard the first words", self.who());
        link.commands.settle(&self.who());
    }
}
