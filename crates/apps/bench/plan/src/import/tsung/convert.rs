//! From what the file says to a scenario, bent to the machine at hand, with notes on what Tsung
//! itself would have made of it.

use super::file::File;
use super::options::TsungOptions;
use super::session;
use crate::import::Imported;
use crate::import::xml::Element;
use crate::schedule::{Phase, Schedule, Spread};
use crate::template::escape;
use crate::{Dialect, Kind, Problem, Say, Scenario, Target, Transport};

impl File {
    /// The scenario of the whole file.
    pub(super) fn finish(
        mut self,
        root: &Element,
        options: &TsungOptions,
    ) -> Result<Imported, Problem> {
        let Some(session) = self.session.take() else {
            return Err(root.problem("there is no <session>"));
        };
        if self.phases.is_empty() {
            return Err(root.problem("there is no <arrivalphase>"));
        }
        let phases: Vec<Phase> = self.phases.iter().map(|(_, phase)| *phase).collect();
        let arrivals = match self.load_duration_us {
            Some(bound_us) => Schedule::new(phases).truncated(bound_us),
            None => Schedule::new(phases),
        }
        .trimmed();
        let users = arrivals.count();
        self.note_original(users, arrivals.duration_us());

        let targets = self.targets(&session, root, options)?;
        let mut scenario = Scenario::new(
            Kind::Hold,
            targets,
            transport(&session, self.subprotocol.take()),
        );
        scenario.name = session.name;
        scenario.clients = users;
        scenario.spread = Spread::Poisson;
        scenario.lifetime_us = (session.lifetime_us > 0).then_some(session.lifetime_us);
        scenario.hold_us = match self.load_duration_us {
            Some(bound_us) => bound_us
                .saturating_sub(arrivals.duration_us())
                .max(1_000_000),
            None => session.lifetime_us.max(1_000_000),
        };
        scenario.arrivals = arrivals;
        scenario.say = session.say.map(|say| Say {
            text: escape(&say.text),
            every_us: say.every_us,
            count: Some(say.count),
            size_bytes: crate::payload::MESSAGE_BYTES_MIN,
            binary: say.binary,
        });
        if let Some(timeout_us) = self.connect_timeout_us {
            scenario.connect_timeout_us = timeout_us;
        }
        self.bend(&mut scenario, options);
        if let Some(problem) = scenario.problems().into_iter().next() {
            return Err(problem);
        }
        Ok(Imported {
            scenario,
            notes: self.notes,
        })
    }

    fn targets(
        &self,
        session: &session::Session,
        root: &Element,
        options: &TsungOptions,
    ) -> Result<Vec<Target>, Problem> {
        let path = session
            .path
            .clone()
            .or_else(|| self.path.clone())
            .unwrap_or_else(|| "/".into());
        let path = escape(&path);
        if let Some(target) = &options.target {
            let path = if target.path == "/" {
                path
            } else {
                target.path.clone()
            };
            return Ok(vec![target.with_path(&path)]);
        }
        if self.servers.is_empty() {
            return Err(root.problem("there is no <server>, and no --target"));
        }
        Ok(self
            .servers
            .iter()
            .map(|server| server.with_path(&path))
            .collect())
    }

    /// Says what Tsung would have made of the file: its limits are part of what it measured.
    fn note_original(&mut self, users: u64, ramp_us: u64) {
        let machines = self.machines.max(1);
        let per_machine = users.div_ceil(machines);
        self.notes.push(format!(
            "written for {machines} machines with {} Erlang virtual machines: {users} users in \
             {:.0} s, {per_machine} on each machine",
            self.virtual_machines.max(1),
            ramp_us as f64 / 1e6,
        ));
        if let Some((min, max)) = self.ports {
            // Tsung leaves out 4369, where Erlang's port mapper listens.
            let skipped = u64::from((min..=max).contains(&4369));
            let ports = u64::from(max - min) + 1 - skipped;
            let tuples = ports * self.servers.len().max(1) as u64;
            if per_machine > tuples {
                self.notes.push(format!(
                    "with one source address a machine has {tuples} ports: that test could not \
                     pass {} connections, whatever the server does; here ports are planned for \
                     each source address and target",
                    tuples * machines
                ));
            }
        }
        self.notes
            .push("pings are answered here, which Tsung does not do".into());
    }

    fn bend(&mut self, scenario: &mut Scenario, options: &TsungOptions) {
        if (options.scale - 1.0).abs() > f64::EPSILON {
            scenario.scale(options.scale);
            self.notes.push(format!(
                "scaled by {}: {} users instead of {}",
                options.scale,
                scenario.clients,
                (scenario.clients as f64 / options.scale).round()
            ));
        }
        if let Some(bound_us) = options.duration_us {
            scenario.bound_duration(bound_us);
            self.notes.push(format!(
                "bounded to {:.0} s: {} users arrive in the first {:.1} s, then a hold of {:.1} s",
                bound_us as f64 / 1e6,
                scenario.clients,
                scenario.arrivals.duration_us() as f64 / 1e6,
                scenario.hold_us as f64 / 1e6
            ));
        }
    }
}

fn transport(session: &session::Session, subprotocol: Option<String>) -> Transport {
    Transport::WebSocket {
        dialect: Dialect::Plain,
        first_frames: session
            .first_frames
            .iter()
            .map(|text| escape(text))
            .collect(),
        headers: session
            .origin
            .iter()
            .map(|origin| ("Origin".to_owned(), escape(origin)))
            .collect(),
        subprotocol: session.subprotocol.clone().or(subprotocol),
        ping_interval_us: None,
    }
}
