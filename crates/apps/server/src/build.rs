//! From a configuration to running shards.

use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use throng_config::Config;
use throng_engine::{ConnLimits, MailboxSender, ShardBuilder, ShardOptions};
use throng_redis::Ring;
use throng_sys::limits::nofile;
use throng_sys::{cpu, random};
use throng_types::ShardId;

use crate::broker::Part;
use crate::drain::DrainOptions;
use crate::gateways::GatewaysPlan;
use crate::handle::{Control, Handle};
use crate::list::GatewayList;
use crate::listeners::Listeners;
use crate::options::{Options, StartError};
use crate::plan::Plan;
use crate::settings::{Blueprint, Start};
use crate::shard::Mail;
use crate::tls::Tls;

/// The most shards: interest in a channel is kept in the bits of one word.
const SHARDS_MAX: usize = 64;
/// The most descriptors that one shard keeps back.
const SPARES_MAX: usize = 16;

/// Binds, and starts the shards' threads with the server's own gateways.
///
/// # Errors
/// See [`StartError`].
pub fn start(options: &Options) -> Result<Handle, StartError> {
    let mut reload = None;
    let handle = start_with(options, |shards, counters| {
        let plan = GatewaysPlan::new(&options.config, shards, counters)?;
        reload = plan.reload();
        Ok(plan)
    })?;
    Ok(Handle { reload, ..handle })
}

/// The same with another list of gateways. `plan` gets the number of shards and the counters of
/// drivers.
///
/// # Errors
/// See [`StartError`].
pub fn start_with<P: Plan>(
    options: &Options,
    plan: impl FnOnce(usize, &Arc<throng_metrics::Counters>) -> Result<P, StartError>,
) -> Result<Handle, StartError> {
    let config = &options.config;
    let wanted = config.engine.shards as usize;
    let shards = if wanted == 0 { cpu::count() } else { wanted }.clamp(1, SHARDS_MAX);
    let counters = Arc::new(throng_metrics::Counters::new());
    let plan = plan(shards, &counters)?;
    let own_ports = plan.ports();
    let clock = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let start = Start {
        unix_ms: clock.as_millis() as u64,
        seed: random::seed(),
        secret: random::secret(),
    };
    let blueprint = Blueprint::new::<P::List>(
        options,
        shards as u8,
        &own_ports,
        plan.subscriptions_max(),
        start,
        counters,
    )?;
    let tls = Tls::load(config, blueprint.handle_counters.clone())?;
    let Listeners {
        per_shard,
        clients,
        api,
        own,
    } = Listeners::bind(config, &own_ports, shards)?;
    let started = Instant::now();
    let limits = ConnLimits {
        spare_descriptors: spare_descriptors(shards),
        ..conn_limits(config)
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
        throng_engine::builders::<MailOf<P>>(builders.collect()).map_err(StartError::Shard)?;
    let parts = plan.start(&mailboxes, &own)?;
    let ring = |mailbox: &MailboxSender<_>| {
        let mailbox = mailbox.clone();
        Box::new(move || mailbox.ring()) as Ring
    };
    let remotes = blueprint.start_broker(mailboxes.iter().map(ring).collect())?;
    let mut threads = Vec::new();
    for ((builder, part), remote) in builders.into_iter().zip(parts).zip(remotes) {
        let builder = builder.secure(tls.as_ref().map_or_else(Vec::new, |tls| tls.ports(config)));
        let blueprint = blueprint.clone();
        let name = format!("shard-{}", builder.shard().0);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || run::<P>(builder, &blueprint, part, remote));
        threads.push(thread.map_err(StartError::Shard)?);
    }
    let drain = DrainOptions::of(config);
    Ok(Handle {
        clients,
        api,
        own: { own_ports.iter().map(|port| port.option).zip(own) }.collect(),
        shards: mailboxes.into_iter().map(Control::new).collect(),
        threads,
        drain,
        reload: None,
        tls: tls.map(Tls::watched),
    })
}

/// Descriptors that each shard keeps back for the API port and those of gateways: an eighth of
/// what the process may have, and no more than a shard needs for a few callers.
fn spare_descriptors(shards: usize) -> usize {
    let all = usize::try_from(nofile().soft).unwrap_or(usize::MAX);
    (all / 8 / shards).clamp(1, SPARES_MAX)
}

/// Bounds of connections.
pub(crate) fn conn_limits(config: &Config) -> ConnLimits {
    ConnLimits {
        queue_bytes_max: config.engine.out_buffer_bytes_max as usize,
        handshake_timeout_ms: config.tls.handshake_timeout_ms,
        ..ConnLimits::default()
    }
}

type MailOf<P> = Mail<<<P as Plan>::List as GatewayList>::Mail>;

fn run<P: Plan>(
    builder: ShardBuilder<MailOf<P>>,
    blueprint: &Blueprint,
    part: P::Part,
    remote: Part,
) -> io::Result<()> {
    let shard = builder.shard();
    let app = blueprint.app_with(shard, P::build(part, shard), remote);
    let mut observer = blueprint.observer();
    builder
        .with(app)
        .run(|app, conns, turns| observer.observe(app, conns, turns))
        .map(drop)
}
