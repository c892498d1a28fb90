//! Checks of a scenario as a whole, whatever its source.

use crate::scenario::{ClientTransport, PeriodicMessage, Publish, Scenario, Via, Workload};
use crate::template::{HoleScope, Template};
use crate::{Data, Problem, payload};

/// Most entries of one list; more is a file that is not a scenario.
const LIST_MAX: usize = 1024;

impl Scenario {
    /// Checks the scenario as a whole: every problem, none if it can run.
    pub fn problems(&self) -> Vec<Problem> {
        let data = self.data.clone();
        let has_rows = data.as_ref().is_none_or(|data| data.rows() > 0);
        let mut checker = Checker {
            data,
            problems: Vec::new(),
        };
        checker.require(has_rows, "the data has no rows");
        checker.connections(self);
        checker.templates(self);
        if let Some(say) = &self.say {
            checker.say(say, &self.kind);
        }
        if let Some(publish) = &self.publish {
            checker.publish(publish, self);
        }
        checker.kind(self);
        checker.problems
    }
}

struct Checker {
    data: Option<Data>,
    problems: Vec<Problem>,
}

impl Checker {
    fn add(&mut self, message: impl Into<String>) {
        let message = message.into();
        self.problems.push(Problem {
            line: None,
            message,
        });
    }

    fn require(&mut self, holds: bool, message: &str) {
        if !holds {
            self.add(message);
        }
    }

    fn template(&mut self, what: &str, text: &str, scope: HoleScope) -> Option<Template> {
        match Template::compile(text, scope, self.data.as_ref()) {
            Ok(template) => Some(template),
            Err(error) => {
                self.add(format!("{what} `{text}`: {error}"));
                None
            }
        }
    }

    fn connections(&mut self, scenario: &Scenario) {
        let targets = &scenario.targets;
        self.require(!targets.is_empty(), "there is no target to connect to");
        self.require(
            targets.len() <= LIST_MAX,
            "there are more than 1024 targets",
        );
        self.require(scenario.clients > 0, "there are no clients to connect");
        let brought = scenario.arrivals.count();
        if brought < scenario.clients {
            self.add(format!(
                "the arrival phases bring {brought} clients, {} were asked for",
                scenario.clients
            ));
        }
        self.require(
            scenario.hold_us > 0,
            "`duration` is zero: nothing would be measured",
        );
        let connects = scenario.connect_timeout_us > 0;
        self.require(
            connects,
            "the connect timeout is zero: every connect would fail",
        );
        self.require(
            scenario.http2 != Some(0),
            "`http2` is zero streams on a connection; leave it out for HTTP/1.1",
        );
        self.require(
            scenario.http2.is_none() || !matches!(scenario.transport, ClientTransport::Raw { .. }),
            "`http2` needs clients that speak HTTP: raw bytes have no streams",
        );
        let sources = &scenario.sources;
        for target in targets.iter().filter(|_| !sources.is_empty()) {
            // A name may turn out to be of either family.
            let Ok(address) = target.host.parse::<std::net::IpAddr>() else {
                continue;
            };
            if sources
                .iter()
                .all(|source| source.is_ipv4() != address.is_ipv4())
            {
                self.add(format!(
                    "no source address is of the family of the target {target}"
                ));
            }
        }
    }

    fn templates(&mut self, scenario: &Scenario) {
        self.require(
            scenario.channels.len() <= LIST_MAX,
            "there are more than 1024 channel templates for each connection",
        );
        for text in &scenario.channels {
            let template = self.template("channel", text, HoleScope::Channel);
            let cells = template.iter().flat_map(Template::cells);
            for name in std::iter::once(text.as_str()).chain(cells) {
                let is_bad = |c: char| c.is_control() || c == '"' || c == '\\';
                if name.is_empty() || name.contains(is_bad) {
                    self.add(format!(
                        "channel `{}`: a name is not empty and has no quotes, backslashes or \
                         control characters",
                        name.escape_debug()
                    ));
                    break;
                }
            }
        }
        for target in &scenario.targets {
            self.template("the path", &target.path, HoleScope::Connection);
        }
        let (headers, texts, token) = scenario.transport.opening();
        for text in texts {
            self.template("the first message", text, HoleScope::Connection);
        }
        self.headers(headers, HoleScope::Connection);
        if let Some(token) = token {
            self.template("the token", token, HoleScope::Connection);
        }
        if let ClientTransport::Raw {
            first,
            expect_http: true,
        } = &scenario.transport
        {
            self.require(
                !first.is_empty(),
                "a raw connection that expects an HTTP answer needs `first`: the request",
            );
        }
    }

    fn headers(&mut self, headers: &[(String, String)], scope: HoleScope) {
        for (name, value) in headers {
            let token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(token) {
                self.add(format!(
                    "`{}` is not the name of a header",
                    name.escape_debug()
                ));
            }
            if value.contains(|c: char| c.is_control() && c != '\t') {
                self.add(format!(
                    "the header `{name}` has a control character in its value"
                ));
            }
            self.template("the header", value, scope);
        }
    }

    fn say(&mut self, say: &PeriodicMessage, kind: &Workload) {
        self.require(say.every_us > 0, "`say.every` is zero");
        if let Some(template) = self.template("`say.text`", &say.text, HoleScope::Publish) {
            if template.has_payload() {
                self.size("say.size", say.size_bytes);
            } else if matches!(kind, Workload::Echo | Workload::Chat { .. }) {
                self.add(
                    "`say.text` needs `{payload}`: without it nothing that comes back can be \
                          measured",
                );
            }
        }
    }

    fn size(&mut self, key: &str, size_bytes: usize) {
        if let Err(error) = payload::check_size(size_bytes) {
            self.add(format!("`{key}`: {error}"));
        }
    }

    fn publish(&mut self, publish: &Publish, scenario: &Scenario) {
        self.size("publish.size", publish.size_bytes);
        self.require(publish.publishers > 0, "there are no publishers");
        let paced = publish.per_s.is_finite() && publish.per_s > 0.0;
        self.require(paced, "`publish.rate` must be above zero");
        let named = !scenario.channels.is_empty();
        self.require(
            named,
            "publishing needs `channels`: what the connections subscribe to",
        );
        let bodies = match &publish.via {
            Via::Http {
                target,
                headers,
                body,
                method,
            } => {
                self.headers(headers, HoleScope::Publish);
                self.require(
                    !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase()),
                    "`publish.method` must be the name of an HTTP method in capitals",
                );
                [&target.path, body]
            }
            Via::WebSocket {
                target,
                first_frames,
                frame,
            } => {
                for text in first_frames {
                    self.template("the publisher's first frame", text, HoleScope::Connection);
                }
                [&target.path, frame]
            }
        };
        let compiled: Vec<Template> = bodies
            .into_iter()
            .filter_map(|text| self.template("the publish request", text, HoleScope::Publish))
            .collect();
        if compiled.len() == 2 && !compiled.iter().any(Template::has_payload) {
            self.add(
                "the publish request has no `{payload}`: nothing that arrives could be measured",
            );
        }
        for text in &scenario.channels {
            let data = self.data.as_ref();
            let random = Template::compile(text, HoleScope::Channel, data)
                .is_ok_and(|template| template.is_random());
            if random {
                self.add(format!(
                    "channel `{text}` is random, so it is not known how many subscribers a \
                     publication has; use `{{n%…}}` when publishing"
                ));
            }
        }
        if let Some(until) = &publish.until {
            self.require(until.step_us > 0, "`publish.step_duration` is zero");
            let grows = until.per_s_max >= publish.per_s;
            self.require(grows, "`publish.rate_max` is below `publish.rate`");
        }
    }

    fn kind(&mut self, scenario: &Scenario) {
        let name = scenario.kind.as_str();
        let mut need = |holds: bool, what: &str| {
            self.require(holds, &format!("the scenario `{name}` needs {what}"));
        };
        match scenario.kind {
            Workload::Hold => {}
            Workload::FanOut | Workload::OneToOne | Workload::SlowReaders { .. } => {
                need(scenario.publish.is_some(), "`[publish]`");
            }
            Workload::Echo | Workload::Chat { .. } => {
                let sends = scenario.transport.sends();
                need(
                    scenario.say.is_some(),
                    "`[say]`: what each connection sends",
                );
                need(sends, "connections that can send: a WebSocket or raw bytes");
                if let Workload::Chat { group_size } = scenario.kind {
                    self.require(group_size >= 2, "a chat group has at least two members");
                }
            }
            Workload::Churn => {
                need(
                    scenario.lifetime_us.is_some(),
                    "`lifetime`: how long a connection stays",
                );
            }
            Workload::ReconnectStorm {
                at_us,
                backoff_us: (min, max),
                share,
                back_share,
            } => {
                let begins = at_us < scenario.hold_us;
                self.require(begins, "the storm begins after the run has ended");
                self.require(min <= max, "`backoff_min` is above `backoff_max`");
                let asks = share > 0.0 && back_share > 0.0;
                self.require(asks, "a share of zero asks for nothing");
            }
            Workload::Resume { away_us, every_us } => {
                let transport =
                    "a transport that can: `sse` (Last-Event-ID) or `centrifugo` (recovery)";
                need(scenario.transport.resumes(), transport);
                need(scenario.publish.is_some(), "`[publish]`");
                let apart = away_us < every_us;
                self.require(apart, "`resume.away` must be shorter than `resume.every`");
            }
        }
    }
}
