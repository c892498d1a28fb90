//! Which connections of this shard an operator looks for.
//!
//! Nothing is kept for it: users and transports stand in the sessions, and addresses are asked of
//! the kernel, which is why not all of them are.

use std::cmp::Reverse;

use throng_engine::{Conns, Kernel};
use throng_session::{Found, FoundConnection, Search, Transport};
use throng_types::ConnId;

use crate::list::GatewayList;
use crate::shard::ShardApp;

/// Connections whose addresses are asked for in one search: each is a system call, and a shard
/// serves no client meanwhile.
const ADDRESSES_MAX: usize = 65_536;
/// Channels of one connection that are reported, at most.
const CHANNELS_MAX: usize = 8;

impl<L: GatewayList> ShardApp<L> {
    /// Looks at every connection of this shard.
    pub(crate) fn look_for<K: Kernel>(
        &self,
        search: &Search,
        conns: &Conns<L::Session, K>,
    ) -> Found {
        let mut found = Found::default();
        let mut asked = 0;
        let most = search.rows_max as usize;
        // What waits for them, and who they are. Bound: twice the rows.
        let mut chosen: Vec<(usize, ConnId)> = Vec::new();
        for (conn, session) in conns.sessions() {
            let class = L::class(session);
            if !class.is_client || class.transport == Transport::Http {
                continue;
            }
            let user = class.identity.map_or("", |identity| &*identity.user);
            let queued_bytes = conns.queued_bytes(conn);
            let fits = search.transport.is_none_or(|it| it == class.transport)
                && user.contains(&*search.user)
                && (queued_bytes > 0 || !search.slow)
                && self.is_in(conn, search)
                && !(class.transport == Transport::Sse && self.watches(conn));
            if !fits {
                continue;
            }
            if !search.address.is_empty() {
                if asked == ADDRESSES_MAX {
                    found.is_cut = true;
                    break;
                }
                asked += 1;
                if !self.address_of(conn, conns).contains(&*search.address) {
                    continue;
                }
            }
            found.count += 1;
            if search.slow {
                // The slowest are known only after all were looked at.
                if chosen.len() >= 2 * most {
                    keep_slowest(&mut chosen, most);
                }
                chosen.push((queued_bytes, conn));
            } else if chosen.len() < most {
                chosen.push((queued_bytes, conn));
            }
        }
        if search.slow {
            keep_slowest(&mut chosen, most);
        }
        let rows = chosen.into_iter().filter_map(|(queued_bytes, conn)| {
            let class = L::class(conns.session(conn)?);
            let hub = &self.parts.hub;
            Some(FoundConnection {
                client: self.parts.shared.node.client_id(conn).as_str().into(),
                user: class.identity.map_or("", |it| &*it.user).into(),
                address: self.address_of(conn, conns).into(),
                transport: class.transport,
                queued_bytes: queued_bytes as u64,
                subscriptions: hub.channels_of(conn).count() as u32,
                channels: hub.channels_of(conn).take(CHANNELS_MAX).cloned().collect(),
            })
        });
        found.rows = rows.collect();
        found
    }

    fn is_in(&self, conn: ConnId, search: &Search) -> bool {
        let channel = search.channel.as_ref();
        channel.is_none_or(|channel| self.parts.hub.channels_of(conn).any(|it| it == channel))
    }

    /// Whether it is a dashboard's own stream, which is no client's.
    fn watches(&self, conn: ConnId) -> bool {
        let watched = self.parts.ticker.channel();
        self.parts.hub.channels_of(conn).any(|it| it == watched)
    }

    /// The client's address, as far as proxies or the kernel tell; empty if they do not.
    fn address_of<K: Kernel>(&self, conn: ConnId, conns: &Conns<L::Session, K>) -> String {
        let told = self.parts.shared.forwarded.client_of(conn);
        let address = told.or_else(|| Some(conns.peer(conn)?.ip().to_canonical()));
        address.map_or_else(String::new, |address| address.to_string())
    }
}

/// Those for which the most waits, first of all.
fn keep_slowest(chosen: &mut Vec<(usize, ConnId)>, most: usize) {
    chosen.sort_unstable_by_key(|(queued_bytes, _)| Reverse(*queued_bytes));
    chosen.truncate(most);
}
