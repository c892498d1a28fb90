//! The way of shards to HTTP backends.
//!
//! A shard hands in requests through a [`Client`] and gets a [`Ticket`] for each; what the backend
//! does comes back through the function that [`Origin::start`] was given. The ticket is the shard's
//! hand on the exchange: it grants bytes of the answer as the client takes them, what follows a
//! request goes through it, and dropping it ends the exchange.
//!
//! Rule for "full": a request beyond [`OriginOptions::requests_max`] is refused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use throng_backend::{AnswerTo, Backend, BackendLimits, Call, Reply, TicketId, WholeAnswer};
use throng_http1::origin::{
    OriginEvent, OriginFailure, OriginFailureKind, OriginRequest, RequestRest,
};
use throng_outward::{CallSender, Host};
use throng_types::ConnId;

/// Bounds of the client.
#[derive(Clone, Copy, Debug)]
pub(super) struct OriginOptions {
    /// Requests under way at once, over all backends.
    pub(super) requests_max: usize,
    /// Connections that were upgraded, or are to be; they do not count as requests.
    pub(super) tunnels_max: usize,
    /// Bounds of each backend.
    pub(super) backend: BackendLimits,
}

impl Default for OriginOptions {
    fn default() -> Self {
        Self {
            requests_max: 20_000,
            tunnels_max: 100_000,
            backend: BackendLimits::default(),
        }
    }
}

/// The running client. Dropping it ends all exchanges without a word.
pub(super) struct Origin {
    host: Host<Call<Held>>,
    rooms: [Room; 2],
    tickets: Arc<AtomicU64>,
}

impl Origin {
    /// Fails if its thread cannot be started.
    pub(super) fn start(options: OriginOptions, to: Deliver) -> io::Result<Self> {
        let backend = Backend::new(options.backend);
        let deliver = Box::new(move |reply| deliver(reply, &to));
        Ok(Self {
            host: throng_outward::start("backends", move || backend, deliver)?,
            rooms: [
                Room::new(options.requests_max, "requests"),
                Room::new(options.tunnels_max, "tunnels"),
            ],
            tickets: Arc::default(),
        })
    }

    /// The way in, one for each shard.
    pub(super) fn client(&self) -> Client {
        Client {
            calls: self.host.calls(),
            rooms: self.rooms.clone(),
            tickets: self.tickets.clone(),
        }
    }
}

/// Handle with which a shard or another thread sends requests.
#[derive(Clone)]
pub(super) struct Client {
    calls: CallSender<Call<Held>>,
    /// Places of requests, and of tunnels.
    rooms: [Room; 2],
    tickets: Arc<AtomicU64>,
}

/// The hand on a request that was taken. Dropping it ends the exchange.
pub(super) struct Ticket {
    calls: CallSender<Call<Held>>,
    id: TicketId,
}

impl throng_gateway_grip::OriginExchange for Ticket {
    fn grant(&self, bytes: usize) {
        self.calls.send(Call::Grant(self.id, bytes));
    }

    fn send(&mut self, bytes: Vec<u8>) {
        self.calls.send(Call::Follow(self.id, Some(bytes)));
    }

    fn finish(&mut self) {
        self.calls.send(Call::Follow(self.id, None));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.calls.send(Call::Cancel(self.id));
    }
}

impl Client {
    /// Takes a request. Its events go to `conn`, with `number`. Error: [`OriginFailureKind::Busy`]
    /// if there is no room; nothing follows then.
    pub(super) fn submit(
        &self,
        conn: ConnId,
        number: u32,
        request: OriginRequest,
    ) -> Result<Ticket, OriginFailure> {
        let id = self.hand_in(AnswerTo::Conn(conn, number), request, None)?;
        let calls = self.calls.clone();
        Ok(Ticket { calls, id })
    }

    /// Takes a request whose answer is of no interest; it goes on whatever happens to the one who
    /// asked. Error: [`OriginFailureKind::Busy`] if there is no room.
    pub(super) fn tell(&self, request: OriginRequest) -> Result<(), OriginFailure> {
        self.hand_in(AnswerTo::Nobody, request, None).map(drop)
    }

    /// Takes a request whose answer is wanted once it is whole, or has failed, as `to` says: `read`
    /// makes of it what `done` hands on. `done` gives it back if there is no room at the moment.
    /// Error: [`OriginFailureKind::Busy`] if there is no room; neither is called then.
    pub(super) fn ask<A: Send + 'static>(
        &self,
        request: OriginRequest,
        to: AnswerTo,
        read: impl FnOnce(WholeAnswer) -> A + Send + 'static,
        done: impl Fn(A) -> Result<(), A> + Send + 'static,
    ) -> Result<(), OriginFailure> {
        let read = move |answer: WholeAnswer| {
            let mut answer = Some(read(answer));
            let hand_on = move || {
                answer = answer.take().and_then(|answer| done(answer).err());
                answer.is_none()
            };
            Box::new(hand_on) as HandOn
        };
        self.hand_in(to, request, Some(Box::new(read))).map(drop)
    }

    fn hand_in(
        &self,
        to: AnswerTo,
        request: OriginRequest,
        read: Option<Read>,
    ) -> Result<TicketId, OriginFailure> {
        let token = Held::new(self.permit(request.rest)?, read);
        let ticket = TicketId(self.tickets.fetch_add(1, Ordering::Relaxed));
        let call = Call::Begin {
            ticket,
            to,
            request,
            token,
        };
        let ended = || OriginFailure {
            fault: OriginFailureKind::Busy,
            detail: "this server is ending and sends no more requests to backends".to_owned(),
        };
        self.calls.send(call).then_some(ticket).ok_or_else(ended)
    }

    /// A place among the requests, or among the tunnels.
    fn permit(&self, rest: RequestRest) -> Result<Permit, OriginFailure> {
        let [requests, tunnels] = &self.rooms;
        match rest {
            RequestRest::Upgrade => tunnels.take(),
            RequestRest::Nothing | RequestRest::Body(_) => requests.take(),
        }
    }
}

/// Passes an event to the connection that asked, with the number that its request carried. Gives it
/// back if there is no room at the moment.
pub(super) type Deliver =
    Arc<dyn Fn(ConnId, u32, OriginEvent) -> Result<(), OriginEvent> + Send + Sync>;

/// Hands on an answer that was read; false if there is no room at the moment.
pub(super) type HandOn = Box<dyn FnMut() -> bool + Send>;

/// Reads a whole answer.
pub(super) type Read = Box<dyn FnOnce(WholeAnswer) -> HandOn + Send>;

/// Places of a kind of requests.
#[derive(Clone, Debug)]
pub(super) struct Room {
    used: Arc<AtomicUsize>,
    max: usize,
    name: &'static str,
}

impl Room {
    pub(super) fn new(max: usize, name: &'static str) -> Self {
        Self {
            used: Arc::default(),
            max,
            name,
        }
    }

    /// Takes a place. Error: [`OriginFailureKind::Busy`] if there is none.
    pub(super) fn take(&self) -> Result<Permit, OriginFailure> {
        let more = |used: usize| (used < self.max).then_some(used + 1);
        let taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        let full = |_| OriginFailure {
            fault: OriginFailureKind::Busy,
            detail: format!("{} {} to backends are under way", self.max, self.name),
        };
        taken.map_err(full)?;
        Ok(Permit(self.used.clone()))
    }
}

/// A place among the requests, until it is dropped.
pub(super) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Held by an exchange until it ends.
pub(super) struct Held {
    _permit: Permit,
    read: Option<Read>,
    hand_on: Option<HandOn>,
}

impl Held {
    pub(super) const fn new(permit: Permit, read: Option<Read>) -> Self {
        Self {
            _permit: permit,
            read,
            hand_on: None,
        }
    }

    /// Hands an answer on; it is read at the first try.
    fn deliver(&mut self, answer: WholeAnswer) -> bool {
        if let Some(read) = self.read.take() {
            self.hand_on = Some(read(answer));
        }
        self.hand_on.as_mut().is_none_or(|hand_on| hand_on())
    }
}

/// Brings a reply to its caller; gives it back if there is no room at the moment.
pub(super) fn deliver(reply: Reply<Held>, to: &Deliver) -> Result<(), Reply<Held>> {
    match reply {
        Reply::Event(conn, number, event) => {
            to(conn, number, event).map_err(|event| Reply::Event(conn, number, event))
        }
        Reply::Whole(mut held, answer) => match held.deliver(answer) {
            true => Ok(()),
            // It was read, and waits in `held`.
            false => Err(Reply::Whole(held, Ok((0, Vec::new())))),
        },
    }
}

#[cfg(test)]
mod tests;
