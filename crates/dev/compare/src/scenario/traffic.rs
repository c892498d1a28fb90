//! Deliveries: their cost, their rate and their latency under a load.

use anyhow::Result;

use super::scale::{AFTERMATH, Scale};
use crate::client::{Client, Flow, Load, Names, Pace};
use crate::results::{Metric, Samples};
use crate::server::Server;

/// One channel, with one publication in flight, then four.
pub(super) fn fan_out(
    server: &Server,
    scale: &Scale,
    subscribers: usize,
    metrics: [Metric; 2],
) -> Result<Samples> {
    let load = load(scale, 1, subscribers, Pace::InFlight(1));
    let mut client = ready(server, scale, &load)?;
    let mut samples = Samples::new();
    for (metric, in_flight) in metrics.into_iter().zip([1, 4]) {
        let pace = Pace::InFlight(in_flight);
        let (flow, used_us) = publish(server, &mut client, &Load { pace, ..load })?;
        samples.push((metric, per_cpu_second(&flow, used_us)));
    }
    Ok(samples)
}

/// Many channels with one subscriber each, at a rate.
pub(super) fn wide(server: &Server, scale: &Scale) -> Result<Samples> {
    let pace = Pace::PerSecond(scale.wide_rate_per_s);
    let (flow, used_us) = one_load(server, scale, &many_channels(scale, pace))?;
    Ok(vec![(Metric::Wide, per_cpu_second(&flow, used_us))])
}

/// Many channels with one subscriber each, as fast as it goes on one connection.
pub(super) fn as_fast_as_it_goes(
    server: &Server,
    scale: &Scale,
    pace: Pace,
    [cpu, rate, p99]: [Metric; 3],
) -> Result<Samples> {
    let (flow, used_us) = one_load(server, scale, &many_channels(scale, pace))?;
    Ok(vec![
        (cpu, per_cpu_second(&flow, used_us)),
        (rate, flow.deliveries as f64 / flow.took.as_secs_f64()),
        (p99, flow.latency_p99_us as f64 / 1e3),
    ])
}

/// Some channels with some subscribers each, at a rate.
pub(super) fn rooms(server: &Server, scale: &Scale) -> Result<Samples> {
    let pace = Pace::PerSecond(scale.room_rate_per_s);
    let (flow, used_us) = one_load(server, scale, &some_channels(scale, pace))?;
    Ok(vec![
        (Metric::Rooms, per_cpu_second(&flow, used_us)),
        (Metric::RoomsP50Ms, flow.latency_p50_us as f64 / 1e3),
        (Metric::RoomsP99Ms, flow.latency_p99_us as f64 / 1e3),
    ])
}

fn load(scale: &Scale, channels: usize, subscribers: usize, pace: Pace) -> Load {
    Load {
        channels,
        subscribers,
        pace,
        names: Names::Any,
        window: scale.window,
    }
}

fn many_channels(scale: &Scale, pace: Pace) -> Load {
    load(scale, scale.wide_channels, 1, pace)
}

fn some_channels(scale: &Scale, pace: Pace) -> Load {
    load(scale, scale.room_channels, scale.room_subscribers, pace)
}

fn one_load(server: &Server, scale: &Scale, load: &Load) -> Result<(Flow, f64)> {
    let mut client = ready(server, scale, load)?;
    publish(server, &mut client, load)
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

fn per_cpu_second(flow: &Flow, used_us: f64) -> f64 {
    flow.deliveries as f64 / used_us * 1e6
}

// ---- what shards cost each other: counts that do not depend on how busy a machine is ----

/// A channel for each subscriber. With [`Names::OneHome`] the home of all is the first shard, for
/// any number of shards up to 16.
pub(super) fn costs_one_to_one(
    server: &Server,
    scale: &Scale,
    names: Names,
    columns: [Metric; 5],
) -> Result<Samples> {
    let load = many_channels(scale, Pace::Pipelined(scale.pipelined));
    costs(server, scale, &Load { names, ..load }, columns)
}

pub(super) fn costs_rooms(server: &Server, scale: &Scale) -> Result<Samples> {
    use Metric::{RoomsCpu, RoomsMail, RoomsSwitches, RoomsWakes, RoomsWrites};
    let load = some_channels(scale, Pace::Pipelined(scale.pipelined / 8));
    let columns = [RoomsCpu, RoomsSwitches, RoomsMail, RoomsWakes, RoomsWrites];
    costs(server, scale, &load, columns)
}

pub(super) fn costs_fan_out(server: &Server, scale: &Scale) -> Result<Samples> {
    use Metric::{FanOutCpu, FanOutMail, FanOutSwitches, FanOutWakes, FanOutWrites};
    let load = load(scale, 1, scale.fan_out_small, Pace::InFlight(4));
    let columns = [
        FanOutCpu,
        FanOutSwitches,
        FanOutMail,
        FanOutWakes,
        FanOutWrites,
    ];
    costs(server, scale, &load, columns)
}

/// Counts of one load, by delivery: CPU time, context switches, messages, wake-ups, writes.
fn costs(server: &Server, scale: &Scale, load: &Load, columns: [Metric; 5]) -> Result<Samples> {
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
