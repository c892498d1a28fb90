//! Three clients on a way that all hear: `nodes.txt` tells which one tells what; and random runs,
//! in which nodes are killed and cut off, and messages are lost.

use std::collections::{BTreeMap, BTreeSet};

use throng_broker::HookEvent;
use throng_dialogue::{Outcome, Stage, Variables, play, same, word};
use throng_types::Rng;

use super::{Heard, World, channel, events_of, of_app};
use crate::HookCall;

struct Cluster {
    nodes: Vec<World>,
    /// Nodes that hear nothing, and are not heard.
    cut: BTreeSet<usize>,
    /// Nodes that are no more.
    dead: BTreeSet<usize>,
    now: u64,
    variables: Variables,
}

impl Cluster {
    fn new() -> Self {
        let node = |number| World::new(vec![of_app()], Some((0, number)));
        let mut cluster = Self {
            nodes: (1..=3).map(node).collect(),
            cut: BTreeSet::new(),
            dead: BTreeSet::new(),
            now: 0,
            variables: Variables::default(),
        };
        cluster.exchange(|_| false);
        cluster
    }

    /// Brings all that was said to all that hear it, but what is lost.
    fn exchange(&mut self, mut is_lost: impl FnMut(usize) -> bool) {
        loop {
            let mut said = Vec::new();
            for (place, node) in self.nodes.iter().enumerate() {
                let messages = std::mem::take(&mut *node.said.lock().unwrap());
                if !self.cut.contains(&place) && !self.dead.contains(&place) {
                    said.extend(messages);
                }
            }
            if said.is_empty() {
                return;
            }
            for message in said {
                for (place, node) in self.nodes.iter_mut().enumerate() {
                    let is_deaf = self.cut.contains(&place) || self.dead.contains(&place);
                    if !is_deaf && !is_lost(place) {
                        assert!(node.intake.admits_message(message.len()));
                        node.call(HookCall::Heard(message.clone()));
                    }
                }
            }
        }
    }

    fn pass_until(&mut self, ms: u64, mut is_lost: impl FnMut(usize) -> bool) {
        loop {
            let living = { self.nodes.iter() }
                .enumerate()
                .filter(|(place, _)| !self.dead.contains(place));
            let next = living.filter_map(|(_, node)| node.wakes()).min();
            let Some(at) = next.filter(|at| *at <= ms) else {
                break;
            };
            self.now = self.now.max(at);
            for (place, node) in self.nodes.iter_mut().enumerate() {
                if !self.dead.contains(&place) {
                    node.pass_until(self.now);
                }
            }
            self.exchange(&mut is_lost);
        }
        self.now = ms;
        self.nodes.iter_mut().for_each(|node| node.set_time(ms));
    }
}

impl Stage for Cluster {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn step(&mut self, step: &str, detail: &str) -> Outcome {
        let (verb, rest) = word(step);
        let place = |text: &str| text.parse::<usize>().expect("a node") - 1;
        match verb {
            "at" => self.pass_until(rest.parse().expect("milliseconds"), |_| false),
            "cut-off" => drop(self.cut.insert(place(rest))),
            "reached" => drop(self.cut.remove(&place(rest))),
            "dead" => drop(self.dead.insert(place(rest))),
            "tells" => {
                // All that it has to tell.
                let (node, count) = word(rest);
                let (node, mut told) = (place(node), 0);
                while told < count.parse::<usize>().expect("a number") {
                    let (_, _, body) = self.nodes[node].under_way.front().ok_or("no request")?;
                    told += events_of(body).len();
                    self.nodes[node].answer(Some(200));
                    self.exchange(|_| false);
                    self.pass_until(self.now + 300, |_| false);
                }
                return same(&told.to_string().as_str(), &count);
            }
            node => self.nodes[place(node)].step(rest, detail)?,
        }
        self.exchange(|_| false);
        Ok(())
    }
}

#[test]
fn stories_of_nodes() {
    play("nodes.txt", include_str!("nodes.txt"), Cluster::new);
}

/// Events of one subject that differs from node to node, or is the same.
fn state(name: &str, is_on: bool) -> HookEvent {
    let channel = channel(&format!("pusher:1:{name}"));
    HookEvent::Occupied { channel, is_on }
}

/// Nodes are killed, with or without what they wrote, cut off, and do not hear everything; their
/// receiver fails. What it heard last of every state is true in the end.
#[test]
fn what_is_told_last_is_true_over_nodes() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut draw = |below: u64| rng.next_u64() % below;
        let mut cluster = Cluster::new();
        let mut truth: Vec<BTreeMap<String, bool>> = vec![BTreeMap::new(); 3];
        let mut heard = Heard::default();
        let loss = [0, 0, 3][draw(3) as usize];
        let mut losses = Rng::new(seed ^ 77);
        let mut is_lost = |_| loss > 0 && losses.next_u64().is_multiple_of(10 * loss);
        for _ in 0..300 {
            let at = draw(3) as usize;
            match draw(14) {
                0..=4 => {
                    let (name, is_on) = (format!("c{}", draw(4)), draw(2) == 0);
                    if truth[at].insert(name.clone(), is_on).unwrap_or_default() != is_on {
                        cluster.nodes[at].tell(state(&name, is_on));
                    }
                }
                5..=8 => cluster.pass_until(cluster.now + draw(4_000), &mut is_lost),
                9 | 10 => {
                    let node = &mut cluster.nodes[at];
                    if let Some((_, _, body)) = node.under_way.front() {
                        let outcome = draw(4);
                        if outcome < 3 {
                            heard.take(&body.clone());
                        }
                        match outcome {
                            0 | 1 => node.answer(Some(200)),
                            2 => node.answer(None),
                            _ => node.answer(Some(503)),
                        }
                    }
                }
                11 if draw(6) == 0 && !cluster.cut.remove(&at) => drop(cluster.cut.insert(at)),
                12 if draw(10) == 0 => {
                    // Who was connected to it comes back to another node, or does not.
                    cluster.nodes[at].restart();
                    let before = std::mem::take(&mut truth[at]);
                    let other = (at + 1) % 3;
                    for (name, _) in before.into_iter().filter(|(_, is_on)| *is_on) {
                        if draw(2) == 0 && truth[other].insert(name.clone(), true) != Some(true) {
                            cluster.nodes[other].tell(state(&name, true));
                        }
                    }
                }
                13 if draw(3) == 0 => cluster.pass_until(cluster.now + 20_000, &mut is_lost),
                _ => {}
            }
            cluster.exchange(&mut is_lost);
        }
        // All is well from here on.
        cluster.cut.clear();
        for _ in 0..60 {
            cluster.pass_until(cluster.now + 5_000, |_| false);
            for place in 0..3 {
                while let Some((_, _, body)) = cluster.nodes[place].under_way.front() {
                    heard.take(&body.clone());
                    cluster.nodes[place].answer(Some(200));
                    cluster.exchange(|_| false);
                }
            }
        }
        let on = |states: &BTreeMap<String, bool>| -> BTreeSet<String> {
            let on = states.iter().filter(|(_, is_on)| **is_on);
            on.map(|(subject, _)| subject.clone()).collect()
        };
        let all = truth.iter().flat_map(on).collect::<BTreeSet<_>>();
        assert_eq!(on(&heard.states), all, "seed {seed}");
    }
}
