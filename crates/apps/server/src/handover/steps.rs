//! Steps of a shard in a hand-over besides sending and waiting: the same on any kernel, with
//! threads or without.
//!
//! The order: [`be_still`] on all shards; [`still_turn`] on all until none has more to do and none
//! [`is_busy`]; [`stop_at`] on all, and turns as before until each [`has_stopped`], too;
//! [`Parcel::pack`] on all; then [`go_on`] or [`leave`] on all.

use std::io;

use throng_engine::{Kernel, Running};
use throng_types::{Millis, Parts};

use super::parcel::Parcel;
use super::taking::HUB;
use crate::drain::{DrainOptions, Ports};
use crate::draining;
use crate::shard::ShardApp;

/// From now on the shard does nothing by itself.
pub fn be_still<K: Kernel>(running: &mut Running<ShardApp, K>) {
    running.app_mut().housekeeping_at = Millis(u64::MAX);
}

/// Brings what was begun nearer to its end; true if there is more to do.
pub fn still_turn<K: Kernel>(running: &mut Running<ShardApp, K>) -> io::Result<bool> {
    running.app_mut().parts.hub.hurry();
    running.still_turn()
}

/// Whether something is under way, in the shard or on its way to it. Only while none runs.
pub fn is_busy<K: Kernel>(running: &Running<ShardApp, K>) -> bool {
    let app = running.app();
    let is_at_rest = app.parts.hub.is_at_rest() && app.orders.is_empty() && app.ended.is_empty();
    running.has_mail() || !is_at_rest
}

/// Takes nothing more that is delivered from elsewhere behind a cut. Messages for the successor's
/// shard go to `send`: which channels it is to hear. False if there are none.
pub fn stop_at<K: Kernel>(
    running: &mut Running<ShardApp, K>,
    cut: u64,
    mut send: impl FnMut(&[u8]),
) -> bool {
    if let Some(remote) = &mut running.app_mut().parts.hub.broker.remote {
        remote.stop_at(Some(cut));
    }
    let mut send_piece = |piece: &[u8]| send(&[&[HUB], piece].concat());
    let mut parts = Parts::new(&mut send_piece);
    let any = running.app().parts.hub.save_expected(cut, &mut parts);
    parts.end();
    any
}

/// Whether all is taken that comes before the cut.
pub fn has_stopped<K: Kernel>(running: &Running<ShardApp, K>) -> bool {
    running.app().parts.hub.broker.has_stopped()
}

/// Nothing was handed over: the shard goes on as if nothing had been.
pub fn go_on<K: Kernel>(running: &mut Running<ShardApp, K>, parcel: Option<Parcel<K>>) {
    let lost = parcel.map_or(0, |parcel| parcel.restore(running));
    if lost > 0 {
        tracing::error!(lost, "connections did not come back; this is a bug");
    }
    debug_assert_eq!(lost, 0, "what was packed can be unpacked");
    if let Some(remote) = &mut running.app_mut().parts.hub.broker.remote {
        remote.stop_at(None);
    }
    if let Some(webhooks) = &running.app().parts.webhooks {
        webhooks.go_on();
    }
    running.app_mut().housekeeping_at = Millis(0);
    running.resume();
}

/// The successor has everything: lets go of it, and drains what stays. That goes on behind the cut:
/// a stream that begins only now hears its channels here until the drain ends it.
pub fn leave<K: Kernel>(
    running: &mut Running<ShardApp, K>,
    parcel: Parcel<K>,
    options: DrainOptions,
) {
    parcel.release(running);
    let (app, conns) = running.parts_mut();
    if let Some(remote) = &mut app.parts.hub.broker.remote {
        remote.stop_at(None);
    }
    conns.pause_all();
    let now = conns.now();
    draining::begin(app, (options, Ports::All), conns, now);
    app.housekeeping_at = Millis(0);
    running.resume();
}
