//! An example of a gateway: lines over TCP, on a port of its own.
//!
//! | the client says | it is answered |
//! |---|---|
//! | `SUB channel` | `OK`, and from then on `MSG channel data` for each publication |
//! | `UNSUB channel` | `OK` |
//! | `PUB channel data` | `OK` |
//!
//! A line that means nothing, or that the hub refuses, is answered with `ERR` and a reason. Lines
//! end in a line feed, and line feeds in data are left out; a line longer than [`LINE_BYTES_MAX`]
//! is answered with `ERR` and ends the connection. A client that has to leave is told `BYE` and
//! the reason. All clients are anonymous.
//!
//! This crate is all that a protocol needs: the front door, the hub, the engine, the configuration
//! and the metrics know nothing of it. One line in the list of `apps/server/src/gateways.rs` would
//! add it to the server.

use std::convert::Infallible;
use std::net::IpAddr;
use std::rc::Rc;

use throng_hub::{Answer, Command, Draft};
use throng_session::{
    Claim, Class, Context, Event, Flow, Form, FormKind, Gateway, Incoming, Opened, Patch, Reject,
    Shared, Transport, Verdict, may_publish, may_subscribe,
};
use throng_types::{ChannelName, End, Payload, Publication, Save};

/// Bytes of a line, without its end.
pub const LINE_BYTES_MAX: usize = 4096;

/// `MSG channel data`, the same bytes for all subscribers.
const MESSAGE: Form = Form::new(0, FormKind::Shared);

type Cx<'a> = Context<'a>;

/// The gateway: it has no state on a shard.
#[derive(Default)]
pub struct LineGateway;

/// One connection: a line that has not ended yet. It does not move to another process.
#[derive(Default, Save)]
pub struct Line {
    start: Vec<u8>,
}

impl Gateway for LineGateway {
    type Session = Line;
    type Shared = ();
    type Order = Infallible;
    type Mail = Infallible;

    const FORMS: &'static [Form] = &[MESSAGE];

    fn shared(&self) -> Rc<()> {
        Rc::new(())
    }

    fn claim((): &(), _: &Incoming<'_, '_>, _: &Shared) -> Option<Claim> {
        None
    }

    fn open(_: &Claim, _: &Incoming<'_, '_>, _: &mut Cx<'_>) -> Result<Opened<Line>, Reject> {
        Err(Reject::new(404, "lines have a port of their own"))
    }

    fn accept((): &(), _: u8, _: IpAddr) -> Option<Line> {
        Some(Line::default())
    }

    fn event(line: &mut Line, event: Event<'_>, cx: &mut Cx<'_>) -> Flow {
        match event {
            Event::Bytes(input) => line.read(input, cx),
            Event::Answer { answer, .. } => write_answer(&answer, cx.out),
            Event::Close(why) => {
                cx.out.extend_from_slice(b"BYE ");
                cx.out.extend_from_slice(why.reason().as_bytes());
                cx.out.push(b'\n');
                cx.end(End::Flush);
            }
            // A client that has sent nothing yet had its time.
            Event::Timeout => cx.end(End::Flush),
            Event::Drained { .. } | Event::Unsubscribed { .. } => {}
            Event::Surveyed(_) | Event::Reloaded(_) | Event::Control(_) | Event::Publication(_) => {
            }
        }
        Flow::Stay
    }

    fn class(_: &Line) -> Class<'_> {
        Class {
            transport: Transport::Stream,
            is_client: true,
            is_connected: true,
            identity: None,
        }
    }

    fn encode((): &(), _: u8, publication: &Publication, _: Option<Patch<'_>>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"MSG ");
        out.extend_from_slice(publication.channel.as_str().as_bytes());
        out.push(b' ');
        let line = publication.payload.bytes.iter();
        out.extend(line.filter(|byte| **byte != b'\n'));
        out.push(b'\n');
    }
}

impl Line {
    fn read(&mut self, input: &[u8], cx: &mut Cx<'_>) {
        cx.set_deadline(None);
        for piece in input.split_inclusive(|byte| *byte == b'\n') {
            self.start.extend_from_slice(piece);
            if self.start.len() > LINE_BYTES_MAX + 1 {
                cx.out.extend_from_slice(b"ERR the line is too long\n");
                return cx.end(End::Flush);
            }
            if piece.ends_with(b"\n") {
                let line = std::mem::take(&mut self.start);
                let line = String::from_utf8_lossy(&line);
                if let Err(why) = run(line.trim_end(), cx) {
                    cx.out.extend_from_slice(format!("ERR {why}\n").as_bytes());
                }
            }
        }
    }
}

fn run(line: &str, cx: &mut Cx<'_>) -> Result<(), &'static str> {
    let mut words = line.splitn(3, ' ');
    let (verb, name) = (words.next().unwrap_or_default(), words.next());
    let name = name.ok_or("say SUB, UNSUB or PUB, and a channel")?;
    let channel = ChannelName::new(name).map_err(|_| "that is no name of a channel")?;
    match verb {
        "SUB" => {
            permitted(may_subscribe(None, &channel, false, cx.shared))?;
            cx.subscribe(0, channel, MESSAGE, None);
        }
        "UNSUB" => {
            cx.unsubscribe(channel);
            cx.out.extend_from_slice(b"OK\n");
        }
        "PUB" => {
            permitted(may_publish(None, &channel, cx.shared))?;
            let payload = Payload::text(words.next().unwrap_or_default());
            let (reply_to, draft) = (cx.reply_to(0), Draft::new(channel, payload));
            cx.hub(Command::Publish { reply_to, draft });
        }
        _ => return Err("say SUB, UNSUB or PUB, and a channel"),
    }
    Ok(())
}

const fn permitted(verdict: Verdict) -> Result<(), &'static str> {
    match verdict {
        Verdict::Yes => Ok(()),
        Verdict::UnknownChannel => Err("the channel's namespace is not configured"),
        Verdict::Ask(_) | Verdict::No => Err("permission denied"),
    }
}

fn write_answer(answer: &Answer, out: &mut Vec<u8>) {
    let is_good = match answer {
        Answer::Subscribed { result, .. } => result.is_ok(),
        Answer::Unsubscribed { result, .. } => result.is_ok(),
        Answer::Published { result } => result.is_ok(),
        Answer::History { result } => result.is_ok(),
        Answer::Present { result } => result.is_ok(),
        Answer::NotSubscribed { .. } => false,
    };
    out.extend_from_slice(match is_good {
        true => b"OK\n",
        false => b"ERR refused\n",
    });
}

#[cfg(test)]
mod tests {
    use std::mem;
    use std::net::Ipv4Addr;

    use throng_hub::{Batch, Format, Hub, ReplyTo, Sink};
    use throng_session::Port;
    use throng_solo::{Order, Solo};
    use throng_types::{ConnId, Now, ShardId};

    use super::*;

    fn line(index: u32) -> Solo<LineGateway> {
        let port = Port::Own {
            gateway: 0,
            port: 0,
        };
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let shared = Rc::new(throng_solo::shared());
        let id = ConnId::new(ShardId(0), index, 1);
        Solo::new(id, port, peer, shared, Rc::new(()))
    }

    /// Connections of a shard.
    struct Lines([Solo<LineGateway>; 2]);

    impl Sink for Lines {
        fn answer(&mut self, ReplyTo { conn, token }: ReplyTo, answer: Answer) {
            self.0[conn.index() as usize].event(Event::Answer { token, answer });
        }

        fn encode(
            &mut self,
            _: Format,
            publication: &Publication,
            patch: Option<Patch<'_>>,
            out: &mut Vec<u8>,
        ) {
            LineGateway::encode(&(), MESSAGE.number, publication, patch, out);
        }

        fn deliver(&mut self, index: u32, batch: &Batch<'_>) {
            let encoded = batch.encoded.expect("shared bytes");
            let out = &mut self.0[index as usize].out;
            out.extend_from_slice(encoded.frames.bytes());
        }
    }

    impl Lines {
        /// Says a line, has the hub do what it orders, and takes what each connection hears.
        fn say(&mut self, index: usize, said: &str, hub: &mut Hub) -> [String; 2] {
            let now = Now::default();
            self.0[index].feed(format!("{said}\n").as_bytes());
            for order in mem::take(&mut self.0[index].orders) {
                let Order::Hub(command) = order else {
                    panic!("{order:?}");
                };
                hub.handle(command, now, self);
            }
            while hub.fan_out(1, now, self) {}
            let lines = self.0.each_mut();
            lines.map(|line| String::from_utf8(mem::take(&mut line.out)).expect("text"))
        }
    }

    #[test]
    fn lines_meet_the_hub() {
        let mut lines = Lines([line(0), line(1)]);
        let mut hub = throng_solo::hub(ShardId(0), 1, &lines.0[0].shared.namespaces);
        for (index, said, heard) in [
            (0, "SUB news", ["OK\n", ""]),
            (1, "SUB news", ["", "OK\n"]),
            (
                1,
                "PUB news first",
                ["MSG news first\n", "OK\nMSG news first\n"],
            ),
            (1, "UNSUB news", ["", "OK\n"]),
            (0, "PUB news by line", ["OK\nMSG news by line\n", ""]),
        ] {
            assert_eq!(lines.say(index, said, &mut hub), heard, "{said}");
        }
        assert!(lines.say(0, "DANCE news", &mut hub)[0].starts_with("ERR "));
    }

    fn said(pieces: &[&[u8]]) -> (String, usize) {
        let mut line = line(1);
        for piece in pieces {
            line.feed(piece);
        }
        let orders = line.orders.len();
        (String::from_utf8(line.out).expect("text"), orders)
    }

    #[test]
    fn lines_mean_the_same_wherever_they_are_cut() {
        let wire = b"SUB a\nPUB a hello world\nHELLO\nUNSUB a\nSUB \n";
        let whole = said(&[wire]);
        assert_eq!(whole.1, 3, "a subscribe, a publication, an unsubscribe");
        assert_eq!(
            whole
                .0
                .lines()
                .filter(|line| line.starts_with("ERR"))
                .count(),
            2
        );
        for at in 0..=wire.len() {
            let (first, second) = wire.split_at(at);
            assert_eq!(said(&[first, second]), whole, "{at}");
        }
    }

    #[test]
    fn a_line_without_end_ends_the_connection() {
        let (said, orders) = said(&[&[b'x'; LINE_BYTES_MAX + 2]]);
        assert_eq!((said.as_str(), orders), ("ERR the line is too long\n", 0));
    }
}
