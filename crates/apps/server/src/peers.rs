//! Number of connections of each address and of each user, over all shards; and tags of
//! connections, each with the payer that it names.
//!
//! A limit that the operator has set is exact: an entry for each address behind the one lock of the
//! server, which is taken when a connection opens and when it closes. Without one every address is
//! counted in two places of a table that a secret hash chooses, without a lock, and has too many
//! only if both places say so. That costs nothing for an address, and is only fit for a limit far
//! above what most addresses have.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};

use throng_config::{CONNECTIONS_PER_IP, Config};
use throng_session::{
    Census, Counted, Elsewhere, Payer, Population, Shared, SharedDebt, Usage, counted_as,
};
use throng_types::{ConnId, Millis, Slots};

/// First byte of the words about users between nodes.
const USERS_FORM: u8 = 0x41;
/// Users that a node tells the others of in a second, those with news first.
const TOLD_MAX: usize = 4096;

/// Users who are counted, on this node and on others.
struct Crowd {
    /// Each with its connections. Bound: the connections of the server.
    here: BTreeMap<Box<str>, (Arc<Usage>, u32)>,
    elsewhere: Elsewhere<1>,
    /// Whether other nodes are told.
    is_told: bool,
    /// Users whose connections came or went, and who are to be told first. Bound: those of the time
    /// that it takes to tell them.
    changed: BTreeSet<Box<str>>,
    /// The last who was told in this round.
    last: Box<str>,
}

impl Crowd {
    /// A connection of the user has come or gone.
    fn note(&mut self, user: &str) {
        if self.is_told {
            self.changed.insert(user.into());
        }
    }

    /// Words for all nodes about so many users, once a second.
    fn words(&mut self, own: &str, now: Millis) -> Vec<Vec<u8>> {
        self.is_told = true;
        let changed = std::iter::from_fn(|| self.changed.pop_first());
        let mut names: Vec<Box<str>> = changed.take(TOLD_MAX).collect();
        let room = TOLD_MAX - names.len();
        let rest = (Bound::Excluded(&*self.last), Bound::Unbounded);
        let rest = self.here.range::<str, _>(rest).map(|(name, _)| name);
        names.extend(rest.take(room).cloned());
        let row = |name: &str| {
            let (usage, connections) = self.here.get(name)?;
            let charged = usage.debts.each_ref().map(SharedDebt::counted_us);
            Some((u64::from(*connections), charged))
        };
        let rows = names
            .iter()
            .map(|name| (&**name, row(name).unwrap_or_default()));
        let (rows, is_last): (Vec<_>, _) = (rows.collect(), names.len() < TOLD_MAX);
        let words = self.elsewhere.words(own, &rows, is_last, now);
        if is_last {
            self.last = Box::default();
        } else if room > 0 {
            self.last = names.pop().unwrap_or_default();
        }
        words
    }
}

/// Counts connections by address and refuses those above the limit.
pub(crate) struct Peers {
    /// The operator's limit, for every address; zero without one. Changes while the server runs.
    exact_max: AtomicU32,
    /// The limit while the operator has set none; zero with one.
    rough_max: AtomicU32,
    /// Whether the table counts addresses that proxies close by could have.
    counts_private: AtomicBool,
    secret: [u64; 2],
    /// Bound: the connections of the server.
    counts: Mutex<HashMap<IpAddr, u32>>,
    users: Mutex<Crowd>,
    /// Bound: [`Payer::PLACES`]; not there until an address is counted.
    rough: OnceLock<Box<[AtomicU32]>>,
}

impl Peers {
    /// Counts as a configuration says; `secret` is that of the shards' meters.
    pub(crate) fn new(config: &Config, secret: [u64; 2]) -> Self {
        let peers = Self {
            exact_max: AtomicU32::default(),
            rough_max: AtomicU32::default(),
            counts_private: AtomicBool::default(),
            secret,
            counts: Mutex::default(),
            users: Mutex::new(Crowd {
                here: BTreeMap::new(),
                elsewhere: Elsewhere::new(USERS_FORM),
                is_told: false,
                changed: BTreeSet::new(),
                last: Box::default(),
            }),
            rough: OnceLock::new(),
        };
        peers.renew(config);
        peers
    }

    /// Other limits hold for connections that come from now on. Those that came while there was no
    /// limit of the operator's are not counted for one.
    pub(crate) fn renew(&self, config: &Config) {
        let wanted = config.limits.connections_per_ip;
        let rough_max = if wanted.is_none() {
            CONNECTIONS_PER_IP
        } else {
            0
        };
        self.exact_max.store(wanted.unwrap_or(0), Relaxed);
        self.rough_max.store(rough_max, Relaxed);
        let counts_private = !config.listen.trusted_proxies.is_empty();
        self.counts_private.store(counts_private, Relaxed);
    }

    /// Words for all nodes about users, once a second.
    pub(crate) fn words(&self, own: &str, now: Millis) -> Vec<Vec<u8>> {
        let users = self.users.lock();
        users.map_or_else(|_| Vec::new(), |mut users| users.words(own, now))
    }

    /// Takes a word of some node, which may be about something else.
    pub(crate) fn hear(&self, word: &[u8], own: &str, now: Millis) {
        let Ok(mut users) = self.users.lock() else {
            return;
        };
        let users = &mut *users;
        let here = &users.here;
        let debts = |user: &str| here.get(user).map(|(usage, _)| &usage.debts);
        users.elsewhere.hear(word, own, now, debts);
    }

    /// The places of an address in the table.
    pub(crate) fn payer(&self, address: IpAddr) -> Payer {
        Payer::of(address, self.counts_private.load(Relaxed), self.secret)
    }

    pub(crate) fn leave_places(&self, payer: Payer) {
        for place in self.places(payer) {
            place.fetch_sub(1, Relaxed);
        }
    }

    fn places(&self, payer: Payer) -> impl Iterator<Item = &AtomicU32> {
        let [one, other] = payer.places();
        let rough = || (0..Payer::PLACES).map(|_| AtomicU32::new(0)).collect();
        let rough = self.rough.get_or_init(rough);
        let other = (other != one).then_some(other);
        { std::iter::once(one).chain(other) }.filter_map(|place| rough.get(place))
    }

    fn enter_places(&self, payer: Payer) -> bool {
        let most = self.rough_max.load(Relaxed);
        let mut has_room = most == 0;
        for place in self.places(payer) {
            let before = place.fetch_add(1, Relaxed);
            has_room |= before < most;
        }
        has_room
    }

    fn enter_exactly(&self, address: IpAddr) -> bool {
        let Ok(mut counts) = self.counts.lock() else {
            return true;
        };
        let count = counts.entry(counted_as(address)).or_insert(0);
        *count += 1;
        *count <= self.exact_max.load(Relaxed)
    }

    fn leave_exactly(&self, address: IpAddr) {
        let Ok(mut counts) = self.counts.lock() else {
            return;
        };
        let address = counted_as(address);
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

impl Census for Peers {
    fn enter(&self, address: IpAddr) -> (Counted, bool) {
        if self.exact_max.load(Relaxed) > 0 {
            return (Counted::Exactly, self.enter_exactly(address));
        }
        match self.payer(address) {
            Payer::NOBODY => (Counted::No, true),
            payer => (Counted::Roughly(payer), self.enter_places(payer)),
        }
    }

    fn leave(&self, address: IpAddr, counted: Counted) {
        match counted {
            Counted::No => {}
            Counted::Exactly => self.leave_exactly(address),
            Counted::Roughly(payer) => self.leave_places(payer),
        }
    }
}

impl Population for Peers {
    fn enter_user(&self, user: &str, connections_max: u32) -> Option<Arc<Usage>> {
        let mut users = self.users.lock().ok()?;
        let (usage, count) = match users.here.get(user) {
            Some((usage, count)) => (usage.clone(), *count),
            None => (Arc::new(Usage::new(user)), 0),
        };
        let all = users
            .elsewhere
            .connections(user)
            .saturating_add(count.into());
        if connections_max > 0 && all >= connections_max.into() {
            return None;
        }
        let entry = (usage.clone(), count + 1);
        users.here.insert(user.into(), entry);
        users.note(user);
        Some(usage)
    }

    fn leave_user(&self, usage: &Usage) {
        let Ok(mut users) = self.users.lock() else {
            return;
        };
        if let Some((_, connections)) = users.here.get_mut(&usage.user) {
            *connections -= 1;
            if *connections == 0 {
                users.here.remove(&usage.user);
            }
            users.note(&usage.user);
        }
    }
}

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

#[cfg(test)]
mod tests {
    use throng_config::Sources;
    use throng_session::{Overspent, UserLimits, Users, Work};
    use throng_types::{Now, ShardId};

    use super::*;

    fn peers(options: &[(&str, &str)]) -> Peers {
        let flags = options
            .iter()
            .map(|(path, value)| ((*path).to_owned(), (*value).to_owned()));
        let sources = Sources {
            flags: flags.collect(),
            ..Sources::default()
        };
        let config = Config::load(&sources).expect("good options").config;
        Peers::new(&config, [3, 5])
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Counts the connections of an address that find room.
    fn room(peers: &Peers, address: &str) -> (u32, Counted) {
        let mut found = 0;
        loop {
            let (counted, has_room) = peers.enter(ip(address));
            if !has_room || found == 2 * CONNECTIONS_PER_IP {
                peers.leave(ip(address), counted);
                return (found, counted);
            }
            found += 1;
        }
    }

    #[test]
    fn unset_the_limit_is_that_of_an_office() {
        let endless = 2 * CONNECTIONS_PER_IP;
        for (options, address, most) in [
            (&[][..], "192.0.2.1", CONNECTIONS_PER_IP),
            (&[], "2001:db8::1", CONNECTIONS_PER_IP),
            (&[], "127.0.0.1", endless),
            (&[], "10.0.0.1", endless),
            (
                &[("listen.trusted_proxies", "10.0.0.2")],
                "10.0.0.1",
                CONNECTIONS_PER_IP,
            ),
            (&[("limits.connections_per_ip", "0")], "192.0.2.1", endless),
            (&[("limits.connections_per_ip", "7")], "192.0.2.1", 7),
            (&[("limits.connections_per_ip", "7")], "127.0.0.1", 7),
        ] {
            let peers = peers(options);
            let (found, counted) = room(&peers, address);
            assert_eq!(found, most, "{options:?} {address}");
            if found == endless {
                continue;
            }
            // Its neighbours have room, and it has again when one leaves.
            let others = if most == 7 { "192.0.2.9" } else { "10.9.9.9" };
            assert!(peers.enter(ip(others)).1);
            assert!(!peers.enter(ip(address)).1);
            peers.leave(ip(address), counted);
            peers.leave(ip(address), counted);
            assert!(peers.enter(ip(address)).1, "{options:?} {address}");
        }
    }

    #[test]
    fn a_64_is_one_address() {
        let peers = peers(&[]);
        for n in 0..CONNECTIONS_PER_IP {
            assert!(peers.enter(ip(&format!("2001:db8::{n:x}"))).1);
        }
        assert!(!peers.enter(ip("2001:db8::ffff:1")).1);
        assert!(peers.enter(ip("2001:db8:0:1::1")).1);
    }

    /// Many addresses with few connections each take nothing from each other, nor memory.
    #[test]
    fn a_million_addresses_have_room() {
        let peers = peers(&[]);
        for n in 0..1_000_000_u32 {
            let address = IpAddr::from((0x2000_0000 + n).to_be_bytes());
            assert!(peers.enter(address).1, "{address}");
        }
        assert_eq!(
            room(&peers, "192.0.2.1").0 / 1000,
            CONNECTIONS_PER_IP / 1000
        );
        assert!(peers.counts.lock().expect("no panic").is_empty());
    }

    /// A connection leaves the kind of limit under which it came, whatever holds then.
    #[test]
    fn an_end_is_counted_where_the_beginning_was() {
        let peers = peers(&[("limits.connections_per_ip", "2")]);
        let (exact, _) = peers.enter(ip("192.0.2.1"));
        peers.exact_max.store(0, Relaxed);
        let (rough, _) = peers.enter(ip("192.0.2.1"));
        peers.leave(ip("192.0.2.1"), exact);
        peers.leave(ip("192.0.2.1"), rough);
        assert!(peers.counts.lock().expect("no panic").is_empty());
        let places = peers.places(peers.payer(ip("192.0.2.1")));
        assert!(
            places
                .map(|place| place.load(Relaxed))
                .all(|count| count == 0)
        );
    }

    fn shards(all: &Arc<Peers>, connections_max: u32, commands_per_s_max: u32) -> [Users; 2] {
        let limits = UserLimits {
            connections_max,
            commands_per_s_max,
            channels_max: 128,
        };
        [(); 2].map(|()| Users::new(limits, all.clone()))
    }

    fn conn(index: u32) -> ConnId {
        ConnId::new(ShardId(0), index, 1)
    }

    #[test]
    fn a_user_has_so_many_connections_on_all_shards_together() {
        let all = Arc::new(peers(&[]));
        let [a, b] = shards(&all, 2, 0);
        let full = Err(Overspent::UserConnections);
        assert_eq!(a.admit(conn(1), "", "ann"), Ok(()));
        assert_eq!(a.admit(conn(1), "", "ann"), Ok(()), "the same connection");
        assert_eq!(b.admit(conn(1), "", "ann"), Ok(()));
        assert_eq!(a.admit(conn(2), "", "ann"), full);
        assert_eq!(b.admit(conn(2), "", "ann"), full);
        // Neither other users, nor those whom others have proven, nor guests are concerned.
        assert_eq!(a.admit(conn(2), "", "bob"), Ok(()));
        assert_eq!(a.admit(conn(3), "app", "ann"), Ok(()));
        for guest in 4..9 {
            assert_eq!(a.admit(conn(guest), "", ""), Ok(()));
        }
        b.gone(conn(1));
        b.gone(conn(1));
        assert_eq!(a.admit(conn(4), "", "ann"), Ok(()));
        assert_eq!(a.admit(conn(5), "", "ann"), full);
        // One that becomes somebody else's counts for that user alone.
        assert_eq!(a.admit(conn(4), "", "bob"), Ok(()));
        assert_eq!(b.admit(conn(6), "", "ann"), Ok(()));
        assert_eq!(b.admit(conn(7), "", "bob"), full);
        (1..9).for_each(|n| a.gone(conn(n)));
        (1..9).for_each(|n| b.gone(conn(n)));
        assert!(all.users.lock().expect("no panic").here.is_empty());
    }

    #[test]
    fn a_user_has_so_many_connections_and_commands_on_all_nodes_together() {
        let nodes = [(); 2].map(|()| Arc::new(peers(&[])));
        let [[here, _], [there, _]] = [0, 1].map(|at: usize| shards(&nodes[at], 3, 10));
        // Each tells both of them, once a second.
        let tell = |ms: u64, tells: &[usize]| {
            for &from in tells {
                for word in nodes[from].words(["a", "b"][from], Millis(ms)) {
                    nodes[0].hear(&word, "a", Millis(ms));
                    nodes[1].hear(&word, "b", Millis(ms));
                }
            }
        };
        tell(0, &[0, 1]);
        for n in 1..3 {
            assert_eq!(there.admit(conn(n), "", "ann"), Ok(()));
        }
        assert_eq!(here.admit(conn(1), "", "ann"), Ok(()));
        tell(1000, &[0, 1]);
        let full = Err(Overspent::UserConnections);
        assert_eq!(here.admit(conn(2), "", "ann"), full);
        assert_eq!(there.admit(conn(3), "", "ann"), full);
        assert_eq!(here.admit(conn(2), "app", "ann"), Ok(()));
        // What one has sent on a node is owed on the other.
        for n in 0..20 {
            let sent = there.spend(conn(1), Work::Command, Now::new(1_000, 0));
            assert_eq!(sent, Ok(()), "{n}");
        }
        assert_eq!(
            here.spend(conn(1), Work::Command, Now::new(1_000, 0)),
            Ok(())
        );
        tell(1000, &[0, 1]);
        let over = Err(Overspent::User);
        assert_eq!(here.spend(conn(1), Work::Command, Now::new(1_100, 0)), over);
        assert_eq!(
            here.spend(conn(2), Work::Command, Now::new(1_100, 0)),
            Ok(())
        );
        // One connection goes, and then the node.
        there.gone(conn(1));
        tell(2000, &[0, 1]);
        assert_eq!(here.admit(conn(3), "", "ann"), Ok(()));
        assert_eq!(here.admit(conn(4), "", "ann"), full);
        tell(20_000, &[0]);
        assert_eq!(here.admit(conn(4), "", "ann"), Ok(()));
    }

    #[test]
    fn all_users_are_told_in_turn_and_those_with_news_first() {
        let [here, there] = [(); 2].map(|()| Arc::new(peers(&[])));
        let [users, _] = shards(&here, 1, 0);
        let many = 2 * TOLD_MAX as u32;
        for n in 0..many {
            users.admit(conn(n), "", &n.to_string()).expect("room");
        }
        let told = |rounds: usize| {
            for _ in 0..rounds {
                for word in here.words("a", Millis(0)) {
                    there.hear(&word, "b", Millis(0));
                }
            }
            let users = there.users.lock().expect("no panic");
            let is_there = |n: &u32| {
                let name = n.to_string();
                users.elsewhere.connections(&name) > 0
            };
            (0..many).filter(is_there).count()
        };
        assert_eq!(told(1), TOLD_MAX);
        users.admit(conn(many), "", "9999").expect("room");
        users.gone(conn(9999 % many));
        assert_eq!(told(2), many as usize - 1);
        assert_eq!(told(9), many as usize - 1);
    }

    #[test]
    fn who_takes_over_counts_all_that_were_counted() {
        let all = Arc::new(peers(&[]));
        let [a, b] = shards(&all, 1, 0);
        assert_eq!(a.admit(conn(1), "app", "ann"), Ok(()));
        let name = a.counted_as(conn(1)).expect("a name");
        b.take_over(conn(9), &name);
        a.gone(conn(1));
        assert_eq!(
            b.admit(conn(2), "app", "ann"),
            Err(Overspent::UserConnections)
        );
        b.gone(conn(9));
        assert_eq!(b.admit(conn(2), "app", "ann"), Ok(()));
    }

    #[test]
    fn without_limits_nobody_is_counted() {
        let all = Arc::new(peers(&[]));
        let [a, _] = shards(&all, 0, 0);
        assert_eq!(a.admit(conn(1), "", "ann"), Ok(()));
        assert_eq!(a.counted_as(conn(1)), None);
        assert_eq!(a.spend(conn(1), Work::Command, Now::new(0, 0)), Ok(()));
    }

    #[test]
    fn a_user_sends_so_many_commands_by_all_connections_together() {
        let all = Arc::new(peers(&[]));
        let [a, b] = shards(&all, 0, 10);
        a.admit(conn(1), "", "ann").expect("room");
        b.admit(conn(1), "", "ann").expect("room");
        b.admit(conn(2), "", "bob").expect("room");
        let at = |ms| Now::new(ms, 0);
        // Two seconds' worth at once, by turns.
        for n in 0..20 {
            let shard = if n % 2 == 0 { &a } else { &b };
            assert_eq!(
                shard.spend(conn(1), Work::Message, at(5_000)),
                Ok(()),
                "{n}"
            );
        }
        assert_eq!(
            a.spend(conn(1), Work::Message, at(5_000)),
            Err(Overspent::User)
        );
        assert_eq!(
            b.spend(conn(1), Work::Command, at(4_999)),
            Err(Overspent::User)
        );
        assert_eq!(b.spend(conn(2), Work::Message, at(5_000)), Ok(()));
        // What is not a command costs nothing here.
        assert_eq!(a.spend(conn(1), Work::Request, at(5_000)), Ok(()));
        assert_eq!(b.spend(conn(1), Work::Message, at(5_100)), Ok(()));
        assert_eq!(
            a.spend(conn(1), Work::Message, at(5_100)),
            Err(Overspent::User)
        );
        assert_eq!(a.spend(conn(1), Work::Message, at(5_200)), Ok(()));
    }
}
