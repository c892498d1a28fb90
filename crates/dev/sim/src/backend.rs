//! The GRIP backend of a run, where the driver would stand: requests come from the shards' apps,
//! answers go back through their mailboxes.
//!
//! Owns the exchanges under way. The [`Site`] decides the answer when the backend gets to it.
//! Never: answers a request twice, or one that is no longer waited for.

mod answer;
mod site;
mod sockets;
mod talk;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use throng_gateway_grip::{OriginClient, OriginExchange};
use throng_http1::origin::{
    OriginEvent, OriginFailure, OriginFailureKind, OriginRequest, RequestRest,
};
use throng_server::{Assembly, Mailbox};
use throng_types::ConnId;

use answer::{Answered, Tunnel, field};
pub(crate) use site::{LOGS, Site, log_channel};

use crate::net::Net;

/// A request, and what of its answer has not been sent.
struct Exchange {
    conn: ConnId,
    token: u32,
    /// Until the backend looks at it.
    request: Option<OriginRequest>,
    /// WebSocket over HTTP to which the request belongs.
    socket: Option<String>,
    /// Bound: what one answer is, and echoes of what a tunnel has brought.
    plan: VecDeque<OriginEvent>,
    /// Bytes that came behind the request and have not been read.
    up: Vec<u8>,
    tunnel: Option<Tunnel>,
}

#[derive(Default)]
struct State {
    exchanges: VecDeque<Exchange>,
}

/// The backend, shared with the shards' apps of one process, and what it remembers, shared with all
/// processes.
#[derive(Clone, Default)]
pub(crate) struct Requests {
    own: Arc<Mutex<State>>,
    site: Arc<Mutex<Site>>,
}

impl OriginClient for Requests {
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn OriginExchange>, OriginFailure> {
        let socket = field(&request, "Connection-Id").map(str::to_owned);
        self.lock().exchanges.push_back(Exchange {
            conn,
            token,
            request: Some(request),
            socket,
            plan: VecDeque::new(),
            up: Vec::new(),
            tunnel: None,
        });
        let requests = self.clone();
        Ok(Box::new(Asked {
            requests,
            conn,
            token,
        }))
    }

    fn tell(&self, _: OriginRequest) -> Result<(), OriginFailure> {
        Ok(())
    }
}

/// The shard's side of a request: dropping it cancels the request.
struct Asked {
    requests: Requests,
    conn: ConnId,
    token: u32,
}

impl Asked {
    fn with(&self, act: impl FnOnce(&mut Exchange)) {
        let mut state = self.requests.lock();
        if let Some(exchange) = state.find(self.conn, self.token) {
            act(exchange);
        }
    }
}

impl OriginExchange for Asked {
    fn grant(&self, _: usize) {}

    fn send(&mut self, bytes: Vec<u8>) {
        self.with(|exchange| exchange.up.extend(bytes));
    }

    fn finish(&mut self) {}
}

impl Drop for Asked {
    fn drop(&mut self) {
        // A run that has failed is not to fail again.
        if let Ok(mut state) = self.requests.own.lock() {
            state.remove(self.conn, self.token);
        }
    }
}

impl State {
    fn find(&mut self, conn: ConnId, token: u32) -> Option<&mut Exchange> {
        let mut all = self.exchanges.iter_mut();
        all.find(|one| (one.conn, one.token) == (conn, token))
    }

    fn remove(&mut self, conn: ConnId, token: u32) {
        self.exchanges
            .retain(|one| (one.conn, one.token) != (conn, token));
    }
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.own.lock().expect("one thread")
    }

    /// The backend as another process asks it.
    pub(crate) fn beside(&self) -> Self {
        Self {
            own: Arc::default(),
            site: self.site.clone(),
        }
    }

    /// Acts on what the backend remembers.
    pub(crate) fn with_site<R>(&self, act: impl FnOnce(&mut Site) -> R) -> R {
        act(&mut self.site.lock().expect("one thread"))
    }

    /// Answers a little of what a process with these shards has asked, or fails so often in a
    /// hundred times; whether there was anything.
    pub(crate) fn act(&self, fails: usize, mailboxes: &[Mailbox], net: &Net) -> bool {
        const FAULTS: [OriginFailureKind; 5] = [
            OriginFailureKind::Unreachable,
            OriginFailureKind::Unsent,
            OriginFailureKind::Timeout,
            OriginFailureKind::Cut,
            OriginFailureKind::Garbage,
        ];
        let fault = net.percent(fails).then(|| net.pick(&FAULTS));
        let chance = net.next() as usize;
        let Some((conn, token, event)) = self.next(chance, fault) else {
            return false;
        };
        if let OriginEvent::Failed(_) = event {
            net.count("a backend of GRIP's fails");
        }
        note!(net, "the backend answers {conn:?}: {event:?}");
        let is_taken = Assembly::answer(mailboxes, conn, token, event).is_ok();
        if is_taken {
            self.done(conn, token);
        }
        is_taken
    }

    /// Takes the next step of one request, chosen by `chance`. With a fault the request fails; the
    /// backend may have carried it out if the fault leaves that open.
    pub(crate) fn next(
        &self,
        chance: usize,
        fault: Option<OriginFailureKind>,
    ) -> Option<(ConnId, u32, OriginEvent)> {
        let mut state = self.lock();
        let State { exchanges } = &mut *state;
        let site = &mut *self.site.lock().expect("one thread");
        let ready: Vec<usize> = (0..exchanges.len())
            .filter(|&at| {
                let one = &exchanges[at];
                one.request.is_some() || !one.plan.is_empty() || !one.up.is_empty()
            })
            .collect();
        let exchange = exchanges.get_mut(*ready.get(chance % ready.len().max(1))?)?;
        if let Some(fault) = fault.filter(|_| exchange.plan.len() < 8) {
            exchange.fail(fault, chance, site);
        } else if exchange.plan.is_empty() {
            exchange.answer(chance, site);
        }
        let event = exchange.plan.front()?.clone();
        Some((exchange.conn, exchange.token, event))
    }

    /// Records that an event of the backend has reached the shard.
    pub(crate) fn done(&self, conn: ConnId, token: u32) {
        let mut state = self.lock();
        let Some(exchange) = state.find(conn, token) else {
            return;
        };
        let event = exchange.plan.pop_front();
        if matches!(event, Some(OriginEvent::End | OriginEvent::Failed(_))) {
            state.remove(conn, token);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.lock();
        let mut all = state.exchanges.iter();
        all.all(|one| one.tunnel.is_some() && one.plan.is_empty() && one.up.is_empty())
    }
}

impl Exchange {
    fn answer(&mut self, chance: usize, site: &mut Site) {
        if let Some(tunnel) = &mut self.tunnel {
            let bytes = std::mem::take(&mut self.up);
            self.plan.push_back(OriginEvent::Taken(bytes.len()));
            self.plan.extend(tunnel.hear(bytes));
            return;
        }
        let Some(request) = self.request.take() else {
            return;
        };
        let Answered { head, body, tunnel } = site.answer(&request, chance);
        self.plan.push_back(OriginEvent::Head(head));
        // In pieces, as it may come.
        let middle = chance % (body.len() + 1);
        for piece in [&body[..middle], &body[middle..]] {
            if !piece.is_empty() {
                self.plan.push_back(OriginEvent::Body(piece.to_vec()));
            }
        }
        self.tunnel = tunnel;
        if self.tunnel.is_none() {
            self.plan.push_back(OriginEvent::End);
        } else {
            assert_eq!(
                request.rest,
                RequestRest::Upgrade,
                "a tunnel begins with an upgrade"
            );
        }
    }

    fn fail(&mut self, fault: OriginFailureKind, chance: usize, site: &mut Site) {
        // Once an answer has begun, only its end can be missing.
        let has_begun = self.request.is_none();
        let fault = if has_begun {
            OriginFailureKind::Cut
        } else {
            fault
        };
        let is_sent = !matches!(
            fault,
            OriginFailureKind::Unreachable | OriginFailureKind::Unsent
        );
        if let Some(request) = self
            .request
            .take()
            .filter(|_| is_sent && chance.is_multiple_of(2))
        {
            // The request was carried out, and its answer is lost.
            site.answer(&request, chance);
        }
        if let Some(socket) = &self.socket {
            site.sockets.fails(socket, is_sent);
        }
        self.plan.clear();
        self.plan.push_back(OriginEvent::Failed(OriginFailure {
            fault,
            detail: "the simulated backend fails".to_owned(),
        }));
    }
}
