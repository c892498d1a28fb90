//! The app of the runs of the engine alone: it answers each line, and hands it to all connections.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};

use throng_engine::{
    Accepted, App, Closed, Conns, Delivery, Effects, End, Kernel, Overflow, Pieces,
};
use throng_types::{ConnId, Frame, Millis, Now};

/// Time without input after which a connection gets `idle`, in milliseconds.
const IDLE_MS: u64 = 30_000;
/// Mail that an app takes while it has this much to hand on.
const BUSY_LINES: usize = 6;

/// A connection of the app.
pub(super) struct Session {
    state: State,
    line: Vec<u8>,
    idle: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Connection of streams: it has no lines.
    Carrier,
    /// Stream whose request has not come to its end.
    Head,
    Lines,
}

pub(super) enum Mail {
    Line(Vec<u8>),
    /// Shuts the shard's listener.
    Shut,
}

/// App of one shard.
pub(super) struct Relay {
    shard: usize,
    pub(super) out: Vec<VecDeque<Vec<u8>>>,
    /// Lines for all connections of the shard, one in each turn.
    pub(super) lines: VecDeque<Vec<u8>>,
    gather: bool,
    pub(super) live: usize,
    /// Connections whose deliveries are held back; one is let go in each turn.
    held: VecDeque<ConnId>,
    /// Connections are of HTTP/2.
    takes_streams: bool,
}

impl Relay {
    pub(super) fn new(shard: usize, shards: usize, gather: bool, takes_streams: bool) -> Self {
        Self {
            shard,
            out: vec![VecDeque::new(); shards],
            lines: VecDeque::new(),
            gather,
            live: 0,
            held: VecDeque::new(),
            takes_streams,
        }
    }

    fn accepted(&mut self, state: State, now: Now) -> Accepted<Session> {
        self.live += 1;
        Accepted {
            session: Session {
                state,
                line: Vec::new(),
                idle: 0,
            },
            tag: 7,
            deadline: Some(now.mono + IDLE_MS),
        }
    }
}

impl<K: Kernel> App<K> for Relay {
    type Session = Session;
    type Mail = Mail;

    fn accept(&mut self, _: u8, _: SocketAddr, now: Now) -> Option<Accepted<Session>> {
        let state = match self.takes_streams {
            true => State::Carrier,
            false => State::Lines,
        };
        Some(self.accepted(state, now))
    }

    fn accept_stream(
        &mut self,
        _: &mut Session,
        fx: &mut Effects<'_>,
    ) -> Option<Accepted<Session>> {
        Some(self.accepted(State::Head, fx.now))
    }

    fn bytes(&mut self, id: ConnId, session: &mut Session, input: &mut [u8], fx: &mut Effects<'_>) {
        if session.state == State::Carrier {
            fx.actions.http2 = Some(Ipv4Addr::LOCALHOST.into());
            return fx.out.extend_from_slice(input);
        }
        fx.set_deadline(Some(fx.now.mono + IDLE_MS));
        for &byte in input.iter() {
            session.line.push(byte);
            if byte != b'\n' {
                continue;
            }
            let line = std::mem::take(&mut session.line);
            if session.state == State::Head {
                if line == b"\r\n" {
                    session.state = State::Lines;
                    fx.out.extend_from_slice(b"HTTP/1.1 101 \r\n\r\n");
                }
                continue;
            }
            match line.as_slice() {
                b"bye\n" => {
                    fx.out.extend_from_slice(b"bye\n");
                    fx.end(End::Flush);
                    return;
                }
                b"hold\n" => {
                    fx.hold(true);
                    self.held.push_back(id);
                }
                line => {
                    fx.out.extend_from_slice(b"ok ");
                    fx.out.extend_from_slice(line);
                    self.lines.push_back(line.to_vec());
                    for (to, out) in self.out.iter_mut().enumerate() {
                        if to != self.shard {
                            out.push_back(line.to_vec());
                        }
                    }
                }
            }
        }
    }

    fn timeout(&mut self, _: ConnId, session: &mut Session, fx: &mut Effects<'_>) {
        session.idle += 1;
        if session.state == State::Lines {
            fx.out.extend_from_slice(b"idle\n");
        }
        fx.set_deadline(Some(fx.now.mono + IDLE_MS));
    }

    fn drained(&mut self, _: ConnId, _: &mut Session, dropped: u32, _: &mut Effects<'_>) {
        assert_eq!(dropped, 0, "nothing here may be dropped");
    }

    fn closed(&mut self, _: ConnId, _: Session, tag: u32, _: Closed, _: Now) {
        assert_eq!(tag, 7);
        self.live -= 1;
    }

    fn mail(&mut self, from: Option<usize>, mail: Mail, conns: &mut Conns<Session, K>, _: Now) {
        match mail {
            Mail::Line(line) => {
                assert_ne!(from, Some(self.shard), "nobody writes to himself");
                self.lines.push_back(line);
            }
            Mail::Shut => {
                conns.stop_listening(0);
                // Streams of theirs go on.
                let carriers = { conns.sessions() }
                    .filter(|(_, session)| session.state == State::Carrier)
                    .map(|(id, _)| id);
                for id in carriers.collect::<Vec<_>>() {
                    conns.with(id, |_, fx| fx.end(End::Flush));
                }
            }
        }
    }

    fn wants_mail(&self) -> bool {
        self.lines.len() < BUSY_LINES
    }

    fn take_mail(&mut self, to: usize) -> Option<Mail> {
        self.out[to].pop_front().map(Mail::Line)
    }

    fn turn(&mut self, conns: &mut Conns<Session, K>, _: Now) -> bool {
        if let Some(line) = self.lines.pop_front() {
            let (head, tail) = line.split_at(line.len() / 2);
            let frames = [Frame::new(head), Frame::new(tail)];
            let delivery = Delivery {
                frames: Pieces::Made(&frames),
                joined: &line,
                key: 1,
                overflow: Overflow::Close,
                gather: self.gather,
            };
            let has_lines = |(_, session): &(_, &Session)| session.state == State::Lines;
            let all = conns.sessions().filter(has_lines);
            let all: Vec<u32> = all.map(|(id, _)| id.index()).collect();
            for index in all {
                conns.deliver(index, &delivery);
            }
        }
        if let Some(id) = self.held.pop_front() {
            conns.with(id, |_, fx| {
                fx.out.extend_from_slice(b"free\n");
                fx.hold(self.held.contains(&id));
            });
        }
        !self.lines.is_empty() || !self.held.is_empty()
    }

    fn deadline(&self) -> Option<Millis> {
        None
    }
}
