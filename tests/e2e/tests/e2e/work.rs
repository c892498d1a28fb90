//! What one client may make the server do: the bytes that got past the limits before, and what
//! honest clients send.

use throng_testkit::{Setup, Wire, post};

#[test]
fn requests_of_one_connection_are_limited_and_calls_of_the_api_are_not() {
    let server = Setup::new("[limits]\nrequests_per_second_max = 50\n")
        .shards(1)
        .start();
    let mut wire = Wire::connect(server.clients());
    wire.send(&"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1_000));
    let mut served = 0;
    let refused = loop {
        let answer = wire.response("GET");
        if answer.status != 200 {
            break answer;
        }
        served += 1;
    };
    assert!((100..300).contains(&served), "{served}");
    assert_eq!(refused.status, 429, "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("2"));
    wire.until_closed();
    // A publisher that pipelines.
    let mut api = Wire::connect(server.api_address());
    let publish = post("/pub?channel=a", "1");
    for _ in 0..20 {
        api.send(&publish.repeat(128));
        for _ in 0..128 {
            assert_eq!(api.response("POST").status, 200);
        }
    }
    server.stop();
}
