//! Writes to the log what sessions have noted: refusals and calls that changed something. Hands
//! refusals and clients that were too slow to the dashboard.
//!
//! Refusals and changes are told at `info`, under the targets `throng::refused` and
//! `throng::audit`; publications of the server API at `debug`.

use throng_engine::{Conns, Kernel};
use throng_session::NoticeKind;
use throng_types::{ConnId, Now};

use crate::follow;
use crate::gateways::Session;
use crate::shard::ShardApp;
use crate::watch::{Refusal, TooSlow};

/// Channels of a slow client that are logged, at most.
const CHANNELS_MAX: usize = 3;

/// Between two warnings of one kind, in milliseconds.
const WARN_EVERY_MS: u64 = 60_000;

/// Writes what was noted in this turn.
pub(crate) fn write_notices<K: Kernel>(app: &ShardApp, conns: &Conns<Session, K>, now: Now) {
    let shared = &app.parts.shared;
    if shared.notices.is_empty() {
        return;
    }
    for notice in shared.notices.take() {
        let address = notice.address;
        let address = address.or_else(|| shared.forwarded.client_of(notice.conn));
        let address = address.or_else(|| conns.peer(notice.conn));
        let address = address.map_or_else(String::new, |address| address.to_string());
        let (user, what, key) = (&*notice.user, notice.what, &*notice.key);
        let (object, why) = (&*notice.object, &*notice.why);
        let (connection, client) = (notice.conn, &*notice.client);
        let called_by = shared.key_name(key);
        if shared.follow.is_on() {
            let key = match notice.kind {
                NoticeKind::Refused => key,
                NoticeKind::Changed | NoticeKind::Published => called_by,
            };
            follow::noted(shared, &notice, (&address, key), conns);
        }
        match notice.kind {
            NoticeKind::Refused => {
                tracing::info!(
                    target: "throng::refused",
                    address, %connection, user, what, object, why, key,
                    "refused"
                );
                app.parts.observatory.watch.refused(Refusal {
                    unix_ms: now.unix_ms,
                    address,
                    user: notice.user,
                    what,
                    object: notice.object,
                    why: notice.why,
                });
            }
            NoticeKind::Changed => {
                tracing::info!(
                    target: "throng::audit",
                    address, %connection, key = called_by, what, object, user, client,
                    "API call"
                );
            }
            NoticeKind::Published => {
                tracing::debug!(
                    target: "throng::audit",
                    address, %connection, key = called_by, what, object,
                    "API call"
                );
            }
        }
    }
}

/// Keeps for the dashboard a client that is closed for being too slow; the hub still knows its
/// channels. The address is there where a proxy told it or connections of an address are
/// counted.
pub(crate) fn tell_slow(app: &ShardApp, id: ConnId, session: &Session, tag: u32, now: Now) {
    let hub = &app.parts.hub;
    let channels = hub.channels_of(id).take(CHANNELS_MAX);
    let address = app.parts.shared.forwarded.client_of(id);
    let address = address.or_else(|| app.addresses.get(tag).copied());
    app.parts.observatory.watch.too_slow(TooSlow {
        unix_ms: now.unix_ms,
        address: address.map_or_else(String::new, |address| address.to_string()),
        user: session.user().into(),
        transport: session.class().transport.as_str(),
        channels: channels.map(|name| name.as_str().to_owned()).collect(),
        subscriptions: hub.channels_of(id).count(),
    });
}

/// Warns of what only the operator can mend, each no more often than once a minute. `crowded`
/// says how many connections have ended because all queues together were full.
pub(crate) fn warn_of_harm(app: &mut ShardApp, crowded: u64, now: Now) {
    let warned = &mut app.warned;
    let unnamed = app.parts.shared.forwarded.take_unnamed();
    warned.unnamed = unnamed.or(warned.unnamed);
    if warned.crowded < crowded && warned.crowded_again_at <= now.mono {
        tracing::warn!(
            shard = app.parts.shard.0,
            connections = crowded - warned.crowded,
            "closed as slow: bytes queued for clients that do not read have reached \
             limits.queued_bytes_max"
        );
        warned.crowded = crowded;
        warned.crowded_again_at = now.mono + WARN_EVERY_MS;
    }
    if warned.unnamed_again_at <= now.mono
        && let Some(address) = warned.unnamed.take()
    {
        tracing::warn!(
            %address,
            "X-Forwarded-For or Forwarded comes from an address that listen.trusted_proxies \
             does not name; if it is your proxy, name it: until then no limit per address \
             applies to its clients"
        );
        warned.unnamed_again_at = now.mono + WARN_EVERY_MS;
    }
}

/// Says how much was not written, once a second.
pub(crate) fn write_suppressed(app: &ShardApp) {
    let suppressed = app.parts.shared.notices.take_suppressed();
    if suppressed > 0 {
        app.parts.shared.follow.tell_suppressed(suppressed);
        let shard = app.parts.shard.0;
        tracing::info!(
            target: "throng::refused",
            shard,
            suppressed,
            "more refusals than are logged"
        );
    }
}
