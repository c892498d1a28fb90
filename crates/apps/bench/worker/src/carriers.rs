//! Connections of HTTP/2 that clients share, each client on a stream of one.
//!
//! Owns: which connection has room for another stream, and the clients that wait until one stands.
//! Never: looks at streams; they are clients as any other.

use throng_engine::{Accepted, Closed, Conns};
use throng_types::{ConnId, Millis, Slots};

use throng_bench_measure::ConnectFailure;

use crate::core::SharedState;
use crate::session::{Client, Session};

/// Pool of a worker; its clients' tags say which of its connections has them.
#[derive(Default)]
pub(crate) struct Carriers {
    all: Slots<Carrier>,
    /// Connections with room for another stream, by endpoint.
    with_room: Vec<Vec<u32>>,
    /// Connections that have come to stand.
    ready: Vec<(u32, ConnId)>,
    /// Whether TLS failed on one, which says more than that it ended.
    has_tls_failed: bool,
}

struct Carrier {
    endpoint: usize,
    /// None until the server has said its settings.
    id: Option<ConnId>,
    /// Streams, and clients that wait for one.
    used: u32,
    /// Streams that the scenario wants on a connection, or fewer if the server takes no more.
    used_max: u32,
    waiting: Vec<Client>,
}

/// Connection to be opened.
#[derive(Clone, Copy)]
pub(crate) struct Opening {
    pub(crate) place: u32,
    pub(crate) endpoint: usize,
}

impl Opening {
    pub(crate) fn accepted(self, core: &SharedState<'_>) -> Accepted<Session> {
        Accepted {
            session: Session::Carrier(self.place),
            tag: 0,
            deadline: Some(deadline(core)),
        }
    }
}

impl Carriers {
    /// Tag of a client's stream, by the place of its connection.
    const fn tag(place: u32) -> u32 {
        place + 1
    }

    /// Gives a client a stream, at once or when its connection stands. Returns the connection to be
    /// opened for it, if there must be another one.
    pub(crate) fn open(
        &mut self,
        mut client: Client,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) -> Option<Opening> {
        let endpoint = core.endpoint_of(client.n);
        while let Some(place) = self.with_room(endpoint).last().copied() {
            // One that takes no more streams, because its server leaves, has no room any more.
            client = self.begin(place, client, core, conns)?;
        }
        let used_max = core.script.scenario.http2.unwrap_or(1);
        let place = self.all.insert(Carrier {
            endpoint,
            id: None,
            used: 1,
            used_max,
            waiting: vec![client],
        });
        if used_max > 1 {
            self.with_room(endpoint).push(place);
        }
        Some(Opening { place, endpoint })
    }

    /// Notes that a connection could not be opened.
    pub(crate) fn refused(
        &mut self,
        place: u32,
        reason: ConnectFailure,
        core: &mut SharedState<'_>,
    ) {
        if let Some(carrier) = self.all.remove(place) {
            let endpoint = carrier.endpoint;
            self.with_room(endpoint).retain(|&other| other != place);
            // The client for whom it should have been opened.
            carrier
                .waiting
                .iter()
                .for_each(|_| core.tally.failed(reason));
        }
    }

    fn with_room(&mut self, endpoint: usize) -> &mut Vec<u32> {
        if self.with_room.len() <= endpoint {
            self.with_room.resize_with(endpoint + 1, Vec::new);
        }
        &mut self.with_room[endpoint]
    }

    /// Begins a client's stream on the last connection with room, or lets it wait there. Gives it
    /// back if there is no room after all.
    fn begin(
        &mut self,
        place: u32,
        client: Client,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) -> Option<Client> {
        let carrier = self.all.get_mut(place)?;
        carrier.used += 1;
        let refused = match carrier.id {
            None => {
                carrier.waiting.push(client);
                None
            }
            Some(id) => begin_stream(id, place, client, core, conns),
        };
        if refused.is_some() {
            carrier.used -= 1;
            carrier.used_max = carrier.used;
        }
        if carrier.used >= carrier.used_max {
            let endpoint = carrier.endpoint;
            self.with_room(endpoint).retain(|&other| other != place);
        }
        refused
    }

    /// Notes that a connection stands; [`Self::begin_waiting`] goes on.
    pub(crate) fn connected(&mut self, place: u32, id: ConnId) {
        self.ready.push((place, id));
    }

    /// Begins the streams of clients that have waited for their connections. Returns those for whom
    /// there was no room.
    pub(crate) fn begin_waiting(
        &mut self,
        core: &mut SharedState<'_>,
        conns: &mut Conns<Session>,
    ) -> Vec<Client> {
        let mut left = Vec::new();
        for (place, id) in std::mem::take(&mut self.ready) {
            let Some(carrier) = self.all.get_mut(place) else {
                continue;
            };
            carrier.id = Some(id);
            let takes = conns.streams_max(id).unwrap_or(0);
            if takes < carrier.used_max {
                core.tally
                    .remark(format!("the server takes {takes} streams on a connection"));
            }
            carrier.used_max = carrier.used_max.min(takes);
            let mut waiting = std::mem::take(&mut carrier.waiting);
            if takes == 0 {
                for client in waiting.drain(..) {
                    core.closed(client, Closed::ByPeer);
                }
            }
            let room = (carrier.used_max as usize).min(waiting.len());
            left.extend(waiting.drain(room..));
            carrier.used = 0;
            for client in waiting {
                match begin_stream(id, place, client, core, conns) {
                    None => carrier.used += 1,
                    Some(refused) => left.push(refused),
                }
            }
            let (endpoint, is_full) = (carrier.endpoint, carrier.used >= carrier.used_max);
            if is_full {
                self.with_room(endpoint).retain(|&other| other != place);
            }
        }
        left
    }

    /// Makes room where a stream with this tag was.
    pub(crate) fn release(&mut self, tag: u32) {
        let Some(place) = tag.checked_sub(1) else {
            return;
        };
        if let Some(carrier) = self.all.get_mut(place) {
            let was_full = carrier.used == carrier.used_max;
            carrier.used = carrier.used.saturating_sub(1);
            let endpoint = carrier.endpoint;
            if was_full {
                self.with_room(endpoint).push(place);
            }
        }
    }

    pub(crate) fn tls_failed(&mut self) {
        self.has_tls_failed = true;
    }

    /// Forgets a connection that has ended; clients that waited for it have failed.
    pub(crate) fn gone(&mut self, place: u32, why: Closed, core: &mut SharedState<'_>) {
        let Some(carrier) = self.all.remove(place) else {
            return;
        };
        let endpoint = carrier.endpoint;
        self.with_room(endpoint).retain(|&other| other != place);
        let is_silent = carrier.id.is_none() && !matches!(why, Closed::Error(_));
        if is_silent && !self.has_tls_failed {
            core.tally
                .remark("a connection ended before HTTP/2 began: does the server speak it?".into());
        }
        for client in carrier.waiting {
            core.closed(client, why);
        }
    }
}

fn deadline(core: &SharedState<'_>) -> Millis {
    let timeout_ms = core.script.scenario.connect_timeout_us.div_ceil(1000);
    core.clock.to_millis(core.clock.now_us()) + timeout_ms
}

/// Begins a stream for a client, and gives the client back if the server takes none.
fn begin_stream(
    carrier: ConnId,
    place: u32,
    client: Client,
    core: &mut SharedState<'_>,
    conns: &mut Conns<Session>,
) -> Option<Client> {
    let accepted = Accepted {
        session: Session::Client(client),
        tag: Carriers::tag(place),
        deadline: Some(deadline(core)),
    };
    let begun = conns.open_stream(carrier, accepted, |id, session, fx| {
        if let Session::Client(client) = session {
            core.connected(id, client, fx);
        }
    });
    match begun {
        Err(Session::Client(client)) => Some(client),
        Ok(_) | Err(_) => None,
    }
}
