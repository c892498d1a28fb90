//! `crowd drive`: the run, phase after phase.
//!
//! Owns: the server's and the clients' processes. What it saw goes to [`crate::report`], which
//! judges.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::plan::{Layout, Transport};
use crate::publish::{Api, to_each};
use crate::report::{self, Check, Evidence, Seen};
use crate::sample::{Sample, pss_of_both, read, slabs};
use crate::server::Server;
use crate::settings::{Args, Settings};
use crate::tally::Tally;

const CLIENT_PORT: u16 = 8_000;
pub(crate) const API_PORT: u16 = 8_001;
/// Time without any progress after which a phase has failed. Emulation is slow but not that slow.
const STALLED: Duration = Duration::from_secs(180);
/// Connections that publish one to one.
const PUBLISHERS: usize = 128;

pub(crate) struct Run<'a> {
    pub(crate) settings: &'a Settings,
    start: Instant,
    pub(crate) server: Server,
    clients: Vec<Child>,
    pub(crate) tally: Tally,
    samples: Vec<Sample>,
}

/// Runs all phases and writes the results; `true` if every check holds.
pub(crate) fn run(args: &Args) -> Result<bool, String> {
    let settings = Settings::read(args)?;
    let server = Server::start(&settings)?;
    let mut run = Run {
        settings: &settings,
        start: Instant::now(),
        server,
        clients: Vec::new(),
        tally: Tally::default(),
        samples: Vec::new(),
    };
    let mut seen = Seen::default();
    let outcome = run.phases(&mut seen);
    if outcome.is_err() {
        run.look_closer();
    }
    // Whatever went wrong, nothing that we started stays.
    run.server.kill();
    for child in &mut run.clients {
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    let tally = seen.tally.clone().unwrap_or(run.tally);
    let mut checks = report::checks(&settings, &tally, &seen.metrics);
    checks.push(Check::new(
        "server ended by itself after SIGTERM",
        1,
        u64::from(seen.ended),
    ));
    if let Err(error) = outcome {
        say(&error);
        checks.insert(0, Check::new(format!("came to the end: {error}"), 1, 0));
    }
    let evidence = Evidence {
        checks,
        tally,
        samples: run.samples,
        seen,
    };
    report::write(&settings, &evidence)
        .map_err(|error| format!("cannot write results: {error}"))?;
    for check in &evidence.checks {
        say(&check.line());
    }
    Ok(evidence.checks.iter().all(Check::holds))
}

pub(crate) fn say(line: &str) {
    println!("million: {line}");
}

/// A connection of its own for each question: between two of them a kept one may be closed for its
/// idleness.
fn metrics() -> Result<String, String> {
    Api::connect(API_PORT)
        .and_then(|mut api| api.ask("GET", "/metrics", ""))
        .map_err(|error| format!("/metrics: {error}"))
}

impl Run<'_> {
    fn phases(&mut self, seen: &mut Seen) -> Result<(), String> {
        let wanted = u64::from(self.settings.connections);
        self.await_server()?;
        self.sample("start");
        seen.slabs_start = slabs();

        self.start_clients()?;
        self.until("connecting", |tally| tally.opened + tally.failed >= wanted)?;
        self.watch("settling", Duration::from_secs(15), |_| false);
        seen.slabs_idle = slabs();
        seen.idle = self.sample("idle").clone();
        seen.metrics_idle = metrics()?;

        let hold = Duration::from_secs(self.settings.hold_s);
        self.watch("holding", hold, |_| false);
        // Pings come once an interval, so the slowest had its chance after another one.
        let ping = Duration::from_secs(2 * self.settings.ping_s);
        self.watch("pinging", ping, |tally| tally.pinged >= wanted);

        if self.settings.upgrade {
            seen.upgraded = Some(self.upgrade()?);
        }
        self.round(0)?;
        if self.settings.layout == Layout::Own {
            self.one_to_one()?;
        }
        self.round(1)?;
        seen.slabs_end = slabs();
        seen.metrics = metrics()?;
        seen.end = self.sample("end").clone();
        seen.tally = Some(self.tally.clone());

        self.leave()?;
        seen.ended = self.server.end();
        Ok(())
    }

    /// Writes the state of the server's threads and of the kernel's sockets to `trouble.txt` after
    /// a failure.
    fn look_closer(&self) {
        let pid = self.server.pid();
        let mut text = String::new();
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            for name in ["stat", "syscall", "wchan", "stack"] {
                let path = task.path().join(name);
                text += &format!("{}\n{}\n", path.display(), read(&path.to_string_lossy()));
            }
        }
        for path in [
            "/proc/net/sockstat",
            "/proc/net/softnet_stat",
            "/proc/loadavg",
        ] {
            text += &format!("{path}\n{}\n", read(path));
        }
        text += &metrics().unwrap_or_else(|error| error);
        let _ = std::fs::write(self.settings.out.join("trouble.txt"), text);
    }

    fn await_server(&self) -> Result<(), String> {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            let asked = Api::connect(API_PORT).and_then(|mut api| api.ask("GET", "/healthz", ""));
            match asked {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => {
                    return Err(format!("the server does not answer: {error}"));
                }
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    fn start_clients(&mut self) -> Result<(), String> {
        let Settings {
            connections,
            clients,
            ..
        } = *self.settings;
        let transport = match self.settings.transport {
            Transport::Ws => "ws",
            Transport::Sse => "sse",
        };
        let layout = match self.settings.layout {
            Layout::Own => "own",
            Layout::Groups => "groups",
        };
        let this = std::env::current_exe().map_err(|error| format!("crowd: {error}"))?;
        for n in 0..clients {
            let share = |n: u32| u64::from(connections) * u64::from(n) / u64::from(clients);
            let (first, end) = (share(n), share(n + 1));
            let child = Command::new(&this)
                .args(["hold", "--transport", transport, "--layout", layout])
                .args(["--first", &first.to_string()])
                .args(["--count", &(end - first).to_string()])
                .args(["--port", &CLIENT_PORT.to_string()])
                .args(["--tls", &self.settings.tls.is_some().to_string()])
                .arg("--status")
                .arg(self.status(n))
                .arg("--stop")
                .arg(self.stop())
                .stdin(Stdio::null())
                .spawn()
                .map_err(|error| format!("crowd hold: {error}"))?;
            self.clients.push(child);
        }
        Ok(())
    }

    fn status(&self, n: u32) -> PathBuf {
        self.settings.out.join(format!("client-{n}.txt"))
    }

    fn stop(&self) -> PathBuf {
        self.settings.out.join("stop")
    }

    fn count(&mut self) {
        let mut tally = Tally::default();
        for n in 0..self.settings.clients {
            tally.add(&std::fs::read_to_string(self.status(n)).unwrap_or_default());
        }
        self.tally = tally;
    }

    pub(crate) fn sample(&mut self, phase: &'static str) -> &Sample {
        self.count();
        let clients: Vec<u32> = self.clients.iter().map(Child::id).collect();
        let tally = &self.tally;
        let sample = Sample {
            at_s: self.start.elapsed().as_secs(),
            phase,
            alive: tally.alive,
            received: tally.rounds.iter().sum::<u64>() + tally.own,
            pings: tally.pings,
            ..Sample::take(&self.server.pids(), &clients)
        };
        const MIB: u64 = 1 << 20;
        say(&format!(
            "{:>5} s  {phase:<11} {:>9} alive  {:>10} received  {:>9} pings  \
             server {:>5} MiB  clients {:>4} MiB  \
             slab {:>5} MiB  buffers {:>4} MiB  free {:>6} MiB",
            sample.at_s,
            sample.alive,
            sample.received,
            sample.pings,
            sample.server_pss / MIB,
            sample.clients_pss / MIB,
            sample.slab / MIB,
            sample.tcp_pages * 4_096 / MIB,
            sample.available / MIB
        ));
        self.samples.push(sample);
        &self.samples[self.samples.len() - 1]
    }

    /// Samples for as long as that, or until something is true.
    pub(crate) fn watch(
        &mut self,
        phase: &'static str,
        most: Duration,
        until: impl Fn(&Tally) -> bool,
    ) {
        let deadline = Instant::now() + most;
        while Instant::now() < deadline && !until(&self.tally) {
            let left = deadline.saturating_duration_since(Instant::now());
            std::thread::sleep(left.min(Duration::from_secs(self.settings.sample_s)));
            self.sample(phase);
        }
    }

    /// Samples until something is true; an error once nothing moves any more.
    fn until(&mut self, phase: &'static str, done: impl Fn(&Tally) -> bool) -> Result<(), String> {
        let mut moved = Instant::now();
        loop {
            let before = self.tally.progress();
            std::thread::sleep(Duration::from_secs(self.settings.sample_s));
            self.sample(phase);
            if done(&self.tally) {
                return Ok(());
            }
            if before != self.tally.progress() {
                moved = Instant::now();
            } else if moved.elapsed() > STALLED {
                return Err(format!("{phase}: nothing moves any more"));
            }
        }
    }

    /// Publishes once to all connections, and waits until all have it.
    fn round(&mut self, round: u32) -> Result<(), String> {
        let alive = self.tally.alive;
        let place = round as usize;
        let mut api = Api::connect(API_PORT).map_err(|error| format!("publishing: {error}"))?;
        for (channel, message) in self.settings.layout.round(round) {
            api.publish(&channel, &message)
                .map_err(|error| format!("publishing to {channel}: {error}"))?;
        }
        self.until("broadcast", |tally| tally.rounds[place] >= alive)
    }

    /// One publication to each connection's own channel.
    fn one_to_one(&mut self) -> Result<(), String> {
        let connections = self.settings.connections;
        let alive = self.tally.alive;
        let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
        let published = std::thread::scope(|scope| {
            let publisher = scope.spawn(|| {
                let result = to_each(API_PORT, connections, PUBLISHERS, &done);
                over.store(true, Ordering::SeqCst);
                result
            });
            while !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_secs(self.settings.sample_s));
                self.sample("one-to-one");
            }
            publisher.join()
        });
        match published {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(format!("publishing one to one: {error}")),
            Err(_) => return Err("the publishers panicked".to_owned()),
        }
        if self.tally.own < alive {
            self.until("one-to-one", |tally| tally.own >= alive)?;
        }
        Ok(())
    }

    /// Lets all clients leave; the memory that the server keeps then is its own.
    fn leave(&mut self) -> Result<(), String> {
        std::fs::write(self.stop(), "").map_err(|error| format!("stop: {error}"))?;
        for child in &mut self.clients {
            let _ = child.wait();
        }
        self.clients.clear();
        let deadline = Instant::now() + Duration::from_secs(600);
        loop {
            let text = metrics()?;
            if report::metric(&text, "throng_subscriptions") == 0 || Instant::now() > deadline {
                break;
            }
            std::thread::sleep(Duration::from_secs(2));
        }
        self.sample("left");
        Ok(())
    }
}

const LOOK: Duration = Duration::from_millis(50);

pub(crate) struct Upgraded {
    /// Connections that the clients held before and after.
    pub(crate) alive: [u64; 2],
    /// The server's memory before, the most of both processes together, and after: PSS.
    pub(crate) memory: [u64; 3],
    /// Line of the server's log that reports the hand-over.
    pub(crate) told: String,
}

impl Run<'_> {
    pub(crate) fn upgrade(&mut self) -> Result<Upgraded, String> {
        let (before, alive) = (self.sample("upgrade").server_pss, self.tally.alive);
        say("the server is upgraded");
        let mut most = before;
        let mut looks = String::from("ms,old_pss_bytes,new_pss_bytes\n");
        let began = Instant::now();
        let settings = self.settings;
        self.server.upgrade(settings, |server| {
            std::thread::sleep(LOOK);
            let [old, new] = pss_of_both(server.pid(), server.pids().get(1).copied());
            looks += &format!("{},{old},{new}\n", began.elapsed().as_millis());
            most = most.max(old + new);
        })?;
        let path = settings.out.join("upgrade.csv");
        std::fs::write(&path, looks).map_err(|error| format!("{}: {error}", path.display()))?;
        say(&format!("upgraded in {} s", began.elapsed().as_secs()));
        self.watch("upgraded", Duration::from_secs(30), |_| false);
        let after = self.sample("upgraded").server_pss;
        let log = read(&settings.out.join("server.log").to_string_lossy());
        let told = log.lines().find(|line| line.contains("handed over"));
        Ok(Upgraded {
            alive: [alive, self.tally.alive],
            memory: [before, most, after],
            told: told.unwrap_or_default().to_owned(),
        })
    }
}
