//! Whether a scenario makes sense as a whole, wherever it came from.

use super::scenario::{Dialect, Kind, Publish, Say, Scenario, Transport, Via};
use super::section::Problem;
use crate::Data;
use crate::payload;
use crate::template::{Place, Template};

/// How many bytes of templates a scenario may have in one list; more is a file that is not a
/// scenario.
const LIST_MAX: usize = 1024;

impl Scenario {
    /// Checks the scenario as a whole: every problem, none if it can run.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        problems(self)
    }
}

pub(super) fn problems(scenario: &Scenario) -> Vec<Problem> {
    let mut checker = Checker {
        data: scenario.data.clone(),
        problems: Vec::new(),
    };
    checker.require(
        scenario.data.as_ref().is_none_or(|data| data.rows() > 0),
        "the data has no rows",
    );
    checker.connections(scenario);
    checker.templates(scenario);
    if let Some(say) = &scenario.say {
        checker.say(say, &scenario.kind);
    }
    if let Some(publish) = &scenario.publish {
        checker.publish(publish, scenario);
    }
    checker.kind(scenario);
    checker.problems
}

struct Checker {
    data: Option<Data>,
    problems: Vec<Problem>,
}

impl Checker {
    fn add(&mut self, message: impl Into<String>) {
        self.problems.push(Problem {
            line: None,
            message: message.into(),
        });
    }

    fn require(&mut self, holds: bool, message: &str) {
        if !holds {
            self.add(message);
        }
    }

    fn template(&mut self, what: &str, text: &str, place: Place) -> Option<Template> {
        match Template::compile_with(text, place, self.data.as_ref()) {
            Ok(template) => Some(template),
            Err(error) => {
                self.add(format!("{what} `{text}`: {error}"));
                None
            }
        }
    }

    fn connections(&mut self, scenario: &Scenario) {
        self.require(
            !scenario.targets.is_empty(),
            "there is no target to connect to",
        );
        self.require(
            scenario.targets.len() <= LIST_MAX,
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
        self.require(
            scenario.connect_timeout_us > 0,
            "the connect timeout is zero: every connect would fail",
        );
        if !scenario.sources.is_empty() {
            for target in &scenario.targets {
                let reachable = match target.host.parse::<std::net::IpAddr>() {
                    Ok(address) => scenario
                        .sources
                        .iter()
                        .any(|source| source.is_ipv4() == address.is_ipv4()),
                    // A name may turn out to be of either family.
                    Err(_) => true,
                };
                if !reachable {
                    self.add(format!(
                        "no source address is of the family of the target {target}"
                    ));
                }
            }
        }
    }

    fn templates(&mut self, scenario: &Scenario) {
        self.require(
            scenario.channels.len() <= LIST_MAX,
            "there are more than 1024 channel templates for each connection",
        );
        for text in &scenario.channels {
            let template = self.template("channel", text, Place::Channel);
            let cells = template.iter().flat_map(Template::cells);
            for name in std::iter::once(text.as_str()).chain(cells) {
                if name.is_empty()
                    || name.contains(|c: char| c.is_control() || c == '"' || c == '\\')
                {
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
            self.template("the path", &target.path, Place::Connection);
        }
        let (texts, headers): (&[String], &[(String, String)]) = match &scenario.transport {
            Transport::WebSocket {
                first_frames,
                headers,
                ..
            } => (first_frames, headers),
            Transport::Sse { headers } | Transport::HttpStream { headers, .. } => (&[], headers),
            Transport::Raw { first, .. } => (first, &[]),
        };
        for text in texts {
            self.template("the first message", text, Place::Connection);
        }
        self.headers(headers, Place::Connection);
        if let Transport::WebSocket {
            dialect: Dialect::Centrifugo { token: Some(token) },
            ..
        } = &scenario.transport
        {
            self.template("the token", token, Place::Connection);
        }
        if let Transport::Raw {
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

    fn headers(&mut self, headers: &[(String, String)], place: Place) {
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
            self.template("the header", value, place);
        }
    }

    fn say(&mut self, say: &Say, kind: &Kind) {
        self.require(say.every_us > 0, "`say.every` is zero");
        if let Some(template) = self.template("`say.text`", &say.text, Place::Publish) {
            if template.has_payload() {
                self.size("say.size", say.size_bytes);
            } else if matches!(kind, Kind::Echo | Kind::Chat { .. }) {
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
        self.require(
            publish.per_s.is_finite() && publish.per_s > 0.0,
            "`publish.rate` must be above zero",
        );
        self.require(
            !scenario.channels.is_empty(),
            "publishing needs `channels`: what the connections subscribe to",
        );
        let bodies = match &publish.via {
            Via::Http {
                target,
                headers,
                body,
                method,
            } => {
                self.headers(headers, Place::Publish);
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
                    self.template("the publisher's first frame", text, Place::Connection);
                }
                [&target.path, frame]
            }
        };
        let compiled: Vec<Template> = bodies
            .into_iter()
            .filter_map(|text| self.template("the publish request", text, Place::Publish))
            .collect();
        if compiled.len() == 2 && !compiled.iter().any(Template::has_payload) {
            self.add(
                "the publish request has no `{payload}`: nothing that arrives could be measured",
            );
        }
        for text in &scenario.channels {
            let data = self.data.as_ref();
            let random = Template::compile_with(text, Place::Channel, data)
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
            self.require(
                until.per_s_max >= publish.per_s,
                "`publish.rate_max` is below `publish.rate`",
            );
        }
    }

    fn kind(&mut self, scenario: &Scenario) {
        let name = scenario.kind.as_str();
        let publishes = scenario.publish.is_some();
        match &scenario.kind {
            Kind::Hold => {}
            Kind::FanOut | Kind::OneToOne | Kind::SlowReaders { .. } if !publishes => {
                self.add(format!("the scenario `{name}` needs `[publish]`"));
            }
            Kind::Echo | Kind::Chat { .. } => {
                self.require(
                    scenario.say.is_some(),
                    &format!("the scenario `{name}` needs `[say]`: what each connection sends"),
                );
                self.require(
                    matches!(
                        scenario.transport,
                        Transport::WebSocket { .. } | Transport::Raw { .. }
                    ),
                    &format!(
                        "the scenario `{name}` needs connections that can send: a WebSocket \
                              or raw bytes"
                    ),
                );
                if let Kind::Chat { group_size } = scenario.kind {
                    self.require(group_size >= 2, "a chat group has at least two members");
                }
            }
            Kind::Churn => self.require(
                scenario.lifetime_us.is_some(),
                "the scenario `churn` needs `lifetime`: how long a connection stays",
            ),
            Kind::ReconnectStorm {
                at_us,
                backoff_us,
                share,
                back_share,
            } => {
                self.require(
                    *at_us < scenario.hold_us,
                    "the storm begins after the run has ended",
                );
                self.require(
                    backoff_us.0 <= backoff_us.1,
                    "`backoff_min` is above `backoff_max`",
                );
                self.require(
                    *share > 0.0 && *back_share > 0.0,
                    "a share of zero asks for nothing",
                );
            }
            Kind::Resume { away_us, every_us } => {
                let resumable = matches!(
                    scenario.transport,
                    Transport::Sse { .. }
                        | Transport::WebSocket {
                            dialect: Dialect::Centrifugo { .. },
                            ..
                        }
                );
                self.require(
                    resumable,
                    "the scenario `resume` needs a transport that can: `sse` (Last-Event-ID) or \
                     `centrifugo` (recovery)",
                );
                self.require(
                    *away_us < *every_us,
                    "`resume.away` must be shorter than `resume.every`",
                );
                self.require(publishes, "the scenario `resume` needs `[publish]`");
            }
            Kind::FanOut | Kind::OneToOne | Kind::SlowReaders { .. } => {}
        }
    }
}
