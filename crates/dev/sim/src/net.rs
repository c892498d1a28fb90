//! TCP as far as it matters here: two queues of bytes, and the ways in which they end.
//!
//! Owns what is between a client and its shard. Never: loses or reorders a byte of a
//! connection that lives; the faults are short reads, small buffers and sudden ends.

use std::collections::VecDeque;

/// Which listener a client connects to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Port {
    Client,
    Api,
}

/// What the kernel answers to a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Bytes(usize),
    WouldBlock,
    Broken,
}

/// One connection.
pub(crate) struct Pipe {
    pub(crate) port: Port,
    /// From the client to the shard.
    pub(crate) up: VecDeque<u8>,
    /// From the shard to the client: the kernel's buffers on the way.
    pub(crate) down: VecDeque<u8>,
    down_bytes_max: usize,
    /// The client has shut its sending side.
    pub(crate) client_fin: bool,
    /// The client is gone and takes nothing more; a write tells the server so.
    pub(crate) client_gone: bool,
    /// The server knows it without writing.
    pub(crate) client_reset: bool,
    /// The server has shut its sending side.
    pub(crate) server_fin: bool,
    /// The server has closed, or never accepted.
    pub(crate) server_gone: bool,
}

/// All connections of a run, by number; a number is never used twice.
#[derive(Default)]
pub(crate) struct Net {
    pipes: Vec<Pipe>,
}

impl Net {
    pub(crate) fn open(&mut self, port: Port, down_bytes_max: usize) -> usize {
        self.pipes.push(Pipe {
            port,
            up: VecDeque::new(),
            down: VecDeque::new(),
            down_bytes_max,
            client_fin: false,
            client_gone: false,
            client_reset: false,
            server_fin: false,
            server_gone: false,
        });
        self.pipes.len() - 1
    }

    pub(crate) fn pipe(&mut self, number: usize) -> &mut Pipe {
        &mut self.pipes[number]
    }

    /// The shard writes: the kernel takes what it has room for.
    pub(crate) fn send(&mut self, number: usize, bytes: &[u8]) -> Sent {
        let pipe = &mut self.pipes[number];
        if pipe.client_gone {
            return Sent::Broken;
        }
        assert!(!pipe.server_fin, "nothing is written after the end");
        let room = pipe.down_bytes_max - pipe.down.len();
        if room == 0 {
            return Sent::WouldBlock;
        }
        let count = room.min(bytes.len());
        pipe.down.extend(&bytes[..count]);
        Sent::Bytes(count)
    }

    /// Whether the shard's next write would take something, or fail.
    pub(crate) fn is_writable(&self, number: usize) -> bool {
        let pipe = &self.pipes[number];
        pipe.client_gone || pipe.down.len() < pipe.down_bytes_max
    }

    /// Whether the shard has something to read: bytes or an end.
    pub(crate) fn is_readable(&self, number: usize) -> bool {
        let pipe = &self.pipes[number];
        !pipe.up.is_empty() || pipe.client_fin || pipe.client_reset
    }

    /// The client is gone; with `reset` the server is told at once, and of nothing else.
    pub(crate) fn leave(&mut self, number: usize, reset: bool) {
        let pipe = &mut self.pipes[number];
        (pipe.client_fin, pipe.client_gone, pipe.client_reset) = (true, true, reset);
        pipe.down.clear();
        if reset {
            pipe.up.clear();
        }
    }

    /// Whether nothing is on its way.
    pub(crate) fn quiet(&self) -> bool {
        let up = |pipe: &Pipe| pipe.up.is_empty() || pipe.server_gone;
        self.pipes
            .iter()
            .all(|pipe| pipe.down.is_empty() && up(pipe))
    }
}
