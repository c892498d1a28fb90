//! Ten thousand members of one channel who come and go, on nodes of which one is killed.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use serde_json::json;
use throng_testkit::{Server, Signal, until};

use crate::broker::{Broker, Kind};
use crate::nodes::node;

const MEMBERS: usize = 10_000;
const CHANNEL: &str = "crowd:a";

/// A client of Centrifugo's protocol that subscribes, and answers pings.
struct Member {
    stream: TcpStream,
    at: usize,
}

/// A text in a frame of a client (RFC 6455 section 5.2), with a mask that changes nothing.
fn frame(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).expect("a short text");
    assert!(length < 126, "{text}");
    let mut frame = vec![0x81, 0x80 | length, 0, 0, 0, 0];
    frame.extend_from_slice(text.as_bytes());
    frame
}

impl Member {
    #[track_caller]
    fn come(nodes: &[SocketAddr], at: usize) -> Self {
        let mut stream = TcpStream::connect(nodes[at]).expect("a node");
        let request = "GET /connection/websocket HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\
                       Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("an answer");
            head.extend_from_slice(&byte);
        }
        let subscribe = json!({ "id": 2, "subscribe": { "channel": CHANNEL } });
        let both = format!("{}\n{subscribe}", json!({ "id": 1, "connect": {} }));
        stream.write_all(&frame(&both)).expect("it reads");
        stream.set_nonblocking(true).expect("an option");
        Self { stream, at }
    }

    /// Reads what is there, and answers a ping, which is an empty command.
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        match self.stream.read(&mut bytes) {
            Ok(count) if bytes[..count].windows(4).any(|it| it == b"\x81\x02{}") => {
                let _ = self.stream.write_all(&frame("{}"));
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => {}
            _ => {}
        }
    }
}

/// Waits until every one of these nodes counts so many members.
#[track_caller]
fn counted(nodes: &[&Server], members: &mut [Member], count: usize) {
    let users = usize::from(count > 0);
    let wanted = json!({ "num_clients": count, "num_users": users });
    for node in nodes {
        until(&format!("{count} members"), || {
            members.iter_mut().for_each(Member::read);
            let stats = node.call("presence_stats", &json!({ "channel": CHANNEL }));
            (stats["result"] == wanted).then_some(())
        });
    }
}

/// All nodes count the same, also after one of them died with a third of the members.
pub(crate) fn ten_thousand_members_come_and_go_and_a_node_is_killed(kind: Kind) {
    let broker = Broker::start(kind);
    let nodes: [Server; 3] = [(); 3].map(|()| node(kind, broker.address()));
    let addresses = nodes.each_ref().map(Server::clients);
    let come = |n: usize| Member::come(&addresses, n % 3);
    let mut members: Vec<Member> = (0..MEMBERS).map(come).collect();
    counted(&nodes.each_ref(), &mut members, MEMBERS);
    // A tenth goes, and comes again on the next node.
    for member in members.iter_mut().step_by(10) {
        *member = come(member.at + 1);
    }
    counted(&nodes.each_ref(), &mut members, MEMBERS);
    let [dies, second, third] = nodes;
    dies.signal(Signal::KILL);
    members.retain(|member| member.at != 0);
    let left = members.len();
    counted(&[&second, &third], &mut members, left);
    // Nobody of those who live was taken for dead.
    counted(&[&second, &third], &mut members, left);
    drop(members);
    counted(&[&second, &third], &mut [], 0);
}
