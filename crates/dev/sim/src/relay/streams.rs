//! Clients of the engine on streams of HTTP/2: the same lines, on connections that they share.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use throng_http1::{HttpLimits, parse_request};
use throng_http2::{Conn, H2Event, H2Limits, Scratch, encode_asked};

use crate::net::Net;

const ASK: &[u8] = b"GET / HTTP/1.1\r\nHost: sim\r\nUpgrade: websocket\r\n\r\n";

/// Connection that clients share.
pub(super) struct Carrier {
    pub(super) conn: usize,
    h2: Conn,
    limits: H2Limits,
    scratch: Scratch,
    ends: BTreeMap<u32, End>,
    /// The server or we have gone.
    is_over: bool,
    /// We have gone, whatever its clients wanted.
    was_dropped: bool,
}

/// Client's end of a stream.
#[derive(Default)]
struct End {
    id: u32,
    /// Came and was not read.
    inbox: VecDeque<u8>,
    /// Waits for the server's windows.
    outbox: Vec<u8>,
    is_shut: bool,
    has_ended: bool,
    /// The server left before it came.
    is_refused: bool,
}

pub(super) type Carriers = Vec<Rc<RefCell<Carrier>>>;

impl Carrier {
    fn connect(net: &Net, kernel_bytes: usize) -> Self {
        let limits = H2Limits {
            stream_window: net.pick(&[20, 300, 65_535]),
            ..H2Limits::USUAL
        };
        let (conn, mut out) = (net.connect(0, kernel_bytes), Vec::new());
        let h2 = Conn::client(&limits, &mut out);
        net.client_send(conn, &out);
        Self {
            conn,
            h2,
            limits,
            scratch: Scratch::default(),
            ends: BTreeMap::new(),
            is_over: false,
            was_dropped: false,
        }
    }

    /// Ends it without a word to its streams.
    pub(super) fn drops(&mut self, net: &Net) {
        net.client_drops(self.conn);
        (self.is_over, self.was_dropped) = (true, true);
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reads frames, at most so many bytes of them; whether something came.
    pub(super) fn pump(&mut self, net: &Net, bytes_max: usize) -> bool {
        if self.is_over {
            return false;
        }
        let Some(bytes) = net.client_recv(self.conn, bytes_max) else {
            note!(net, "the end of {} is seen", self.conn);
            self.is_over = true;
            // A server that has said nothing has looked at nothing: it drained before we came.
            let is_unheard = !self.h2.is_settled();
            for end in self.ends.values_mut() {
                end.is_refused |= is_unheard;
            }
            net.client_leaves(self.conn, false);
            return true;
        };
        let (mut input, mut out, now) = (&bytes[..], Vec::new(), net.now().mono);
        loop {
            let (scratch, limits) = (&mut self.scratch, &self.limits);
            let event = self.h2.read(&mut input, now, limits, scratch, &mut out);
            let (tag, has_ended) = match event.expect("the server keeps to HTTP/2") {
                None if input.is_empty() => break,
                Some(H2Event::Response {
                    tag,
                    response,
                    ends,
                    ..
                }) => {
                    assert_eq!(response.status, 200, "the server takes streams");
                    (tag, ends)
                }
                Some(H2Event::Data {
                    tag, data, ends, ..
                }) => {
                    if let Some(end) = self.ends.get_mut(&tag) {
                        end.inbox.extend(data);
                    }
                    (tag, ends)
                }
                Some(H2Event::Reset { tag, code, .. }) => {
                    note!(net, "stream {tag} is reset for {code:?}");
                    (tag, true)
                }
                Some(H2Event::Writable) => {
                    while let Some((_, tag)) = self.h2.next_writable() {
                        self.flush(tag, &mut out);
                    }
                    continue;
                }
                Some(H2Event::GoAway { last, code }) => {
                    note!(net, "{} goes away after {last} for {code:?}", self.conn);
                    for end in self.ends.values_mut().filter(|end| end.id > last) {
                        (end.has_ended, end.is_refused) = (true, true);
                    }
                    continue;
                }
                _ => continue,
            };
            if let Some(end) = self.ends.get_mut(&tag) {
                end.has_ended |= has_ended;
            }
        }
        net.client_send(self.conn, &out);
        !bytes.is_empty()
    }

    fn flush(&mut self, tag: u32, out: &mut Vec<u8>) {
        let Some(end) = self.ends.get_mut(&tag) else {
            return;
        };
        while !end.outbox.is_empty() {
            let fits = self.h2.data(end.id, end.outbox.len(), false, out);
            out.extend(end.outbox.drain(..fits));
            if fits == 0 {
                return;
            }
        }
        if end.is_shut {
            self.h2.data(end.id, 0, true, out);
        }
    }
}

/// Stream of a client, on a connection that others share.
pub(super) struct Lane {
    carrier: Rc<RefCell<Carrier>>,
    tag: u32,
}

impl Lane {
    /// Begins a stream with a number of its own, on a connection that is there or a new one.
    pub(super) fn open(net: &Net, carriers: &mut Carriers, tag: u32, kernel_bytes: usize) -> Self {
        let takes = |carrier: &&Rc<RefCell<Carrier>>| {
            let carrier = carrier.borrow();
            !carrier.is_over && carrier.h2.can_open()
        };
        let known: Vec<_> = carriers.iter().filter(takes).cloned().collect();
        let carrier = match known.is_empty() || net.percent(20) {
            false => known[net.below(known.len())].clone(),
            true => {
                let carrier = Rc::new(RefCell::new(Carrier::connect(net, kernel_bytes)));
                carriers.push(carrier.clone());
                carrier
            }
        };
        {
            let it = &mut *carrier.borrow_mut();
            let (mut block, mut out) = (Vec::new(), Vec::new());
            let (request, _) = { parse_request(ASK, &HttpLimits::USUAL) }
                .expect("a request")
                .expect("it is whole");
            encode_asked(&request, false, &mut block);
            let id = it.h2.open(tag, &block, false, &mut out);
            let end = End {
                id: id.expect("it takes streams"),
                ..End::default()
            };
            it.ends.insert(tag, end);
            net.client_send(it.conn, &out);
        }
        Self { carrier, tag }
    }

    pub(super) fn conn(&self) -> usize {
        self.carrier.borrow().conn
    }

    /// Whether it ended for another reason than that the server ended it: the connection was ours
    /// to drop, or the server left and never looked at it.
    pub(super) fn was_dropped(&self) -> bool {
        let carrier = self.carrier.borrow();
        let end = carrier.ends.get(&self.tag);
        carrier.was_dropped || end.is_some_and(|end| end.is_refused)
    }

    pub(super) fn send(&self, net: &Net, bytes: &[u8]) {
        self.change(net, |end| end.outbox.extend(bytes));
    }

    /// Says that nothing more comes.
    pub(super) fn shut(&self, net: &Net) {
        self.change(net, |end| end.is_shut = true);
    }

    fn change(&self, net: &Net, change: impl FnOnce(&mut End)) {
        let carrier = &mut *self.carrier.borrow_mut();
        if let Some(end) = carrier.ends.get_mut(&self.tag) {
            change(end);
            let mut out = Vec::new();
            carrier.flush(self.tag, &mut out);
            net.client_send(carrier.conn, &out);
        }
    }

    /// Ends the stream, whatever is on its way.
    pub(super) fn leave(&self, net: &Net) {
        let carrier = &mut *self.carrier.borrow_mut();
        if let Some(end) = carrier.ends.remove(&self.tag) {
            let mut out = Vec::new();
            carrier.h2.release(end.id, &mut out);
            net.client_send(carrier.conn, &out);
        }
    }

    /// Reads at most so many bytes; `None` at the end.
    pub(super) fn read(&self, net: &Net, bytes_max: usize) -> Option<Vec<u8>> {
        let carrier = &mut *self.carrier.borrow_mut();
        let (is_over, end) = (carrier.is_over, carrier.ends.get_mut(&self.tag)?);
        let count = end.inbox.len().min(bytes_max);
        if count == 0 && (end.has_ended || is_over) {
            return None;
        }
        let bytes: Vec<u8> = end.inbox.drain(..count).collect();
        let mut out = Vec::new();
        carrier.h2.took(end.id, count, &mut out);
        net.client_send(carrier.conn, &out);
        Some(bytes)
    }
}
