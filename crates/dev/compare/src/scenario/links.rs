//! Streams that ask their backend again and again whether they missed something.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Scale;
use crate::client::Client;
use crate::origin::Origin;
use crate::results::{Metric, Samples};
use crate::server::Server;

/// Delay allowed beyond the promised time: proxies spread their timers, and this machine has other
/// things to do.
const GRACE: Duration = Duration::from_secs(5);

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
