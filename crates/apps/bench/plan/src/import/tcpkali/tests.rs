//! The command of the million streams, and what is refused by name.

use proptest::prelude::proptest;

use super::*;
use crate::template::{HoleScope, Template, Values};
use throng_types::Rng;

fn read(arguments: &[&str]) -> Result<Imported, String> {
    let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
    read_tcpkali(&arguments)
}

const PUBLISHED: &str = "-c 250000 --connect-rate 200 -T 2h --message-marker --no-source-bind \
    --statsd --statsd-namespace cbench-1 --statsd-latency-window 10s \
    server:8000 server:8001 server:8002 server:8003 server:8004 server:8005 server:8006 \
    server:8007 -e -1";
const REQUEST: &str =
    r"GET /stream.php?topic=group-\{connection.uid%1000} HTTP/1.1\r\nHost: example.com\r\n\r\n";

fn with(words: &str, last: &[&'static str]) -> Result<Imported, String> {
    read(
        &words
            .split(' ')
            .chain(last.iter().copied())
            .collect::<Vec<_>>(),
    )
}

#[test]
fn the_published_command_is_understood() {
    let Imported { scenario, notes } = with(PUBLISHED, &[REQUEST]).unwrap();
    assert_eq!((scenario.clients, scenario.targets.len()), (250_000, 8));
    assert_eq!(scenario.arrivals.duration_us(), 1_250_000_000);
    assert_eq!(scenario.hold_us, 7_200_000_000);
    assert_eq!(scenario.marker, Marker::Tcpkali);
    let statsd = scenario.statsd.as_ref().unwrap();
    assert_eq!(
        (statsd.namespace.as_str(), statsd.latency_window_us),
        ("cbench-1", Some(10_000_000))
    );
    let Transport::Raw { first, expect_http } = &scenario.transport else {
        panic!("not raw");
    };
    assert!(expect_http);
    let values = Values {
        n: 12_345,
        ..Values::default()
    };
    assert_eq!(
        Template::compile(&first[0], HoleScope::Connection, None)
            .unwrap()
            .render_to_string(&values, &mut Rng::new(0)),
        "GET /stream.php?topic=group-345 HTTP/1.1\r\nHost: example.com\r\n\r\n"
    );
    assert!(
        notes.iter().any(|note| note.contains("1250 s of ramp")),
        "{notes:?}"
    );
}

#[test]
fn options_come_in_every_form() {
    let words = "--connections=5k -T1m --connect-rate=1k --ws --ssl -r 2 --channel-lifetime 5 \
                 --source-ip 127.0.0.2-4 --nagle=off -w 4 -v 0 h:1/path";
    let message = r"a\x41\101\{message.marker}";
    let imported = with(words, &["-H", "X-A: b", "-em", message]);
    let scenario = imported.unwrap().scenario;
    assert_eq!((scenario.clients, scenario.hold_us), (5000, 60_000_000));
    assert_eq!(scenario.lifetime_us, Some(5_000_000));
    assert_eq!(scenario.sources.len(), 3);
    assert!(scenario.targets[0].tls && scenario.targets[0].path == "/path");
    let say = scenario.say.unwrap();
    assert_eq!((say.text.as_str(), say.every_us), ("aAA{payload}", 500_000));
}

#[test]
fn without_e_escapes_stay_and_expressions_work() {
    assert_eq!(message(r"a\r\{connection.uid}", false).unwrap(), r"a\r{n}");
    assert_eq!(
        message(r"{n}\{connection.uid % 7}{x}", true).unwrap(),
        "{{n}{n%7}{{x}"
    );
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (arguments, part) in [
        (&["-c", "1"][..], "no host:port"),
        (&["h"], "port is missing"),
        (&["h:1", "-c"], "`-c` needs a value"),
        (&["h:1", "-c", "x"], "`-c`"),
        (&["h:1", "-c", "0"], "no clients"),
        (&["h:1", "--connect-rate", "0"], "must be above zero"),
        (
            &["h:1", "--frobnicate"],
            "`--frobnicate` of tcpkali is not supported: it is unknown",
        ),
        (&["h:1", "-l", "80"], "`-l`"),
        (&["h:1", "--server", "x"], "throng bench agent"),
        (&["h:1", "-r", "@100ms"], "--until"),
        (&["h:1", "-m", "x"], "without `-r`"),
        (
            &["h:1", "-m", r"\{connection.ptr}", "-r", "1"],
            "`\\{connection.ptr}`",
        ),
        (&["h:1", "-1", r"\{re [a-z]+}"], "not supported"),
        (&["h:1", "-1", r"\{connection.uid%0}"], "not supported"),
        (&["h:1", "-1", r"\{connection.uid"], "never closed"),
        (&["h:1", "-e", "-1", r"\xff"], "messages are UTF-8"),
        (&["h:1", "-e", "-1", r"\q"], "escape `\\q`"),
        (&["h:1", "-H", "a: b"], "without `--ws`"),
        (&["h:1", "--dump-all"], "not dumped"),
    ] {
        let error = read(arguments).unwrap_err();
        assert!(error.contains(part), "{arguments:?}: {error}");
    }
}

proptest! {
    #[test]
    fn no_message_panics_and_every_result_compiles(
        text in r"[\\{}a-znrx0-9.% ]{0,30}",
        unescape: bool,
    ) {
        if let Ok(template) = message(&text, unescape) {
            Template::compile(&template, HoleScope::Publish, None).unwrap();
        }
    }
}
