//! Backends under the simulated kernel: the real host and the real peer, with played HTTP servers
//! and callers around them.
//!
//! The witness is with the callers (`calls.rs`): each exchange ends once; an answer is whole, or
//! the beginning of one and told as failed, for a reason; nobody is ahead of a caller by more than
//! the window and one read; no request is carried out twice, unless a kept connection died before a
//! byte was answered; and nothing is left at the end.

mod answers;
mod calls;
mod sites;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use throng_backend::{Backend, BackendLimits};
use throng_engine::MailboxSender;
use throng_outward::{CallSender, Outward, ResolvedName};
use throng_types::lock;

use answers::Troubles;
use calls::{Calls, Inbox, Token};
use sites::{Around, Site};

use crate::net::Net;
use crate::stage::Stage;

/// Calls at a time.
const CALLS_MAX: usize = 12;
/// Rounds in which everything comes to an end, a second each.
const ROUNDS: usize = 30;

/// An address without a server, which is the only one of its name.
const NOWHERE: u8 = 8;
/// One behind which the name has another.
const NOT_HERE: u8 = 9;

/// Names to look up.
#[derive(Default)]
struct Names {
    asked: VecDeque<String>,
    is_full: bool,
    refused: u64,
}

/// All parties but the shard.
struct Outside {
    net: Net,
    calls: Calls,
    inbox: Arc<Mutex<Inbox>>,
    names: Arc<Mutex<Names>>,
    mailbox: MailboxSender<ResolvedName>,
    dials: Vec<(usize, SocketAddr)>,
    sites: Vec<Site>,
    troubles: Troubles,
    is_calm: bool,
    is_ending: bool,
    /// Servers say more than they are asked.
    strays: bool,
}

impl Outside {
    /// The troubles so far, those of the kernel among them.
    fn troubles(&self) -> Troubles {
        let refused = self.net.0.borrow().tally.of("no descriptor is left");
        Troubles {
            unreachable: self.troubles.unreachable + refused + lock(&self.names).refused,
            ..self.troubles
        }
    }

    /// Reasons for a failure that is heard now: what a server has said too much may be read at any
    /// time until its connection ends.
    fn reasons(&self) -> Troubles {
        let strayed = self.sites.iter().filter(|site| site.has_strayed());
        let mut now = self.troubles();
        now.garbage += strayed.count() as u64;
        now
    }

    /// Answers the oldest name look-up.
    fn answer_name(&mut self) -> bool {
        let Some(name) = lock(&self.names).asked.pop_front() else {
            return false;
        };
        let address = |last| IpAddr::from([10, 0, 0, last]);
        let found = match (self.is_calm, self.net.below(12)) {
            (false, 0) => Err("there is no such name".to_owned()),
            (false, 1) => Ok(Vec::new()),
            (false, 2) => Ok(vec![address(NOWHERE)]),
            (_, 3..6) => Ok(vec![address(NOT_HERE), address(1)]),
            _ => Ok(vec![address(1)]),
        };
        if !matches!(&found, Ok(all) if all.contains(&address(1))) {
            self.troubles.unreachable += 1;
            self.net.count("a name has no address");
        }
        note!(self.net, "{name} is {found:?}");
        assert!(self.mailbox.send(ResolvedName::Found(name, found)).is_ok());
        true
    }

    /// Accepts or refuses one connection attempt.
    fn answer_dial(&mut self) -> bool {
        while let Some(dialled) = self.net.take_dialled() {
            self.dials.push(dialled);
        }
        if self.dials.is_empty() {
            return false;
        }
        let (conn, to) = self.dials.swap_remove(self.net.below(self.dials.len()));
        let is_at = |last| to.ip() == IpAddr::from([10, 0, 0, last]);
        let chance = self.net.below(100);
        if is_at(NOT_HERE) {
            // There is another address to try.
            self.net.answer_dial(conn, true);
        } else if is_at(NOWHERE) || !self.is_calm && chance < 8 {
            self.net.count("a connection is refused");
            note!(self.net, "the connection {conn} to {to} is refused");
            self.troubles.unreachable += 1;
            self.net.answer_dial(conn, true);
        } else if !self.is_calm && chance < 12 {
            // It is never answered.
            self.troubles.unreachable += 1;
        } else {
            note!(self.net, "the connection {conn} to {to} is accepted");
            self.net.answer_dial(conn, false);
            self.sites.push(Site::new(conn));
        }
        true
    }

    fn act_at(&mut self, site: usize, bytes_max: usize) -> bool {
        let mut around = Around {
            net: &self.net,
            calls: &mut self.calls,
            troubles: &mut self.troubles,
            is_calm: self.is_calm,
            strays: self.strays,
        };
        if self.is_ending {
            self.sites[site].hurry(&around);
        }
        self.sites[site].act(bytes_max, &mut around)
    }

    /// Gives every party a turn.
    fn act_all(&mut self) -> bool {
        let now = self.reasons();
        let mut busy = self.calls.hear(&self.net, now);
        busy |= self.answer_name();
        busy |= self.answer_dial();
        for site in 0..self.sites.len() {
            busy |= self.act_at(site, 1 << 20);
        }
        self.net.arrive_all();
        for n in self.calls.live() {
            busy |= self.calls.act(n, true, &self.net);
        }
        self.sites.retain(|site| !site.is_over);
        busy
    }
}

/// One run: some thousand steps, then everything comes to an end.
struct Play {
    stage: Stage<Outward<Backend<Token>>>,
    outside: Outside,
}

impl Play {
    fn new(net: Net, strays: bool) -> Self {
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let names = Arc::new(Mutex::new(Names::default()));
        let limits = BackendLimits {
            stall_timeout_ms: 3_000,
            idle_max: net.pick(&[0, 1, 2, 256]),
            idle_all_max: net.pick(&[2, 1024]),
            ..BackendLimits::default()
        };
        let mut sender = None;
        let stage = Stage::new(&net, 1, 0, throng_outward::limits(), |_, mailboxes| {
            let waker = mailboxes[0].clone();
            let calls = CallSender::new(Arc::new(move || waker.ring()));
            sender = Some(calls.clone());
            let to = inbox.clone();
            let deliver = Box::new(move |reply| lock(&to).take(reply));
            let asked = names.clone();
            let ask_name = Box::new(move |name: &str| {
                let mut names = lock(&asked);
                if names.is_full {
                    names.refused += 1;
                    return Err("too many names are being looked up".to_owned());
                }
                names.asked.push_back(name.to_owned());
                Ok(())
            });
            Outward::new(Backend::new(limits), calls, deliver, ask_name)
        });
        net.draw_odds();
        let sender = sender.expect("the app was made");
        let outside = Outside {
            calls: Calls::new(sender, inbox.clone()),
            inbox,
            names,
            mailbox: stage.mailboxes[0].clone(),
            dials: Vec::new(),
            sites: Vec::new(),
            troubles: Troubles::default(),
            is_calm: net.percent(20),
            is_ending: false,
            strays,
            net,
        };
        Self { stage, outside }
    }

    fn step(&mut self) {
        let Self { stage, outside } = self;
        let net = outside.net.clone();
        net.pass_us(net.between(0, 400) as u64);
        match net.below(100) {
            0..35 if stage.is_awake(0) => stage.turn(0),
            35..65 if !outside.sites.is_empty() => {
                let site = net.below(outside.sites.len());
                outside.act_at(site, net.pick(&[1, 30, 1_000, 1 << 20]));
                outside.sites.retain(|site| !site.is_over);
            }
            65..80 => {
                let live = outside.calls.live();
                if live.len() < CALLS_MAX && net.percent(40) {
                    let before = outside.troubles();
                    outside.calls.begin(&net, before);
                } else if !live.is_empty() {
                    let n = net.pick(&live);
                    outside.calls.act(n, false, &net);
                }
            }
            80..86 => {
                let now = outside.reasons();
                outside.calls.hear(&net, now);
            }
            86..90 => drop(outside.answer_dial()),
            90 => drop(outside.answer_name()),
            91..96 => net.arrive_some(&[1, 20, 9_999]),
            96 => {
                let mut inbox = lock(&outside.inbox);
                let at = net.below(inbox.refuses.len());
                inbox.refuses[at] = net.pick(&[0, 1, 3, 1_000]);
            }
            97 => {
                lock(&outside.names).is_full = !outside.is_calm && net.percent(30);
            }
            98 if net.percent(10) && !outside.is_calm => {
                net.count("the clock leaps");
                outside.troubles.stalls += 1;
                outside.troubles.unreachable += 1;
                net.pass_us(net.pick(&[50_000, 1_500_000, 20_000_000]));
            }
            99 => {
                // An index without a connection: a socket that is not established is not writable
                // by chance.
                let stray = 1_000 + net.below(20) as u32;
                net.0.borrow_mut().shards[0].strays.push(stray);
            }
            _ => {}
        }
    }

    fn rest(&mut self) {
        let Self { stage, outside } = self;
        stage.rest(|| outside.act_all());
    }

    /// Everything comes to an end, and nothing is left.
    fn end(&mut self) {
        self.outside.net.accepts_all();
        let outside = &mut self.outside;
        if !outside.is_calm {
            // Time passes below, and some wait in vain.
            outside.troubles.stalls += 1;
            outside.troubles.unreachable += 1;
        }
        (outside.is_calm, outside.is_ending) = (true, true);
        lock(&outside.names).is_full = false;
        lock(&outside.inbox).refuses = Default::default();
        for _ in 0..ROUNDS {
            self.rest();
            self.outside.calls.end_tunnels();
            self.outside.net.pass_us(1_000_000);
        }
        self.rest();
        self.outside.calls.settle();
        // Idle connections, too, have had their time.
        self.outside.net.pass_us(20_000_000);
        self.rest();
        for running in self.stage.running() {
            assert_eq!(running.app().peer().exchanges(), 0, "an exchange stayed");
            assert!(running.app().is_idle(), "a link stayed");
            assert!(running.conns().is_empty(), "a connection stayed");
        }
        let world = self.outside.net.0.borrow();
        let left = world.conns.iter().position(|conn| !conn.server_gone);
        assert_eq!(left, None, "a connection is open");
    }
}

/// Plays one seed of backends.
pub(crate) fn run(net: Net, seed: u64, steps: usize) {
    // By the seed alone: what is drawn elsewhere stays.
    let mut play = Play::new(net, seed % 4 == 1);
    for _ in 0..steps {
        play.step();
    }
    play.end();
}
