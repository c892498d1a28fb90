use std::collections::HashSet;

use super::*;

fn targets(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[track_caller]
fn check_sources(text: &str, count: usize, first: &str, last: &str) {
    let sources = parse_sources(text).unwrap();
    assert_eq!(sources.len(), count, "{text}");
    assert_eq!(sources.first().unwrap().to_string(), first);
    assert_eq!(sources.last().unwrap().to_string(), last);
}

#[test]
fn sources_are_read_in_every_form() {
    check_sources("10.0.0.5", 1, "10.0.0.5", "10.0.0.5");
    check_sources("127.0.0.2-127.0.0.40", 39, "127.0.0.2", "127.0.0.40");
    check_sources("127.0.0.2-40", 39, "127.0.0.2", "127.0.0.40");
    check_sources("127.0.0.250-127.0.1.5", 12, "127.0.0.250", "127.0.1.5");
    check_sources("10.0.0.0/28", 14, "10.0.0.1", "10.0.0.14");
    check_sources("10.0.0.9/32", 1, "10.0.0.9", "10.0.0.9");
    check_sources("10.0.0.1, 10.0.0.1-3", 3, "10.0.0.1", "10.0.0.3");
    check_sources("fd00::1-fd00::10", 16, "fd00::1", "fd00::10");
}

#[test]
fn sources_that_make_no_sense_are_refused() {
    for (text, why) in [
        ("", "`` is not a source address"),
        ("host", "`host` is not a source address"),
        ("10.0.0.1-x", "`10.0.0.1-x` is not a source address"),
        ("10.0.0.0/33", "`10.0.0.0/33` is not a source address"),
        (
            "10.0.0.9-3",
            "`10.0.0.9-3`: the range ends before it begins",
        ),
        ("10.0.0.1-fd00::1", "`10.0.0.1-fd00::1`: one end is IPv4"),
        ("10.0.0.0/8", "`10.0.0.0/8` has more than"),
        ("fd00::/0", "`fd00::/0` has more than"),
        ("10.0.0.0-10.2.0.0", "`10.0.0.0-10.2.0.0` has more than"),
    ] {
        let error = parse_sources(text).unwrap_err();
        assert!(error.starts_with(why), "{text}: {error}");
    }
}

#[test]
fn kernel_texts_are_read() {
    assert_eq!(parse_port_range("32768\t60999\n"), Some((32_768, 60_999)));
    for wrong in ["", "1", "5 4", "1 2 3", "a b", "1 70000"] {
        assert_eq!(parse_port_range(wrong), None, "{wrong}");
    }
    assert_eq!(parse_reserved_ports("3,5-7\n"), Some(vec![3..=3, 5..=7]));
    assert_eq!(parse_reserved_ports("\n"), Some(Vec::new()));
    assert_eq!(parse_reserved_ports("x"), None);
    let reserved = parse_reserved_ports("3,5-7").unwrap();
    let plan = PortPlan::new(&[], &[], 1..=20, &reserved);
    assert_eq!(plan.ports.len(), 16);
}

#[test]
fn every_tuple_is_used_once_and_targets_alternate() {
    let sources = parse_sources("127.0.0.2-4").unwrap();
    let targets = targets(&["127.0.0.1:8000", "127.0.0.1:8001"]);
    let plan = PortPlan::new(&sources, &targets, 7990..=8010, &[]);
    assert_eq!(plan.ports.len(), 19);
    assert_eq!(plan.capacity(), 3 * 2 * 19);
    let mut seen = HashSet::new();
    for k in 0..plan.capacity() {
        let tuple = plan.tuple(k).unwrap();
        assert_eq!(tuple.target_index as u64, k % 2);
        assert!(![8000, 8001].contains(&tuple.source.port()));
        assert!(seen.insert(tuple));
    }
    assert_eq!(plan.tuple(plan.capacity()), None);
    assert_eq!(plan.tuple(u64::MAX), None);
}

#[test]
fn one_pair_reaches_more_than_64_000() {
    let plan = PortPlan::new(
        &parse_sources("127.0.0.2").unwrap(),
        &targets(&["127.0.0.1:8000"]),
        1024..=u16::MAX,
        &[],
    );
    assert_eq!(plan.capacity(), 64_511);
    assert_eq!(plan.fits(64_511), Ok(()));
}

#[test]
fn a_plan_that_does_not_fit_says_by_how_much() {
    let plan = PortPlan::new(
        &parse_sources("10.0.0.1").unwrap(),
        &targets(&["10.0.0.2:8000"]),
        10_000..=19_999,
        &[],
    );
    let why = plan.fits(25_001).unwrap_err();
    for part in ["hold 10000;", "15001 are missing", "Add 2 more pairs:"] {
        assert!(why.contains(part), "{why}");
    }
}

#[test]
fn families_do_not_mix() {
    let plan = PortPlan::new(
        &parse_sources("10.0.0.1,fd00::1").unwrap(),
        &targets(&["[fd00::2]:80"]),
        1024..=u16::MAX,
        &[],
    );
    assert_eq!(plan.pairs.len(), 1);
    assert!(plan.tuple(0).unwrap().source.is_ipv6());
    let none = PortPlan::new(
        &parse_sources("10.0.0.1").unwrap(),
        &targets(&["[fd00::2]:80"]),
        1024..=u16::MAX,
        &[],
    );
    assert_eq!(none.tuple(0), None);
    assert!(none.fits(1).unwrap_err().contains("no source address"));
    assert!(none.fits(0).is_err());
}
