//! Crowds of clients that read nothing: they cost no more than all queues may hold, and hinder no
//! other client.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use throng_testkit::{Installed, Server, Setup, until};

/// A client that asks and never reads the answer.
fn deaf(server: &Server, target: &str) -> TcpStream {
    let mut socket = TcpStream::connect(server.clients()).expect("somebody listens");
    let request = format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    socket.write_all(request.as_bytes()).expect("it reads");
    socket
}

#[test]
fn clients_that_read_nothing_have_one_bound() {
    const ANSWERS: usize = 60;
    let binary = Installed::default();
    let config = "[limits]\nqueued_bytes_max = \"32MiB\"\nhistory_reply_bytes_max = \"8MiB\"\n\
                  [channel]\nhistory_size = 1000\nhistory_ttl = \"5m\"\nrecovery = true\n\
                  [stream]\nkeepalive_interval = \"0s\"\n";
    let setup = Setup::new(config).shards(1).binary(&binary.path());
    let server = setup.start();
    let mut reader = server.stream("/stream?channel=live");
    reader.chunk();
    let told = server.stream("/sse?channel=news").through("\n\n");
    let id = told.split("id: ").nth(1).and_then(|id| id.lines().next());
    let missed = format!("/sse?channel=news&last_event_id={}", id.expect("a place"));
    for _ in 0..100 {
        server.publish("news", &"x".repeat(60_000));
    }
    let before = server.metric("throng_process_resident_bytes");

    // Each is due six megabytes.
    let crowd: Vec<_> = (0..ANSWERS).map(|_| deaf(&server, &missed)).collect();
    let crowded_out = || server.metric("throng_crowded_out_total");
    until("most of them are gone", || {
        crowded_out() as usize >= ANSWERS / 2
    });
    let grown = server
        .metric("throng_process_resident_bytes")
        .saturating_sub(before);
    assert!(grown < 100 << 20, "{grown} bytes");
    // The last of them may go between two looks.
    let slow = "throng_connections_closed_total{reason=\"slow\"}";
    until("each of them was slow", || {
        crowded_out() == server.metric(slow)
    });
    // One that reads gets all of it, and one that has read so far loses nothing.
    let mut late = server.stream(&missed);
    for _ in 0..100 {
        late.through("xxx\n\n");
    }
    server.publish("live", "1");
    assert!(reader.chunk().contains("\"data\":1"));
    server.upgrade_well();
    server.publish("live", "2");
    assert!(reader.chunk().contains("\"data\":2"));
    until("a warning", || server.logged("limits.queued_bytes_max") > 0);
    drop(crowd);
    server.stop();
}

/// Requests by the ten thousand, whose answers are not read, take seconds in all. The API is
/// answered meanwhile, and the shards come to rest.
#[test]
fn a_flood_does_not_keep_the_server_from_an_upgrade() {
    let binary = Installed::default();
    let config = "[stream]\nkeepalive_interval = \"0s\"\n";
    let server = Setup::new(config).shards(1).binary(&binary.path()).start();
    let mut reader = server.stream("/stream?channel=live");
    reader.chunk();
    let request = "GET /nowhere/of/any/use/to/anybody HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n";
    let flood = request.repeat(2_000);
    let is_over = AtomicBool::new(false);
    let clients: Vec<_> = (0..200).map(|_| deaf(&server, "/nowhere")).collect();
    for client in &clients {
        client.set_nonblocking(true).expect("a socket");
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut left: Vec<_> = clients
                .iter()
                .map(|client| (client, flood.as_bytes()))
                .collect();
            while !is_over.load(Ordering::Relaxed) && !left.is_empty() {
                left.retain_mut(|(client, rest)| match client.write(rest) {
                    Ok(sent) => {
                        *rest = &rest[sent..];
                        !rest.is_empty()
                    }
                    Err(error) => error.kind() == ErrorKind::WouldBlock,
                });
                thread::yield_now();
            }
        });
        for n in 0..3 {
            server.publish("live", &n.to_string());
            assert!(reader.chunk().contains(&format!("\"data\":{n}")));
        }
        server.upgrade_well();
        is_over.store(true, Ordering::Relaxed);
    });
    server.publish("live", "3");
    assert!(reader.chunk().contains("\"data\":3"));
    server.stop();
}
