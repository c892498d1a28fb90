//! Work for an instruction counter: connections and deliveries, and nothing else.
//!
//! `cost direct|gather CONNECTIONS ROUNDS`: a shard accepts connections and hands one
//! frame to each of them, round by round. The difference of two runs is the price of a connection
//! (more of them, no rounds) or of a delivery (more rounds), for example with
//! `valgrind --tool=callgrind --separate-threads=yes`. The shard's thread is the second.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Sender, channel};
use std::time::Instant;

use throng_engine::{
    Accepted, App, Closed, ConnLimits, Conns, Delivery, Effects, Overflow, ShardOptions,
};
use throng_sys::socket;
use throng_types::{ConnId, Frame, Now, ShardId};

enum Mail {
    /// Hands a frame to every connection.
    Round,
    End,
}

struct Fanout {
    gather: bool,
    indices: Vec<u32>,
    events: Sender<()>,
    /// Turns until a round is over: what it queued leaves after the turn in which it came.
    turns_left: u32,
    ended: bool,
}

impl App for Fanout {
    type Session = u64;
    type Mail = Mail;

    fn accept(&mut self, _listener: u8, _peer: SocketAddr, now: Now) -> Option<Accepted<u64>> {
        let _ = self.events.send(());
        Some(Accepted {
            session: 0,
            tag: 0,
            deadline: Some(now.mono + 3_600_000),
        })
    }

    fn bytes(&mut self, _: ConnId, _: &mut u64, _input: &mut [u8], _fx: &mut Effects<'_>) {}

    fn timeout(&mut self, _: ConnId, _: &mut u64, _fx: &mut Effects<'_>) {}

    fn closed(&mut self, _: ConnId, _: u64, _tag: u32, _why: Closed, _now: Now) {}

    fn mail(&mut self, _from: Option<usize>, mail: Mail, conns: &mut Conns<u64>, _now: Now) {
        let Mail::Round = mail else {
            self.ended = true;
            return;
        };
        if self.indices.len() != conns.len() {
            self.indices = conns.sessions().map(|(id, _)| id.index()).collect();
        }
        let frame = Frame::new(&[b'x'; 100]);
        let delivery = Delivery {
            frames: throng_engine::Pieces::Made(std::slice::from_ref(&frame)),
            joined: &frame,
            key: 1,
            overflow: Overflow::Close,
            gather: self.gather,
        };
        for &index in &self.indices {
            conns.deliver(index, &delivery);
        }
        self.turns_left = 2;
    }

    fn take_mail(&mut self, _to: usize) -> Option<Mail> {
        None
    }

    fn turn(&mut self, _conns: &mut Conns<u64>, _now: Now) -> bool {
        if self.turns_left == 1 {
            let _ = self.events.send(());
        }
        self.turns_left = self.turns_left.saturating_sub(1);
        0 < self.turns_left
    }

    fn finished(&self, _conns: &Conns<u64>) -> bool {
        self.ended
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, mode, connections, rounds] = &arguments[..] else {
        eprintln!("cost direct|gather CONNECTIONS ROUNDS");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");
    let gather = mode == "gather";

    let listener = socket::listen(SocketAddr::from(([127, 0, 0, 1], 0)), 4096).expect("a port");
    let addr = socket::local_addr(listener.as_fd()).expect("its address");
    let options = ShardOptions {
        shard: ShardId(0),
        listeners: vec![listener],
        limits: ConnLimits::default(),
        started: Instant::now(),
    };
    let (mut builders, mailboxes) = throng_engine::builders(vec![options]).expect("a reactor");
    let builder = builders.remove(0);
    let (events, seen) = channel();
    // Before the shard runs, so that it accepts them in full batches.
    let clients: Vec<TcpStream> = (0..number(connections))
        .map(|_| TcpStream::connect(addr).expect("room in the backlog"))
        .collect();
    let thread = std::thread::spawn(move || {
        let app = Fanout {
            gather,
            indices: Vec::new(),
            events,
            turns_left: 0,
            ended: false,
        };
        builder.with(app).run(|_, _, _| ())
    });
    for _ in &clients {
        seen.recv().expect("accepted");
    }
    for _ in 0..number(rounds) {
        let _ = mailboxes[0].send(Mail::Round);
        seen.recv().expect("a round");
    }
    let _ = mailboxes[0].send(Mail::End);
    let _ = thread.join().expect("the shard's thread");
    println!("{} connections", clients.len());
}
