//! `/metrics` and `/stats`: there is one truth, and it is well formed.

use serde_json::json;
use throng_testkit::{Setup, request, until};

#[test]
fn metrics_pass_a_strict_reader_and_agree_with_stats() {
    let server = Setup::default().shards(2).start();
    let mut stream = server.get("/stream?channel=news");
    stream.head();
    stream.chunk();
    for n in 0..10 {
        server.publish("news", &n.to_string());
        stream.chunk();
    }
    let metrics = server.metrics();
    assert!(metrics.metrics() > 25, "{}", metrics.metrics());
    let value = |series: &str| metrics.value(series).unwrap_or_else(|| panic!("{series}"));
    assert_eq!(value("throng_publications_total{source=\"api\"}"), 10.0);
    assert_eq!(value("throng_deliveries_total"), 10.0);
    assert_eq!(value("throng_shards"), 2.0);
    assert_eq!(value("throng_subscriptions"), 1.0);
    assert_eq!(value("throng_connections{transport=\"stream\"}"), 1.0);
    assert!(value("throng_process_resident_bytes") > 1e6);
    assert!(value("throng_turns_total") > 0.0);
    assert_eq!(metrics.sum("throng_dropped_total"), 0.0);

    let stats = server.stats();
    assert_eq!(
        stats["counters"]["publications_total"]["api"], 10,
        "{stats}"
    );
    assert_eq!(stats["counters"]["deliveries_total"], 10);
    assert_eq!(stats["gauges"]["connections"]["stream"], 1);
    assert_eq!(stats["version"], json!(env!("CARGO_PKG_VERSION")));

    let response = request(server.api_address(), "GET", "/metrics", &[], "");
    let kind = response.header("content-type").unwrap_or_default();
    assert!(kind.starts_with("text/plain; version=0.0.4"), "{kind}");
    drop(stream);
    until("the stream's end is counted", || {
        server.metric("throng_connections{transport=\"stream\"}") == 0
    });
    server.counts("throng_subscriptions", 0);
    server.counts("throng_connections_closed_total{reason=\"client\"}", 1);
    server.stop();
}
