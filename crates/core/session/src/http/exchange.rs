//! A request whose answer comes later, and the parts of the connection that a gateway keeps until
//! then.
//!
//! Rule for "full": behind a call of the server API, what one read gave is kept and nothing more is
//! read. What a client sends behind another request is kept up to a bound that the gateway names; a
//! client that sends more is cut off. Queue: `pipelined requests`.

use std::net::IpAddr;

use throng_types::{End, Save};

use crate::close::Port;
use crate::gateway::{Flow, Resume};
use crate::http::request::Incoming;
use crate::{Allowance, Context};

/// The HTTP connection behind a request that is answered later.
#[derive(Save)]
pub struct Exchange {
    port: Port,
    peer: IpAddr,
    /// Whether the connection may serve another request after this one.
    pub keep_alive: bool,
    /// Requests behind this one. Bound: one read, or what [`Exchange::keep`] is told.
    raw: Vec<u8>,
    /// Nothing is read, because a request is behind this one.
    is_paused: bool,
    /// Allowance of the client, as spent since the request.
    pub allowance: Option<Allowance>,
}

impl Exchange {
    pub fn new(incoming: &Incoming<'_, '_>) -> Self {
        Self {
            port: incoming.port,
            peer: incoming.peer,
            keep_alive: incoming.request.keep_alive(),
            raw: Vec::new(),
            is_paused: false,
            allowance: incoming.allowance,
        }
    }

    /// Creates an exchange for a client whose stream is over: its connection may serve the next
    /// request.
    pub const fn of_client(peer: IpAddr) -> Self {
        Self {
            port: Port::Client,
            peer,
            keep_alive: true,
            raw: Vec::new(),
            is_paused: false,
            allowance: None,
        }
    }

    pub const fn is_client(&self) -> bool {
        matches!(self.port, Port::Client)
    }

    /// Takes the bytes behind the request, for the session that the connection has become.
    pub fn take_rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.raw)
    }

    /// Whether no bytes have come behind the request.
    pub const fn is_quiet(&self) -> bool {
        self.raw.is_empty()
    }

    /// Keeps bytes behind the request, up to a bound; beyond it the connection ends.
    pub fn keep<S, O>(&mut self, input: &[u8], bytes_max: usize, cx: &mut Context<'_, S, O>) {
        if self.raw.len() + input.len() > bytes_max {
            cx.end(End::Now);
        } else {
            self.raw.extend_from_slice(input);
        }
    }

    /// Keeps what one read gave behind a call of the server API, and reads nothing more until that
    /// is answered.
    pub fn keep_behind_api_call<S, O>(&mut self, input: &[u8], cx: &mut Context<'_, S, O>) {
        self.raw.extend_from_slice(input);
        self.is_paused = true;
        cx.pause(true);
    }

    /// The answer is written: the connection takes the next request, or ends.
    pub fn done<S, O>(&mut self, cx: &mut Context<'_, S, O>) -> Flow {
        if !self.keep_alive {
            cx.set_deadline(None);
            cx.end(End::Flush);
            return Flow::Stay;
        }
        if self.is_paused {
            cx.pause(false);
        }
        cx.deadline_at(cx.now.mono + cx.shared.limits.keepalive_timeout_ms);
        Flow::Http(Resume {
            port: self.port,
            peer: self.peer,
            allowance: self.allowance,
            raw: std::mem::take(&mut self.raw),
        })
    }
}
