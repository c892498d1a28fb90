//! From a configuration to running shards.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use throng_engine::{ConnLimits, ShardBuilder, ShardOptions};
use throng_metrics::Counters;
use throng_sys::limits::nofile;
use throng_sys::{clock, cpu, random};
use throng_types::ShardId;

use crate::app::Observer;
use crate::broker::{Part, Threads, rings};
use crate::drain::DrainOptions;
use crate::feeds::Feeds;
use crate::gateways::{GatewaysPart, GatewaysPlan};
use crate::handle::{Handle, Origin};
use crate::handover::{Predecessor, Taken, Taking, give};
use crate::history::{self, Kept};
use crate::hooks::Webhooks;
use crate::listeners::Listeners;
use crate::live::conn_limits;
use crate::options::{Options, Start, StartError};
use crate::renewal::Renewal;
use crate::settings::{Blueprint, await_events};
use crate::shard::ShardMail;
use crate::tls::Tls;

/// The most shards: interest in a channel is kept in the bits of one word.
const SHARDS_MAX: usize = 64;
/// The most descriptors that one shard keeps back.
const SPARES_MAX: usize = 16;

/// Binds, and starts the shards' threads: `engine.shards` of them, or one a CPU if that is 0; at
/// most 64.
pub fn start(options: &Options) -> Result<Handle, StartError> {
    build(options, None).map(|(handle, _)| handle)
}

/// Starts as [`start`] does, in the place of another process, which hands over and ends. Until this
/// returns, that one serves; if it fails, that one goes on.
pub fn take_over(options: &Options, mut predecessor: Predecessor) -> Result<Handle, StartError> {
    let built = build(options, Some(&mut predecessor));
    let result = built.as_ref().map(drop).map_err(ToString::to_string);
    let said = predecessor.say(&result);
    let (handle, shards) = built?;
    said.map_err(StartError::HandOver)?;
    let taken = Taken::all(&shards);
    if let (Ok(_), Some(journal)) = (&taken, &handle.journal) {
        // The old process has let go, or is about to.
        journal.begin();
    }
    let result = taken.as_ref().map(drop).map_err(Clone::clone);
    let said = predecessor.say(&result);
    let connections = taken.map_err(StartError::HandOver)?;
    said.and_then(|()| predecessor.wait())
        .map_err(StartError::HandOver)?;
    for shard in shards {
        shard.say_word();
    }
    handle.feeds.go_on();
    handle.webhooks().iter().for_each(|it| it.begin());
    tracing::info!(connections, "taken over from {}", predecessor.name());
    Ok(handle)
}

fn build(
    options: &Options,
    mut predecessor: Option<&mut Predecessor>,
) -> Result<(Handle, Vec<Taken>), StartError> {
    let config = &options.config;
    let wanted = config.engine.shards as usize;
    let wanted = if wanted == 0 { cpu::count() } else { wanted }.clamp(1, SHARDS_MAX);
    // Channels and connections stay on their shards.
    let shards = predecessor
        .as_ref()
        .map_or(wanted, |old| old.hello.shards.into());
    if shards != wanted {
        tracing::warn!("{shards} shards were taken over; {wanted} take effect with a restart");
    }
    let counters = Arc::new(Counters::new());
    let plan = GatewaysPlan::new(config, shards, &counters)?;
    let drivers = counters.clone();
    let fresh = || Start {
        unix_ms: clock::unix_ms(),
        seed: random::seed(),
        secret: random::secret(),
    };
    let start = predecessor
        .as_ref()
        .map_or_else(fresh, |old| old.hello.start);
    let mut blueprint = Blueprint::new(options, shards as u8, &plan, start, counters)?;
    let own_ports = blueprint.mould.own_ports.clone();
    blueprint.await_token_keys(predecessor.is_some())?;
    let tls = Tls::load(config, blueprint.handle_counters.clone())?;
    let inherited = predecessor
        .as_mut()
        .map(|old| std::mem::take(&mut old.groups));
    // Before the ports are there, so that nobody waits at them.
    let history = history::prepare(
        config,
        (&blueprint.home, shards as u8),
        blueprint.history_counters.clone(),
        predecessor.is_some(),
    )?;
    let webhooks = Webhooks::start(config, blueprint.hook_start(), predecessor.is_some())?;
    blueprint.tell(webhooks.clone());
    let Listeners {
        per_shard,
        kept,
        clients,
        api,
        own,
    } = Listeners::bind(config, &own_ports, shards, inherited.unwrap_or_default())?;
    let zero_us = clock::monotonic_us();
    let started = predecessor
        .as_ref()
        .map_or_else(Instant::now, |old| old.zero());
    let limits = ConnLimits {
        spare_descriptors: spare_descriptors(shards),
        ..conn_limits(config, shards, options.memory_bytes)
    };
    let builders = per_shard
        .into_iter()
        .enumerate()
        .map(|(number, listeners)| ShardOptions {
            shard: ShardId(number as u8),
            listeners,
            limits,
            started,
        });
    let (builders, mailboxes) =
        throng_engine::builders::<ShardMail>(builders.collect()).map_err(StartError::Shard)?;
    let (renewer, sources) = (plan.renewer(&mailboxes), plan.sources());
    let parts = plan.start(&mailboxes, &own)?;
    let remotes = blueprint.start_broker(rings(&mailboxes), &mut Threads)?;
    blueprint.await_broker(predecessor.is_some());
    await_events(config, &drivers, predecessor.is_some());
    let (stores, journal) = history::begin(history, rings(&mailboxes), started)?;
    if let Some(journal) = &journal {
        let _ = blueprint.observatory.history.set(journal.health());
    }
    let feeds = Feeds::start(&blueprint.feeds, &mailboxes).map_err(StartError::Shard)?;
    let mut threads = Vec::new();
    let is_successor = predecessor.is_some();
    let links = predecessor
        .map(|old| std::mem::take(&mut old.links))
        .unwrap_or_default();
    let (taking, taken): (Vec<Taking>, Vec<Taken>) = links.into_iter().map(Taking::new).unzip();
    let mut taking = taking.into_iter();
    let brokers = remotes.into_iter().zip(stores);
    for ((builder, part), broker) in builders.into_iter().zip(parts).zip(brokers) {
        let builder = builder.secure(tls.as_ref().map_or_else(Vec::new, |tls| tls.ports(config)));
        let blueprint = blueprint.clone();
        let name = format!("shard-{}", builder.shard().0);
        let (taking, feeds) = (taking.next(), feeds.host());
        let thread = std::thread::Builder::new().name(name).spawn(move || {
            let ran = run(builder, blueprint, (part, broker), taking);
            drop(feeds);
            ran
        });
        threads.push(thread.map_err(StartError::Shard)?);
    }
    if !is_successor {
        feeds.go_on();
        webhooks.iter().for_each(|webhooks| webhooks.begin());
    }
    let drain = DrainOptions::of(config);
    let tls = tls.map(|tls| Arc::new(tls.watched));
    let renewal = Renewal {
        mould: blueprint.mould.clone(),
        peers: blueprint.peers.clone(),
        observatory: blueprint.observatory.clone(),
        gateways: renewer,
        tls: tls.clone(),
        hook_start: blueprint.hook_start(),
        webhooks,
        mailboxes: mailboxes.clone(),
    };
    let zero_us = zero_us.saturating_sub(started.elapsed().as_micros() as u64);
    let origin = Origin {
        start,
        zero_us,
        shards: shards as u8,
        software: options.version,
        listeners: kept,
    };
    let handle = Handle {
        origin: Mutex::new(Some(origin)),
        clients,
        api,
        own: { own_ports.iter().map(|port| port.option).zip(own) }.collect(),
        shards: mailboxes,
        threads,
        feeds,
        drain: Mutex::new(drain),
        renewal: Mutex::new(renewal),
        tls,
        observatory: blueprint.observatory,
        sources,
        journal,
    };
    Ok((handle, taken))
}

/// Descriptors that each shard keeps back for the API port and those of gateways: an eighth of
/// what the process may have, and no more than a shard needs for a few callers.
fn spare_descriptors(shards: usize) -> usize {
    let all = usize::try_from(nofile().soft).unwrap_or(usize::MAX);
    (all / 8 / shards).clamp(1, SPARES_MAX)
}

fn run(
    builder: ShardBuilder<ShardMail>,
    blueprint: Blueprint,
    (part, broker): (GatewaysPart, (Part, Option<Kept>)),
    taking: Option<Taking>,
) -> io::Result<()> {
    let shard = builder.shard();
    let app = blueprint.app_with(shard, part.gateways(), broker);
    let mut observer = Observer::default();
    // The first configuration is outdated after a reload.
    drop(blueprint);
    let mut running = builder.with(app).start();
    if taking.is_some_and(|taking| !taking.take(&mut running)) {
        return Ok(());
    }
    loop {
        running.turn()?;
        observer.observe(running.app(), running.conns(), running.stats());
        if running.finished() {
            match running.app_mut().take_hand_over() {
                Some(order) => give(&mut running, &order)?,
                None => return Ok(()),
            }
        }
    }
}
