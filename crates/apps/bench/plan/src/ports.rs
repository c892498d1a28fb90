//! Plan of the source address, source port and target of each connection.
//!
//! Owns: the arithmetic of the plan. Never: opens or binds a socket, reads `/proc` (the caller
//! hands in the text).
//!
//! A TCP connection is told apart by its four parts, so one source address can open some 64,000
//! connections to *each* target. Leaving the choice of port to the kernel loses most of that: a
//! bind to an address alone reserves a port for all targets at once, and past half of
//! `ip_local_port_range` every connect searches longer. So ports are planned: the k-th connection
//! has its tuple by division, with no search and no state. The socket side sets `SO_REUSEADDR` and
//! binds address and port itself; a chosen port is not bound to `ip_local_port_range`.
//!
//! Invariants
//! - Two different `k` never get the same tuple.
//! - Consecutive `k` go to different targets, then to different source addresses, so that a
//!   ramp loads all of them evenly from its first second.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Most source addresses that one text may expand to.
pub const SOURCES_MAX: usize = 65_536;

/// Refusal of a list of source addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Neither an address nor a range nor a prefix.
    #[error(
        "`{0}` is not a source address; write `10.0.0.5`, `127.0.0.2-127.0.0.40`, `127.0.0.2-40` \
         or `10.0.0.0/28`"
    )]
    NotAnAddress(String),
    /// The first address of a range is above its last.
    #[error("`{0}`: the range ends before it begins")]
    Backwards(String),
    /// The two ends of a range are of different families.
    #[error("`{0}`: one end is IPv4 and the other IPv6")]
    MixedFamilies(String),
    /// More than [`SOURCES_MAX`] addresses.
    #[error("`{0}` has more than {SOURCES_MAX} addresses")]
    TooMany(String),
}

/// Reads a comma-separated list of addresses, ranges and prefixes. An address named twice is kept
/// once.
pub fn parse_sources(text: &str) -> Result<Vec<IpAddr>, SourceError> {
    let mut sources = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (first, last) = parse_range(item)?;
        let (low, high) = (to_bits(first), to_bits(last));
        if low > high {
            return Err(SourceError::Backwards(item.to_owned()));
        }
        if high - low >= SOURCES_MAX as u128 {
            return Err(SourceError::TooMany(item.to_owned()));
        }
        for bits in low..=high {
            let address = from_bits(bits, first);
            if !sources.contains(&address) {
                sources.push(address);
            }
        }
        if sources.len() > SOURCES_MAX {
            return Err(SourceError::TooMany(text.to_owned()));
        }
    }
    Ok(sources)
}

fn parse_range(item: &str) -> Result<(IpAddr, IpAddr), SourceError> {
    let not_an_address = || SourceError::NotAnAddress(item.to_owned());
    if let Some((first, last)) = item.split_once('-') {
        let first: IpAddr = first.trim().parse().map_err(|_| not_an_address())?;
        let last = last.trim();
        let last = match (first, last.parse::<u8>()) {
            (IpAddr::V4(first), Ok(octet)) => {
                let [a, b, c, _] = first.octets();
                IpAddr::V4(Ipv4Addr::new(a, b, c, octet))
            }
            _ => last.parse().map_err(|_| not_an_address())?,
        };
        if first.is_ipv4() != last.is_ipv4() {
            return Err(SourceError::MixedFamilies(item.to_owned()));
        }
        return Ok((first, last));
    }
    if let Some((base, length)) = item.split_once('/') {
        let base: IpAddr = base.parse().map_err(|_| not_an_address())?;
        let length: u32 = length.parse().map_err(|_| not_an_address())?;
        let width: u32 = if base.is_ipv4() { 32 } else { 128 };
        let host_bits = width.checked_sub(length).ok_or_else(not_an_address)?;
        if host_bits > 16 {
            return Err(SourceError::TooMany(item.to_owned()));
        }
        let hosts = (1_u128 << host_bits) - 1;
        let (low, high) = (to_bits(base) & !hosts, to_bits(base) | hosts);
        // The network's own address and the broadcast address are nobody's source.
        let trim = u128::from(base.is_ipv4() && host_bits >= 2);
        return Ok((from_bits(low + trim, base), from_bits(high - trim, base)));
    }
    let address = item.parse().map_err(|_| not_an_address())?;
    Ok((address, address))
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn from_bits(bits: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

/// Source ports that a plan may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpace {
    first: u16,
    last: u16,
    skipped: Vec<(u16, u16)>,
}

impl PortSpace {
    /// Takes the ports from `first` to `last`, both included.
    pub const fn new(first: u16, last: u16) -> Self {
        Self {
            first,
            last,
            skipped: Vec::new(),
        }
    }

    /// Takes every port that an ordinary process may bind: from `ip_unprivileged_port_start` (1024
    /// unless changed) upward.
    pub fn all_unprivileged(unprivileged_start: u16) -> Self {
        Self::new(unprivileged_start.max(1), u16::MAX)
    }

    /// Leaves out these ports, both ends included.
    pub fn without(mut self, first: u16, last: u16) -> Self {
        if first <= last {
            self.skipped.push((first, last));
        }
        self
    }

    /// Leaves out the ports of `ip_local_reserved_ports` (`8080,9148-9150`, or an empty line).
    /// `None` if it cannot be read.
    pub fn without_reserved(self, proc_text: &str) -> Option<Self> {
        let text = proc_text.trim();
        if text.is_empty() {
            return Some(self);
        }
        text.split(',').try_fold(self, |space, item| {
            let (first, last) = item.split_once('-').unwrap_or((item, item));
            Some(space.without(first.trim().parse().ok()?, last.trim().parse().ok()?))
        })
    }

    fn ports(&self) -> Vec<u16> {
        let kept = |port: &u16| {
            !self
                .skipped
                .iter()
                .any(|(from, to)| (from..=to).contains(&port))
        };
        (self.first..=self.last).filter(kept).collect()
    }
}

/// Reads `ip_local_port_range`: two numbers. `None` if it cannot be read.
pub fn parse_port_range(proc_text: &str) -> Option<(u16, u16)> {
    let mut numbers = proc_text.split_ascii_whitespace().map(str::parse);
    match (numbers.next()?, numbers.next()?, numbers.next()) {
        (Ok(first), Ok(last), None) if first <= last => Some((first, last)),
        _ => None,
    }
}

/// Addresses of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Address and port to bind to before connecting.
    pub source: SocketAddr,
    /// Index of the target in the list that the plan was made from.
    pub target_index: usize,
}

/// Source ports of a run on one machine.
#[derive(Clone, Debug)]
pub struct PortPlan {
    sources: Box<[IpAddr]>,
    // Indices of source and target for each pair that can connect.
    pairs: Box<[(u32, u32)]>,
    ports: Box<[u16]>,
}

/// Lack of source ports for the connections that were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// Connections that were asked for.
    pub asked: u64,
    /// Connections that the plan holds.
    pub capacity: u64,
    /// Pairs of source address and target that can connect.
    pub pairs: u64,
    /// Usable source ports of each pair.
    pub ports_per_pair: u64,
    /// Further pairs that would hold the rest; none where no pair can connect at all.
    pub pairs_missing: Option<u64>,
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pairs == 0 {
            return f.write_str(
                "no source address can reach any target: one side is IPv4 and the other IPv6, or \
                 a list is empty",
            );
        }
        write!(
            f,
            "{} connections do not fit: {} pairs of source address and target, {} ports each, \
             hold {}; {} are missing",
            self.asked,
            self.pairs,
            self.ports_per_pair,
            self.capacity,
            self.asked - self.capacity,
        )?;
        if let Some(pairs) = self.pairs_missing {
            write!(
                f,
                ". Add {pairs} more pairs: further source addresses (--source \
                 127.0.0.2-127.0.0.40) or further ports of the server"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Shortfall {}

impl PortPlan {
    /// Plans for these sources and targets. The targets' own ports are never used as source ports:
    /// on loopback a listener may hold them, and a socket could connect to itself.
    pub fn new(sources: &[IpAddr], targets: &[SocketAddr], space: &PortSpace) -> Self {
        let mut space = space.clone();
        for target in targets {
            space = space.without(target.port(), target.port());
        }
        let mut pairs = Vec::new();
        for (source_index, source) in sources.iter().enumerate() {
            for (target_index, target) in targets.iter().enumerate() {
                if source.is_ipv4() == target.is_ipv4() {
                    pairs.push((source_index as u32, target_index as u32));
                }
            }
        }
        Self {
            sources: sources.into(),
            pairs: pairs.into(),
            ports: space.ports().into(),
        }
    }

    /// Number of connections that the plan holds.
    pub fn capacity(&self) -> u64 {
        self.pairs.len() as u64 * self.ports.len() as u64
    }

    /// Refuses a number of connections above the capacity.
    pub fn fits(&self, connections: u64) -> Result<(), Shortfall> {
        let capacity = self.capacity();
        if connections <= capacity && !self.pairs.is_empty() {
            return Ok(());
        }
        let ports = self.ports.len() as u64;
        Err(Shortfall {
            asked: connections,
            capacity,
            pairs: self.pairs.len() as u64,
            ports_per_pair: ports,
            pairs_missing: (ports > 0 && !self.pairs.is_empty())
                .then(|| (connections - capacity).div_ceil(ports)),
        })
    }

    /// Addresses of the k-th connection; `None` past the capacity. Numbers between the number of
    /// connections and the capacity are spares, for ports that other sockets have taken.
    pub fn tuple(&self, k: u64) -> Option<Tuple> {
        let pairs = self.pairs.len() as u64;
        let (port_rank, pair_rank) = (k.checked_div(pairs)?, k.checked_rem(pairs)?);
        let &(source, target) = self.pairs.get(usize::try_from(pair_rank).ok()?)?;
        let port = *self.ports.get(usize::try_from(port_rank).ok()?)?;
        Some(Tuple {
            source: SocketAddr::new(*self.sources.get(source as usize)?, port),
            target_index: target as usize,
        })
    }
}

#[cfg(test)]
mod tests;
