//! What a Tsung file says, element by element.

use super::session;
use crate::Problem;
use crate::Target;
use crate::import::xml::Element;
use crate::schedule::Phase;

/// What has been read so far.
#[derive(Default)]
pub(super) struct File {
    pub(super) machines: u64,
    pub(super) virtual_machines: u64,
    /// Host, port, TLS; in the order of the file.
    pub(super) servers: Vec<Target>,
    pub(super) phases: Vec<(u64, Phase)>,
    pub(super) load_duration_us: Option<u64>,
    pub(super) ports: Option<(u16, u16)>,
    pub(super) path: Option<String>,
    pub(super) subprotocol: Option<String>,
    pub(super) connect_timeout_us: Option<u64>,
    pub(super) session: Option<session::Session>,
    pub(super) notes: Vec<String>,
}

impl File {
    pub(super) fn clients(&mut self, clients: &Element) -> Result<(), Problem> {
        for client in &clients.children {
            if client.name != "client" {
                return Err(client.unsupported());
            }
            client.only_attributes(&[
                "host",
                "cpu",
                "weight",
                "maxusers",
                "use_controller_vm",
                "type",
            ])?;
            if client
                .attribute("type")
                .is_some_and(|kind| kind != "machine")
            {
                return Err(client.problem("clients of a batch system are not supported"));
            }
            self.machines += 1;
            self.virtual_machines += client.number::<u64>("cpu")?.unwrap_or(1);
            for address in &client.children {
                if !matches!(address.name.as_str(), "ip" | "iprange") {
                    return Err(address.unsupported());
                }
                self.notes.push(format!(
                    "line {}: source addresses belong to the load machine; give yours with \
                     --source",
                    address.line
                ));
            }
        }
        Ok(())
    }

    pub(super) fn servers(&mut self, servers: &Element) -> Result<(), Problem> {
        let mut weights = Vec::new();
        for server in &servers.children {
            if server.name != "server" {
                return Err(server.unsupported());
            }
            server.only_attributes(&["host", "port", "type", "weight"])?;
            let tls = match server.attribute("type").unwrap_or("tcp") {
                "tcp" | "tcp6" => false,
                "ssl" | "ssl6" => true,
                other => {
                    return Err(server.problem(format!(
                        "servers of type `{other}` are not supported; supported are tcp and ssl"
                    )));
                }
            };
            let port = server
                .number::<u16>("port")?
                .ok_or_else(|| server.problem("<server> needs the attribute `port`"))?;
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

    pub(super) fn load(&mut self, load: &Element) -> Result<(), Problem> {
        load.only_attributes(&["duration", "unit"])?;
        if load.attribute("duration").is_some() {
            self.load_duration_us = Some(duration(load)?);
        }
        for child in &load.children {
            if child.name != "arrivalphase" {
                return Err(child.unsupported());
            }
            child.only_attributes(&["phase", "duration", "unit", "wait_all_sessions_end"])?;
            if child
                .attribute("wait_all_sessions_end")
                .is_some_and(|v| v != "false")
            {
                return Err(child.problem("`wait_all_sessions_end` is not supported"));
            }
            let order = child
                .number::<u64>("phase")?
                .ok_or_else(|| child.problem("<arrivalphase> needs the attribute `phase`"))?;
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

    pub(super) fn options(&mut self, options: &Element) -> Result<(), Problem> {
        for option in &options.children {
            if option.name != "option" {
                return Err(option.unsupported());
            }
            let name = option.required("name")?;
            let value = || option.required("value");
            match name {
                "ports_range" => {
                    option.only_attributes(&["name", "min", "max"])?;
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
                _ => {
                    return Err(option.problem(format!("the option `{name}` is not supported")));
                }
            }
        }
        Ok(())
    }

    pub(super) fn sessions(&mut self, sessions: &Element) -> Result<(), Problem> {
        for element in &sessions.children {
            if element.name != "session" {
                return Err(element.unsupported());
            }
            if element.attribute("probability") == Some("0") {
                continue;
            }
            if self.session.is_some() {
                return Err(element.problem("a mix of several sessions is not supported"));
            }
            self.session = Some(session::read(element)?);
        }
        Ok(())
    }
}

fn users_of(users: &Element, duration_us: u64) -> Result<Phase, Problem> {
    if users.name != "users" {
        return Err(users.unsupported());
    }
    users.only_attributes(&["arrivalrate", "interarrival", "unit", "maxnumber"])?;
    let unit_s = unit_us(users)? as f64 / 1e6;
    let per_s = match (
        users.number::<f64>("arrivalrate")?,
        users.number::<f64>("interarrival")?,
    ) {
        (Some(rate), None) => rate / unit_s,
        (None, Some(gap)) if gap > 0.0 => 1.0 / (gap * unit_s),
        _ => {
            return Err(
                users.problem("<users> needs either `arrivalrate` or `interarrival`, above zero")
            );
        }
    };
    if !per_s.is_finite() || per_s < 0.0 {
        return Err(users.problem("the arrival rate is not a rate"));
    }
    Ok(Phase {
        events_max: users.number("maxnumber")?,
        ..Phase::constant(per_s, duration_us)
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
    let value = element
        .number::<f64>("duration")?
        .filter(|value| value.is_finite() && *value >= 0.0)
        .ok_or_else(|| {
            element.problem(format!("<{}> needs the attribute `duration`", element.name))
        })?;
    Ok((value * unit_us(element)? as f64) as u64)
}
