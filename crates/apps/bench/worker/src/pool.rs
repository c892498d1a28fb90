//! Workers of this machine: their threads, commands to them, and their figures added up.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use throng_engine::{ConnLimits, H2Limits, MailboxSender, ShardOptions};
use throng_types::ShardId;

use throng_bench_measure::Tally;

use crate::clock::{WakeTimer, Wakes};
use crate::script::{PrepareError, Script};
use crate::worker::{Report, Worker, WorkerCommand, WorkerOptions};

/// Most bytes that publishers may have written and the kernel not taken. Beyond it the server is
/// not merely slow.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Bytes of bodies that may be on their way on a connection of HTTP/2 and on each of its streams: a
/// reader of many streams shall not be what holds a server back.
const HTTP2_WINDOWS: (u32, u32) = (16 << 20, 1 << 20);
/// Time in which a worker must answer before its last figures are shown again.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// Time in which a worker must finish the counts of its connections.
const FINISH_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default)]
pub struct WorkerFigures {
    /// Totals so far, and the histograms of the interval.
    pub tally: Tally,
    /// True once every worker has opened all of its connections.
    pub arrivals_done: bool,
    /// CPU of each thread since the last report, as a share of one CPU.
    pub busy: Vec<f64>,
}

/// Workers of this machine, each on a thread of its own.
pub struct Workers {
    mailboxes: Vec<MailboxSender<WorkerCommand>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
    reports: Receiver<Report>,
    latest: Vec<Option<Report>>,
    // Dropped after the workers have been joined.
    _timer: WakeTimer,
}

impl Workers {
    /// Starts the workers; nothing is due before `begin_us`. Errors: [`PrepareError::System`]
    /// without threads or reactors.
    pub fn start(script: &Arc<Script>, start: &WorkerOptions) -> Result<Self, PrepareError> {
        let system = |what| move |why| PrepareError::System(what, why);
        let workers = start.openers + usize::from(script.publish.is_some());
        let options = (0..workers).map(|number| ShardOptions {
            shard: ShardId(number as u8),
            listeners: Vec::new(),
            limits: ConnLimits {
                queue_bytes_max: QUEUE_BYTES_MAX,
                // A publisher reads its answers however much it has to say.
                unread_above_bytes: usize::MAX,
                http2: H2Limits {
                    connection_window: HTTP2_WINDOWS.0,
                    stream_window: HTTP2_WINDOWS.1,
                    ..H2Limits::default()
                },
                ..ConnLimits::default()
            },
            started: start.clock.started(),
        });
        let (builders, mailboxes) =
            throng_engine::builders(options.collect()).map_err(system("the workers' reactors"))?;
        let wakes = Wakes::new(workers);
        let timer = WakeTimer::start(wakes.clone(), start.clock, mailboxes.clone())
            .map_err(system("the wake timer"))?;
        let (sender, reports) = channel();
        let mut threads = Vec::with_capacity(workers);
        for (number, builder) in builders.into_iter().enumerate() {
            let (script, wakes, sender) = (script.clone(), wakes.clone(), sender.clone());
            let Some(beat) = timer.thread() else {
                break;
            };
            let options = *start;
            let thread = std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(move || {
                    let worker = Worker::new(&script, &options, number, sender, (wakes, beat));
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
            _timer: timer,
        })
    }

    pub fn command(&self, make: impl Fn() -> WorkerCommand) {
        for mailbox in &self.mailboxes {
            let mut command = make();
            // A full mailbox is a worker that is busy: it empties it every turn. One that has ended
            // gives the command back forever, so there is an end to asking.
            for _ in 0..1000 {
                match mailbox.send(command) {
                    Ok(()) => break,
                    Err(back) => command = back,
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Asks all workers for their figures; with `behind` also for deliveries that are due and have
    /// not come. Of a worker that does not answer in time, the last ones count again.
    pub fn figures(&mut self, behind: bool) -> WorkerFigures {
        self.command(|| WorkerCommand::Report { behind });
        self.gather(ANSWER_WITHIN, false)
    }

    pub fn finish(mut self) -> WorkerFigures {
        self.command(|| WorkerCommand::Finish);
        let interval = self.gather(FINISH_WITHIN, true);
        for thread in std::mem::take(&mut self.threads) {
            // A worker that panicked has said so on standard error, and its figures are missing.
            let _ = thread.join();
        }
        interval
    }

    fn gather(&mut self, within: Duration, last: bool) -> WorkerFigures {
        let until = Instant::now() + within;
        let mut answered = vec![false; self.latest.len()];
        let mut interval = WorkerFigures {
            arrivals_done: true,
            ..WorkerFigures::default()
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
            let histograms = std::mem::take(&mut report.tally.interval);
            interval.tally.interval.merge(&histograms);
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
