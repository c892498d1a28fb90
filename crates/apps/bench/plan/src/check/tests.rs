use super::*;

fn figure(metric: Metric) -> Option<f64> {
    match metric {
        Metric::Percentile(LatencyKind::Delivery, p) => Some(p * 1000.0),
        Metric::Percentile(LatencyKind::Connect, _) => Some(5000.0),
        Metric::Max(_) => Some(2e6),
        Metric::Figure(Figure::Lost) => Some(0.0),
        Metric::Figure(Figure::Reach) => Some(0.9995),
        Metric::Figure(Figure::Alive) => Some(1_000_000.0),
        _ => None,
    }
}

#[track_caller]
fn check(text: &str, expected: Option<bool>) {
    let check: Check = text.parse().unwrap();
    let outcome = check.judge(figure(check.metric()));
    let got = match outcome {
        CheckOutcome::Passed { .. } => Some(true),
        CheckOutcome::Failed { .. } => Some(false),
        CheckOutcome::NoData => None,
    };
    assert_eq!(got, expected, "{text}: {outcome:?}");
}

#[test]
fn promises_are_judged() {
    check("p99<100ms", Some(true));
    check("p99<50ms", Some(false));
    check(" p99.9 <= 99.9ms ", Some(true));
    check("p50>=50ms", Some(true));
    check("max<2s", Some(false));
    check("max<=2s", Some(true));
    check("lost==0", Some(true));
    check("lost!=0", Some(false));
    check("reach>=99.9%", Some(true));
    check("reach==1", Some(false));
    check("alive>=1M", Some(true));
    check("alive>1000000", Some(false));
    check("connect_p95<1ms", Some(false));
    check("missing==0", None);
    check("lag_p99<1ms", None);
}

#[test]
fn what_is_no_check_is_refused_with_help() {
    for (text, help) in [
        ("p99", "no comparator"),
        ("p99=50ms", "the comparators are"),
        ("p99<50", "has no unit"),
        ("p99<", "begin with a number"),
        ("p0<1s", "not a percentile"),
        ("p101<1s", "not a percentile"),
        ("losst==0", "did you mean `lost`?"),
        ("zzzzzzz<1", "known are p50"),
        ("lost==5ms", "unknown"),
        ("lost==-1", "begin with a number"),
        ("reach>=110%", "more than everything"),
        ("<5ms", "not a metric"),
    ] {
        let error = text.parse::<Check>().unwrap_err().to_string();
        assert!(error.contains(help), "{text}: {error}");
    }
}

#[test]
fn every_name_can_be_asked_for() {
    for name in Metric::names() {
        let metric = Metric::parse(name).unwrap();
        assert_eq!(metric.to_string(), name);
    }
}

#[test]
fn exit_codes_have_an_order_of_precedence() {
    let (passed, failed) = (
        CheckOutcome::Passed { actual: 1.0 },
        CheckOutcome::Failed { actual: 1.0 },
    );
    for (outcomes, valid, exit) in [
        (vec![], true, BenchExit::Ok),
        (vec![passed], true, BenchExit::Ok),
        (
            vec![passed, CheckOutcome::NoData],
            true,
            BenchExit::CheckNoData,
        ),
        (
            vec![CheckOutcome::NoData, failed],
            true,
            BenchExit::CheckFailed,
        ),
        (vec![failed], false, BenchExit::GeneratorSaturated),
    ] {
        assert_eq!(BenchExit::of_run(&outcomes, valid), exit);
    }
    assert_eq!(BenchExit::Interrupted.code(), 130);
}

#[test]
fn a_check_travels_as_its_text() {
    let check: Check = "p99<50ms".parse().unwrap();
    let json = serde_json::to_string(&check).unwrap();
    assert_eq!(json, "\"p99<50ms\"");
    assert_eq!(serde_json::from_str::<Check>(&json).unwrap(), check);
}
