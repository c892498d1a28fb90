//! The workers of this machine: their threads, orders to them, and their figures added up.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use throng_engine::{ConnLimits, MailboxSender, ShardOptions};
use throng_types::ShardId;

use crate::clock::{Clock, Metronome, Wakes};
use crate::script::{PrepareError, Script};
use crate::worker::{Order, Report, Worker, WorkerParts};
use throng_bench_measure::Tally;

/// What publishers may have written and the kernel not taken. Beyond it the server is not merely
/// slow.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// How long a worker may take to answer before its last figures are shown again.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long it may take to finish the counts of its connections.
const FINISH_WITHIN: Duration = Duration::from_secs(60);

/// Figures of all workers: totals so far, and histograms since they were asked before.
#[derive(Clone, Debug, Default)]
pub struct Interval {
    /// Totals so far, and the histograms of the interval.
    pub tally: Tally,
    /// Every worker has opened all of its connections.
    pub arrivals_done: bool,
    /// How busy each thread was, as a share of one CPU.
    pub busy: Vec<f64>,
}

/// The workers of this machine, each on a thread of its own.
pub struct Workers {
    mailboxes: Vec<MailboxSender<Order>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    reports: Receiver<Report>,
    latest: Vec<Option<Report>>,
    // Dropped after the workers have been joined.
    _metronome: Metronome,
}

/// How workers are started.
pub struct Start {
    /// The run's clock.
    pub clock: Clock,
    /// The run's zero, in µs.
    pub begin_us: u64,
    /// How many threads open connections.
    pub openers: usize,
    /// Whether mean and spread of all latencies are wanted.
    pub running: bool,
}

impl Workers {
    /// Starts the workers; nothing is due before `begin_us`.
    ///
    /// # Errors
    /// [`PrepareError::System`]
    pub fn start(script: &Arc<Script>, start: &Start) -> Result<Self, PrepareError> {
        let system = |what| move |why| PrepareError::System { what, why };
        let workers = start.openers + usize::from(script.publish.is_some());
        let options = (0..workers).map(|number| ShardOptions {
            shard: ShardId(number as u8),
            listeners: Vec::new(),
            limits: ConnLimits {
                queue_bytes_max: QUEUE_BYTES_MAX,
                // A publisher reads its answers however much it has to say.
                unread_above_bytes: usize::MAX,
                ..ConnLimits::default()
            },
            started: start.clock.started(),
        });
        let (builders, mailboxes) =
            throng_engine::builders(options.collect()).map_err(system("the workers' reactors"))?;
        let wakes = Wakes::new(workers);
        let metronome = Metronome::start(wakes.clone(), start.clock, mailboxes.clone())
            .map_err(system("the metronome's thread"))?;
        let (sender, reports) = channel();
        let mut threads = Vec::with_capacity(workers);
        for (number, builder) in builders.into_iter().enumerate() {
            let (script, wakes, sender) = (script.clone(), wakes.clone(), sender.clone());
            let Some(beat) = metronome.thread() else {
                break;
            };
            let (clock, begin_us, openers) = (start.clock, start.begin_us, start.openers);
            let running = start.running;
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || {
                    let worker = Worker::new(WorkerParts {
                        script: &script,
                        clock,
                        number,
                        openers,
                        begin_us,
                        reports: sender,
                        wakes,
                        metronome: beat,
                        running,
                    });
                    builder.with(worker).run(|_, _, _| {}).map(|_| ())
                })
                .map_err(system("a worker's thread"))?;
            threads.push(thread);
        }
        Ok(Self {
            mailboxes,
            threads,
            reports,
            latest: (0..workers).map(|_| None).collect(),
            _metronome: metronome,
        })
    }

    /// Gives an order to all workers.
    pub fn order(&self, make: impl Fn() -> Order) {
        for mailbox in &self.mailboxes {
            let mut order = make();
            // A full mailbox is a worker that is busy: it empties it every turn. One that has ended
            // gives the order back forever, so there is an end to asking.
            for _ in 0..1000 {
                match mailbox.send(order) {
                    Ok(()) => break,
                    Err(back) => order = back,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Asks all workers for their figures; `behind` also for what is due and has not come.
    pub fn ask(&mut self, behind: bool) -> Interval {
        self.order(|| Order::Report { behind });
        self.gather(ANSWER_WITHIN, false)
    }

    /// Has all workers finish, and waits for them.
    pub fn finish(mut self) -> Interval {
        self.order(|| Order::Finish);
        let interval = self.gather(FINISH_WITHIN, true);
        for thread in std::mem::take(&mut self.threads) {
            // A worker that panicked has said so on standard error, and its figures are missing.
            let _ = thread.join();
        }
        interval
    }

    fn gather(&mut self, within: Duration, last: bool) -> Interval {
        let until = Instant::now() + within;
        let mut answered = vec![false; self.latest.len()];
        let mut interval = Interval {
            arrivals_done: true,
            ..Interval::default()
        };
        while !answered.iter().all(|&done| done) {
            let left = until.saturating_duration_since(Instant::now());
            let mut report = match self.reports.recv_timeout(left) {
                Ok(report) => report,
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            };
            let Some(slot) = self.latest.get_mut(report.worker) else {
                continue;
            };
            // Histograms are of the time since the report before, so those of a late answer count
            // too.
            interval.tally.add_interval(&report.tally.take_interval());
            if last && !report.last {
                continue;
            }
            if let Some(done) = answered.get_mut(report.worker) {
                *done = true;
            }
            *slot = Some(report);
        }
        for report in self.latest.iter().flatten() {
            interval.tally.merge(&report.tally);
            interval.busy.push(report.busy);
            interval.arrivals_done &= report.arrivals_done;
        }
        interval.arrivals_done &= self.latest.iter().all(Option::is_some);
        interval
    }
}
