//! An agent: this machine makes load for controllers that know the token, one after another.
//!
//! Owns: the listener, one run at a time. Never: starts anything for who does not prove the token.
//!
//! A controller that goes away ends its run: nobody is left who wants it.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::drive::StepOrders;
use super::local::{Course, carry_out, check_here};
use super::machine;
use super::options::RunOptions;
use super::server::Watch;
use super::tls::AgentTls;
use super::wire::{Arrived, Outgoing, nonce, split};
use crate::agents::{Action, AgentSide, Assignment, Progress, Step, ToAgent};
use throng_bench_report::Snapshot;
use throng_bench_worker::{Clock, Part, PrepareError, Script};

/// Where agents listen unless they are told otherwise.
pub const AGENT_PORT: u16 = 8092;

/// How often the stop flag is looked at while nobody connects.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// How an agent serves.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// What controllers must prove to know.
    pub token: String,
    /// What controllers are shown; none speaks without TLS.
    pub tls: Option<AgentTls>,
    /// Threads that open connections.
    pub threads: Option<usize>,
    /// Set it to end the agent.
    pub stop: Arc<AtomicBool>,
}

enum Event {
    Peer(Arrived<ToAgent>),
    Progress(Box<Progress>),
    StepDone,
    Finished(Result<(), PrepareError>),
}

/// Serves controllers until the stop flag is set. What happens is told to `tell`, one sentence
/// each.
///
/// # Errors
/// If the listener fails.
pub fn serve_agent(
    listener: &TcpListener,
    options: &AgentOptions,
    tell: &mut dyn FnMut(&str),
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    while !options.stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((stream, peer)) => {
                tell(&format!("controller {peer}"));
                // Not every system hands the listener's mode on; blocking is what the threads want.
                stream.set_nonblocking(false)?;
                match Agent::serve(stream, options, tell) {
                    Ok(()) => tell(&format!("controller {peer} is done")),
                    Err(why) => tell(&format!("controller {peer}: {why}")),
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

/// One controller's connection.
struct Agent<'a> {
    options: &'a AgentOptions,
    side: AgentSide,
    out: Outgoing,
    clock: Clock,
    sender: Sender<Event>,
    script: Option<Arc<Script>>,
    run: Option<JoinHandle<()>>,
    /// Where the rates of a search go; none when there is no other.
    steps: Option<Sender<Step>>,
    stop: Arc<AtomicBool>,
    drop_all: Arc<AtomicBool>,
}

impl<'a> Agent<'a> {
    fn serve(
        mut stream: TcpStream,
        options: &'a AgentOptions,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let secured = options.tls.as_ref().map(|tls| tls.accept(&mut stream));
        let secured = secured.transpose().map_err(|error| error.to_string())?;
        let (sender, events) = channel();
        let peer = sender.clone();
        // A loop that has ended wants no more messages.
        let on = move |arrived| drop(peer.send(Event::Peer(arrived)));
        let mut out = split(stream, secured, on).map_err(|error| error.to_string())?;
        let (side, challenge) = AgentSide::new(&options.token, machine::describe("agent"), nonce());
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
            drop_all: Arc::new(AtomicBool::new(false)),
        };
        let outcome = agent.follow(&events, tell);
        agent.stop.store(true, Ordering::Relaxed);
        if let Some(run) = agent.run.take() {
            // A run that panicked has said so on standard error.
            let _ = run.join();
        }
        agent.out.close();
        outcome
    }

    fn follow(
        &mut self,
        events: &Receiver<Event>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        loop {
            if self.options.stop.load(Ordering::Relaxed) {
                return Err("this agent was told to stop".into());
            }
            let Ok(event) = events.recv_timeout(LOOK_EVERY) else {
                continue;
            };
            let send = match event {
                Event::Peer(Arrived::End(why)) => return Err(why),
                Event::Peer(Arrived::Message(message)) => {
                    self.message(message, tell)?;
                    continue;
                }
                Event::Progress(progress) => self.side.progress(progress),
                Event::StepDone => self.side.step_done(),
                Event::Finished(Err(error)) => return Err(error.to_string()),
                Event::Finished(Ok(())) => {
                    if let Some(done) = self.side.done() {
                        self.out.send(&done).map_err(|error| error.to_string())?;
                    }
                    return Ok(());
                }
            };
            if let Some(message) = send {
                self.out.send(&message).map_err(|error| error.to_string())?;
            }
        }
    }

    fn message(&mut self, message: ToAgent, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        let mut replies = Vec::new();
        let outcome = self
            .side
            .on_message(message, self.clock.now_us(), &mut replies);
        for reply in &replies {
            self.out.send(reply).map_err(|error| error.to_string())?;
        }
        match outcome.map_err(|error| error.to_string())? {
            None => Ok(()),
            Some(Action::Prepare(assignment)) => self.prepare(&assignment, tell),
            Some(Action::Start { at_us, offset_us }) => self.start(at_us, offset_us),
            Some(Action::Step(step)) => {
                if let Some(steps) = &self.steps {
                    // A run that has ended tries no more rates, and says so itself.
                    let _ = steps.send(step);
                }
                Ok(())
            }
            Some(Action::SearchOver) => {
                self.steps = None;
                Ok(())
            }
            Some(Action::DropAll) => {
                self.drop_all.store(true, Ordering::Relaxed);
                Ok(())
            }
            Some(Action::Stop) => {
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
            watch: Watch::Off,
            stop: self.stop.clone(),
            ..RunOptions::default()
        }
    }

    fn prepare(
        &mut self,
        assignment: &Assignment,
        tell: &mut dyn FnMut(&str),
    ) -> Result<(), String> {
        let part = Part {
            index: assignment.index,
            of: assignment.agents,
        };
        let made = Script::new(&assignment.scenario, part)
            .and_then(|script| check_here(&script, &self.run_options()).map(|()| script));
        let reply = match made {
            Ok(script) => {
                tell(&format!(
                    "part {} of {} of `{}`: {} connections",
                    part.index + 1,
                    part.of,
                    assignment.scenario.name,
                    script.clients()
                ));
                self.script = Some(Arc::new(script));
                self.side.ready()
            }
            Err(error) => {
                tell(&format!("cannot: {error}"));
                self.side.cannot(&error.to_string())
            }
        };
        match reply {
            Some(reply) => self.out.send(&reply).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    }

    fn start(&mut self, at_us: u64, offset_us: i64) -> Result<(), String> {
        let Some(script) = self.script.take() else {
            return Err("started without a part".into());
        };
        let options = self.run_options();
        let (clock, drop_all) = (self.clock.shifted(offset_us), self.drop_all.clone());
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
                    // Whoever followed the run has gone; its end is on its way.
                    let _ = rows.send(Event::Progress(Box::new(progress(snapshot))));
                };
                let course = Course {
                    clock,
                    begin_us: Some(begin_us),
                    settles: false,
                    drop_all: &drop_all,
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
        counters: snapshot.counters.clone(),
        deliveries: *snapshot.deliveries,
        delivery: snapshot.row_delivery.clone(),
        connect: snapshot.row_connect.clone(),
        lag: snapshot.row_lag.clone(),
        sums: snapshot.tally.sums.clone(),
    }
}
