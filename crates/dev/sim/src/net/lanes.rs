//! Connections of clients that are streams of HTTP/2, in the words of HTTP/1.1: requests that are
//! written on one become frames on a connection that it shares with others, its carrier, and what
//! comes back reads as answers. So every client can be on either. `carrier.rs` has the frames.
//!
//! A lane ends with its answer, unless the next request follows at once. A carrier ends with its
//! last lane; now and then it is dropped with one of several.

use std::cell::RefMut;
use std::collections::BTreeMap;
use std::ops::Range;

use throng_http2::{Conn as H2, H2Limits, Scratch};

use super::carrier::{Carrier, Lane, Lanes};
use super::{Conn, Net};

impl Net {
    /// From now on so many clients in a hundred are on streams of HTTP/2.
    pub(crate) fn has_lanes(&self, percent: usize) {
        self.lanes().percent = percent;
    }

    /// Puts clients on lanes if the run is one of the last of four, from `first` on: by the seed
    /// alone, so that no other run is another one by it.
    pub(crate) fn may_draw_lanes(&self, seed: u64, first: u64) {
        self.has_lanes(if seed % 4 >= first { 60 } else { 0 });
    }

    /// From now on a client that leaves takes no other one with it.
    pub(crate) fn calm_lanes(&self) {
        self.lanes().is_calm = true;
    }

    pub(super) fn lanes(&self) -> RefMut<'_, Lanes> {
        self.1.borrow_mut()
    }

    /// Whether clients may be on streams.
    pub(super) fn may_have_lanes(&self) -> bool {
        self.lanes().percent > 0
    }

    /// The connection whose stream this one is, or this one.
    pub(crate) fn socket(&self, number: usize) -> usize {
        let world = self.0.borrow();
        world.conns[number].rides.unwrap_or(number)
    }

    /// Whether it is a stream of a connection.
    pub(crate) fn is_lane(&self, number: usize) -> bool {
        self.0.borrow().conns[number].rides.is_some()
    }

    /// All that share its connection, itself among them, and the newest that did so.
    pub(crate) fn fellows(&self, number: usize) -> (Vec<usize>, usize) {
        match self.lanes().carriers.get(&self.socket(number)) {
            Some(Carrier { lanes, newest, .. }) => {
                let all = lanes.keys().map(|tag| *tag as usize);
                (all.collect(), *newest as usize)
            }
            None => (vec![number], number),
        }
    }

    /// Begins a lane to a process with these kernels; none if it is to be a connection of its own.
    pub(super) fn open_lane(&self, kernels: &Range<usize>, down_bytes_max: usize) -> Option<usize> {
        let percent = self.lanes().percent;
        if percent == 0 || !self.percent(percent) {
            return None;
        }
        self.count("a client is on a stream");
        let takes = |(conn, carrier): &(&usize, &Carrier)| {
            let world = self.0.borrow();
            let conn = &world.conns[**conn];
            let kernel = conn.watched.map_or(carrier.kernels.start, |it| it.0);
            let is_there = !conn.server_gone && !conn.server_fin && kernels.contains(&kernel);
            is_there && !carrier.is_over && carrier.h2.can_open()
        };
        let known: Vec<usize> = {
            let lanes = self.lanes();
            let known = lanes.carriers.iter().filter(takes);
            known.map(|(conn, _)| *conn).collect()
        };
        let conn = match known.is_empty() || self.percent(20) {
            false => self.pick(&known),
            true => self.open_carrier(kernels.clone(), down_bytes_max),
        };
        let conns = &mut self.0.borrow_mut().conns;
        let number = conns.len();
        conns.push(Conn {
            rides: Some(conn),
            server_gone: true,
            ..Conn::default()
        });
        let mut lanes = self.lanes();
        let carrier = lanes.carriers.get_mut(&conn).expect("it is known");
        carrier.newest = number as u32;
        carrier.lanes.insert(carrier.newest, Lane::default());
        Some(number)
    }

    fn open_carrier(&self, kernels: Range<usize>, down_bytes_max: usize) -> usize {
        let limits = H2Limits {
            stream_window: self.pick(&[20, 300, 65_535]),
            ..H2Limits::USUAL
        };
        let conn = self.connect_socket(kernels.clone(), 0, down_bytes_max);
        let mut out = Vec::new();
        let carrier = Carrier {
            h2: H2::client(&limits, &mut out),
            limits,
            scratch: Scratch::default(),
            kernels,
            lanes: BTreeMap::new(),
            newest: 0,
            is_over: false,
        };
        self.client_send(conn, &out);
        self.lanes().carriers.insert(conn, carrier);
        conn
    }

    /// Acts on a lane, and sends what its carrier says then.
    fn with_lane<R>(
        &self,
        number: usize,
        act: impl FnOnce(&mut Lane, &mut H2, &mut Vec<u8>) -> R,
    ) -> Option<R> {
        let (conn, mut out) = (self.socket(number), Vec::new());
        let result = {
            let lanes = &mut *self.lanes();
            let carrier = lanes.carriers.get_mut(&conn)?;
            let lane = carrier.lanes.get_mut(&(number as u32))?;
            act(lane, &mut carrier.h2, &mut out)
        };
        if !out.is_empty() {
            self.client_send(conn, &out);
        }
        Some(result)
    }

    pub(super) fn lane_sends(&self, number: usize, bytes: &[u8]) {
        self.with_lane(number, |lane, h2, out| {
            lane.outbox.extend(bytes);
            lane.push(number as u32, h2, out);
        });
    }

    /// Says that nothing more comes; a request without a body has said so, and is taken back.
    pub(super) fn lane_shuts(&self, number: usize) {
        self.with_lane(number, |lane, h2, out| {
            if lane.is_tunnel && !lane.has_ended {
                lane.is_shut = true;
                return lane.push(number as u32, h2, out);
            }
            h2.release(lane.id, out);
            lane.has_ended = true;
        });
    }

    /// Reads at most so many bytes of frames, and of what is in them; `None` at the end.
    pub(super) fn lane_recv(&self, number: usize, bytes_max: usize) -> Option<Vec<u8>> {
        let conn = self.socket(number);
        self.pump(conn, bytes_max);
        let carrier_is_over = |it: &Carrier| it.is_over;
        let is_over = { self.lanes() }
            .carriers
            .get(&conn)
            .is_none_or(carrier_is_over);
        let (bytes, is_refused) = self.with_lane(number, |lane, h2, out| {
            let has_ended = lane.has_ended || is_over;
            if lane.inbox.is_empty() && has_ended {
                return (None, lane.is_refused);
            }
            let count = lane.inbox.len().min(bytes_max);
            let bytes: Vec<u8> = lane.inbox.drain(..count).collect();
            let taken = match lane.inbox.is_empty() {
                true => lane.untaken,
                false => lane.untaken.min(count),
            };
            lane.untaken -= taken;
            h2.took(lane.id, taken, out);
            (Some(bytes), false)
        })?;
        if is_refused {
            self.0.borrow_mut().conns[number].aborted = true;
        }
        bytes
    }

    /// Ends a lane, whatever is on its way, and now and then its carrier with all others.
    pub(super) fn lane_leaves(&self, number: usize, reset: bool) {
        let conn = self.socket(number);
        self.with_lane(number, |lane, h2, out| h2.release(lane.id, out));
        let mut left = Vec::new();
        if let Some(carrier) = self.lanes().carriers.get_mut(&conn) {
            carrier.lanes.remove(&(number as u32));
            left.extend(carrier.lanes.keys().copied());
        }
        if !left.is_empty() && (self.lanes().is_calm || !self.percent(8)) {
            return;
        }
        let Some(is_over) = self.lanes().drops(conn, left.is_empty()) else {
            return;
        };
        if !is_over {
            if !left.is_empty() {
                self.count("a client drops a connection with streams");
                note!(self, "{conn} is dropped, with {left:?}");
            }
            for tag in left {
                self.0.borrow_mut().conns[tag as usize].aborted = true;
            }
            self.client_leaves(conn, reset);
        }
    }

    /// Reads all frames that have come; whether there were any.
    pub(crate) fn pump_all(&self) -> bool {
        let all: Vec<usize> = self.lanes().carriers.keys().copied().collect();
        all.into_iter().fold(false, |busy, conn| {
            self.arrive(conn, usize::MAX);
            self.pump(conn, usize::MAX) | busy
        })
    }

    /// Reads at most so many bytes of frames; whether something came.
    fn pump(&self, conn: usize, bytes_max: usize) -> bool {
        let is_there = |it: &Carrier| !it.is_over;
        if !self.lanes().carriers.get(&conn).is_some_and(is_there) {
            return false;
        }
        let bytes = self.client_recv(conn, bytes_max);
        let mut out = Vec::new();
        let mut goes_on = bytes.is_some();
        if let Some(carrier) = self.lanes().carriers.get_mut(&conn) {
            if let Some(bytes) = &bytes {
                let note = |words: std::fmt::Arguments<'_>| self.note(words);
                goes_on = carrier.read(bytes, self.now().mono, &note, &mut out);
            }
            if !goes_on {
                carrier.is_over = true;
                // A server that has said nothing in frames has looked at nothing.
                let is_unheard = !carrier.h2.is_settled();
                let lanes = carrier.lanes.values_mut();
                lanes.for_each(|lane| lane.is_refused |= is_unheard);
            }
        }
        if goes_on {
            self.client_send(conn, &out);
        } else {
            note!(self, "the end of {conn} is seen");
            self.client_leaves(conn, false);
        }
        bytes.is_none_or(|bytes| !bytes.is_empty())
    }
}
