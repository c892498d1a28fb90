//! The example gateway in a real server, over real sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use throng_config::Config;
use throng_engine::MailboxSender;
use throng_gateway_plain::Plain;
use throng_line_gateway::LineGateway;
use throng_server::{
    GatewayList, Handle, Holds, Mail, Options, OwnPort, Plan, Slot, StartError, gateways,
    start_with,
};
use throng_types::ShardId;

gateways! {
    /// Plain clients, and one line more.
    struct Gateways {
        plain: Plain(Plain),
        line: Line(LineGateway),
    }
    sessions Session, orders GatewayOrder, mail GatewayMail
}

struct LinePlan;

impl Plan for LinePlan {
    type List = Gateways;
    type Part = ();

    fn ports(&self) -> Vec<OwnPort> {
        vec![OwnPort {
            gateway: <Gateways as Holds<LineGateway>>::NUMBER,
            port: 0,
            address: "127.0.0.1:0".parse().expect("an address"),
            option: "line.listen",
        }]
    }

    fn start(
        self,
        mailboxes: &[MailboxSender<Mail<<Gateways as GatewayList>::Mail>>],
        _: &[SocketAddr],
    ) -> Result<Vec<()>, StartError> {
        Ok(mailboxes.iter().map(|_| ()).collect())
    }

    fn build((): (), _: ShardId) -> Gateways {
        Gateways {
            plain: Some(Slot::new(Plain::default())),
            line: Some(Slot::new(LineGateway)),
        }
    }
}

fn server(shards: u32) -> Handle {
    let mut config = Config::default();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    config.listen.client = vec![any.into()];
    config.listen.api = any.into();
    config.engine.shards = shards;
    config.channel.anonymous_subscribe = true;
    config.channel.anonymous_publish = true;
    let options = Options {
        config: Arc::new(config),
        version: "test",
        capacity: None,
        memory_bytes: None,
        ask_reload: None,
    };
    start_with(&options, |_, _| Ok(LinePlan)).expect("it starts")
}

struct Client {
    lines: BufReader<TcpStream>,
}

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        // Only a broken server lets a client wait so long.
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).expect("a timeout");
        Self {
            lines: BufReader::new(stream),
        }
    }

    fn say(&mut self, line: &str) {
        let stream = self.lines.get_mut();
        stream.write_all(line.as_bytes()).expect("it takes a line");
        stream.write_all(b"\n").expect("it takes a line");
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("it answers");
        line.trim_end().to_owned()
    }
}

/// Publishes as any backend does, by HTTP.
fn publish(api: SocketAddr, channel: &str, data: &str) -> String {
    let mut stream = TcpStream::connect(api).expect("it listens");
    write!(
        stream,
        "POST /pub?channel={channel} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{data}",
        data.len()
    )
    .expect("it takes a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn lines_meet_the_rest_of_the_server_on_any_number_of_shards() {
    for shards in [1, 3] {
        let server = server(shards);
        let [(option, address)] = server.own_addresses() else {
            panic!("one port of its own");
        };
        assert_eq!(*option, "line.listen");
        let (mut one, mut other) = (Client::connect(*address), Client::connect(*address));
        for client in [&mut one, &mut other] {
            client.say("SUB news");
            assert_eq!(client.hear(), "OK", "{shards} shards");
        }
        assert!(publish(server.api_address(), "news", "by HTTP").starts_with("HTTP/1.1 200"));
        for client in [&mut one, &mut other] {
            assert_eq!(client.hear(), "MSG news by HTTP");
        }
        other.say("UNSUB news");
        assert_eq!(other.hear(), "OK");
        one.say("PUB news by line");
        let mut heard = [one.hear(), one.hear()];
        heard.sort();
        assert_eq!(heard, ["MSG news by line", "OK"]);
        one.say("DANCE news");
        assert!(one.hear().starts_with("ERR "));
        server.stop();
        server.wait().expect("a good end");
    }
}
