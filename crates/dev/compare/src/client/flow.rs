//! Publishing at a pace, and counting what arrives.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use throng_types::ChannelName;

use super::PUBLISHERS_MAX;
use super::payload::Stamp;
use super::publisher::{Publisher, Sending};
use super::reactor::Client;

/// Longest wait for deliveries after the last publication.
const PATIENCE: Duration = Duration::from_secs(20);
/// Longest wait of a turn in which nothing is due.
const TURN: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// Each leaves as soon as fewer than so many before it have yet to be read by all of their
    /// subscribers.
    InFlight(usize),
    /// As [`Self::InFlight`], all on one connection that waits for no answer.
    Pipelined(usize),
    /// As [`Self::Pipelined`], by messages of Throng's WebSocket for publishers.
    Socket(usize),
    /// So many each second, whatever became of those before: latency counts from the moment that
    /// each was due.
    PerSecond(u32),
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Names {
    /// As it comes: their homes are spread over the shards.
    Any,
    /// So that Throng keeps all of them on its first shard, of up to 16 if that is a power of two.
    OneHome,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) channels: usize,
    pub(crate) subscribers: usize,
    pub(crate) pace: Pace,
    pub(crate) names: Names,
    /// Time during which publications are sent.
    pub(crate) window: Duration,
}

/// Result of a load. Every delivery has been read when this is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) deliveries: u64,
    pub(crate) took: Duration,
    pub(crate) latency_p50_us: u64,
    pub(crate) latency_p99_us: u64,
}

impl Client {
    /// Subscribes as `load` says; there must be no connections before.
    pub(crate) fn subscribe(&mut self, load: &Load) -> Result<()> {
        self.names = names(load);
        let names = self.names.clone();
        self.connect(load.channels * load.subscribers, |n| {
            names[n % load.channels].clone()
        })
    }

    pub(crate) fn open_publishers(&mut self, load: &Load) -> Result<()> {
        match load.pace {
            Pace::InFlight(_) | Pace::PerSecond(_) => {
                self.reopen_publishers(Sending::OneByOne, PUBLISHERS_MAX)
            }
            Pace::Pipelined(_) => self.reopen_publishers(Sending::Pipelined, 1),
            Pace::Socket(_) => self.reopen_publishers(Sending::Socket, 1),
        }
    }

    /// Publishes for the load's window and waits for what is on its way. The publishing connections
    /// must be open.
    ///
    /// # Errors
    /// If a single delivery is missing or one too many, or a connection broke.
    pub(crate) fn publish(&mut self, load: &Load) -> Result<Flow> {
        let mut plan = Plan::new(load, self.tally.begin(), self.now_ns());
        let start = Instant::now();
        let mut last_sign = (start, 0);
        loop {
            let over = plan.is_over(load.window <= start.elapsed());
            if !over {
                self.publish_due(&mut plan)?;
            } else if self.tally.deliveries >= plan.expected() && self.all_idle() {
                break;
            }
            let pending = !over && matches!(load.pace, Pace::PerSecond(_));
            if pending {
                let wait_ns = plan.next_due_ns.saturating_sub(self.now_ns());
                self.timer.set(Duration::from_nanos(wait_ns))?;
            }
            self.turn(TURN)?;
            if last_sign.1 != self.tally.deliveries {
                last_sign = (Instant::now(), self.tally.deliveries);
            }
            ensure!(
                last_sign.0.elapsed() < PATIENCE,
                "{} of {} deliveries came, then no more",
                self.tally.deliveries,
                plan.expected()
            );
        }
        self.finish(&plan, start.elapsed())
    }

    fn finish(&self, plan: &Plan, took: Duration) -> Result<Flow> {
        let tally = &self.tally;
        ensure!(
            tally.deliveries == plan.expected() && tally.strays == 0,
            "{} deliveries and {} other messages came where {} deliveries were due",
            tally.deliveries,
            tally.strays,
            plan.expected()
        );
        Ok(Flow {
            deliveries: tally.deliveries,
            took,
            latency_p50_us: tally.latency_us.value_at_quantile(0.5),
            latency_p99_us: tally.latency_us.value_at_quantile(0.99),
        })
    }

    /// Sends what is due, as far as there are publishers to send it.
    fn publish_due(&mut self, plan: &mut Plan) -> Result<()> {
        let mut from = 0;
        while let Some(due_ns) = plan.due(self.tally.deliveries, self.now_ns()) {
            let free = self.publishers[from..]
                .iter()
                .position(Publisher::may_publish);
            let Some(place) = free.map(|place| from + place) else {
                break;
            };
            let stamp = Stamp {
                run: plan.run,
                due_ns,
            };
            let channel = &self.names[plan.next_channel()];
            let registry = self.poll.registry();
            self.publishers[place].publish(channel, &stamp.encode(), registry)?;
            plan.published();
            from = place
                + usize::from(!matches!(
                    plan.load.pace,
                    Pace::Pipelined(_) | Pace::Socket(_)
                ));
        }
        self.publishers.iter_mut().try_for_each(Publisher::send)
    }

    fn all_idle(&self) -> bool {
        self.publishers.iter().all(Publisher::is_idle)
    }
}

fn names(load: &Load) -> Vec<String> {
    const SHARDS_MAX: u64 = 16;
    let all = (0..).map(|n| format!("c{n}"));
    let fits = |name: &String| match load.names {
        Names::Any => true,
        Names::OneHome => {
            let name = ChannelName::new(name);
            name.is_ok_and(|name| (name.stable_hash() >> 32).is_multiple_of(SHARDS_MAX))
        }
    };
    all.filter(fits).take(load.channels).collect()
}

/// Publications sent so far, and the next one that is due.
#[derive(Debug)]
struct Plan {
    run: u64,
    load: Load,
    publications: u64,
    next_due_ns: u64,
    /// The end of the window: what is due before it will be published, even late.
    end_ns: u64,
}

impl Plan {
    fn new(load: &Load, run: u64, now_ns: u64) -> Self {
        if let Pace::InFlight(most) = load.pace {
            debug_assert!(most <= PUBLISHERS_MAX);
        }
        Self {
            run,
            load: *load,
            publications: 0,
            next_due_ns: now_ns,
            end_ns: now_ns + load.window.as_nanos() as u64,
        }
    }

    fn is_over(&self, window_over: bool) -> bool {
        match self.load.pace {
            Pace::InFlight(_) | Pace::Pipelined(_) | Pace::Socket(_) => window_over,
            Pace::PerSecond(_) => self.end_ns <= self.next_due_ns,
        }
    }

    /// Number of deliveries that the publications so far must cause.
    fn expected(&self) -> u64 {
        self.publications * self.load.subscribers as u64
    }

    /// When the next publication was or is due, if that is now or was before.
    fn due(&self, deliveries: u64, now_ns: u64) -> Option<u64> {
        match self.load.pace {
            Pace::InFlight(most) | Pace::Pipelined(most) | Pace::Socket(most) => {
                let missing = self.expected().saturating_sub(deliveries);
                let in_flight = missing.div_ceil(self.load.subscribers as u64);
                (in_flight < most as u64).then_some(now_ns)
            }
            Pace::PerSecond(_) => (self.next_due_ns <= now_ns).then_some(self.next_due_ns),
        }
    }

    fn next_channel(&self) -> usize {
        (self.publications % self.load.channels as u64) as usize
    }

    fn published(&mut self) {
        self.publications += 1;
        if let Pace::PerSecond(rate) = self.load.pace {
            self.next_due_ns += 1_000_000_000 / u64::from(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pace: Pace) -> Plan {
        let load = Load {
            channels: 2,
            subscribers: 10,
            pace,
            names: Names::Any,
            window: Duration::from_secs(1),
        };
        Plan::new(&load, 1, 1_000)
    }

    #[test]
    fn so_many_are_in_flight_and_no_more() {
        let mut plan = plan(Pace::InFlight(2));
        for _ in 0..2 {
            assert_eq!(plan.due(0, 5), Some(5));
            plan.published();
        }
        // Until the last subscriber has read the first of them.
        for deliveries in 0..10 {
            assert_eq!(plan.due(deliveries, 5), None, "{deliveries}");
        }
        assert_eq!(plan.due(10, 7), Some(7));
        assert_eq!(plan.expected(), 20);
    }

    #[test]
    fn a_rate_does_not_wait_for_deliveries() {
        let mut plan = plan(Pace::PerSecond(1_000_000));
        assert_eq!(plan.due(0, 999), None);
        assert_eq!(plan.due(0, 3_500), Some(1_000));
        plan.published();
        plan.published();
        assert_eq!(
            plan.due(0, 3_500),
            Some(3_000),
            "being late does not move what is due"
        );
        plan.published();
        assert_eq!(plan.due(0, 3_500), None);
    }

    #[test]
    fn a_rate_catches_up_before_it_ends() {
        let mut plan = plan(Pace::PerSecond(2));
        assert!(!plan.is_over(true));
        plan.published();
        assert!(!plan.is_over(true));
        plan.published();
        assert!(plan.is_over(true));
    }

    #[test]
    fn publications_go_round_over_the_channels() {
        let mut plan = plan(Pace::InFlight(1));
        let order = std::iter::repeat_with(|| {
            plan.published();
            plan.next_channel()
        });
        assert_eq!(order.take(4).collect::<Vec<_>>(), [1, 0, 1, 0]);
    }
}
