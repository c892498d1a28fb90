//! Connections that receive nothing: their memory, what a burst of them costs, and streams that ask
//! their backend again and again whether they missed something.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::scale::{AFTERMATH, Scale};
use crate::client::Client;
use crate::origin::Origin;
use crate::results::{Metric, Samples};
use crate::server::Server;

/// Delay allowed beyond the promised time: proxies spread their timers, and this machine has other
/// things to do.
const GRACE: Duration = Duration::from_secs(5);

/// Many subscribers on each channel.
pub(super) fn idle(server: &Server, scale: &Scale) -> Result<Samples> {
    let at = slope(server, scale, |n| format!("c{}", n % scale.idle_few))?;
    Ok(vec![
        (Metric::IdleBytes, at.bytes_each),
        (Metric::StartBytes, at.start_bytes),
        (Metric::LeftBytes, at.left_bytes),
    ])
}

/// A channel for each. Servers that can keep history and positions do so in channels that begin
/// with `own:`.
pub(super) fn idle_own_channels(server: &Server, scale: &Scale) -> Result<Samples> {
    let at = slope(server, scale, |n| format!("own:c{n}"))?;
    Ok(vec![(Metric::IdleOwnBytes, at.bytes_each)])
}

/// All at once, from nothing.
pub(super) fn burst(server: &Server, scale: &Scale) -> Result<Samples> {
    let mut client = Client::new(server.dialect(), server.addresses())?;
    server.settle(|time| client.rest(time))?;
    let before_us = server.cpu_us()?;
    client.connect(scale.idle_many, |n| format!("c{}", n % scale.idle_few))?;
    client.rest(AFTERMATH)?;
    let used_us = server.cpu_us()? - before_us;
    Ok(vec![(Metric::AcceptUs, used_us / scale.idle_many as f64)])
}

/// Each stream has a link of its own, and one channel of a few.
pub(super) fn links(server: &Server, scale: &Scale, origin: Option<&Origin>) -> Result<Samples> {
    let origin = origin.context("links need an origin")?;
    origin.forget();
    let mut client = Client::new(server.dialect(), server.addresses())?;
    let timeout_s = scale.link_timeout.as_secs();
    client.connect_to(scale.links, |n| {
        let channel = n % scale.idle_few;
        format!("/reliable?channel=c{channel}&id={n}&timeout={timeout_s}")
    })?;
    let (began, before_us) = (Instant::now(), server.cpu_us()?);
    client.rest(scale.link_timeout * 3)?;
    let punctual = origin.punctual(scale.links, scale.link_timeout + GRACE);
    let used = (server.cpu_us()? - before_us) / 1e6 / began.elapsed().as_secs_f64();
    Ok(vec![
        (Metric::LinksPunctual, punctual as f64 / scale.links as f64),
        (Metric::LinksCpu, used),
    ])
}

struct Slope {
    start_bytes: f64,
    bytes_each: f64,
    left_bytes: f64,
}

fn slope(server: &Server, scale: &Scale, channel: impl Fn(usize) -> String) -> Result<Slope> {
    let mut client = Client::new(server.dialect(), server.addresses())?;
    let start_bytes = resting_bytes(server, &mut client)?;
    client.connect(scale.idle_few, &channel)?;
    let few_bytes = resting_bytes(server, &mut client)?;
    client.connect(scale.idle_many, &channel)?;
    let many_bytes = resting_bytes(server, &mut client)?;
    client.leave();
    let left_bytes = resting_bytes(server, &mut client)?;
    Ok(Slope {
        start_bytes,
        bytes_each: (many_bytes - few_bytes) / (scale.idle_many - scale.idle_few) as f64,
        left_bytes,
    })
}

fn resting_bytes(server: &Server, client: &mut Client) -> Result<f64> {
    server.settle(|time| client.rest(time))?;
    Ok(server.pss_bytes()? as f64)
}
