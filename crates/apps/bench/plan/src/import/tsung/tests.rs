//! The file of the million-connection run, and what is refused.

use super::*;
use crate::schedule::Spread;
use crate::{ClientTransport, Target, Workload};

const BENCH: &str = include_str!("../../../fixtures/tsung-bench.xml");

fn target(text: &str) -> Option<Target> {
    Some(Target::parse(text).unwrap())
}

#[test]
fn the_published_file_is_understood_as_it_stands() {
    let Imported { scenario, notes } = read_tsung(BENCH, &TsungOptions::default()).unwrap();
    assert_eq!(scenario.clients, 2_000_000);
    assert_eq!(scenario.arrivals.duration_us(), 1_000_000_000);
    assert_eq!(scenario.spread, Spread::Poisson);
    assert_eq!(scenario.lifetime_us, Some(30_000_000_000));
    assert_eq!(scenario.targets[0].port, 9505);
    assert_eq!(
        scenario.targets[0].path,
        "/v1/realtime?project=console&channels[]=files"
    );
    assert_eq!(scenario.kind, Workload::Hold);
    assert!(
        notes[0].contains(
            "16 machines with 64 Erlang virtual machines: 2000000 users in 1000 s, 125000 on each"
        ),
        "{notes:?}"
    );
    assert!(
        notes[1].contains("could not pass 1032160 connections"),
        "{notes:?}"
    );
}

#[test]
fn it_runs_scaled_bounded_and_against_another_target() {
    let options = TsungOptions {
        target: target("ws://127.0.0.1:8000/ws?channel=files"),
        scale: 0.001,
        duration_us: Some(10_000_000),
    };
    let scenario = read_tsung(BENCH, &options).unwrap().scenario;
    assert_eq!(scenario.clients, 16);
    assert_eq!(scenario.duration_us(), 10_000_000);
    assert_eq!(scenario.targets.len(), 1);
    assert_eq!(scenario.targets[0].path, "/ws?channel=files");
    let options = TsungOptions {
        target: target("ws://127.0.0.1:8000"),
        ..TsungOptions::default()
    };
    let scenario = read_tsung(BENCH, &options).unwrap().scenario;
    assert_eq!(
        scenario.targets[0].path,
        "/v1/realtime?project=console&channels[]=files"
    );
}

/// A file with these parts; the session's first line is line 5.
fn file(load: &str, options: &str, session: &str) -> String {
    format!(
        "<tsung>\n<servers><server host='h' port='80' type='tcp'/></servers>\n<load><arrivalphase \
         phase='1' duration='10' unit='second'>{load}</arrivalphase></load>\n\
         <options>{options}</options>\n<sessions><session name='s' probability='100' \
         type='ts_websocket'>{session}</session></sessions>\n</tsung>"
    )
}

const USERS: &str = "<users arrivalrate='5' unit='second'/>";
const CONNECT: &str = "<request><websocket type='connect' path='/a'/></request>";

#[track_caller]
fn check_refused(text: &str, line: usize, part: &str) {
    let problem = read_tsung(text, &TsungOptions::default()).unwrap_err();
    assert!(problem.message.contains(part), "{part}: {problem}");
    assert_eq!(problem.line, Some(line), "{problem}");
}

#[test]
fn messages_are_understood_where_they_are_simple() {
    let session = format!(
        "{CONNECT}<request><websocket type='message' \
         frame='text'>{{\"sub\":1}}</websocket></request><for var='i' from='1' to='10' \
         incr='3'><request><websocket type='message' ack='no_ack'>hi \
         {{n}}</websocket></request><thinktime value='2.5'/></for>"
    );
    let scenario = read_tsung(&file(USERS, "", &session), &TsungOptions::default())
        .unwrap()
        .scenario;
    let say = scenario.say.unwrap();
    assert_eq!(
        (say.every_us, say.count, say.binary),
        (2_500_000, Some(4), true)
    );
    assert_eq!(say.text, "hi {{n}");
    assert_eq!(scenario.lifetime_us, Some(10_000_000));
    let ClientTransport::WebSocket { first_frames, .. } = scenario.transport else {
        panic!("not a WebSocket");
    };
    assert_eq!(first_frames, ["{\"sub\":1}"]);
    assert_eq!(scenario.clients, 50);
}

#[test]
fn rates_come_in_every_unit() {
    for (users, clients) in [
        ("<users interarrival='0.5' unit='second'/>", 20),
        ("<users interarrival='20' unit='millisecond'/>", 500),
        ("<users arrivalrate='60' unit='minute'/>", 10),
        ("<users arrivalrate='5' unit='second' maxnumber='7'/>", 7),
    ] {
        let scenario = read_tsung(&file(users, "", CONNECT), &TsungOptions::default())
            .unwrap()
            .scenario;
        assert_eq!(scenario.clients, clients, "{users}");
    }
}

#[test]
fn what_is_not_supported_is_refused_with_its_line() {
    let session = |text: &str| file(USERS, "", text);
    check_refused("<tsunk/>", 1, "not <tsung>");
    check_refused("<tsung>\n<foo/></tsung>", 2, "<foo> is not supported");
    check_refused("<tsung speed='9'/>", 1, "the attribute `speed` of <tsung>");
    check_refused("<tsung/>", 1, "no <session>");
    check_refused(
        &file("<user session='s'/>", "", CONNECT),
        3,
        "<user> is not supported",
    );
    check_refused(
        &file("<users unit='second'/>", "", CONNECT),
        3,
        "either `arrivalrate` or `interarrival`",
    );
    check_refused(
        &file("<users arrivalrate='x'/>", "", CONNECT),
        3,
        "not a number",
    );
    check_refused(
        &file("<users arrivalrate='1' unit='week'/>", "", CONNECT),
        3,
        "the unit `week`",
    );
    check_refused(
        &file(USERS, "<option name='rate_limit' value='5'/>", CONNECT),
        4,
        "the option `rate_limit`",
    );
    check_refused(&session(""), 5, "never connects");
    check_refused(
        &session(&format!("{CONNECT}\n<if var='x' eq='1'/>")),
        6,
        "<if> is not supported",
    );
    check_refused(
        &session(&format!(
            "{CONNECT}\n\n<thinktime value='3' random='true'/>"
        )),
        7,
        "random thinktime",
    );
    check_refused(
        &session(&format!("{CONNECT}\n<thinktime min='1' max='2'/>")),
        6,
        "the attribute `min`",
    );
    check_refused(
        &session(&format!("{CONNECT}{CONNECT}")),
        5,
        "second connect",
    );
    check_refused(
        &session("<request subst='true'>\n<websocket type='connect' path='/%%_x%%'/></request>"),
        6,
        "substitution",
    );
    check_refused(
        &session("<request><http url='/'/></request>"),
        5,
        "<http> is not supported",
    );
    check_refused(
        &session(&format!(
            "{CONNECT}<request>\n<websocket type='message' ack='parse'>x</websocket></request>"
        )),
        6,
        "waiting for an answer",
    );
    check_refused(
        &session(&format!("{CONNECT}<for from='1' to='2' incr='0' var='i'/>")),
        5,
        "never ends",
    );
    check_refused(
        "<tsung>\n<sessions>\n<session type='ts_http'/></sessions></tsung>",
        3,
        "type `ts_http`",
    );
    check_refused(
        "<tsung>\n<servers><server host='h' port='1' type='bosh'/></servers></tsung>",
        2,
        "type `bosh`",
    );
}

#[test]
fn a_file_that_lost_its_closing_tags_says_so() {
    let cut = &BENCH[..BENCH.len() - 40];
    let problem = read_tsung(cut, &TsungOptions::default()).unwrap_err();
    assert!(
        problem.message.contains("never closed") || problem.message.contains("well-formed"),
        "{problem}"
    );
    for at in (0..BENCH.len()).filter(|at| BENCH.is_char_boundary(*at)) {
        let _ = read_tsung(&BENCH[..at], &TsungOptions::default());
    }
}
