//! The app that serves a peer.
//!
//! Owns the peer's links: a name is looked up, its addresses are tried one after the other, the
//! handshake is done, and the peer learns of the link when all of it is done. Never: knows what
//! bytes mean.
//!
//! Invariants
//! - The peer gets no events of a link that it ended, from the call in which it did.
//! - A link is in `due` for its connection until that is established, and for its deadline as long
//!   as one is set.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use throng_engine::{Accepted, App, Closed, Conns, Effects, End, Kernel, TlsEvent, TlsNews};
use throng_peer::{
    Dial, DialTls, Ended, LinkEvent, LinkId, Peer, PeerContext, ReadFlow, Want, Wants,
};
use throng_tls::TlsFault;
use throng_types::{ConnId, Millis, Now};

use crate::calls::CallSender;
use crate::names::{Addresses, ResolvedName};
use crate::tls::Clients;

/// Between two tries to deliver a reply whose destination is busy, in milliseconds.
const DELIVER_AGAIN_MS: u64 = 1;
/// After so long without a byte, the kernel asks whether the other side is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Time for which a name's addresses hold unless none of them answers, in milliseconds.
const NAME_TTL_MS: u64 = 10_000;
/// Names whose addresses are kept; beyond, all are forgotten.
const NAMES_MAX: usize = 1024;

pub type Deliver<R> = Box<dyn FnMut(R) -> Result<(), R> + Send>;

/// Begins to look a name up; [`ResolvedName::Found`] follows, unless an error says why not.
pub type AskName = Box<dyn Fn(&str) -> Result<(), String> + Send>;

struct Link {
    dial: Dial,
    /// The connection to the address that is tried, or that was reached.
    conn: Option<ConnId>,
    is_established: bool,
    /// Addresses that were not tried. Bound: those that one look-up gives.
    addresses: VecDeque<IpAddr>,
    /// End of look-up, connection and handshake.
    connect_by: Millis,
    /// Why the last address failed.
    fault: Option<String>,
    deadline: Option<Millis>,
    /// The peer is to hear when all that was written is taken.
    awaits: bool,
    /// The peer has ended it.
    is_over: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The link's connection must be established by then.
    Connection,
    Deadline,
}

/// App that serves one peer on a shard of the engine.
pub struct Outward<P: Peer> {
    peer: P,
    wants: Wants<P::Reply>,
    calls: CallSender<P::Call>,
    deliver: Deliver<P::Reply>,
    ask_name: AskName,
    tls: Clients,
    links: BTreeMap<LinkId, Link>,
    due: BTreeSet<(Millis, LinkId, Due)>,
    /// Links all of whose bytes may have been taken. Bound: one entry a write of this turn.
    awaiting: Vec<LinkId>,
    /// Links that wait for the addresses of a name.
    asking: BTreeMap<String, BTreeSet<LinkId>>,
    /// Addresses of names that were looked up, and the moment until which they are used. Bound:
    /// [`NAMES_MAX`].
    names: BTreeMap<String, (Millis, Vec<IpAddr>)>,
    /// Links whose last address failed in this turn. Bound: those that there are.
    failed: Vec<LinkId>,
    /// When replies are offered again.
    deliver_at: Option<Millis>,
    wake_at: Option<Millis>,
    /// First fault of TLS, until the connection's end is reported.
    tls_faults: BTreeMap<ConnId, String>,
}

impl<P: Peer> Outward<P> {
    /// Serves this peer, whose calls come through `calls`.
    pub fn new(
        peer: P,
        calls: CallSender<P::Call>,
        deliver: Deliver<P::Reply>,
        ask_name: AskName,
    ) -> Self {
        Self {
            peer,
            wants: Wants::default(),
            calls,
            deliver,
            ask_name,
            tls: Clients::default(),
            links: BTreeMap::new(),
            due: BTreeSet::new(),
            awaiting: Vec::new(),
            asking: BTreeMap::new(),
            names: BTreeMap::new(),
            failed: Vec::new(),
            deliver_at: None,
            wake_at: None,
            tls_faults: BTreeMap::new(),
        }
    }

    pub const fn peer(&self) -> &P {
        &self.peer
    }

    /// Whether no link, deadline, look-up or reply is left.
    pub fn is_idle(&self) -> bool {
        self.links.is_empty()
            && self.due.is_empty()
            && self.asking.is_empty()
            && self.tls_faults.is_empty()
            && self.wants.replies.is_empty()
    }

    /// Whether the next turn has to follow at once.
    fn is_urgent(&self) -> bool {
        let is_told = self.wants.replies.is_empty() || self.deliver_at.is_some();
        !is_told || !self.wants.is_empty() || !self.failed.is_empty()
    }

    /// Lets the peer act, and marks the links that it ends.
    fn act<R>(
        &mut self,
        now: Now,
        act: impl FnOnce(&mut P, &mut PeerContext<'_, P::Reply>) -> R,
    ) -> R {
        let before = self.wants.len();
        let result = act(&mut self.peer, &mut PeerContext::new(now, &mut self.wants));
        for want in self.wants.behind(before) {
            if let Want::End(id) | Want::Finish(id) = want
                && let Some(link) = self.links.get_mut(id)
            {
                link.is_over = true;
            }
        }
        result
    }

    fn tell(&mut self, id: LinkId, event: LinkEvent<'_>, now: Now) -> ReadFlow {
        self.act(now, |peer, cx| peer.event(id, event, cx))
    }

    /// Whether the peer still gets events of a link.
    fn hears(&self, id: LinkId) -> bool {
        self.links.get(&id).is_some_and(|link| !link.is_over)
    }

    /// Carries out the peer's wishes, and those that follow from them.
    fn carry_out<K: Kernel>(&mut self, conns: &mut Conns<LinkId, K>, now: Now) {
        while let Some(want) = self.wants.take() {
            match want {
                Want::Dial(id, dial) => self.dial(id, dial, conns, now),
                Want::Write(id, bytes) => self.write(id, &bytes, conns),
                Want::Resume(id) => {
                    if let Some(conn) = self.links.get(&id).and_then(|link| link.conn) {
                        conns.with(conn, |_, fx| fx.pause(false));
                    }
                }
                Want::Secure(id, tls) => self.secure(id, &tls, conns, now),
                Want::End(id) => self.forget(id, End::Now, conns),
                Want::Finish(id) => self.forget(id, End::Flush, conns),
                Want::Deadline(id, at) => self.set_deadline(id, at),
                Want::Wake(at) => self.wake_at = at,
            }
        }
    }

    fn write<K: Kernel>(&mut self, id: LinkId, bytes: &[u8], conns: &mut Conns<LinkId, K>) {
        let link = self.links.get_mut(&id).filter(|link| link.is_established);
        if let Some(link) = link
            && let Some(conn) = link.conn
        {
            conns.with(conn, |_, fx| fx.out.extend_from_slice(bytes));
            link.awaits = true;
            self.awaiting.push(id);
        }
    }

    fn set_deadline(&mut self, id: LinkId, at: Option<Millis>) {
        if let Some(link) = self.links.get_mut(&id) {
            if let Some(before) = std::mem::replace(&mut link.deadline, at) {
                self.due.remove(&(before, id, Due::Deadline));
            }
            self.due.extend(at.map(|at| (at, id, Due::Deadline)));
        }
    }

    /// Takes a link out and closes its connection.
    fn forget<K: Kernel>(&mut self, id: LinkId, end: End, conns: &mut Conns<LinkId, K>) {
        if let Some(conn) = self.take_out(id).and_then(|link| link.conn) {
            conns.with(conn, |_, fx| fx.end(end));
        }
    }

    /// Begins the TLS handshake on an established link.
    fn secure<K: Kernel>(
        &mut self,
        id: LinkId,
        tls: &DialTls,
        conns: &mut Conns<LinkId, K>,
        now: Now,
    ) {
        let established = self.links.get(&id).filter(|link| link.is_established);
        let Some(conn) = established.and_then(|link| link.conn) else {
            return;
        };
        match self.tls.client(tls) {
            Ok(client) => conns.begin_tls(conn, &client),
            Err(why) => {
                self.forget(id, End::Now, conns);
                self.tell(id, LinkEvent::Ended(Ended::Broken(why)), now);
            }
        }
    }

    fn take_out(&mut self, id: LinkId) -> Option<Link> {
        let link = self.links.remove(&id)?;
        self.due.remove(&(link.connect_by, id, Due::Connection));
        if let Some(at) = link.deadline {
            self.due.remove(&(at, id, Due::Deadline));
        }
        if let Some(waiting) = self.asking.get_mut(&link.dial.host) {
            waiting.remove(&id);
        }
        Some(link)
    }

    fn dial<K: Kernel>(&mut self, id: LinkId, dial: Dial, conns: &mut Conns<LinkId, K>, now: Now) {
        let connect_by = now.mono + dial.timeout_ms;
        let host = dial.host.clone();
        self.due.insert((connect_by, id, Due::Connection));
        let link = Link {
            dial,
            conn: None,
            is_established: false,
            addresses: VecDeque::new(),
            connect_by,
            fault: None,
            deadline: None,
            awaits: false,
            is_over: false,
        };
        self.links.insert(id, link);
        if host.starts_with('/') {
            return self.try_addresses(id, &[IpAddr::V4(Ipv4Addr::LOCALHOST)], conns, now);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse() {
            return self.try_addresses(id, &[address], conns, now);
        }
        let known = self.names.get(&host).filter(|(until, _)| now.mono < *until);
        if let Some((_, addresses)) = known {
            let addresses = addresses.clone();
            return self.try_addresses(id, &addresses, conns, now);
        }
        if let Some(waiting) = self.asking.get_mut(&host) {
            waiting.insert(id);
            return;
        }
        match (self.ask_name)(&host) {
            Ok(()) => {
                self.asking.insert(host, BTreeSet::from([id]));
            }
            Err(why) => self.unreachable(id, why, conns, now),
        }
    }

    fn found<K: Kernel>(
        &mut self,
        name: String,
        found: Addresses,
        conns: &mut Conns<LinkId, K>,
        now: Now,
    ) {
        let waiting = self.asking.remove(&name).unwrap_or_default();
        match found {
            Ok(addresses) => {
                // Kept before the first try, which forgets them if none of them answers.
                if !addresses.is_empty() {
                    if self.names.len() >= NAMES_MAX {
                        self.names.clear();
                    }
                    let until = now.mono + NAME_TTL_MS;
                    self.names.insert(name, (until, addresses.clone()));
                }
                for id in waiting {
                    self.try_addresses(id, &addresses, conns, now);
                }
            }
            Err(why) => {
                for id in waiting {
                    self.unreachable(id, why.clone(), conns, now);
                }
            }
        }
    }

    fn try_addresses<K: Kernel>(
        &mut self,
        id: LinkId,
        addresses: &[IpAddr],
        conns: &mut Conns<LinkId, K>,
        now: Now,
    ) {
        if let Some(link) = self.links.get_mut(&id) {
            link.addresses = addresses.iter().copied().collect();
            self.try_next(id, conns, now);
        }
    }

    /// Connects to the next address of a link.
    fn try_next<K: Kernel>(&mut self, id: LinkId, conns: &mut Conns<LinkId, K>, now: Now) {
        while let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_over) {
            let Some(address) = link.addresses.pop_front() else {
                let why = link.fault.take();
                let why = why.unwrap_or_else(|| "its name has no address".to_owned());
                return self.unreachable(id, why, conns, now);
            };
            match connect(id, &link.dial, address, &mut self.tls, conns) {
                Ok(conn) => {
                    conns.keep_alive(conn, KEEPALIVE);
                    link.conn = Some(conn);
                    return;
                }
                Err(why) => link.fault = Some(why),
            }
        }
    }

    /// Gives a link up that was never established. The addresses of its name may be old.
    fn unreachable<K: Kernel>(
        &mut self,
        id: LinkId,
        why: String,
        conns: &mut Conns<LinkId, K>,
        now: Now,
    ) {
        if let Some(link) = self.links.get(&id) {
            self.names.remove(&link.dial.host);
            let is_over = link.is_over;
            self.forget(id, End::Now, conns);
            if !is_over {
                self.tell(id, LinkEvent::Ended(Ended::Unreachable(why)), now);
            }
        }
    }

    /// Ends links that took too long to connect, and calls the peer for its deadlines.
    fn expire<K: Kernel>(&mut self, conns: &mut Conns<LinkId, K>, now: Now) {
        while let Some(&(at, id, due)) = self.due.first().filter(|(at, ..)| *at <= now.mono) {
            self.due.remove(&(at, id, due));
            let Some(link) = self.links.get_mut(&id) else {
                continue;
            };
            match due {
                Due::Connection => {
                    let why = format!("no connection within {} ms", link.dial.timeout_ms);
                    self.unreachable(id, why, conns, now);
                }
                Due::Deadline => {
                    link.deadline = None;
                    let waits_since = link.conn.and_then(|conn| conns.waits_since(conn));
                    if !link.is_over {
                        self.tell(id, LinkEvent::Timeout(waits_since), now);
                    }
                }
            }
        }
        if self.wake_at.is_some_and(|at| at <= now.mono) {
            self.wake_at = None;
            self.act(now, P::woken);
        }
    }

    fn send_replies(&mut self, now: Now) {
        let mut busy = BTreeSet::new();
        let mut kept = VecDeque::new();
        for reply in std::mem::take(&mut self.wants.replies) {
            let to = P::destination(&reply);
            if to.is_some_and(|to| busy.contains(&to)) {
                kept.push_back(reply);
            } else if let Err(back) = (self.deliver)(reply) {
                busy.extend(to);
                kept.push_back(back);
            }
        }
        self.deliver_at = (!kept.is_empty()).then(|| now.mono + DELIVER_AGAIN_MS);
        self.wants.replies = kept;
    }
}

fn connect<K: Kernel>(
    id: LinkId,
    dial: &Dial,
    address: IpAddr,
    clients: &mut Clients,
    conns: &mut Conns<LinkId, K>,
) -> Result<ConnId, String> {
    let target = SocketAddr::new(address, dial.port);
    let accepted = Accepted {
        session: id,
        tag: 0,
        deadline: None,
    };
    let connecting = match &dial.tls {
        None if dial.host.starts_with('/') => conns.connect_path(Path::new(&dial.host), accepted),
        None => conns.connect(None, target, accepted),
        Some(tls) => conns.connect_secure(None, target, accepted, &clients.client(tls)?),
    };
    connecting.map_err(|error| error.to_string())
}

impl<P: Peer, K: Kernel> App<K> for Outward<P> {
    type Session = LinkId;
    type Mail = ResolvedName;

    fn accept(&mut self, _: u8, _: SocketAddr, _: Now) -> Option<Accepted<LinkId>> {
        None
    }

    fn connected(&mut self, _: ConnId, id: &mut LinkId, fx: &mut Effects<'_>) {
        let id = *id;
        if let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_over) {
            link.is_established = true;
            self.due.remove(&(link.connect_by, id, Due::Connection));
            self.tell(id, LinkEvent::Connected, fx.now);
        }
    }

    fn bytes(&mut self, _: ConnId, id: &mut LinkId, input: &mut [u8], fx: &mut Effects<'_>) {
        let id = *id;
        if self.hears(id) && self.tell(id, LinkEvent::Bytes(input), fx.now) == ReadFlow::Hold {
            fx.pause(true);
        }
    }

    /// Deadlines are in `due`, and none is the engine's.
    fn timeout(&mut self, _: ConnId, _: &mut LinkId, _: &mut Effects<'_>) {}

    fn drained(&mut self, _: ConnId, id: &mut LinkId, _: u32, _: &mut Effects<'_>) {
        self.awaiting.push(*id);
    }

    fn closed(&mut self, conn: ConnId, id: LinkId, _: u32, why: Closed, now: Now) {
        let fault = self.tls_faults.remove(&conn);
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let is_clean = why == Closed::ByPeer && fault.is_none();
        let text = fault.unwrap_or_else(|| match why {
            Closed::Error(number) => io::Error::from_raw_os_error(number).to_string(),
            Closed::ByPeer => "it closed the connection".to_owned(),
            Closed::ByApp | Closed::Slow => "the connection ended".to_owned(),
        });
        link.conn = None;
        if !link.is_established {
            // The next turn tries the next address, and follows at once.
            link.fault = Some(text);
            self.failed.push(id);
            return;
        }
        let is_over = link.is_over;
        self.take_out(id);
        if !is_over {
            let why = match is_clean {
                true => Ended::ByPeer,
                false => Ended::Broken(text),
            };
            self.tell(id, LinkEvent::Ended(why), now);
        }
    }

    fn mail(
        &mut self,
        _: Option<usize>,
        mail: ResolvedName,
        conns: &mut Conns<LinkId, K>,
        now: Now,
    ) {
        let ResolvedName::Found(name, found) = mail;
        self.found(name, found, conns, now);
    }

    fn take_mail(&mut self, _: usize) -> Option<ResolvedName> {
        None
    }

    fn turn(&mut self, conns: &mut Conns<LinkId, K>, now: Now) -> bool {
        for id in std::mem::take(&mut self.failed) {
            self.try_next(id, conns, now);
        }
        for call in self.calls.take() {
            self.act(now, |peer, cx| peer.call(call, cx));
        }
        self.expire(conns, now);
        self.carry_out(conns, now);
        self.send_replies(now);
        false
    }

    fn flushed(&mut self, conns: &mut Conns<LinkId, K>, now: Now) -> bool {
        for id in std::mem::take(&mut self.awaiting) {
            let link = self.links.get_mut(&id);
            let Some(link) = link.filter(|link| link.awaits && !link.is_over) else {
                continue;
            };
            // If some waits, the engine calls when it has left.
            if link
                .conn
                .is_some_and(|conn| conns.waits_since(conn).is_none())
            {
                link.awaits = false;
                self.tell(id, LinkEvent::Written, now);
            }
        }
        self.is_urgent()
    }

    fn deadline(&self) -> Option<Millis> {
        let due = self.due.first().map(|(at, ..)| *at);
        let urgent = self.is_urgent().then_some(Millis(0));
        let own = self.deliver_at.into_iter().chain(self.wake_at);
        due.into_iter().chain(own).chain(urgent).min()
    }

    fn finished(&self, _: &Conns<LinkId, K>) -> bool {
        self.calls.is_closed()
    }

    fn tls(&mut self, event: &TlsEvent) {
        let fault = match &event.news {
            // The end itself says as much.
            TlsNews::Shaken(_) | TlsNews::Refused(TlsFault::Gone) => return,
            TlsNews::Refused(fault) | TlsNews::Broken(fault) => fault.to_string(),
            TlsNews::Truncated => "it ended the connection without TLS close_notify".to_owned(),
        };
        // The first one is the reason; behind it comes the end that we, or the other side, made.
        self.tls_faults.entry(event.conn).or_insert(fault);
    }
}
