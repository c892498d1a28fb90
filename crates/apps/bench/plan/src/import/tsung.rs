//! Importer of Tsung's XML: the part of its vocabulary that realtime benchmarks use.
//!
//! Owns: from `<tsung>` to a [`Scenario`], and notes on the load that Tsung itself would have made.
//! Sources: Tsung's DTD (`tsung-1.0.dtd`) and manual, sections on clients, servers, load, options
//! and sessions.

mod session;
mod vocabulary;

use super::Imported;
use super::xml::{self, Element};
use crate::schedule::{ArrivalPhase, Schedule, Spread};
use crate::template::escape;
use crate::{ClientTransport, Dialect, Problem, Scenario, Target, Workload};

use session::{Session, read_session};
use vocabulary::check;

/// Adaptation of an import to the machine at hand.
#[derive(Clone, Debug, PartialEq)]
pub struct TsungOptions {
    /// Server instead of the file's servers. Its path replaces the file's, unless it is `/`.
    pub target: Option<Target>,
    /// Factor for numbers of users and rates.
    pub scale: f64,
    /// Upper bound of the whole run, in µs.
    pub duration_us: Option<u64>,
}

impl Default for TsungOptions {
    fn default() -> Self {
        Self {
            target: None,
            scale: 1.0,
            duration_us: None,
        }
    }
}

/// Reads a Tsung file. The first element that is not supported ends it, with its line.
pub fn read_tsung(text: &str, options: &TsungOptions) -> Result<Imported, Problem> {
    let root = xml::parse(text)?;
    if root.name != "tsung" {
        return Err(root.problem(format!("the root element is <{}>, not <tsung>", root.name)));
    }
    check(&root, "tsung")?;
    let mut file = File::default();
    for child in &root.children {
        match child.name.as_str() {
            "clients" => file.clients(child)?,
            "servers" => file.servers(child)?,
            "monitoring" => file
                .notes
                .push("<monitoring> is left out: the server is watched by its /metrics".into()),
            "load" => file.load(child)?,
            "options" => file.options(child)?,
            "sessions" => file.sessions(child)?,
            _ => {}
        }
    }
    file.finish(&root, options)
}

/// Contents of a Tsung file, as far as it has been read.
#[derive(Default)]
struct File {
    machines: u64,
    virtual_machines: u64,
    // In the order of the file.
    servers: Vec<Target>,
    phases: Vec<(u64, ArrivalPhase)>,
    load_duration_us: Option<u64>,
    ports: Option<(u16, u16)>,
    path: Option<String>,
    subprotocol: Option<String>,
    connect_timeout_us: Option<u64>,
    session: Option<Session>,
    notes: Vec<String>,
}

impl File {
    fn clients(&mut self, clients: &Element) -> Result<(), Problem> {
        check(clients, "clients")?;
        for client in &clients.children {
            check(client, "client")?;
            self.machines += 1;
            self.virtual_machines += client.number::<u64>("cpu")?.unwrap_or(1);
            for address in &client.children {
                self.notes.push(format!(
                    "line {}: source addresses belong to the load machine; give yours with \
                     --source",
                    address.line
                ));
            }
        }
        Ok(())
    }

    fn servers(&mut self, servers: &Element) -> Result<(), Problem> {
        let mut weights = Vec::new();
        check(servers, "servers")?;
        for server in &servers.children {
            check(server, "server")?;
            let tls = match server.attribute("type").unwrap_or("tcp") {
                "tcp" | "tcp6" => false,
                "ssl" | "ssl6" => true,
                other => {
                    return Err(server.problem(format!(
                        "servers of type `{other}` are not supported; supported are tcp and ssl"
                    )));
                }
            };
            let port = server.required_number("port")?;
            weights.push(server.number::<u64>("weight")?.unwrap_or(1));
            if weights.first() != weights.last() {
                return Err(server.problem("servers of different weight are not supported"));
            }
            self.servers.push(Target {
                tls,
                host: server.required("host")?.to_owned(),
                port,
                path: "/".into(),
            });
        }
        Ok(())
    }

    fn load(&mut self, load: &Element) -> Result<(), Problem> {
        check(load, "load")?;
        if load.attribute("duration").is_some() {
            self.load_duration_us = Some(duration(load)?);
        }
        for child in &load.children {
            check(child, "arrivalphase")?;
            let order = child.required_number("phase")?;
            let duration_us = duration(child)?;
            let mut users = child.children.iter();
            let (Some(only), None) = (users.next(), users.next()) else {
                return Err(child.problem("a phase with other than one <users> is not supported"));
            };
            self.phases.push((order, users_of(only, duration_us)?));
        }
        self.phases.sort_by_key(|(order, _)| *order);
        Ok(())
    }

    fn options(&mut self, options: &Element) -> Result<(), Problem> {
        check(options, "options")?;
        for option in &options.children {
            let name = option.required("name")?;
            let value = || option.required("value");
            match name {
                "ports_range" => {
                    check(option, name)?;
                    let min = option.number::<u16>("min")?.unwrap_or(1025);
                    let max = option.number::<u16>("max")?.unwrap_or(65_534);
                    if min > max {
                        return Err(option.problem("the range of ports is empty"));
                    }
                    self.ports = Some((min, max));
                }
                "websocket_path" => self.path = Some(value()?.to_owned()),
                "websocket_subprotocols" => self.subprotocol = Some(value()?.to_owned()),
                "connect_timeout" => {
                    self.connect_timeout_us = option
                        .number::<u64>("value")?
                        .map(|ms| ms.saturating_mul(1000));
                }
                "hibernate"
                | "seed"
                | "max_ssh_startup_per_core"
                | "tcp_reuseaddr"
                | "ip_bind_address_no_port"
                | "idle_timeout"
                | "global_ack_timeout" => self.notes.push(format!(
                    "line {}: the option `{name}` has no meaning here",
                    option.line
                )),
                _ => return Err(option.problem(format!("the option `{name}` is not supported"))),
            }
        }
        Ok(())
    }

    fn sessions(&mut self, sessions: &Element) -> Result<(), Problem> {
        check(sessions, "sessions")?;
        for element in &sessions.children {
            if element.attribute("probability") == Some("0") {
                continue;
            }
            if self.session.is_some() {
                return Err(element.problem("a mix of several sessions is not supported"));
            }
            self.session = Some(read_session(element)?);
        }
        Ok(())
    }

    fn finish(mut self, root: &Element, options: &TsungOptions) -> Result<Imported, Problem> {
        let Some(session) = self.session.take() else {
            return Err(root.problem("there is no <session>"));
        };
        if self.phases.is_empty() {
            return Err(root.problem("there is no <arrivalphase>"));
        }
        let phases: Vec<ArrivalPhase> = self.phases.iter().map(|(_, phase)| *phase).collect();
        let arrivals = match self.load_duration_us {
            Some(bound_us) => Schedule::new(phases).truncated(bound_us),
            None => Schedule::new(phases),
        }
        .trimmed();
        let users = arrivals.count();
        self.note_original(users, arrivals.duration_us());

        let targets = self.targets(&session, root, options)?;
        let transport = transport(&session, self.subprotocol.take());
        let mut scenario = Scenario::new(Workload::Hold, targets, transport);
        scenario.name = session.name;
        scenario.clients = users;
        scenario.spread = Spread::Poisson;
        scenario.lifetime_us = (session.lifetime_us > 0).then_some(session.lifetime_us);
        scenario.hold_us = match self.load_duration_us {
            Some(bound_us) => bound_us.saturating_sub(arrivals.duration_us()),
            None => session.lifetime_us,
        }
        .max(1_000_000);
        scenario.arrivals = arrivals;
        scenario.say = session.say;
        if let Some(timeout_us) = self.connect_timeout_us {
            scenario.connect_timeout_us = timeout_us;
        }
        self.adapt(&mut scenario, options);
        match scenario.problems().into_iter().next() {
            Some(problem) => Err(problem),
            None => Ok(Imported {
                scenario,
                notes: self.notes,
            }),
        }
    }

    fn targets(
        &self,
        session: &Session,
        root: &Element,
        options: &TsungOptions,
    ) -> Result<Vec<Target>, Problem> {
        let path = session.path.as_ref().or(self.path.as_ref());
        let path = escape(path.map_or("/", String::as_str));
        match &options.target {
            Some(target) if target.path != "/" => Ok(vec![target.clone()]),
            Some(target) => Ok(vec![target.with_path(&path)]),
            None if self.servers.is_empty() => {
                Err(root.problem("there is no <server>, and no --target"))
            }
            None => Ok(self
                .servers
                .iter()
                .map(|server| server.with_path(&path))
                .collect()),
        }
    }

    /// Notes the load that Tsung itself would have made: its limits are part of its results.
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

    fn adapt(&mut self, scenario: &mut Scenario, options: &TsungOptions) {
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

fn users_of(users: &Element, duration_us: u64) -> Result<ArrivalPhase, Problem> {
    if users.name != "users" {
        return Err(users.unsupported());
    }
    check(users, "users")?;
    let unit_s = unit_us(users)? as f64 / 1e6;
    let per_s = match (
        users.number::<f64>("arrivalrate")?,
        users.number::<f64>("interarrival")?,
    ) {
        (Some(rate), None) => rate / unit_s,
        (None, Some(gap)) if gap > 0.0 => 1.0 / (gap * unit_s),
        _ => {
            let needed = "<users> needs either `arrivalrate` or `interarrival`, above zero";
            return Err(users.problem(needed));
        }
    };
    if !per_s.is_finite() || per_s < 0.0 {
        return Err(users.problem("the arrival rate is not a rate"));
    }
    Ok(ArrivalPhase {
        events_max: users.number("maxnumber")?,
        ..ArrivalPhase::constant(per_s, duration_us)
    })
}

fn unit_us(element: &Element) -> Result<u64, Problem> {
    match element.attribute("unit").unwrap_or("second") {
        "hour" => Ok(3_600_000_000),
        "minute" => Ok(60_000_000),
        "second" => Ok(1_000_000),
        "millisecond" => Ok(1000),
        other => Err(element.problem(format!(
            "the unit `{other}` is unknown; known are hour, minute, second, millisecond"
        ))),
    }
}

fn duration(element: &Element) -> Result<u64, Problem> {
    let value: f64 = element.required_number("duration")?;
    if !value.is_finite() || value < 0.0 {
        return Err(element.problem(format!("`duration` of <{}> is not a time", element.name)));
    }
    Ok((value * unit_us(element)? as f64) as u64)
}

fn transport(session: &Session, subprotocol: Option<String>) -> ClientTransport {
    ClientTransport::WebSocket {
        dialect: Dialect::Plain,
        first_frames: session
            .first_frames
            .iter()
            .map(|text| escape(text))
            .collect(),
        headers: { session.origin.iter() }
            .map(|origin| ("Origin".to_owned(), escape(origin)))
            .collect(),
        subprotocol: session.subprotocol.clone().or(subprotocol),
        ping_interval_us: None,
    }
}

#[cfg(test)]
mod tests;
