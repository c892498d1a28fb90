use super::*;
use throng_bench_plan::{Dialect, Target, Transport, Workload};

#[test]
fn parts_add_up_to_the_whole() {
    for (count, of) in [(0, 1), (1, 3), (10, 3), (12, 4), (7, 8)] {
        let sum: u64 = (0..of)
            .map(|index| RunShare { index, of }.share(count))
            .sum();
        assert_eq!(sum, count, "{count} over {of}");
    }
    assert_eq!(RunShare::WHOLE.share(5), 5);
}

#[test]
fn what_cannot_run_is_refused_with_a_sentence() {
    let scenario = |target: &str| {
        let target = Target::parse(target).unwrap();
        Scenario::new(
            Workload::Hold,
            vec![target],
            Transport::websocket(Dialect::Plain),
        )
    };
    let refuse = |scenario: &Scenario| Script::new(scenario, RunShare::WHOLE).unwrap_err();
    let mut secure = scenario("wss://127.0.0.1:1/");
    secure.tls.authorities = Some("no certificate".into());
    assert!(matches!(refuse(&secure), PrepareError::Tls { .. }));
    secure.tls.insecure = true;
    assert!(Script::new(&secure, RunShare::WHOLE).is_ok());
    let mut many = scenario("ws://127.0.0.1:1/");
    many.set_clients(1_000_000, 1e6);
    let text = refuse(&many).to_string();
    assert!(text.starts_with("ip_local_port_range"), "{text}");
    many.sources = throng_bench_plan::ports::parse_sources("127.0.0.2-3").unwrap();
    let text = refuse(&many).to_string();
    assert!(text.contains("more pairs"), "{text}");
    let mut none = scenario("ws://127.0.0.1:1/");
    none.clients = 0;
    assert!(matches!(refuse(&none), PrepareError::Scenario(_)));
}
