//! All receivers as one client of HTTP backends, and what it writes down.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use throng_backend::{AskLimits, BackendLimits, Client, Requests, WholeAnswer};
use throng_broker::{HookEvent, HookJournal, SegmentRecords, write_frame};
use throng_metrics::{Counter, Counters, Gauge};
use throng_types::{Load as _, Now, Save, Saved};

use crate::batch;
use crate::nodes::{HookNode, HookNodes, News};
use crate::options::Webhook;
use crate::receiver::{Change, QUEUE_BYTES_MAX, Receiver, Subject, belief_of, event_of, level_of};

/// Bytes of an answer, which nobody reads.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of a journal below which it is not written anew.
const JOURNAL_BYTES_MIN: u64 = 1 << 20;
/// Bytes of a state in a journal, about.
const STATE_BYTES: u64 = 128;

/// Limits of the HTTP links to receivers: each keeps one for its next request.
#[must_use]
pub fn backend_limits() -> BackendLimits {
    BackendLimits {
        head_bytes_max: 32 << 10,
        idle_max: 1,
        ..BackendLimits::default()
    }
}

/// Way of messages to all nodes; it may lose some.
pub type HookVoice = Box<dyn Fn(Vec<u8>) + Send>;

/// Count of the events, and of the messages of nodes, on their way from all shards to the client.
/// States always find room; others do up to [`QUEUE_BYTES_MAX`] bytes. Queue: `webhooks`.
#[derive(Debug, Default)]
pub struct HookIntake {
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl HookIntake {
    /// Counts an event that is about to be sent; false if there is no room for it, which is counted
    /// too: the caller drops it.
    #[must_use]
    pub fn admits(&self, event: &HookEvent) -> bool {
        let is_in = self.takes(event.cost_bytes(), event.is_state());
        if !is_in {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        is_in
    }

    /// Counts a message of a node that is about to be sent; false if there is no room for it: the
    /// caller drops it, and the client asks that node for everything.
    #[must_use]
    pub fn admits_message(&self, bytes: usize) -> bool {
        self.takes(bytes, false)
    }

    /// Counts bytes in, if there is room or they need none.
    fn takes(&self, bytes: usize, needs_no_room: bool) -> bool {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_in = needs_no_room || before + bytes <= QUEUE_BYTES_MAX;
        if !is_in {
            self.taken(bytes);
        }
        is_in
    }

    fn taken(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Order to the client, from the shards or from the process that begins and ends.
pub enum HookCall {
    /// Event that [`HookIntake::admits`] has let in.
    Event(HookEvent),
    /// Way to all nodes, this one included; behind [`HooksClient::new`] with a node.
    Voice(HookVoice),
    /// Message of some node, or of this one, that [`HookIntake::admits_message`] has let in.
    Heard(Vec<u8>),
    /// Takes the records of an earlier process, or none, and begins to send.
    Load(Vec<u8>),
    /// Stops sending, and calls this with the records that a [`HookCall::Load`] elsewhere takes.
    GiveUp(Box<dyn FnOnce(Vec<u8>) + Send>),
    /// Goes on after a [`HookCall::GiveUp`] that came to nothing.
    GoOn,
    /// Sends at once what would settle first, and calls this when receivers have everything.
    /// Without a time limit: the caller has one.
    Finish(Box<dyn FnOnce() + Send>),
    /// Takes other webhooks over. One whose name stays goes on with its queue; the queue of one
    /// that is gone is dropped.
    Renew(Vec<Webhook>),
}

/// Client of all receivers. Sends nothing before a [`HookCall::Load`]; events wait until then.
pub struct HooksClient {
    /// Bound: the sections of the configuration.
    receivers: Vec<Receiver>,
    /// Number of receivers so far.
    made: usize,
    nodes: HookNodes,
    voice: Option<HookVoice>,
    journal: Option<Box<dyn HookJournal>>,
    counters: Arc<Counters>,
    /// Frames that the journal does not have yet. Bound: the changes of one call.
    unwritten: Vec<u8>,
    is_still: bool,
    intake: Arc<HookIntake>,
    finishes: Option<Box<dyn FnOnce() + Send>>,
}

impl HooksClient {
    /// Makes a client. Without a journal only a [`HookCall::GiveUp`] saves what waits. `unix_ms` is
    /// the time of the start, from which events are numbered. With other nodes, `node` is this one.
    #[must_use]
    pub fn new(
        hooks: Vec<Webhook>,
        journal: Option<Box<dyn HookJournal>>,
        counters: Arc<Counters>,
        unix_ms: u64,
        node: Option<HookNode>,
    ) -> Self {
        let mut client = Self {
            receivers: Vec::new(),
            made: 0,
            nodes: HookNodes::new(node),
            voice: None,
            journal,
            counters,
            unwritten: Vec::new(),
            is_still: true,
            intake: Arc::default(),
            finishes: None,
        };
        client.renew(hooks, Now::new(0, unix_ms));
        client
    }

    fn renew(&mut self, hooks: Vec<Webhook>, now: Now) {
        let mut before = std::mem::take(&mut self.receivers);
        let mut asks_more = false;
        for hook in hooks {
            let known = before.iter().position(|it| it.hook.name == hook.name);
            let receiver = match known {
                Some(at) => {
                    let mut receiver = before.swap_remove(at);
                    asks_more |= receiver.hook.filter != hook.filter;
                    receiver.renew(hook);
                    receiver
                }
                None => {
                    asks_more = true;
                    self.made += 1;
                    let tells = self.nodes.tells();
                    Receiver::new(hook, self.made, tells, now.unix_ms << 16)
                }
            };
            self.receivers.push(receiver);
        }
        // What is told for the first time holds already.
        let mut news = Vec::new();
        if asks_more {
            self.nodes.list(&mut news);
        }
        self.apply(news, now);
        for gone in before.iter().filter(|it| it.waiting() > 0) {
            let (name, waiting) = (&gone.hook.name, gone.waiting());
            tracing::warn!("webhook {name}: removed with {waiting} events that waited");
        }
        if !self.is_still {
            self.write_anew();
        }
    }

    /// Count that shards ask before they send an event.
    #[must_use]
    pub fn intake(&self) -> Arc<HookIntake> {
        self.intake.clone()
    }

    fn load(&mut self, records: &[u8], now: Now) {
        let (mut news, mut is_whole) = (Vec::new(), self.nodes.is_alone());
        let mut unreadable = 0;
        for record in SegmentRecords::new(records) {
            let mut from = Saved::new(record);
            let read = <(Box<str>, Change)>::load(&mut from);
            unreadable += usize::from(read.is_none());
            if let Some((_, Change::Nodes(saved))) = &read {
                is_whole |= self.nodes.resume(saved, now.mono, &mut news);
            }
            // What another configuration told is of no interest.
            if let Some((name, change)) = read
                && let Some(receiver) =
                    { self.receivers.iter_mut() }.find(|it| it.hook.name == name)
            {
                receiver.restore(change);
            }
        }
        if unreadable > 0 {
            tracing::warn!("webhooks: {unreadable} records of another version were left out");
        }
        self.apply(news, now);
        for receiver in &mut self.receivers {
            receiver.set_tells(self.nodes.tells(), now.mono);
            receiver.settle_all(now.mono);
            if !is_whole {
                // Others may have told more since then, and tell what waits.
                receiver.leave_to_others();
                receiver.doubt(now.mono);
            }
        }
        self.is_still = false;
        self.write_anew();
    }

    fn records(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for receiver in &self.receivers {
            for change in receiver.changes() {
                frame(&receiver.hook.name, &change, &mut out);
            }
        }
        out
    }

    fn write_anew(&mut self) {
        self.unwritten.clear();
        if self.journal.is_some() {
            let records = self.records();
            if let Some(journal) = &mut self.journal {
                journal.replace(&records);
            }
        }
    }

    fn write(&mut self) {
        let Some(journal) = &mut self.journal else {
            return self.unwritten.clear();
        };
        if !self.unwritten.is_empty() {
            journal.append(&self.unwritten);
            self.unwritten.clear();
        }
        let bytes = journal.bytes();
        let live = self.receivers.iter().map(|receiver| {
            receiver.queued_bytes() as u64 + STATE_BYTES * receiver.states() as u64
        });
        if bytes > JOURNAL_BYTES_MIN + 3 * live.sum::<u64>() {
            self.write_anew();
        }
    }

    /// Carries out what follows for receivers.
    fn apply(&mut self, news: Vec<News>, now: Now) {
        for news in news {
            match news {
                News::State((subject, is_on)) => {
                    let event = event_of(subject, is_on);
                    for receiver in &mut self.receivers {
                        if receiver.hook.filter.needs(&event) {
                            receiver.take(event.clone(), now);
                        }
                    }
                }
                News::Told(hook, states) => {
                    let mut receivers = self.receivers.iter_mut();
                    if let Some(receiver) = receivers.find(|it| it.hook.name == hook) {
                        let unheard = receiver.hear_told(states, now.mono);
                        self.nodes.say_told(&hook, unheard);
                    }
                }
                News::Doubt => { self.receivers.iter_mut() }.for_each(|it| it.doubt(now.mono)),
                News::Joined => { self.receivers.iter_mut() }.for_each(Receiver::forget_ended),
                News::Asked => self.say_believed(),
            }
        }
    }

    fn say_believed(&mut self) {
        for receiver in &self.receivers {
            self.nodes
                .say_told(&receiver.hook.name, receiver.believed());
        }
    }

    /// Does what is due among the nodes, and queues what is due here.
    fn queue_due(&mut self, now: Now) {
        let mut news = Vec::new();
        let receivers = &self.receivers;
        let is_needed = |subject: &Subject| needs(receivers, &event_of(subject.clone(), true));
        self.nodes.tick(now.mono, is_needed, &mut news);
        self.apply(news, now);
        let tells = self.nodes.tells();
        for receiver in &mut self.receivers {
            let gone = receiver.set_tells(tells, now.mono);
            let mut told = Vec::new();
            for change in gone.into_iter().chain(receiver.queue_due(now)) {
                frame(&receiver.hook.name, &change, &mut self.unwritten);
                if let Change::Told(event) = change {
                    told.extend(belief_of(&event));
                }
            }
            self.nodes.say_told(&receiver.hook.name, told);
        }
        let is_busy = { self.receivers.iter() }.any(Receiver::has_state_under_way);
        if self.nodes.is_to_yield() && !is_busy {
            self.nodes.end_to_lead();
            self.say_believed();
        }
    }

    /// Queues what is due, writes it down, and sends what may go.
    fn go_on(&mut self, asks: &mut Requests<usize>) {
        if self.is_still {
            self.unwritten.clear();
            return self.finish();
        }
        let (mut wakes_at, mut waiting) = (None, 0);
        self.queue_due(asks.now);
        for receiver in &mut self.receivers {
            if let Some(id) = receiver.begin_batch(asks.now.mono) {
                let hook = &receiver.hook;
                let begun = Change::Begun(receiver.under_way as u64);
                frame(&hook.name, &begun, &mut self.unwritten);
                let request = batch::request(hook, &id, asks.now.unix_ms, receiver.batch());
                let limits = AskLimits {
                    bytes_max: ANSWER_BYTES_MAX,
                    timeout_ms: hook.timeout_ms,
                };
                asks.ask(request, limits, receiver.serial);
            }
            let at = receiver.wakes_at();
            wakes_at = wakes_at.into_iter().chain(at).min();
            waiting += receiver.waiting() as u64;
            let left_out = std::mem::take(&mut receiver.left_out);
            self.counters.add(Counter::HookEventsFull, left_out.full);
            self.counters.add(Counter::HookEventsOld, left_out.old);
        }
        // Requests leave behind this call.
        self.write();
        let refused = self.intake.refused.swap(0, Ordering::Relaxed);
        self.counters.add(Counter::HookEventsFull, refused);
        self.counters.set(Gauge::HookEventsWaiting, waiting);
        if waiting == 0 && wakes_at.is_none() {
            self.finish();
        }
        for message in std::mem::take(&mut self.nodes.out) {
            if let Some(voice) = &self.voice {
                voice(message);
            }
        }
        if let Some(at) = wakes_at.into_iter().chain(self.nodes.wakes_at()).min() {
            asks.wake_at(at);
        }
    }

    fn finish(&mut self) {
        if let Some(finishes) = self.finishes.take() {
            self.nodes.say_gone();
            finishes();
        }
    }
}

impl Client for HooksClient {
    type Call = HookCall;
    /// Serial number of the receiver.
    type Token = usize;

    fn call(&mut self, call: HookCall, asks: &mut Requests<usize>) {
        match call {
            HookCall::Event(event) => {
                self.intake.taken(event.cost_bytes());
                let mut news = Vec::new();
                if let Some(state) = level_of(&event) {
                    let is_needed = needs(&self.receivers, &event);
                    self.nodes
                        .count((state, is_needed), asks.now.mono, &mut news);
                    self.apply(news, asks.now);
                    return self.go_on(asks);
                }
                for receiver in &mut self.receivers {
                    if receiver.hook.filter.needs(&event)
                        && let Some(change) = receiver.take(event.clone(), asks.now)
                    {
                        frame(&receiver.hook.name, &change, &mut self.unwritten);
                    }
                }
            }
            HookCall::Voice(voice) => self.voice = Some(voice),
            HookCall::Heard(message) => {
                self.intake.taken(message.len());
                // What is not heard is asked for.
                if !self.is_still {
                    let mut news = Vec::new();
                    self.nodes.hear(&message, asks.now.mono, &mut news);
                    self.apply(news, asks.now);
                }
            }
            HookCall::GiveUp(take) => {
                self.go_on(asks);
                self.is_still = true;
                let mut records = self.records();
                if !self.nodes.is_alone() {
                    frame("", &Change::Nodes(self.nodes.saved()), &mut records);
                }
                { self.journal.iter_mut() }.for_each(|journal| journal.let_go());
                take(records);
            }
            HookCall::Load(records) => {
                self.load(&records, asks.now);
            }
            HookCall::GoOn => {
                self.is_still = false;
                self.write_anew();
            }
            HookCall::Renew(hooks) => self.renew(hooks, asks.now),
            HookCall::Finish(finishes) => {
                self.finishes = Some(finishes);
                // With others, they tell the states.
                self.nodes.leave();
                { self.receivers.iter_mut() }.for_each(|it| it.hurry(asks.now.mono));
            }
        }
        self.go_on(asks);
    }

    fn answered(&mut self, serial: usize, answer: WholeAnswer, asks: &mut Requests<usize>) {
        // One that is gone has no answer to take.
        let Some(receiver) = { self.receivers.iter_mut() }.find(|it| it.serial == serial) else {
            return;
        };
        let refusal = match answer {
            Ok((200..300, _)) => None,
            Ok((status, _)) => Some(format!("the answer has status {status}")),
            Err(failure) => Some(failure.detail),
        };
        let events = receiver.under_way as u64;
        let mut told = Vec::new();
        let change = receiver.answered(refusal.is_none(), asks.now, &mut told);
        self.nodes.say_told(&receiver.hook.name, told);
        match refusal {
            None => self.counters.add(Counter::HookEventsSent, events),
            Some(why) => {
                self.counters.count(Counter::HookRequestsFailed);
                if receiver.failures() == 1 {
                    let name = &receiver.hook.name;
                    tracing::warn!("webhook {name}: events wait and are sent again: {why}");
                }
            }
        }
        if let Some(change) = change {
            frame(&receiver.hook.name, &change, &mut self.unwritten);
        }
        self.go_on(asks);
    }

    fn woken(&mut self, asks: &mut Requests<usize>) {
        self.go_on(asks);
    }
}

fn needs(receivers: &[Receiver], event: &HookEvent) -> bool {
    receivers.iter().any(|it| it.hook.filter.needs(event))
}

fn frame(name: &str, change: &Change, out: &mut Vec<u8>) {
    let mut record = Vec::new();
    name.save(&mut record);
    change.save(&mut record);
    write_frame(&record, out);
}
