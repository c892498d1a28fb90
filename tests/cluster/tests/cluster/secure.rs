//! Brokers that authenticate their clients, and speak TLS.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use throng_testkit::{Authority, NatsServer, PemFiles, RedisServer, Server, until};

use crate::nodes::{Publisher, node_of, subscriber, up};

/// Permissions that a user of Redis needs, as in docs/CLUSTER.md.
const ACL: &str = "+@all -@admin -@dangerous +info ~throng:* &throng:*";
/// The pair of keys that the documentation of NATS shows.
const SEED: &str = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY";
const PUBLIC: &str = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4";

static CHANNELS: AtomicU32 = AtomicU32::new(0);

/// Certificates in files: of the authority that is believed, of another one, and a server's.
struct Certificates {
    _files: PemFiles,
    believed: String,
    other: String,
    server: [String; 2],
}

fn certificates() -> Certificates {
    let files = PemFiles::new();
    let authority = Authority::new("believed");
    Certificates {
        believed: files.write("ca.pem", authority.pem()),
        other: files.write("other.pem", Authority::new("other").pem()),
        server: files.write_issued("server", &authority.issue(&["127.0.0.1"])),
        _files: files,
    }
}

/// Two nodes with these options of the broker serve the same channels.
#[track_caller]
fn serves(broker: &str) {
    let nodes = [(); 2].map(|()| node_of(broker));
    nodes.iter().for_each(|node| up(node, true));
    // Each with keys of its own, since servers remember them.
    let channel = format!("kept:{}", CHANNELS.fetch_add(1, Ordering::Relaxed));
    let client = subscriber(nodes[0].clients(), &channel);
    let mut publisher = Publisher::new(&channel);
    publisher.publish(&nodes.each_ref(), 20);
    publisher.heard_by(&client, 0);
}

/// A node with these options of the broker logs why it has none, and never a password.
#[track_caller]
fn refused(broker: &str, why: &str) {
    let node = node_of(broker);
    let said = |node: &Server| {
        let log = node.log();
        let mut lines = log.iter().map(ToString::to_string);
        lines.find(|line| line.contains("no connection to the broker"))
    };
    let line = until("a word in the log", || said(&node));
    assert!(line.contains(why), "{line}");
    assert!(!line.contains("s3cret"), "{line}");
    up(&node, false);
}

#[test]
fn redis_with_tls_and_a_user() {
    let certificates = certificates();
    let user = format!("throng on >s3cret {ACL}");
    let mut arguments = vec!["--save", "", "--user"];
    arguments.extend(user.split(' '));
    let redis = RedisServer::with_tls(&certificates.server, &arguments);
    let broker = |who: &str, authorities: &str| {
        let address = redis.address();
        let url = format!("url = \"rediss://{who}@{address}/0\"");
        format!("kind = \"redis\"\n{url}\nauthorities = \"{authorities}\"")
    };
    serves(&broker("throng:s3cret", &certificates.believed));
    refused(
        &broker("throng:s3cret2", &certificates.believed),
        "WRONGPASS",
    );
    refused(
        &broker("throng:s3cret", &certificates.other),
        "not trusted here",
    );
}

#[test]
fn nats_with_tls_and_users_by_password_token_and_key() {
    let certificates = certificates();
    let [certificate, key] = &certificates.server;
    let tls = ["--tls", "--tlscert", certificate, "--tlskey", key];
    let url = |scheme: &str, who: &str, address: SocketAddr| {
        format!("kind = \"nats\"\nurl = \"{scheme}://{who}{address}\"\n")
    };
    let believed = format!("authorities = \"{}\"\n", certificates.believed);

    let user = ["--user", "throng", "--pass", "s3cret"];
    let nats = NatsServer::with(&[&tls[..], &user].concat());
    for scheme in ["nats", "tls"] {
        serves(&(url(scheme, "throng:s3cret@", nats.address()) + &believed));
    }
    let other = format!("authorities = \"{}\"\n", certificates.other);
    let to_other = url("tls", "throng:s3cret@", nats.address()) + &other;
    refused(&to_other, "not trusted here");
    let wrong = url("tls", "throng:s3cret2@", nats.address()) + &believed;
    refused(&wrong, "Authorization Violation");

    let nats = NatsServer::with(&["--auth", "s3cret"]);
    serves(&url("nats", "s3cret@", nats.address()));
    // A node that requires TLS sends nothing without it.
    refused(&url("tls", "s3cret@", nats.address()), "TLS");

    let files = PemFiles::new();
    let users = format!("authorization {{ users: [ {{ nkey: {PUBLIC} }} ] }}");
    let config = files.write("nats.conf", &users);
    let seed = files.write("seed", SEED);
    let nats = NatsServer::with(&["--config", &config]);
    serves(&format!(
        "{}credentials = \"{seed}\"\n",
        url("nats", "", nats.address())
    ));
}
