//! What is counted: each kind of connection does the same things, so many times each.
//!
//! The server is the real one with one shard, over the [`Quiet`] kernel. Everything is fixed, such
//! as seeds, time and names. So the same code gives the same counts, but for what the standard
//! library and libc draw for themselves.

use std::sync::Arc;

use anyhow::{Result, anyhow, ensure};
use throng_config::{Config, ConfigFile, Sources};
use throng_engine::{Running, ShardParts, builders_on};
use throng_gateway_grip::{OriginClient, OriginExchange};
use throng_http1::origin::{OriginFailure, OriginFailureKind, OriginRequest};
use throng_server::{Assembly, Mailbox, Options, ShardApp, Start};
use throng_types::{ConnId, ShardId};

use crate::kernel::Quiet;
use crate::requests::{Kind, PAYLOAD, message, publication, publisher};

/// Times that each thing is done while it is counted.
const TIMES: usize = 64;
/// Members of the channel that is delivered to.
pub(crate) const MEMBERS: usize = 64;
const PUBLICATIONS: usize = 8;
/// Publications before counting starts, so that tables and pools have their sizes.
pub(crate) const REHEARSALS: usize = 2;

pub(crate) const CLIENT: u8 = 0;
pub(crate) const API: u8 = 1;

const CONFIG: &str = include_str!("counts.toml");

/// GRIP is not configured, so no backend is asked.
struct Nobody;

impl OriginClient for Nobody {
    fn submit(
        &self,
        _: ConnId,
        _: u32,
        _: OriginRequest,
    ) -> Result<Box<dyn OriginExchange>, OriginFailure> {
        Err(OriginFailure {
            fault: OriginFailureKind::Unreachable,
            detail: String::new(),
        })
    }

    fn tell(&self, _: OriginRequest) -> Result<(), OriginFailure> {
        Ok(())
    }
}

/// Ends the interval before it and begins another: callgrind writes down what it has counted, see
/// [`crate::callgrind`]. Its name is looked for.
#[inline(never)]
pub(crate) fn interval_boundary(name: &str, times: usize) {
    // The line names the interval that begins.
    println!("{name}\t{times}");
}

/// One shard, and what its clients share with it.
pub(crate) struct Stage {
    net: Quiet,
    running: Running<ShardApp, Quiet>,
    _mailboxes: Vec<Mailbox>,
}

impl Stage {
    fn new() -> Result<Self> {
        let file = ConfigFile {
            name: "counts.toml".to_owned(),
            text: CONFIG.to_owned(),
        };
        let sources = Sources {
            file: Some(file),
            ..Sources::default()
        };
        let loaded = Config::load(&sources).map_err(|fault| anyhow!("{fault:?}"))?;
        let options = Options {
            config: Arc::new(loaded.config),
            version: "counts",
            capacity: None,
            memory_bytes: None,
            ask_reload: None,
        };
        let start = Start {
            unix_ms: 0,
            seed: 1,
            secret: [1; 32],
        };
        let assembly = Assembly::new(&options, 1, start)?;
        let net = Quiet::default();
        let parts = ShardParts {
            shard: ShardId(0),
            kernel: net.clone(),
            listeners: (0..assembly.listeners() as u8).collect(),
            limits: assembly.limits(),
        };
        let (builders, mailboxes) = builders_on(vec![parts])?;
        let builder = builders
            .into_iter()
            .next()
            .ok_or_else(|| anyhow!("one shard"))?;
        let app = assembly.app(ShardId(0), &mailboxes, Box::new(Nobody), None);
        let mut stage = Self {
            net,
            running: builder.with(app).start(),
            _mailboxes: mailboxes,
        };
        stage.rest()?;
        Ok(stage)
    }

    /// Takes turns until there is nothing to do.
    fn rest(&mut self) -> Result<()> {
        loop {
            self.running.turn()?;
            let busy = self.running.wait_max().is_some_and(|wait| wait.is_zero());
            if !busy && !self.net.has_events() {
                return Ok(());
            }
        }
    }

    fn pass_ms(&self, ms: u64) {
        self.net.0.borrow_mut().mono_us += ms * 1000;
    }

    /// Clients connect, one after the other, and are served.
    pub(crate) fn connect(&mut self, listener: u8, openings: &[Vec<u8>]) -> Result<Vec<usize>> {
        let mut pipes = Vec::with_capacity(openings.len());
        for opening in openings {
            let pipe = self.net.connect(listener);
            self.net.send_up(pipe, opening);
            self.rest()?;
            pipes.push(pipe);
        }
        Ok(pipes)
    }

    pub(crate) fn send_each(&mut self, pipes: &[usize], bytes: &[u8]) -> Result<()> {
        for &pipe in pipes {
            self.net.send_up(pipe, bytes);
            self.rest()?;
        }
        Ok(())
    }

    pub(crate) fn end(&mut self, pipes: &[usize]) -> Result<()> {
        for &pipe in pipes {
            self.net.end(pipe);
            self.rest()?;
        }
        Ok(())
    }

    pub(crate) fn received(&self, pipes: &[usize]) -> usize {
        let world = self.net.0.borrow();
        pipes.iter().map(|&pipe| world.pipes[pipe].down_bytes).sum()
    }

    fn has_received(&self, pipes: &[usize], bytes: usize) -> Result<()> {
        let received = self.received(pipes);
        ensure!(received >= bytes, "{received} of {bytes} bytes came");
        Ok(())
    }
}

/// Plays everything, and names the next interval at each boundary. `ask` is played last: it gets
/// the number of rehearsals left.
pub(crate) fn play(ask: impl Fn(&mut Stage, usize) -> Result<()>) -> Result<()> {
    let mut stage = Stage::new()?;
    publishing(&mut stage)?;
    for kind in Kind::ALL {
        for rehearsal in (0..=REHEARSALS).rev() {
            connections(&mut stage, kind, rehearsal > 0)?;
        }
    }
    for rehearsal in (0..=REHEARSALS).rev() {
        ask(&mut stage, rehearsal)?;
    }
    interval_boundary("-", 1);
    Ok(())
}

/// Publications without subscribers, by each way.
fn publishing(stage: &mut Stage) -> Result<()> {
    let ways = [
        ("pub c1", Vec::new(), publication("pub", "c1")),
        ("pub own:c1", Vec::new(), publication("pub", "own:c1")),
        ("api c1", Vec::new(), publication("api", "c1")),
        ("socket c1", publisher(), message("c1")),
    ];
    for (way, opening, request) in ways {
        let publisher = stage.connect(API, &[opening])?;
        let name = format!("publish {way}");
        for rehearsal in (0..=REHEARSALS).rev() {
            begin(&name, TIMES, rehearsal > 0);
            for _ in 0..TIMES {
                stage.send_each(&publisher, &request)?;
            }
            begin("-", 1, rehearsal > 0);
        }
        // As many at once as a publisher sends that does not wait.
        let pipelined = request.repeat(TIMES);
        for rehearsal in (0..=REHEARSALS).rev() {
            begin(&format!("{name}, pipelined"), TIMES, rehearsal > 0);
            stage.send_each(&publisher, &pipelined)?;
            begin("-", 1, rehearsal > 0);
        }
        stage.end(&publisher)?;
    }
    Ok(())
}

pub(crate) fn begin(name: &str, times: usize, is_rehearsal: bool) {
    if !is_rehearsal {
        interval_boundary(name, times);
    }
}

/// The life of connections of a kind.
fn connections(stage: &mut Stage, kind: Kind, is_rehearsal: bool) -> Result<()> {
    let begin = |what: &str, times: usize| {
        begin(&format!("{} {what}", kind.name()), times, is_rehearsal);
    };
    let pause = || self::begin("-", 1, is_rehearsal);
    let publisher = stage.connect(API, &[Vec::new()])?;

    // All in one channel.
    let openings = vec![kind.opening("room"); MEMBERS];
    begin("accept", MEMBERS);
    let members = stage.connect(CLIENT, &openings)?;
    pause();
    if let Some(subscribe) = kind.subscribe("room") {
        begin("subscribe", MEMBERS);
        stage.send_each(&members, &subscribe)?;
        pause();
    }
    let request = publication("pub", "room");
    stage.send_each(&publisher, &request)?;
    let before = stage.received(&members);
    begin("deliver to 64", MEMBERS * PUBLICATIONS);
    for _ in 0..PUBLICATIONS {
        stage.send_each(&publisher, &request)?;
    }
    pause();
    let wanted = MEMBERS * PUBLICATIONS * PAYLOAD.len();
    stage.has_received(&members, before + wanted)?;

    // A sign of life to each.
    let (before, writes) = (stage.received(&members), stage.net.writes());
    begin("ping", MEMBERS);
    for _ in 0..27 {
        stage.pass_ms(1000);
        stage.rest()?;
        if stage.net.writes() - writes >= MEMBERS as u64 {
            break;
        }
    }
    pause();
    ensure!(stage.received(&members) > before, "{kind:?}: no ping");

    begin("close", MEMBERS);
    stage.end(&members)?;
    pause();

    // A channel each.
    let each = |n: usize| format!("one{n}");
    let openings: Vec<_> = (0..TIMES).map(|n| kind.opening(&each(n))).collect();
    let members = stage.connect(CLIENT, &openings)?;
    for (n, member) in members.iter().enumerate() {
        if let Some(subscribe) = kind.subscribe(&each(n)) {
            stage.send_each(&[*member], &subscribe)?;
        }
    }
    let requests: Vec<u8> = (0..TIMES)
        .flat_map(|n| publication("pub", &each(n)))
        .collect();
    stage.send_each(&publisher, &requests)?;
    let before = stage.received(&members);
    begin("publish and deliver one to one, pipelined", TIMES);
    stage.send_each(&publisher, &requests)?;
    pause();
    stage.has_received(&members, before + TIMES * PAYLOAD.len())?;
    if kind == Kind::Ws {
        // The same by a publisher's WebSocket.
        let socket = stage.connect(API, &[self::publisher()])?;
        let messages: Vec<u8> = (0..TIMES).flat_map(|n| message(&each(n))).collect();
        stage.send_each(&socket, &messages)?;
        let before = stage.received(&members);
        begin("publish by socket and deliver one to one", TIMES);
        stage.send_each(&socket, &messages)?;
        pause();
        stage.has_received(&members, before + TIMES * PAYLOAD.len())?;
        stage.end(&socket)?;
    }
    stage.end(&members)?;
    stage.end(&publisher)
}
