//! Both sides against each other, over the wire form, with clocks that disagree and agents that
//! die.

use proptest::prelude::{prop_assert, proptest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use throng_bench_measure::{Histograms, Sample, Sums};
use throng_bench_plan::{ClientTransport, Dialect, Target, Workload};

use super::*;
use crate::agents::{AgentSide, decode, encode};

fn scenario() -> Scenario {
    let target = Target::parse("ws://h:1/").unwrap();
    Scenario::new(
        Workload::Hold,
        vec![target],
        ClientTransport::websocket(Dialect::Plain),
    )
}

fn progress(upgraded: u64) -> ToController {
    let mut counters = RunCounters::default();
    counters.attempted = upgraded;
    counters.upgraded = upgraded;
    let mut interval = Histograms::default();
    interval.delivery.record_us(1234);
    ToController::Progress(Box::new(Progress {
        sample: Sample::default(),
        counters,
        deliveries: DeliveryCounts::default(),
        interval,
        sums: Sums::default(),
    }))
}

/// Passes a message through its bytes.
fn over_the_wire<M: Serialize + DeserializeOwned>(message: &M) -> M {
    let mut wire = Vec::new();
    encode(message, &mut wire).unwrap();
    let (message, used) = decode(&wire).unwrap().unwrap();
    assert_eq!(used, wire.len());
    message
}

/// A controller and agents in one place: every message passes through its bytes, and takes 100 µs.
struct World {
    controller: Controller,
    agents: Vec<(AgentSide, i64)>,
    now_us: u64,
    events: Vec<ControllerEvent>,
    actions: Vec<(usize, ToAgent)>,
}

impl World {
    fn new(tokens: &[&str], offsets: &[i64]) -> Self {
        let names = (0..tokens.len()).map(|k| (format!("load-{k}"), 70 + k as Nonce));
        let mut world = Self {
            controller: Controller::new("secret", scenario(), names.collect(), 0),
            agents: Vec::new(),
            now_us: 50_000_000,
            events: Vec::new(),
            actions: Vec::new(),
        };
        let mut greetings = Vec::new();
        for (k, token) in tokens.iter().enumerate() {
            let (side, challenge) = AgentSide::new(token, MachineInfo::default(), 900 + k as Nonce);
            world.agents.push((side, offsets[k]));
            greetings.push((k, challenge));
        }
        for (k, challenge) in greetings {
            world.bring(k, &challenge);
        }
        world
    }

    fn bring(&mut self, agent: usize, message: &ToController) {
        let message = over_the_wire(message);
        self.now_us += 100;
        self.controller.on_message(agent, message, self.now_us);
        self.deliver();
    }

    fn deliver(&mut self) {
        let outcome = self.controller.take_outcome();
        self.events.extend(outcome.events);
        for (agent, message) in outcome.messages {
            let message = over_the_wire(&message);
            self.now_us += 100;
            let mut replies = Vec::new();
            let (side, offset) = &mut self.agents[agent];
            let local_us = self.now_us.checked_add_signed(*offset).unwrap();
            if let Ok(Some(action)) = side.on_message(message, local_us, &mut replies) {
                self.actions.push((agent, action));
            }
            for reply in replies {
                self.bring(agent, &reply);
            }
        }
    }

    /// Lets an agent report, as its own side allows.
    fn report(&mut self, agent: usize, message: ToController) {
        let message = self.agents[agent].0.report(message).unwrap();
        self.bring(agent, &message);
    }

    fn disconnect(&mut self, agent: usize) {
        self.controller
            .on_disconnect(agent, "connection reset", self.now_us);
        self.deliver();
    }

    fn finished(&self) -> bool {
        self.events.contains(&ControllerEvent::Finished)
    }
}

#[test]
fn a_run_goes_from_the_token_to_the_end() {
    let offsets = [5_000_000, -3_000_000];
    let mut world = World::new(&["secret", "secret"], &offsets);
    assert_eq!(world.actions.len(), 2);
    for (k, (agent, action)) in world.actions.clone().into_iter().enumerate() {
        let ToAgent::Assign(assignment) = action else {
            panic!("not an assignment: {action:?}");
        };
        assert_eq!(
            (agent, assignment.index, assignment.agents),
            (k, k as u32, 2)
        );
    }
    world.actions.clear();
    world.report(0, ToController::Ready);
    assert!(
        world.actions.is_empty(),
        "nobody starts before all are ready"
    );
    world.report(1, ToController::Ready);
    let Some(&ControllerEvent::Started { at_us }) = world.events.last() else {
        panic!("not started: {:?}", world.events);
    };
    for (agent, action) in world.actions.clone() {
        let ToAgent::Start { at_us: local, .. } = action else {
            panic!("not a start: {action:?}");
        };
        let exact = at_us.checked_add_signed(offsets[agent]).unwrap();
        assert!(
            local.abs_diff(exact) <= 100,
            "agent {agent}: {local}, {exact}"
        );
    }
    world.report(0, progress(10));
    world.report(1, progress(20));
    world.report(0, progress(15));
    assert_eq!(world.controller.totals().0.upgraded, 35);
    world.report(0, ToController::Done);
    assert!(!world.finished());
    world.report(1, ToController::Done);
    assert!(world.finished());
    let summaries = world.controller.summaries();
    assert!((summaries[0].offset_us - 5_000_000).abs() <= 100);
    assert!(
        summaries
            .iter()
            .all(|agent| !agent.lost && agent.offset_error_us <= 100)
    );
}

#[test]
fn an_agent_that_dies_is_counted_and_the_run_goes_on() {
    let mut world = World::new(&["secret", "secret"], &[0, 0]);
    world.report(0, ToController::Ready);
    world.report(1, ToController::Ready);
    world.report(0, progress(10));
    world.report(1, progress(20));
    world.disconnect(0);
    let (counters, _) = world.controller.totals();
    assert_eq!((counters.alive(), counters.lost()), (20, 10));
    assert_eq!(counters.lost_reasons(), [(LostReason::AgentLost, 10)]);
    assert!(!world.finished());
    world.report(1, ToController::Done);
    assert!(world.finished());
    assert!(world.controller.summaries()[0].lost);
    world.disconnect(1);
    assert!(
        !world.controller.summaries()[1].lost,
        "leaving after the end is no loss"
    );
}

#[test]
fn an_agent_that_dies_before_the_start_holds_nobody_up() {
    let mut world = World::new(&["secret", "secret", "secret"], &[0, 0, 0]);
    world.report(0, ToController::Ready);
    world.report(2, ToController::Ready);
    world.disconnect(1);
    assert!(matches!(
        world.events.last(),
        Some(ControllerEvent::Started { .. })
    ));
    assert_eq!(world.controller.state(0), Some(AgentState::Running));
}

#[test]
fn silence_is_a_loss_while_there_is_something_to_say() {
    let mut world = World::new(&["secret", "secret"], &[0, 0]);
    world.report(0, ToController::Ready);
    let later = world.now_us + 11_000_000;
    world.controller.on_tick(later);
    let out = world.controller.take_outcome().messages;
    assert_eq!(world.controller.state(0), Some(AgentState::Running));
    assert_eq!(world.controller.state(1), Some(AgentState::Lost));
    assert!(
        out.iter()
            .any(|(agent, message)| *agent == 0 && matches!(message, ToAgent::Start { .. }))
    );
}

#[test]
fn a_wrong_token_starts_nothing_on_either_side() {
    let world = World::new(&["secret", "guess"], &[0, 0]);
    assert_eq!(world.controller.state(1), Some(AgentState::Lost));
    assert!(world.events.iter().any(|event| matches!(
        event,
        ControllerEvent::Lost { agent: 1, reason } if reason.contains("token")
    )));
    // The other agent goes on with the whole load.
    assert!(matches!(&world.actions[..], [(0, ToAgent::Assign(part))] if part.agents == 1));

    // An agent that sends the controller's own proof back does not know the token.
    let mut controller = Controller::new("secret", scenario(), vec![("x".into(), 5)], 0);
    let challenge = ToController::Challenge {
        protocol: PROTOCOL,
        nonce: messages::write_nonce(5),
    };
    controller.on_message(0, challenge, 1);
    let Some((_, ToAgent::Hello { proof, .. })) = controller.take_outcome().messages.pop() else {
        panic!("no hello");
    };
    let welcome = ToController::Welcome {
        proof,
        machine: MachineInfo::default(),
    };
    controller.on_message(0, welcome, 2);
    assert_eq!(controller.state(0), Some(AgentState::Lost));
}

#[test]
fn messages_out_of_turn_are_refused_on_both_sides() {
    let mut world = World::new(&["secret"], &[0]);
    world.bring(0, &ToController::Done);
    assert_eq!(world.controller.state(0), Some(AgentState::Lost));

    let (mut side, _) = AgentSide::new("secret", MachineInfo::default(), 1);
    let mut out = Vec::new();
    assert!(side.on_message(ToAgent::Stop, 0, &mut out).is_err());
    let cannot = ToController::Cannot { reason: "x".into() };
    for early in [ToController::Ready, ToController::Done, cannot] {
        assert!(side.report(early).is_none());
    }
    let old = ToAgent::Hello {
        protocol: PROTOCOL + 1,
        nonce: String::new(),
        proof: String::new(),
    };
    assert_eq!(
        side.on_message(old, 0, &mut out),
        Err(ProtocolError::Version(PROTOCOL + 1))
    );
    assert!(matches!(&out[..], [ToController::Refused { .. }]));
}

#[test]
fn an_agent_that_cannot_says_why() {
    let mut world = World::new(&["secret"], &[0]);
    let reason = "nofile binds at 20000".into();
    world.report(0, ToController::Cannot { reason });
    assert!(world.events.iter().any(
        |event| matches!(event, ControllerEvent::Lost { reason, .. } if reason.contains("nofile"))
    ));
    assert!(world.finished());
}

#[test]
fn a_stop_reaches_those_who_run() {
    let mut world = World::new(&["secret", "secret"], &[0, 0]);
    world.report(0, ToController::Ready);
    world.report(1, ToController::Ready);
    world.actions.clear();
    world.controller.stop();
    world.deliver();
    let kinds: Vec<_> = world
        .actions
        .iter()
        .map(|(_, action)| action.clone())
        .collect();
    assert_eq!(kinds, [ToAgent::Stop, ToAgent::Stop]);
    world.report(0, progress(3));
    world.report(0, ToController::Done);
    world.report(1, ToController::Done);
    assert!(world.finished());
}

#[test]
fn a_step_is_done_when_all_who_are_left_have_done_it() {
    let mut world = World::new(&["secret", "secret", "secret"], &[0, 0, 0]);
    for agent in 0..3 {
        world.report(agent, ToController::Ready);
    }
    world.actions.clear();
    let step = RateStep {
        per_s: 100.0,
        begin_us: 5,
        end_us: 9,
    };
    let done = |world: &World| {
        world
            .events
            .iter()
            .filter(|e| **e == ControllerEvent::StepDone)
            .count()
    };
    for (rounds, lost) in [(1, false), (2, true)] {
        world.controller.step(step);
        world.deliver();
        world.report(0, ToController::StepDone);
        world.report(1, ToController::StepDone);
        assert_eq!(done(&world), rounds - 1, "one is still at it");
        if lost {
            world.disconnect(2);
        } else {
            world.report(2, ToController::StepDone);
        }
        assert_eq!(done(&world), rounds);
    }
    assert_eq!(world.actions.len(), 6);
    assert!(
        world
            .actions
            .iter()
            .all(|(_, action)| *action == ToAgent::Step(step))
    );
    // Nobody asked for this one.
    world.bring(0, &ToController::StepDone);
    assert_eq!(world.controller.state(0), Some(AgentState::Lost));
    world.actions.clear();
    world.controller.end_search();
    world.deliver();
    assert_eq!(world.actions, [(1, ToAgent::SearchOver)]);
}

#[test]
fn a_step_that_makes_no_sense_is_refused() {
    let mut world = World::new(&["secret"], &[0]);
    world.report(0, ToController::Ready);
    for (per_s, begin_us, end_us) in [
        (0.0, 0, 1),
        (-1.0, 0, 1),
        (f64::INFINITY, 0, 1),
        (1.0, 2, 1),
    ] {
        let step = ToAgent::Step(RateStep {
            per_s,
            begin_us,
            end_us,
        });
        let outcome = world.agents[0].0.on_message(step, 0, &mut Vec::new());
        assert!(outcome.is_err(), "{per_s} {begin_us} {end_us}");
    }
}

#[test]
fn the_shortest_way_wins() {
    let mut clock = ClockEstimator::default();
    clock.on_probe(1000, 6500, 6510, 2010);
    clock.on_probe(3000, 8050, 8060, 3110);
    assert_eq!(
        clock.best,
        Some(ClockEstimate {
            offset_us: 5000,
            error_us: 50
        })
    );
    assert_eq!(clock.best.unwrap().to_agent_us(10), 5010);
}

#[test]
fn impossible_probes_give_nothing() {
    let mut clock = ClockEstimator::default();
    clock.on_probe(10, 5, 4, 20);
    clock.on_probe(20, 5, 6, 10);
    clock.on_probe(10, 5, 500, 20);
    clock.on_probe(0, u64::MAX, u64::MAX, 1);
    assert_eq!((clock.probes, clock.best), (4, None));
}

proptest! {
    #[test]
    fn the_true_offset_is_within_the_stated_error(
        offset in -1_000_000_i64..1_000_000,
        ways in proptest::collection::vec((0_u64..50_000, 0_u64..50_000, 0_u64..1000), 1..20),
    ) {
        let mut clock = ClockEstimator::default();
        let mut now = 10_000_000_u64;
        for (out, back, held) in ways {
            let agent = |at: u64| at.checked_add_signed(offset).unwrap();
            let (received, replied) = (now + out, now + out + held);
                clock.on_probe(now, agent(received), agent(replied), replied + back);
            now += 1_000_000;
        }
        let estimate = clock.best.unwrap();
        prop_assert!((estimate.offset_us - offset).unsigned_abs() <= estimate.error_us);
    }
}

impl Controller {
    fn state(&self, agent: usize) -> Option<AgentState> {
        self.links.get(agent).map(|link| link.state)
    }
}
