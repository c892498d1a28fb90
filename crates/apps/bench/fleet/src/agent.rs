//! Agent: makes load for controllers that know the token, one after another.
//!
//! Owns: the listener, one run at a time. Never: starts anything for a peer that does not prove the
//! token.
//!
//! A controller that goes away ends its run.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use throng_bench_report::Snapshot;
use throng_bench_worker::{Clock, PrepareError, RunShare, Script};

use super::RunOptions;
use super::collect::describe;
use super::drive::{RunCourse, StepOrders};
use super::local::{carry_out, check_here};
use super::server::WatchServer;
use super::wire::{AgentTls, Ends, PeerEvent, PeerSender, nonce, split};
use crate::agents::{AgentSide, Assignment, Progress, RateStep, ToAgent, ToController};

pub const AGENT_PORT: u16 = 8092;

/// Interval at which the stop flag is looked at while nobody connects.
const LOOK_EVERY: Duration = Duration::from_millis(100);

type Log<'a> = &'a mut dyn FnMut(&str);

#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Token that controllers must prove to know.
    pub token: String,
    /// Certificate to show to controllers; none speaks without TLS.
    pub tls: Option<AgentTls>,
    pub threads: Option<usize>,
    pub stop: Arc<AtomicBool>,
}

enum Event {
    Peer(PeerEvent<ToAgent>),
    Progress(Box<Progress>),
    StepDone,
    Finished(Result<(), PrepareError>),
}

/// Serves controllers until the stop flag is set. Logs each event to `log`, one sentence each.
pub fn serve_agent(listener: &TcpListener, options: &AgentOptions, log: Log<'_>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    while !options.stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, peer)) => {
                log(&format!("controller {peer}"));
                // Not every system hands the listener's mode on; blocking is what the threads want.
                stream.set_nonblocking(false)?;
                match Agent::serve(stream, options, log) {
                    Ok(()) => log(&format!("controller {peer} is done")),
                    Err(why) => log(&format!("controller {peer}: {why}")),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(LOOK_EVERY);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

struct Agent<'a> {
    options: &'a AgentOptions,
    side: AgentSide,
    out: PeerSender,
    clock: Clock,
    sender: Sender<Event>,
    script: Option<Arc<Script>>,
    run: Option<JoinHandle<()>>,
    // Receiver of a search's rates; none when there is no other.
    steps: Option<Sender<RateStep>>,
    stop: Arc<AtomicBool>,
}

impl<'a> Agent<'a> {
    fn serve(stream: TcpStream, options: &'a AgentOptions, log: Log<'_>) -> Result<(), String> {
        let ends = match &options.tls {
            Some(tls) => tls.accept(stream),
            None => Ends::plain(stream),
        };
        let (sender, events) = channel();
        let peer = sender.clone();
        // A loop that has ended takes no more messages.
        let on = move |event| drop(peer.send(Event::Peer(event)));
        let out = ends.and_then(|ends| split(ends, on));
        let mut out = out.map_err(|error| error.to_string())?;
        let (side, challenge) = AgentSide::new(&options.token, describe("agent"), nonce());
        out.send(&challenge).map_err(|error| error.to_string())?;
        let mut agent = Self {
            options,
            side,
            out,
            clock: Clock::start(),
            sender,
            script: None,
            run: None,
            steps: None,
            stop: Arc::new(AtomicBool::new(false)),
        };
        let outcome = agent.follow(&events, log);
        agent.stop.store(true, Ordering::Relaxed);
        if let Some(run) = agent.run.take() {
            // A run that panicked has said so on standard error.
            let _ = run.join();
        }
        agent.out.close();
        outcome
    }

    fn follow(&mut self, events: &Receiver<Event>, log: Log<'_>) -> Result<(), String> {
        loop {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err("this agent was stopped".into());
            }
            let Ok(event) = events.recv_timeout(LOOK_EVERY) else {
                continue;
            };
            let report = match event {
                Event::Peer(PeerEvent::End(why)) => return Err(why),
                Event::Peer(PeerEvent::Message(message)) => {
                    self.message(message, log)?;
                    continue;
                }
                Event::Progress(progress) => ToController::Progress(progress),
                Event::StepDone => ToController::StepDone,
                Event::Finished(Err(error)) => return Err(error.to_string()),
                Event::Finished(Ok(())) => return self.report(ToController::Done),
            };
            self.report(report)?;
        }
    }

    fn send(&mut self, messages: impl IntoIterator<Item = ToController>) -> Result<(), String> {
        let mut messages = messages.into_iter();
        messages
            .try_for_each(|message| self.out.send(&message))
            .map_err(|error| error.to_string())
    }

    fn report(&mut self, message: ToController) -> Result<(), String> {
        let message = self.side.report(message);
        self.send(message)
    }

    fn message(&mut self, message: ToAgent, log: Log<'_>) -> Result<(), String> {
        let mut replies = Vec::new();
        let now_us = self.clock.now_us();
        let outcome = self.side.on_message(message, now_us, &mut replies);
        self.send(replies)?;
        match outcome.map_err(|error| error.to_string())? {
            None | Some(ToAgent::Hello { .. } | ToAgent::Probe { .. }) => Ok(()),
            Some(ToAgent::Assign(assignment)) => self.prepare(&assignment, log),
            Some(ToAgent::Start { at_us, offset_us }) => self.start(at_us, offset_us),
            Some(ToAgent::Step(step)) => {
                if let Some(steps) = &self.steps {
                    // A run that has ended tries no more rates, and reports that itself.
                    let _ = steps.send(step);
                }
                Ok(())
            }
            Some(ToAgent::SearchOver) => {
                self.steps = None;
                Ok(())
            }
            Some(ToAgent::Stop) => {
                self.stop.store(true, Ordering::Relaxed);
                if self.run.is_none() {
                    return Err("stopped before it began".into());
                }
                Ok(())
            }
        }
    }

    fn run_options(&self) -> RunOptions {
        RunOptions {
            threads: self.options.threads,
            watch: WatchServer::Off,
            stop: self.stop.clone(),
            ..RunOptions::default()
        }
    }

    fn prepare(&mut self, assignment: &Assignment, log: Log<'_>) -> Result<(), String> {
        let &Assignment {
            index, agents: of, ..
        } = assignment;
        let part = RunShare { index, of };
        let made = Script::new(&assignment.scenario, part)
            .and_then(|script| check_here(&script, &self.run_options()).map(|()| script));
        let reply = match made {
            Ok(script) => {
                log(&format!(
                    "part {} of {} of `{}`: {} connections",
                    part.index + 1,
                    part.of,
                    assignment.scenario.name,
                    script.clients()
                ));
                self.script = Some(Arc::new(script));
                ToController::Ready
            }
            Err(error) => {
                log(&format!("cannot: {error}"));
                ToController::Cannot {
                    reason: error.to_string(),
                }
            }
        };
        self.report(reply)
    }

    fn start(&mut self, at_us: u64, offset_us: i64) -> Result<(), String> {
        let Some(script) = self.script.take() else {
            return Err("started without a part".into());
        };
        let options = self.run_options();
        let clock = self.clock.shifted(offset_us);
        let begin_us = at_us.saturating_add_signed(-offset_us);
        let sender = self.sender.clone();
        let publish = script.scenario.publish.as_ref();
        let orders = publish.and_then(|publish| publish.until.as_ref()).map(|_| {
            let (steps, to_try) = channel();
            self.steps = Some(steps);
            let sender = self.sender.clone();
            StepOrders {
                steps: to_try,
                done: Box::new(move || drop(sender.send(Event::StepDone))),
            }
        });
        let run = std::thread::Builder::new()
            .name("agent-run".into())
            .spawn(move || {
                let rows = sender.clone();
                let mut observer = move |snapshot: &Snapshot<'_>| {
                    // A loop that has ended has stopped this run.
                    let _ = rows.send(Event::Progress(Box::new(progress(snapshot))));
                };
                let course = RunCourse {
                    clock,
                    begin_us: Some(begin_us),
                    settles: false,
                    orders: orders.as_ref(),
                };
                let outcome = carry_out(&script, &options, &course, &mut observer);
                let _ = sender.send(Event::Finished(outcome.map(|_| ())));
            })
            .map_err(|error| error.to_string())?;
        self.run = Some(run);
        Ok(())
    }
}

fn progress(snapshot: &Snapshot<'_>) -> Progress {
    Progress {
        sample: snapshot.sample.clone(),
        counters: snapshot.tally.counters.clone(),
        deliveries: snapshot.tally.deliveries,
        interval: snapshot.tally.interval.clone(),
        sums: snapshot.tally.sums.clone(),
    }
}
