//! Streams of HTTP/2 pay for their requests with the allowance of their connection.

use std::net::IpAddr;

use throng_proxy::Block;
use throng_session::*;
use throng_types::{Actions, End, Now};

/// Counts streams until the connection is to take no more, of 10,000 that begin at one moment.
fn begun(port: Port, trusted: &str, carrier: &mut Http, now: Now) -> usize {
    let shared = Shared {
        meter: Meter::new(
            WorkLimits {
                requests_per_s_max: 50,
                ..WorkLimits::NONE
            },
            [3, 9],
        ),
        forwarded: Forwarded::new(Block::parse(trusted).into_iter().collect(), None),
        ..throng_solo::shared()
    };
    let (_, peer) = carrier.origin();
    let begins = |_: &i32| {
        let mut actions = Actions::default();
        let stream = Http::new(port, peer, Admission::Welcome);
        stream.carried_by(carrier, &shared, &mut actions, now);
        actions.end != Some(End::Flush)
    };
    (0..10_000).take_while(begins).count()
}

#[test]
fn all_streams_of_a_connection_have_one_allowance_of_requests() {
    let peer: IpAddr = [192, 0, 2, 7].into();
    let carrier = |port| Http::new(port, peer, Admission::Welcome);
    let mut client = carrier(Port::Client);
    let at = |ms| Now::new(ms, 0);
    // Two seconds' worth at once, and what time brings.
    for (ms, count) in [(9_000, 100), (9_000, 0), (10_000, 50), (99_000, 100)] {
        assert_eq!(begun(Port::Client, "", &mut client, at(ms)), count, "{ms}");
    }
    // A proxy's has requests of many clients, and calls of the server API are not counted.
    for (port, trusted) in [(Port::Client, "192.0.2.0/24"), (Port::Api, "")] {
        let begun = begun(port, trusted, &mut carrier(port), at(9_000));
        assert_eq!(begun, 10_000, "{trusted}");
    }
}
