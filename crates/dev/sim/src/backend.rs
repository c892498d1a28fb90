//! The GRIP backend of a run: it holds each client as a stream of the channels in its query, or
//! fails.
//!
//! Owns the requests that wait for an answer. Stands where the driver would: requests come from
//! the shards' apps, answers go back through their mailboxes.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use throng_gateway_grip::{Backends, Ticket};
use throng_grip::exchange::{OriginEvent, OriginFailure, OriginFault, OriginHead, OriginRequest};
use throng_grip::headers::Header;
use throng_types::ConnId;

/// A request, and how much of its answer has been sent.
pub(crate) struct Exchange {
    pub(crate) conn: ConnId,
    pub(crate) token: u32,
    path: String,
    step: usize,
}

/// The requests, shared with the shards' apps.
#[derive(Clone, Default)]
pub(crate) struct Requests(Arc<Mutex<VecDeque<Exchange>>>);

impl Backends for Requests {
    fn submit(
        &self,
        conn: ConnId,
        token: u32,
        request: OriginRequest,
    ) -> Result<Box<dyn Ticket>, OriginFailure> {
        let exchange = Exchange {
            conn,
            token,
            path: request.path,
            step: 0,
        };
        self.0.lock().expect("one thread").push_back(exchange);
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

/// The shard's side of a request: whoever drops it wants no answer.
struct Asked {
    requests: Requests,
    conn: ConnId,
    token: u32,
}

impl Ticket for Asked {
    fn grant(&self, _: usize) {}
    fn send(&mut self, _: Vec<u8>) {}
    fn finish(&mut self) {}
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Ok(mut all) = self.requests.0.lock() else {
            return;
        };
        all.retain(|one| (one.conn, one.token) != (self.conn, self.token));
    }
}

impl Requests {
    /// The next event of the request that has waited longest.
    pub(crate) fn next(&self, fails: bool) -> Option<(ConnId, u32, OriginEvent)> {
        let mut all = self.0.lock().expect("one thread");
        let exchange = all.front_mut()?;
        let step = exchange.step;
        exchange.step += 1;
        let (conn, token) = (exchange.conn, exchange.token);
        if fails {
            all.pop_front();
            let failure = OriginFailure {
                fault: OriginFault::Unreachable,
                detail: "the simulated backend fails".to_owned(),
            };
            return Some((conn, token, OriginEvent::Failed(failure)));
        }
        let event = match step {
            0 => OriginEvent::Head(head(&exchange.path)),
            1 => OriginEvent::Body(b"welcome\n".to_vec()),
            _ => {
                all.pop_front();
                OriginEvent::End
            }
        };
        Some((conn, token, event))
    }

    /// The event found no room at the shard: it is to be sent again.
    pub(crate) fn put_back(&self, conn: ConnId, token: u32) {
        let mut all = self.0.lock().expect("one thread");
        let front = all.front_mut();
        if let Some(front) = front.filter(|front| (front.conn, front.token) == (conn, token)) {
            front.step -= 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().expect("one thread").is_empty()
    }
}

fn head(path: &str) -> OriginHead {
    let names = path.split_once('?').map_or("", |(_, query)| query);
    let names: Vec<&str> = names.split('&').filter(|name| !name.is_empty()).collect();
    let header = |name: &str, value: String| Header {
        name: name.to_owned(),
        value: value.into_bytes(),
    };
    OriginHead {
        code: 200,
        reason: "OK".to_owned(),
        headers: vec![
            header("Content-Type", "text/plain".to_owned()),
            header("Grip-Hold", "stream".to_owned()),
            header("Grip-Channel", names.join(", ")),
        ],
        body_bytes: Some(8),
        is_bodiless: false,
    }
}
