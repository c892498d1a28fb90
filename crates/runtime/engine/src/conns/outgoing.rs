//! Streams and carriers of ours: the client's role.
//!
//! A session writes its request as HTTP/1.1 does, head and body, and reads the answer so; a
//! WebSocket's upgrade becomes an extended CONNECT, and its nonce must be
//! [`throng_http2::UPGRADE_KEY`]. One stream has one request.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};

use throng_http1::{BodyDecoder, ResponseBody, parse_request};
use throng_http2::{Conn, answer_upgrade, encode_asked};
use throng_tls::{ClientTls, TlsLink};
use throng_types::ConnId;

use super::carrier::{
    ANSWER, Carrier, NOT_BEGUN, NewStream, Part, Ride, Stop, StreamNews, gather, is,
};
use super::{Conns, flag};
use crate::outbound::Outbound;
use crate::{Accepted, Closed, Effects, Kernel};

impl<S, K: Kernel> Conns<S, K> {
    /// Opens an outgoing connection that speaks HTTP/2: with `tls`, whose settings must offer it,
    /// or with prior knowledge. [`crate::App::connected`] follows when the server has said its
    /// settings; then streams may begin. Fails as [`Conns::connect`] does.
    pub fn connect_carrier(
        &mut self,
        source: Option<SocketAddr>,
        target: SocketAddr,
        accepted: Accepted<S>,
        tls: Option<&ClientTls>,
    ) -> io::Result<ConnId> {
        let id = self.open(source, target, accepted)?;
        if let Some(tls) = tls {
            self.secure(id.index(), TlsLink::client(tls), None);
        }
        let mut out = std::mem::take(&mut self.streams.out);
        let conn = Conn::client(&self.limits.http2, &mut out);
        self.begin_carrier_of(id.index(), conn, target.ip(), out);
        self.watch(id.index());
        Ok(id)
    }

    /// Speaks HTTP/2 on a connection from now on, beginning with `out`.
    pub(super) fn begin_carrier_of(&mut self, index: u32, conn: Conn, peer: IpAddr, out: Vec<u8>) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.flags |= flag::CARRIER;
        }
        let carrier = Carrier {
            conn,
            peer,
            waiting: VecDeque::new(),
            whole_at: None,
        };
        self.streams.carriers.insert(index, Box::new(carrier));
        self.say(index, out);
    }

    /// Streams that the server of a carrier takes at once; `None` if it is none, or not ready.
    pub fn streams_max(&self, carrier: ConnId) -> Option<u32> {
        let slot = self.slot(carrier)?;
        let conn = &self.streams.carriers.peek(carrier.index())?.conn;
        (conn.is_settled() && !slot.has(flag::LEAVING)).then(|| conn.peer_streams_max())
    }

    /// Begins a stream on a carrier of ours: `begin` writes the whole head of its request. Gives
    /// the session back if the server takes no more streams now.
    pub fn open_stream(
        &mut self,
        carrier: ConnId,
        accepted: Accepted<S>,
        begin: impl FnOnce(ConnId, &mut S, &mut Effects<'_>),
    ) -> Result<ConnId, S> {
        let conn = self.streams.carriers.peek(carrier.index());
        let can_open = conn.is_some_and(|it| it.conn.can_open());
        if !can_open || self.streams_max(carrier).is_none() {
            return Err(accepted.session);
        }
        let stream = NewStream {
            id: NOT_BEGUN,
            flags: is::OURS,
        };
        let id = self.insert_stream(carrier.index(), &stream, accepted);
        self.act(id.index(), begin);
        Ok(id)
    }

    /// Takes the head of an answer, which is in `bytes`.
    pub(super) fn answer_came(
        &mut self,
        carrier: u32,
        (stream, ends): (u32, bool),
        bytes: &mut Vec<u8>,
    ) -> StreamNews {
        let ride = { self.streams.rides.get(stream) }.filter(|it| it.carrier == carrier);
        let Some(ride) = ride else {
            return StreamNews::Nothing;
        };
        if ride.has(is::TUNNEL) {
            answer_upgrade(bytes);
        }
        ride.flags |= if ends { is::HEARD } else { 0 };
        StreamNews::Bytes { stream, came: 0 }
    }

    /// Closes streams of ours that a server which leaves has not looked at.
    pub(super) fn close_unserved(&mut self, index: u32, last: u32) {
        let Some(carrier) = self.streams.carriers.peek(index) else {
            return;
        };
        if carrier.conn.is_client() {
            let unserved = carrier.conn.tags().filter(|&(id, _)| id > last);
            for (_, tag) in unserved.collect::<Vec<_>>() {
                self.close(tag, Closed::ByPeer);
            }
        }
    }
}

impl Ride {
    /// Makes HEADERS of the head of a request that waits.
    pub(super) fn ask(
        &mut self,
        (index, is_secure): (u32, bool),
        queue: &mut Outbound,
        conn: &mut Conn,
        payload: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Stop {
        gather(queue, payload);
        let Ok(Some((request, length))) = parse_request(payload, &ANSWER) else {
            return Stop::Broken;
        };
        let mut block = Vec::new();
        let connects = encode_asked(&request, is_secure, &mut block);
        let body = match connects {
            true => BodyDecoder::for_response(ResponseBody::UntilClose, &ANSWER),
            false => BodyDecoder::new(request.body, &ANSWER),
        };
        let ends = body.is_done();
        let Some(id) = conn.open(index, &block, ends, out) else {
            return Stop::Broken;
        };
        queue.sent(length);
        self.id = id;
        self.flags |= if connects { is::TUNNEL } else { 0 };
        self.part = if ends { Part::Ended } else { Part::Body(body) };
        match ends {
            true => Stop::Empty,
            false => Stop::Turn,
        }
    }
}
