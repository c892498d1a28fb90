//! Clients whose backend does more than hold them: long polls, streams that go on by links,
//! WebSockets over HTTP, WebSockets that the backend speaks, and connections that only pass bytes.
//!
//! Each knows what it must get: the next line of a log, the answer to its next message, its own
//! bytes. Never: looks into the server or the backend, but for the end of a log at rest.

mod came;
mod logs;
mod talks;

use throng_http1::encode_request;
use throng_ws::handshake;

use crate::backend::LOGS;
use crate::client::Around;
use crate::setup::PORT_CLIENT;
use came::Came;
use logs::{Polls, Stream};
use talks::{Echo, Talk};

/// Statuses with which the server may refuse: its backend failed, it goes down or is full, or the
/// request was too slow.
const REFUSALS: [u16; 5] = [408, 500, 502, 503, 504];

/// Kind of a visitor, with what it remembers across connections.
enum Kind {
    /// The last line that it has of a log.
    Poll {
        log: usize,
        last: u64,
    },
    /// The same; none before its first stream.
    Stream {
        log: usize,
        last: Option<u64>,
    },
    Socket,
    Tunnel,
    Bytes,
}

/// Reader of a connection's bytes.
enum Reads {
    Polls(Polls),
    Stream(Stream),
    Talk(Talk),
    Echo(Echo),
}

struct Link {
    conn: usize,
    reads: Reads,
    /// Whether the server has sent its last message.
    over: bool,
    reads_from_us: u64,
}

/// A client of GRIP that follows what it gets.
pub(crate) struct Visitor {
    number: usize,
    kind: Kind,
    read_bytes_max: usize,
    link: Option<Link>,
    calm: bool,
}

impl Visitor {
    pub(crate) fn new(number: usize, around: &Around<'_>) -> Self {
        Self::of(number, 6, around)
    }

    /// A visitor that follows a log, and is calm.
    pub(crate) fn follower(number: usize, around: &Around<'_>) -> Self {
        let mut visitor = Self::of(number, 3, around);
        visitor.calm_down();
        visitor
    }

    fn of(number: usize, kinds: usize, around: &Around<'_>) -> Self {
        let net = around.net;
        let log = net.below(LOGS);
        let kind = match net.below(kinds) {
            0 => Kind::Poll { log, last: 0 },
            1 | 2 => Kind::Stream { log, last: None },
            3 => Kind::Socket,
            4 => Kind::Tunnel,
            _ => Kind::Bytes,
        };
        Self {
            number,
            kind,
            read_bytes_max: net.pick(&[3, 40, 400, 100_000]),
            link: None,
            calm: false,
        }
    }

    fn who(&self) -> String {
        let what = match &self.kind {
            Kind::Poll { .. } => "poll",
            Kind::Stream { .. } => "stream",
            Kind::Socket => "socket",
            Kind::Tunnel => "tunnel",
            Kind::Bytes => "bytes",
        };
        let conn = self.link.as_ref().map(|link| link.conn);
        format!("visitor {} ({what}, {conn:?})", self.number)
    }

    /// From now on it reads quickly and stays.
    pub(crate) const fn calm_down(&mut self) {
        self.calm = true;
        self.read_bytes_max = 1 << 20;
    }

    /// Whether it is on a stream that has begun.
    pub(crate) fn is_held(&self) -> bool {
        let reads = self.link.as_ref().map(|link| &link.reads);
        matches!(reads, Some(Reads::Stream(stream)) if stream.has_begun())
    }

    pub(crate) fn conn(&self) -> Option<usize> {
        self.link.as_ref().map(|link| link.conn)
    }

    pub(crate) fn connect(&mut self, around: &mut Around<'_>) {
        let conn = around.net.connect(PORT_CLIENT, around.setup.kernel_bytes);
        let key = around.net.key();
        let mut out = Vec::new();
        let mut get = |target: &str| encode_request("GET", target, "sim", &[], None, &mut out);
        let reads = match &self.kind {
            Kind::Poll { log, last } => {
                get(&poll_target(*log, *last));
                Reads::Polls(Polls::default())
            }
            Kind::Stream { log, last } => {
                let since = last.map_or(String::new(), |last| format!("?since={last}"));
                get(&format!("/grip/log/{log}{since}"));
                Reads::Stream(Stream::new(*last))
            }
            Kind::Socket | Kind::Tunnel | Kind::Bytes => {
                let target = match self.kind {
                    Kind::Socket => "/grip/socket",
                    Kind::Tunnel => "/grip/tunnel/grip",
                    _ => "/grip/tunnel",
                };
                handshake::encode_request("sim", target, key, &[], &mut out);
                match self.kind {
                    Kind::Bytes => Reads::Echo(Echo::new(key)),
                    _ => Reads::Talk(Talk::new(key)),
                }
            }
        };
        self.link = Some(Link {
            conn,
            reads,
            over: false,
            reads_from_us: 0,
        });
        note!(
            around.net,
            "{} asks {}",
            self.who(),
            String::from_utf8_lossy(&out).lines().next().unwrap_or("")
        );
        around.net.client_send(conn, &out);
    }

    /// Is gone at once.
    pub(crate) fn leave(&mut self, around: &Around<'_>) {
        let who = self.who();
        if let Some(link) = self.link.take() {
            let reset = around.net.client_drops(link.conn);
            note!(around.net, "{who} leaves, reset: {reset}");
        }
    }

    /// Sends its next message, if it has one.
    pub(crate) fn act(&mut self, around: &Around<'_>) {
        let who = self.who();
        let Some(link) = self.link.as_mut().filter(|link| !link.over) else {
            return;
        };
        let out = match &mut link.reads {
            Reads::Talk(talk) => talk.act(around.net),
            Reads::Echo(echo) => echo.act(around.net),
            Reads::Polls(_) | Reads::Stream(_) => Vec::new(),
        };
        if !out.is_empty() {
            note!(around.net, "{who} sends {} bytes", out.len());
            around.net.client_send(link.conn, &out);
        }
    }

    /// Reads what has arrived, and the end if that is all. True if anything happened.
    pub(crate) fn read(&mut self, around: &mut Around<'_>) -> bool {
        let who = self.who();
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
            note!(around.net, "{who} sees the end");
            around.net.client_leaves(link.conn, false);
            self.link = None;
            return true;
        };
        if bytes.is_empty() {
            return false;
        }
        assert!(!link.over, "{who}: bytes after the last word");
        let came = match (&mut link.reads, &mut self.kind) {
            (Reads::Polls(polls), Kind::Poll { last, .. }) => {
                polls.read(&who, &bytes, last, around)
            }
            (Reads::Stream(stream), Kind::Stream { last, .. }) => {
                stream.read(&who, &mut bytes, last, around)
            }
            (Reads::Talk(talk), _) => talk.read(&who, &mut bytes, around),
            (Reads::Echo(echo), _) => echo.read(&who, &mut bytes, around),
            _ => panic!("{who} reads what it did not ask for"),
        };
        match came {
            Came::More => self.ask_again(around),
            Came::Over => {
                link.over = true;
                if let Reads::Talk(talk) = &mut link.reads {
                    let answer = talk.farewell(around.net);
                    around.net.client_send(link.conn, &answer);
                }
            }
            Came::Refused(status) => {
                assert!(REFUSALS.contains(&status), "{who}: refused with {status}");
                self.leave(around);
            }
        }
        true
    }

    /// A poll that was answered is followed by the next one.
    fn ask_again(&mut self, around: &Around<'_>) {
        let (Some(link), Kind::Poll { log, last }) = (self.link.as_mut(), &self.kind) else {
            return;
        };
        if let Reads::Polls(polls) = &mut link.reads
            && polls.asks_again()
        {
            let mut out = Vec::new();
            let target = poll_target(*log, *last);
            encode_request("GET", &target, "sim", &[], None, &mut out);
            around.net.client_send(link.conn, &out);
        }
    }

    /// Checks, at rest, that nothing is owed.
    pub(crate) fn settle(&self, around: &Around<'_>) {
        let Some(link) = self.link.as_ref() else {
            return;
        };
        let who = self.who();
        if around.net.was_aborted(link.conn) || link.over {
            return;
        }
        let end = |log: usize| around.backend.with_site(|site| site.logs[log]);
        match (&link.reads, &self.kind) {
            (Reads::Polls(_), Kind::Poll { log, last }) => {
                assert_eq!(*last, end(*log), "{who}: the end of log {log}");
            }
            (Reads::Stream(_), Kind::Stream { log, last }) => {
                assert_eq!(*last, Some(end(*log)), "{who}: the end of log {log}");
            }
            (Reads::Talk(talk), _) => talk.settle(&who),
            (Reads::Echo(echo), _) => echo.settle(&who),
            _ => {}
        }
    }
}

fn poll_target(log: usize, last: u64) -> String {
    format!("/grip/poll/{log}?since={last}")
}
