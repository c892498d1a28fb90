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

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

/// Most source addresses that one text may expand to.
pub const SOURCES_MAX: usize = 65_536;

/// Reads a comma-separated list of addresses, ranges and prefixes. An address named twice is kept
/// once.
pub fn parse_sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let too_many = |text: &str| Err(format!("`{text}` has more than {SOURCES_MAX} addresses"));
    let mut sources = Vec::new();
    for item in text.split(',').map(str::trim) {
        let (first, last) = parse_range(item).ok_or_else(|| {
            format!(
                "`{item}` is not a source address; write `10.0.0.5`, `127.0.0.2-127.0.0.40`, \
                 `127.0.0.2-40` or `10.0.0.0/28`"
            )
        })?;
        if first.is_ipv4() != last.is_ipv4() {
            return Err(format!("`{item}`: one end is IPv4 and the other IPv6"));
        }
        let (low, high) = (to_bits(first), to_bits(last));
        if low > high {
            return Err(format!("`{item}`: the range ends before it begins"));
        }
        if high - low >= SOURCES_MAX as u128 {
            return too_many(item);
        }
        for bits in low..=high {
            let address = from_bits(bits, first);
            if !sources.contains(&address) {
                sources.push(address);
            }
        }
        if sources.len() > SOURCES_MAX {
            return too_many(text);
        }
    }
    Ok(sources)
}

/// Reads an address, a range or a prefix as its first and its last address.
fn parse_range(item: &str) -> Option<(IpAddr, IpAddr)> {
    if let Some((first, last)) = item.split_once('-') {
        let first: IpAddr = first.trim().parse().ok()?;
        let last = last.trim();
        let last = match (first, last.parse::<u8>()) {
            (IpAddr::V4(first), Ok(octet)) => {
                let [a, b, c, _] = first.octets();
                IpAddr::V4(Ipv4Addr::new(a, b, c, octet))
            }
            _ => last.parse().ok()?,
        };
        return Some((first, last));
    }
    if let Some((base, length)) = item.split_once('/') {
        let base: IpAddr = base.parse().ok()?;
        let width: u32 = if base.is_ipv4() { 32 } else { 128 };
        let host_bits = width.checked_sub(length.parse().ok()?)?;
        let hosts = 1_u128.checked_shl(host_bits).unwrap_or(0).wrapping_sub(1);
        let (low, high) = (to_bits(base) & !hosts, to_bits(base) | hosts);
        // The network's own address and the broadcast address are nobody's source.
        let trim = u128::from(base.is_ipv4() && host_bits >= 2);
        return Some((from_bits(low + trim, base), from_bits(high - trim, base)));
    }
    let address = item.parse().ok()?;
    Some((address, address))
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

/// Reads `ip_local_reserved_ports` (`8080,9148-9150`, or an empty line). `None` if it cannot be
/// read.
pub fn parse_reserved_ports(proc_text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let items = proc_text.trim().split(',').filter(|item| !item.is_empty());
    let range = |item: &str| {
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    items.map(range).collect()
}

/// Reads `ip_local_port_range`: two numbers. `None` if it cannot be read.
pub fn parse_port_range(proc_text: &str) -> Option<(u16, u16)> {
    let mut numbers = proc_text.split_ascii_whitespace().map(str::parse);
    match (numbers.next()?, numbers.next()?, numbers.next()) {
        (Ok(first), Ok(last), None) if first <= last => Some((first, last)),
        _ => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple {
    /// Address and port to bind to before connecting.
    pub source: SocketAddr,
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

impl PortPlan {
    /// Plans for these sources and targets, with `ports` but for the `reserved` ones. The targets'
    /// own ports are never used as source ports: on loopback a listener may hold them, and a socket
    /// could connect to itself.
    pub fn new(
        sources: &[IpAddr],
        targets: &[SocketAddr],
        ports: RangeInclusive<u16>,
        reserved: &[RangeInclusive<u16>],
    ) -> Self {
        let is_free = |port: &u16| {
            let is_reserved = reserved.iter().any(|range| range.contains(port));
            !is_reserved && targets.iter().all(|target| target.port() != *port)
        };
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
            ports: ports.filter(is_free).collect(),
        }
    }

    pub fn capacity(&self) -> u64 {
        self.pairs.len() as u64 * self.ports.len() as u64
    }

    /// Refuses a number of connections above the capacity, with what would hold the rest.
    pub fn fits(&self, connections: u64) -> Result<(), String> {
        let (pairs, ports) = (self.pairs.len() as u64, self.ports.len() as u64);
        if pairs == 0 {
            return Err(
                "no source address can reach any target: one side is IPv4 and the other IPv6, or \
                 a list is empty"
                    .into(),
            );
        }
        let capacity = self.capacity();
        let Some(missing) = connections.checked_sub(capacity).filter(|rest| *rest > 0) else {
            return Ok(());
        };
        let why = format!(
            "{connections} connections do not fit: {pairs} pairs of source address and target, \
             {ports} ports each, hold {capacity}; {missing} are missing"
        );
        if ports == 0 {
            return Err(why);
        }
        let more = missing.div_ceil(ports);
        Err(format!(
            "{why}. Add {more} more pairs: further source addresses (--source \
             127.0.0.2-127.0.0.40) or further ports of the server"
        ))
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
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn targets(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn kernel_texts_are_read() {
        assert_eq!(parse_port_range("32768\t60999\n"), Some((32_768, 60_999)));
        for wrong in ["", "1", "5 4", "1 2 3", "a b", "1 70000"] {
            assert_eq!(parse_port_range(wrong), None, "{wrong}");
        }
        assert_eq!(parse_reserved_ports("3,5-7\n"), Some(vec![3..=3, 5..=7]));
        assert_eq!(parse_reserved_ports("\n"), Some(Vec::new()));
        assert_eq!(parse_reserved_ports("x"), None);
        let reserved = parse_reserved_ports("3,5-7").unwrap();
        let plan = PortPlan::new(&[], &[], 1..=20, &reserved);
        assert_eq!(plan.ports.len(), 16);
    }

    #[test]
    fn every_tuple_is_used_once_and_targets_alternate() {
        let sources = parse_sources("127.0.0.2-4").unwrap();
        let targets = targets(&["127.0.0.1:8000", "127.0.0.1:8001"]);
        let plan = PortPlan::new(&sources, &targets, 7990..=8010, &[]);
        assert_eq!(plan.ports.len(), 19);
        assert_eq!(plan.capacity(), 3 * 2 * 19);
        let mut seen = HashSet::new();
        for k in 0..plan.capacity() {
            let tuple = plan.tuple(k).unwrap();
            assert_eq!(tuple.target_index as u64, k % 2);
            assert!(![8000, 8001].contains(&tuple.source.port()));
            assert!(seen.insert(tuple));
        }
        assert_eq!(plan.tuple(plan.capacity()), None);
        assert_eq!(plan.tuple(u64::MAX), None);
    }

    #[test]
    fn one_pair_reaches_more_than_64_000() {
        let plan = PortPlan::new(
            &parse_sources("127.0.0.2").unwrap(),
            &targets(&["127.0.0.1:8000"]),
            1024..=u16::MAX,
            &[],
        );
        assert_eq!(plan.capacity(), 64_511);
        assert_eq!(plan.fits(64_511), Ok(()));
    }

    #[test]
    fn a_plan_that_does_not_fit_says_by_how_much() {
        let plan = PortPlan::new(
            &parse_sources("10.0.0.1").unwrap(),
            &targets(&["10.0.0.2:8000"]),
            10_000..=19_999,
            &[],
        );
        let why = plan.fits(25_001).unwrap_err();
        for part in ["hold 10000;", "15001 are missing", "Add 2 more pairs:"] {
            assert!(why.contains(part), "{why}");
        }
    }

    #[test]
    fn families_do_not_mix() {
        let plan = PortPlan::new(
            &parse_sources("10.0.0.1,fd00::1").unwrap(),
            &targets(&["[fd00::2]:80"]),
            1024..=u16::MAX,
            &[],
        );
        assert_eq!(plan.pairs.len(), 1);
        assert!(plan.tuple(0).unwrap().source.is_ipv6());
        let none = PortPlan::new(
            &parse_sources("10.0.0.1").unwrap(),
            &targets(&["[fd00::2]:80"]),
            1024..=u16::MAX,
            &[],
        );
        assert_eq!(none.tuple(0), None);
        assert!(none.fits(1).unwrap_err().contains("no source address"));
        assert!(none.fits(0).is_err());
    }
}
