//! Tags of connections, and the payer that each names.

use std::net::IpAddr;

use throng_session::{Payer, Shared};
use throng_types::{ConnId, Slots};

/// No tag: the connection's address is not counted.
pub(crate) const UNCOUNTED: u32 = u32::MAX;
/// A tag with this bit and without the next one names the payer of the connection's work.
pub(crate) const PAYER: u32 = 1 << 31;
/// The tag of connections to other ports than the clients', which count against no limit.
pub(crate) const NO_CLIENT: u32 = u32::MAX - 1;

/// Returns the payer for the work of a connection with this tag: the client that a proxy has named,
/// or its own address.
pub(crate) fn payer(id: ConnId, tag: u32, addresses: &Slots<IpAddr>, shared: &Shared) -> Payer {
    if let Some(client) = shared.forwarded.client_of(id) {
        return shared.meter.payer(client);
    }
    let by_address = || Some(shared.meter.payer(*addresses.get(tag)?));
    tag_payer(tag).or_else(by_address).unwrap_or(Payer::NOBODY)
}

/// Returns the payer that the tag itself names, if it does.
pub(crate) fn tag_payer(tag: u32) -> Option<Payer> {
    (tag >> 30 == PAYER >> 30).then(|| Payer::from_bits(tag))
}
