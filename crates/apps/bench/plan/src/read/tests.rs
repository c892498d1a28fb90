//! Scenarios from TOML: what is understood, and what is refused with its line.

use super::*;
use crate::template::{HoleScope, Template, Values};

fn read_toml(text: &str) -> Result<Scenario, Vec<Problem>> {
    read_toml_with(text, &|_| Err("files cannot be read here".into()))
}

const WHOLE: &str = r#"
name = "groups"
scenario = "fan-out"
targets = ["ws://127.0.0.1:8000/ws", "ws://127.0.0.1:8001/ws"]
sources = "127.0.0.2-127.0.0.40"
channels = "group-{n%1000}"
warm_up = "5s"
duration = "1m"
checks = ["p99<50ms", "missing==0"]

[connect]
clients = 10_000
rate = "500/s"
timeout = "3s"

[transport]
kind = "centrifugo"
token = "abc"
ping_interval = "25s"

[publish]
to = "http://127.0.0.1:8001"
as = "centrifugo"
key = "secret"
rate = "1000/s"
size = 512
publishers = 4
until = "p99<50ms"
step = "+500/s"

[statsd]
namespace = "b"
"#;

#[test]
fn a_whole_scenario_is_read() {
    let scenario = read_toml(WHOLE).unwrap();
    assert_eq!(scenario.name, "groups");
    assert_eq!(scenario.kind, Workload::FanOut);
    assert_eq!((scenario.targets.len(), scenario.sources.len()), (2, 39));
    assert_eq!(
        (scenario.clients, scenario.arrivals.duration_us()),
        (10_000, 20_000_000)
    );
    assert_eq!(
        (scenario.warm_up_us, scenario.hold_us),
        (5_000_000, 60_000_000)
    );
    assert_eq!(scenario.duration_us(), 85_000_000);
    assert_eq!(scenario.transport.as_str(), "centrifugo");
    let publish = scenario.publish.as_ref().unwrap();
    assert_eq!(
        (publish.per_s, publish.size_bytes, publish.publishers),
        (1000.0, 512, 4)
    );
    assert_eq!(publish.until.as_ref().unwrap().growth, Growth::Add(500.0));
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
}

#[test]
fn the_least_scenario_has_defaults() {
    let scenario = read_toml("targets = 'ws://h:1/'").unwrap();
    assert_eq!(scenario.kind, Workload::Hold);
    assert_eq!(scenario.clients, 100);
    assert_eq!(
        scenario.transport,
        ClientTransport::websocket(Dialect::Plain)
    );
}

#[test]
fn phases_bring_the_clients() {
    let scenario = read_toml(
        "targets = 'ws://h:1/'\n[connect]\narrivals = 'poisson'\n[[connect.phase]]\nduration = \
         '10s'\nrate = 0\nramp_to = '100/s'\n[[connect.phase]]\nduration = '1m'\nrate = '10/s'\n\
         clients_max = 50",
    )
    .unwrap();
    assert_eq!(scenario.clients, 550);
    assert_eq!(scenario.spread, Spread::Poisson);
    assert_eq!(scenario.arrivals.duration_us(), 70_000_000);
}

/// Each part of `expected` is in the complaint of that line (0 for no line).
#[track_caller]
fn check_refused(text: &str, expected: &[(usize, &str)]) {
    let problems = read_toml(text).unwrap_err();
    for (line, part) in expected {
        assert!(
            problems
                .iter()
                .filter(|problem| problem.line.unwrap_or(0) == *line)
                .any(|problem| problem.message.contains(part)),
            "line {line}, {part:?} not in {problems:#?}"
        );
    }
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
}

#[test]
fn unknown_keys_are_refused_with_line_and_suggestion() {
    check_refused(
        "targets = 'ws://h:1/'\nchannel = 'a'\n[connect]\nclient = 5\n\nfoo = 1",
        &[
            (2, "unknown key `channel`; did you mean `channels`?"),
            (
                4,
                "unknown key `client` in [connect]; did you mean `clients`?",
            ),
            (
                6,
                "unknown key `foo` in [connect]; known are arrivals, clients, phase",
            ),
        ],
    );
    check_refused(
        "targets = 'ws://h:1/'\nscenaro = 'hold'",
        &[(2, "did you mean `scenario`?")],
    );
    check_refused(
        "targets = 'ws://h:1/'\n[publish]\nto = 'h:1'\nrate = 5\nsise = 99",
        &[(5, "unknown key `sise` in [publish]; did you mean `size`?")],
    );
}

#[test]
fn wrong_values_are_refused_with_their_line() {
    check_refused("targets = [", &[(1, "")]);
    check_refused("", &[(1, "`targets` is missing")]);
    check_refused(
        "targets = ['ws://h:1/', 'x']\nduration = 10\nwarm_up = true\nscenario = 'fanout'\nchecks \
         = ['p99<5']\nsources = 'x'",
        &[
            (1, "the port is missing"),
            (2, "`duration`: `10` has no unit"),
            (
                3,
                "`warm_up` is a boolean, and should be a text or a number",
            ),
            (4, "did you mean `fan-out`?"),
            (5, "has no unit"),
            (6, "not a source address"),
        ],
    );
    check_refused(
        "targets = 'ws://h:1/'\nconnect = 5\npublish = 'x'",
        &[(2, "should be a table"), (3, "should be a table")],
    );
    check_refused(
        "targets = 'ws://h:1/'\nchannels = 'a'\n[publish]\nto = 'h:1'\nrate = 0\nstep = 'x1'",
        &[(5, "above zero"), (6, "above 1")],
    );
}

#[test]
fn a_scenario_that_cannot_work_is_refused() {
    let with = |extra: &str| format!("targets = 'ws://127.0.0.1:1/'\n{extra}");
    for (extra, part) in [
        ("scenario = 'fan-out'", "needs `[publish]`"),
        ("scenario = 'echo'", "needs `[say]`"),
        ("scenario = 'churn'", "needs `lifetime`"),
        ("channels = '{payload}'", "no meaning in a channel name"),
        ("channels = 'a\"b'", "no quotes"),
        ("sources = 'fd00::1'", "no source address is of the family"),
        ("[connect]\nclients = 0", "no clients"),
        ("duration = '0s'", "zero"),
        ("[transport]\nkind = 'raw'", "needs `first`"),
        (
            "[transport]\nheaders = { 'a b' = 'x' }",
            "not the name of a header",
        ),
        (
            "[transport]\nheaders = { A = \"x\\ny\" }",
            "control character",
        ),
        (
            "[publish]\nto = 'h:1'\nrate = 5",
            "publishing needs `channels`",
        ),
        (
            "channels = 'a'\n[publish]\nto = 'h:1'\nrate = 5\nsize = 10",
            "at least 61 bytes",
        ),
        (
            "channels = 'a'\n[publish]\nto = 'h:1'\nrate = 5\nas = 'http'\nbody = 'x'",
            "has no `{payload}`",
        ),
        (
            "channels = '{rand}'\n[publish]\nto = 'h:1'\nrate = 5",
            "is random",
        ),
        (
            "scenario = 'reconnect-storm'\n[reconnect_storm]\nat = '1h'",
            "after the run has ended",
        ),
        (
            "scenario = 'chat'\n[say]\nevery = '1s'\ntext = 'hi'",
            "needs `{payload}`",
        ),
    ] {
        let problems = read_toml(&with(extra)).unwrap_err();
        assert!(
            problems
                .iter()
                .any(|problem| problem.message.contains(part)),
            "{extra}: {problems:#?}"
        );
    }
    let resume = "scenario = 'resume'\nchannels = 'a'\n[publish]\nto = 'h:1'\nrate = 5";
    assert!(
        read_toml(&with(resume)).unwrap_err()[0]
            .message
            .contains("a transport that can")
    );
    assert!(read_toml(&with(&format!("{resume}\n[transport]\nkind = 'sse'"))).is_ok());
}

#[test]
fn every_kind_can_be_written() {
    for (kind, extra) in [
        ("hold", ""),
        ("one-to-one", "[publish]\nto='h:1'\nrate=1"),
        ("chat", "[chat]\ngroup_size = 4\n[say]\nevery='1s'"),
        ("echo", "[say]\nevery='1s'"),
        ("churn", "lifetime = '2s'"),
        (
            "reconnect-storm",
            "[reconnect_storm]\nat='5s'\nback='99.9%'\nbackoff_min='1s'\nbackoff_max='5s'",
        ),
        (
            "slow-readers",
            "channels='a'\n[slow_readers]\nshare='1%'\n[publish]\nto='h:1'\nrate=1",
        ),
    ] {
        let text = format!("targets = 'ws://h:1/'\nscenario = '{kind}'\n{extra}");
        let scenario = read_toml(&text).unwrap_or_else(|problems| panic!("{kind}: {problems:#?}"));
        assert_eq!(scenario.kind.as_str(), kind);
    }
}

#[test]
fn scaling_and_bounding_keep_the_shape() {
    let mut scenario = read_toml(WHOLE).unwrap();
    scenario.scale(0.01);
    assert_eq!(
        (scenario.clients, scenario.arrivals.duration_us()),
        (100, 20_000_000)
    );
    assert_eq!(scenario.publish.as_ref().unwrap().per_s, 10.0);
    scenario.bound_duration(10_000_000);
    assert_eq!((scenario.clients, scenario.duration_us()), (40, 10_000_000));
}

#[test]
fn data_from_a_file_fills_templates() {
    let text = "targets = 'ws://h:1/?token={data.token:url}'\ndata = 'users.csv'\nchannels = \
                '{data.room}'\n[connect]\nclients = 3\n";
    let files = |name: &str| match name {
        "users.csv" => Ok("room,token\na,1+1\nb,2\n".to_owned()),
        _ => Err("no such file".to_owned()),
    };
    let scenario = read_toml_with(text, &files).unwrap();
    let channels = crate::ChannelPlan::new(&scenario).unwrap();
    let subscribed = |n| channels.of_connection(n).collect::<Vec<_>>();
    assert_eq!((channels.len(), channels.subscribers(0)), (2, 2));
    assert_eq!(subscribed(0), subscribed(2));
    let path = Template::compile(
        &scenario.targets[0].path,
        HoleScope::Connection,
        scenario.data.as_ref(),
    );
    let values = Values {
        n: 2,
        ..Values::default()
    };
    let path = path
        .unwrap()
        .render_to_string(&values, &mut throng_types::Rng::new(1));
    assert_eq!(path, "/?token=1%2B1");

    // Its rows are for agents; results do not keep them.
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&json).unwrap(), scenario);
    let redactor = crate::Redactor::new(&scenario, &[]);
    let kept = serde_json::to_string(&redactor.scenario(&scenario)).unwrap();
    assert!(
        kept.contains(r#""data":{"columns":["room","token"],"rows":[]}"#),
        "{kept}"
    );
}

#[test]
fn data_that_cannot_be_used_is_refused_with_its_line() {
    let refused = |scenario: &str, csv: &str| {
        let text = format!("targets = 'ws://h:1/'\n{scenario}");
        let read = |_: &str| Ok(csv.to_owned());
        let problems = read_toml_with(&text, &read).unwrap_err();
        problems.iter().map(Problem::to_string).collect::<String>()
    };
    let says = refused("data = 'x.csv'\n", "a,b\n1\n");
    assert!(
        says.starts_with("line 2: `data`: line 2 of the CSV: "),
        "{says}"
    );
    let says = refused("channels = '{data.a}'\n", "");
    assert!(says.contains("there is no data"), "{says}");
    let says = refused("data = 'x.csv'\nchannels = '{data.b}'\n", "a\n1\n");
    assert!(says.contains("no column `b`; its columns are a"), "{says}");
    let says = refused("data = 'x.csv'\nchannels = '{data.a}'\n", "a\n\\\n");
    assert!(says.contains("has no quotes, backslashes"), "{says}");
    let problems = read_toml("targets = 'ws://h:1/'\ndata = 'x.csv'").unwrap_err();
    assert!(problems[0].message.contains("cannot be read here"));
}
