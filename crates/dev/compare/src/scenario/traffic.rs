//! Deliveries: their cost, their rate and their latency under a load.

use anyhow::Result;

use super::scale::{AFTERMATH, Scale};
use crate::client::{Client, Flow, Load};
use crate::results::{Metric, Samples};
use crate::server::Server;

/// Figure of a load, of those that a column may have.
#[derive(Clone, Copy)]
pub(super) enum Figure {
    /// Deliveries by second of the server's CPU time.
    PerCpuSecond,
    PerSecond,
    P50Ms,
    P99Ms,
}

/// Publishes loads one after the other with the client of the first, and takes the figures that
/// stand beside each.
pub(super) fn flows(
    server: &Server,
    scale: &Scale,
    loads: &[(Load, &[(Metric, Figure)])],
) -> Result<Samples> {
    let mut samples = Samples::new();
    let Some((first, _)) = loads.first() else {
        return Ok(samples);
    };
    let mut client = ready(server, scale, first)?;
    for (load, columns) in loads {
        let (flow, used_us) = publish(server, &mut client, load)?;
        samples.extend(columns.iter().map(|&(metric, figure)| {
            let value = match figure {
                Figure::PerCpuSecond => flow.deliveries as f64 / used_us * 1e6,
                Figure::PerSecond => flow.deliveries as f64 / flow.took.as_secs_f64(),
                Figure::P50Ms => flow.latency_p50_us as f64 / 1e3,
                Figure::P99Ms => flow.latency_p99_us as f64 / 1e3,
            };
            (metric, value)
        }));
    }
    Ok(samples)
}

/// A client that is subscribed, of a server that is warm and rests.
fn ready(server: &Server, scale: &Scale, load: &Load) -> Result<Client> {
    let mut client = Client::new(server.dialect(), server.addresses())?;
    client.subscribe(load)?;
    server.settle(|time| client.rest(time))?;
    let warm_up = Load {
        window: scale.warm_up,
        ..*load
    };
    publish(server, &mut client, &warm_up)?;
    server.settle(|time| client.rest(time))?;
    Ok(client)
}

/// Publishes a load. Returns its result and the server's CPU time for it in µs.
fn publish(server: &Server, client: &mut Client, load: &Load) -> Result<(Flow, f64)> {
    client.open_publishers(load)?;
    let before_us = server.cpu_us()?;
    let flow = client.publish(load)?;
    client.rest(AFTERMATH)?;
    Ok((flow, server.cpu_us()? - before_us))
}

/// Counts of one load, by delivery: CPU time, context switches, messages, wake-ups, writes.
pub(super) fn costs(
    server: &Server,
    scale: &Scale,
    load: &Load,
    columns: [Metric; 5],
) -> Result<Samples> {
    let mut client = ready(server, scale, load)?;
    client.open_publishers(load)?;
    let before = server.costs()?;
    let flow = client.publish(load)?;
    client.rest(AFTERMATH)?;
    let after = server.costs()?;
    let each = columns.into_iter().zip(before.into_iter().zip(after));
    Ok(each
        .map(|(metric, (before, after))| (metric, (after - before) / flow.deliveries as f64))
        .collect())
}
