//! A dialogue's file: read, written, and looked through for what is missing.
//!
//! ```text
//! # What happens, in one sentence or more.
//! route: NAME.test,path_beg=/a {origin},over_http
//!
//! == client a sends
//! > GET / HTTP/1.1
//! > Host: NAME.test
//! >
//! == client a gets head
//! < HTTP/1.1 200 OK
//! - Field: only from Pushpin
//! + Field: only from Throng
//! ! why that is
//! ```
//!
//! A step begins with `==`; `>` is sent, `<` came out of both servers, `-` of Pushpin alone and `+`
//! of Throng alone. How bytes become lines is said in [`crate::text`]; `*` as a `Content-Length`
//! that is sent stands for the right number. The steps:
//!
//! | step | does |
//! |---|---|
//! | `client X sends` | sends bytes, on a new connection if X has none |
//! | `client X gets head` | takes a head |
//! | `client X gets response` | takes a head and the body behind it |
//! | `client X gets through TEXT` | takes the body as far as TEXT |
//! | `client X gets end` | takes the rest of the body, or of the connection |
//! | `client X says KIND TEXT` | sends a frame: text, binary, ping, pong; close with a code first |
//! | `client X hears` | takes a WebSocket frame, or the end of the connection |
//! | `client X leaves` | closes |
//! | `origin gets` | takes the next request, whole |
//! | `origin sends` | answers it |
//! | `origin always` | from now on each request gets this answer and is not shown |
//! | `origin closes` | closes the connection of the last request |
//! | `publisher sends`, `publisher gets` | a request to the port for publishing, and its answer |
//! | `publish` | items as JSON, one a line, by HTTP; anything but 200 is shown |
//! | `pull sends` | one message to the ZeroMQ PULL socket |
//! | `sub sends` | the parts of a message to the ZeroMQ SUB socket, one a line |
//! | `sub waits CHANNEL` | waits until the SUB socket asks for the channel |
//! | `command sends`, `command gets` | a request to the ZeroMQ REP socket, and its answer |
//! | `stats listens` | subscribes to all on the ZeroMQ PUB socket, and waits until it hears |
//! | `stats gets KIND VALUE` | takes the first packet of a kind with this value in a field |

use std::fs;
use std::net::TcpListener;
use std::path::Path;

/// Beginnings of reasons, each with its meaning.
pub(crate) const KINDS: [(&str, &str); 5] = [
    (
        "1.41: ",
        "Debian's 1.36 is older than the version whose behaviour is wanted",
    ),
    (
        "same meaning: ",
        "by the rules of HTTP or of the format both say the same",
    ),
    ("wording: ", "a text for people says it in other words"),
    (
        "on purpose: ",
        "Throng behaves differently, and this is why",
    ),
    ("Throng falls short: ", "not yet as it should be"),
];

/// Mark of a line that came out of both servers, of Pushpin alone, and of Throng alone.
pub(crate) const BOTH: &str = "<";
pub(crate) const PUSHPIN: &str = "-";
pub(crate) const THRONG: &str = "+";
/// Mark of the reason for the lines above it that came out of one.
pub(crate) const REASON: &str = "!";

/// One line of a step's output: its mark and its text.
pub(crate) type Line = (&'static str, String);

#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) verb: String,
    pub(crate) sent: Vec<String>,
    pub(crate) got: Vec<Line>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Dialogue {
    pub(crate) name: String,
    pub(crate) about: Vec<String>,
    routes: Vec<String>,
    pub(crate) steps: Vec<Step>,
}

impl Dialogue {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).expect("a dialogue");
        let mut dialogue = Self {
            name: path.file_stem().expect("a name").to_string_lossy().into(),
            ..Self::default()
        };
        for (number, line) in text.lines().enumerate() {
            let fault = || format!("{}:{}: {line}", path.display(), number + 1);
            if let Some(verb) = line.strip_prefix("== ") {
                dialogue.steps.push(Step {
                    verb: verb.to_owned(),
                    ..Step::default()
                });
                continue;
            }
            let (mark, rest) = line.split_at(line.len().min(1));
            let rest = rest.strip_prefix(' ').unwrap_or(rest).to_owned();
            if let Some(route) = line.strip_prefix("route: ") {
                dialogue.routes.push(route.to_owned());
            } else if mark == "#" {
                dialogue.about.push(rest);
            } else if !mark.is_empty() {
                let step = dialogue.steps.last_mut();
                let step = step.unwrap_or_else(|| panic!("{}", fault()));
                let marks = [BOTH, PUSHPIN, THRONG, REASON];
                match marks.into_iter().find(|known| *known == mark) {
                    Some(mark) => step.got.push((mark, rest)),
                    None if mark == ">" => step.sent.push(rest),
                    None => panic!("{}", fault()),
                }
            }
        }
        dialogue
    }

    pub(crate) fn write(&self, folder: &Path) {
        let mut text = String::new();
        let mut put = |mark: &str, line: &str| {
            text.push_str(format!("{mark} {line}").trim_end());
            text.push('\n');
        };
        for line in &self.about {
            put("#", line);
        }
        for route in &self.routes {
            put("route:", route);
        }
        for step in &self.steps {
            put("", "");
            put("==", &step.verb);
            for line in &step.sent {
                put(">", line);
            }
            for (mark, line) in &step.got {
                put(mark, line);
            }
        }
        let file = folder.join(format!("{}.txt", self.name));
        fs::write(file, text).expect("a dialogue can be written");
    }

    /// The lines of the routes file, with the origin's address.
    pub(crate) fn routes(&self, origin: &TcpListener) -> String {
        let origin = origin.local_addr().expect("its address").to_string();
        let default = [format!("{}.test {{origin}}", self.name)];
        let routes = match self.routes.is_empty() {
            true => &default[..],
            false => &self.routes[..],
        };
        let lines = routes.iter();
        lines
            .map(|line| line.replace("{origin}", &origin) + "\n")
            .collect()
    }

    /// The differences: what each server did, and why.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        self.steps.iter().flat_map(Step::differences).collect()
    }

    /// Lists the faults of the file itself.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut out = Vec::new();
        let name = &self.name;
        if self.about.is_empty() {
            out.push(format!("{name}: it does not say what it is about"));
        }
        for difference in self.differences() {
            let reason = &difference.reason;
            if !KINDS.iter().any(|(kind, _)| reason.starts_with(kind)) {
                out.push(format!("{name}: no reason is given for {difference:?}"));
            }
        }
        out
    }
}

impl Step {
    /// Lines that are recorded of a server, by its mark.
    pub(crate) fn recorded(&self, of: &str) -> Vec<&str> {
        let lines = self.got.iter();
        let lines = lines.filter(|(mark, _)| *mark == BOTH || *mark == of);
        lines.map(|(_, line)| &**line).collect()
    }

    /// Differences of this step alone.
    pub(crate) fn differences(&self) -> Vec<Difference> {
        let hunks = self.got.split(|(mark, _)| *mark == BOTH);
        let lines = |hunk: &[Line], of: &str| -> Vec<String> {
            let lines = hunk.iter().filter(|(mark, _)| *mark == of);
            lines.map(|(_, line)| line.clone()).collect()
        };
        let hunks = hunks.filter(|hunk| !hunk.is_empty());
        let differences = hunks.map(|hunk| Difference {
            pushpin: lines(hunk, PUSHPIN),
            throng: lines(hunk, THRONG),
            reason: lines(hunk, REASON).pop().unwrap_or_default(),
        });
        differences.collect()
    }
}

/// Lines in one place that are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) pushpin: Vec<String>,
    pub(crate) throng: Vec<String>,
    /// Reason for it; empty if none is given.
    pub(crate) reason: String,
}
