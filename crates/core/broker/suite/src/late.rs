//! A cluster whose replies come late: every request and every reply waits for a step of its own.
//!
//! This is how a broker on the other side of a network looks to a hub. It shows that the suite
//! expects nothing at once.

use std::collections::VecDeque;

use throng_broker::{BrokerStats, Refusal, Reply, Request};
use throng_types::{Now, Rng, ShardId};

use crate::cluster::Cluster;

/// Requests of one shard that may wait.
const REQUESTS_MAX: usize = 1000;

/// One shard's way to the cluster and back.
#[derive(Default)]
struct Line {
    /// Bound: [`REQUESTS_MAX`], and one leave for each channel that was joined.
    requests: VecDeque<Request>,
    /// Bound: what the properties ask.
    replies: VecDeque<Reply>,
    /// Bound: what the properties ask.
    arrived: VecDeque<Reply>,
}

/// A cluster behind lines on which everything waits.
pub struct Late {
    inner: Box<dyn Cluster>,
    lines: Vec<Line>,
    has_room: bool,
}

impl Late {
    /// Puts lines between hubs and a cluster of so many shards.
    #[must_use]
    pub fn new(inner: Box<dyn Cluster>, shards: u8) -> Self {
        Self {
            inner,
            lines: (0..shards).map(|_| Line::default()).collect(),
            has_room: true,
        }
    }
}

impl Late {
    fn collect(&mut self) {
        for (shard, line) in (0..).map(ShardId).zip(&mut self.lines) {
            while let Some(reply) = self.inner.take(shard) {
                line.replies.push_back(reply);
            }
        }
    }
}

impl Cluster for Late {
    fn request(&mut self, shard: ShardId, request: Request, _: Now) {
        let line = &mut self.lines[shard.index()];
        if line.requests.len() < REQUESTS_MAX
            || matches!(request, Request::Leave { .. } | Request::Quit { .. })
        {
            line.requests.push_back(request);
        } else {
            line.arrived.extend(request.refused(Refusal::Busy));
        }
    }

    fn step(&mut self, now: Now, rng: &mut Rng) -> bool {
        self.collect();
        let can_step =
            |line: &Line| !line.replies.is_empty() || self.has_room && !line.requests.is_empty();
        let busy: Vec<usize> = (0..self.lines.len())
            .filter(|&at| can_step(&self.lines[at]))
            .collect();
        if busy.is_empty() || rng.below(2) == 0 && self.inner.step(now, rng) {
            return !busy.is_empty() || self.inner.step(now, rng);
        }
        let at = busy[rng.below(busy.len() as u64) as usize];
        let line = &mut self.lines[at];
        let request = if self.has_room && (line.replies.is_empty() || rng.below(2) == 0) {
            line.requests.pop_front()
        } else {
            None
        };
        if let Some(request) = request {
            self.inner.request(ShardId(at as u8), request, now);
        } else {
            line.arrived.extend(line.replies.pop_front());
        }
        true
    }

    fn take(&mut self, shard: ShardId) -> Option<Reply> {
        self.lines[shard.index()].arrived.pop_front()
    }

    fn set_room(&mut self, has_room: bool) {
        self.has_room = has_room;
        self.inner.set_room(has_room);
    }

    fn tick(&mut self, now: Now) {
        self.inner.tick(now);
    }

    fn stats(&self) -> Option<BrokerStats> {
        self.inner.stats()
    }
}
