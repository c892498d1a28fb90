//! A network that loses what the driver asks or changes the answers, in front of a real server.

use std::ops::Range;
use std::sync::mpsc;

use throng_nats::NatsOptions;
use throng_remote_suite::{Cluster, On, Setup, nodes};
use throng_testkit::{NatsServer, Proxy};

/// A node behind the network. This ends once it is connected: a connection that has waited for its
/// whole time would come too late for that.
fn connected(network: &Proxy) -> Box<dyn Cluster> {
    let url = format!("nats://{}", network.address());
    let on = On {
        servers: 1,
        orders_all: false,
    };
    nodes(&Setup::new(1), on, |remote| {
        let options = NatsOptions {
            url: url.clone(),
            credentials: None,
            replicas: 1,
            remote,
        };
        vec![throng_nats::node(options).expect("a URL")]
    })
}

#[test]
fn what_jetstream_never_heard_is_asked_again() {
    let server = NatsServer::start();
    let network = Proxy::new(server.address());
    network.lose("$JS.API.STREAM.CREATE", 1);
    drop(connected(&network));
    assert_eq!((network.to_lose(), network.connections()), (0, 1));
}

/// Nodes that start at once make the same streams. Of one that another node still makes,
/// nats-server 2.9.10 tells with the zero of its clock, and whoever then asked for its subjects
/// ended the server.
#[test]
fn a_stream_that_is_still_being_made_is_waited_for() {
    let server = NatsServer::start();
    let network = Proxy::new(server.address());
    let (told, names) = mpsc::channel();
    let mut count = 0;
    network.edit(move |bytes| {
        if let Some(name) = text_behind(bytes, INFO, br#""name":""#) {
            count += 1;
            let _ = told.send(String::from_utf8_lossy(&bytes[name]).into_owned());
            if count <= 3 {
                let created = text_behind(bytes, INFO, br#""created":""#).unwrap();
                let unmade = br#"0001-01-01T00:00:00Z""#;
                let (zero, rest) = bytes[created.start..=created.end].split_at_mut(unmade.len());
                zero.copy_from_slice(unmade);
                rest.fill(b' ');
            }
        }
    });
    drop(connected(&network));
    let names: Vec<String> = names.try_iter().collect();
    let asked = names.iter().filter(|&name| name == &names[0]).count();
    assert_eq!((asked, network.connections()), (4, 1), "{names:?}");
}

/// Text in an answer about a stream.
const INFO: &[u8] = b"stream_info_response";

/// Place of the text that begins behind `begin`, if `bytes` have `word`.
fn text_behind(bytes: &[u8], word: &[u8], begin: &[u8]) -> Option<Range<usize>> {
    let find = |bytes: &[u8], word: &[u8]| bytes.windows(word.len()).position(|it| it == word);
    find(bytes, word)?;
    let start = find(bytes, begin)? + begin.len();
    Some(start..start + find(&bytes[start..], b"\"")?)
}
