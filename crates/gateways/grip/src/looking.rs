//! Questions of publishers about connections, and orders that connections ask their backends.
//!
//! A connection's id names its shard, so each shard is asked about its own, and the answers meet at
//! the shard of the publisher. A question that finds no room is answered at once as a failed one.

use throng_session::{Flow, Shard};
use throng_types::ConnId;

use crate::grip::Grip;
use crate::look::{Found, Wanted};
use crate::mail::Mail;
use crate::session::Session;

impl Grip {
    /// Asks the shards of these connections.
    pub(crate) fn look(
        &self,
        asker: (ConnId, u32),
        wanted: Wanted,
        mut conns: Vec<ConnId>,
        shard: &mut impl Shard<Self>,
    ) {
        conns.sort_unstable_by_key(|conn| conn.shard());
        for of_shard in conns.chunk_by(|a, b| a.shard() == b.shard()) {
            let Some(to) = of_shard.first().map(|conn| conn.shard()) else {
                continue;
            };
            // An id from before a restart may name a shard that is no more.
            if to.0 >= shard.shards() {
                hear(asker, Found::These(Vec::new()), shard);
            } else if to == shard.this() {
                let found = find(wanted, of_shard, shard);
                hear(asker, Found::These(found), shard);
            } else if shard.has_room(to) {
                let conns = of_shard.to_vec();
                let mail = Mail::Look {
                    asker,
                    wanted,
                    conns,
                };
                shard.mail(to, mail);
            } else {
                hear(asker, Found::Failed, shard);
            }
        }
    }
}

/// Finds those connections that are open on this shard, and makes them ask their backends if
/// requested.
pub(crate) fn find(wanted: Wanted, conns: &[ConnId], shard: &mut impl Shard<Grip>) -> Vec<ConnId> {
    let mut found = Vec::new();
    for &conn in conns {
        shard.with(conn, |session, cx| {
            let is_meant = match wanted {
                Wanted::Check => session.is_client(),
                Wanted::Refresh => session.is_websocket(),
            };
            if is_meant {
                found.push(conn);
            }
            if is_meant && wanted == Wanted::Refresh {
                session.refresh(cx);
            }
            Flow::Stay
        });
    }
    found
}

/// Passes a shard's answer to the publisher that asked.
pub(crate) fn hear((conn, token): (ConnId, u32), found: Found, shard: &mut impl Shard<Grip>) {
    shard.with(conn, |session, cx| {
        if let Session::Zmtp(zmtp) = session {
            zmtp.found(token, found, cx);
        }
        Flow::Stay
    });
}
