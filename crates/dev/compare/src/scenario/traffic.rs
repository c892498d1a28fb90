//! What deliveries cost.

use anyhow::Result;

use super::scale::{AFTERMATH, Scale};
use crate::client::{Client, Flow, Load, Names, Pace};
use crate::results::{Metric, Samples};
use crate::server::Server;

/// Measures fan-out on one channel with few subscribers.
pub(super) fn fan_out_small(server: &Server, scale: &Scale) -> Result<Samples> {
    let metrics = [Metric::SmallOne, Metric::SmallFour];
    fan_out(server, scale, scale.fan_out_small, metrics)
}

/// One channel with more subscribers.
pub(super) fn fan_out_large(server: &Server, scale: &Scale) -> Result<Samples> {
    let metrics = [Metric::LargeOne, Metric::LargeFour];
    fan_out(server, scale, scale.fan_out_large, metrics)
}

/// One publication in flight, then four.
fn fan_out(
    server: &Server,
    scale: &Scale,
    subscribers: usize,
    metrics: [Metric; 2],
) -> Result<Samples> {
    let load = Load {
        channels: 1,
        subscribers,
        pace: Pace::InFlight(1),
        names: Names::Any,
        window: scale.window,
    };
    let mut client = ready(server, scale, &load)?;
    let mut samples = Samples::new();
    for (metric, in_flight) in metrics.into_iter().zip([1, 4]) {
        let load = Load {
            pace: Pace::InFlight(in_flight),
            ..load
        };
        let (flow, used_us) = publish(server, &mut client, &load)?;
        samples.push((metric, per_cpu_second(&flow, used_us)));
    }
    Ok(samples)
}

/// Many channels with one subscriber each.
pub(super) fn wide(server: &Server, scale: &Scale) -> Result<Samples> {
    let load = Load {
        channels: scale.wide_channels,
        subscribers: 1,
        pace: Pace::PerSecond(scale.wide_rate_per_s),
        names: Names::Any,
        window: scale.window,
    };
    let mut client = ready(server, scale, &load)?;
    let (flow, used_us) = publish(server, &mut client, &load)?;
    Ok(vec![(Metric::Wide, per_cpu_second(&flow, used_us))])
}

/// Measures the wide load as fast as it goes: publications on one connection that waits for no
/// answer.
pub(super) fn pipelined(server: &Server, scale: &Scale) -> Result<Samples> {
    let load = Load {
        channels: scale.wide_channels,
        subscribers: 1,
        pace: Pace::Pipelined(scale.pipelined),
        names: Names::Any,
        window: scale.window,
    };
    let metrics = [
        Metric::Pipelined,
        Metric::PipelinedRate,
        Metric::PipelinedP99Ms,
    ];
    as_fast_as_it_goes(server, scale, &load, metrics)
}

/// Measures the wide load by messages of Throng's WebSocket for publishers.
pub(super) fn socket(server: &Server, scale: &Scale) -> Result<Samples> {
    let load = Load {
        channels: scale.wide_channels,
        subscribers: 1,
        pace: Pace::Socket(scale.pipelined),
        names: Names::Any,
        window: scale.window,
    };
    let metrics = [Metric::Socket, Metric::SocketRate, Metric::SocketP99Ms];
    as_fast_as_it_goes(server, scale, &load, metrics)
}

fn as_fast_as_it_goes(
    server: &Server,
    scale: &Scale,
    load: &Load,
    [cpu, rate, p99]: [Metric; 3],
) -> Result<Samples> {
    let mut client = ready(server, scale, load)?;
    let (flow, used_us) = publish(server, &mut client, load)?;
    Ok(vec![
        (cpu, per_cpu_second(&flow, used_us)),
        (rate, flow.deliveries as f64 / flow.took.as_secs_f64()),
        (p99, flow.latency_p99_us as f64 / 1e3),
    ])
}

/// Some channels with some subscribers each.
pub(super) fn rooms(server: &Server, scale: &Scale) -> Result<Samples> {
    let load = Load {
        channels: scale.room_channels,
        subscribers: scale.room_subscribers,
        pace: Pace::PerSecond(scale.room_rate_per_s),
        names: Names::Any,
        window: scale.window,
    };
    let mut client = ready(server, scale, &load)?;
    let (flow, used_us) = publish(server, &mut client, &load)?;
    Ok(vec![
        (Metric::Rooms, per_cpu_second(&flow, used_us)),
        (Metric::RoomsP50Ms, flow.latency_p50_us as f64 / 1e3),
        (Metric::RoomsP99Ms, flow.latency_p99_us as f64 / 1e3),
    ])
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

/// The counts of one load, as columns.
type Columns = [Metric; 5];

/// A channel for each subscriber.
pub(super) fn costs_one_to_one(server: &Server, scale: &Scale) -> Result<Samples> {
    const COLUMNS: Columns = [
        Metric::OneCpu,
        Metric::OneSwitches,
        Metric::OneMail,
        Metric::OneWakes,
        Metric::OneWrites,
    ];
    let load = Load {
        channels: scale.wide_channels,
        subscribers: 1,
        pace: Pace::Pipelined(scale.pipelined),
        names: Names::Any,
        window: scale.window,
    };
    costs(server, scale, &load, COLUMNS)
}

/// Measures costs with channels whose home is the first shard, for any number of shards up to 16.
pub(super) fn costs_one_home(server: &Server, scale: &Scale) -> Result<Samples> {
    const COLUMNS: Columns = [
        Metric::SkewCpu,
        Metric::SkewSwitches,
        Metric::SkewMail,
        Metric::SkewWakes,
        Metric::SkewWrites,
    ];
    let load = Load {
        channels: scale.wide_channels,
        subscribers: 1,
        pace: Pace::Pipelined(scale.pipelined),
        names: Names::OneHome,
        window: scale.window,
    };
    costs(server, scale, &load, COLUMNS)
}

/// Channels with some subscribers each.
pub(super) fn costs_rooms(server: &Server, scale: &Scale) -> Result<Samples> {
    const COLUMNS: Columns = [
        Metric::RoomsCpu,
        Metric::RoomsSwitches,
        Metric::RoomsMail,
        Metric::RoomsWakes,
        Metric::RoomsWrites,
    ];
    let load = Load {
        channels: scale.room_channels,
        subscribers: scale.room_subscribers,
        pace: Pace::Pipelined(scale.pipelined / 8),
        names: Names::Any,
        window: scale.window,
    };
    costs(server, scale, &load, COLUMNS)
}

pub(super) fn costs_fan_out(server: &Server, scale: &Scale) -> Result<Samples> {
    const COLUMNS: Columns = [
        Metric::FanOutCpu,
        Metric::FanOutSwitches,
        Metric::FanOutMail,
        Metric::FanOutWakes,
        Metric::FanOutWrites,
    ];
    let load = Load {
        channels: 1,
        subscribers: scale.fan_out_small,
        pace: Pace::InFlight(4),
        names: Names::Any,
        window: scale.window,
    };
    costs(server, scale, &load, COLUMNS)
}

fn costs(server: &Server, scale: &Scale, load: &Load, columns: Columns) -> Result<Samples> {
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
