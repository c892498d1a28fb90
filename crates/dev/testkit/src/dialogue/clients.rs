//! Steps of dialogues in which connections, SDKs, networks and backends have their turn.

use serde_json::{Value, json};
use throng_dialogue::{Outcome, arrow, numbers, same, word};

use super::values::{self, fields, lines, text};
use super::{Story, Thing};
use crate::{HANDSHAKE, Sdk, Wire, frame, unescaped, until};

/// Opcode of a frame by its kind (RFC 6455 section 5.2).
fn opcode(kind: &str) -> u8 {
    match kind {
        "text" => 1,
        "binary" => 2,
        "close" => 8,
        "ping" => 9,
        "pong" => 10,
        other => panic!("no kind of frame: {other}"),
    }
}

impl Story {
    /// A step of a node, a wire, a client, a network or a backend, by its name.
    pub(super) fn thing_step(&mut self, name: &str, step: &str, block: &str) -> Outcome {
        let thing = self.things.remove(name);
        let mut thing = match thing.ok_or("no step and nothing of that name")? {
            Thing::Node(node) => return self.node_step(name, node, step, block),
            thing => thing,
        };
        let (verb, rest) = word(step);
        let outcome = match &mut thing {
            Thing::Node(_) => unreachable!("it has had its turn"),
            Thing::Numbers(numbers) => self.numbers_step(numbers, verb, rest),
            Thing::Peer(peer) => self.peer_step(peer, verb, rest),
            Thing::Wire(wire) => self.wire_step(wire, verb, rest),
            Thing::Client(client) => self.client_step(client, verb, rest),
            Thing::Browser(browser) => self.browser_step(browser, verb, rest, block),
            Thing::Issuer(issuer) => self.issuer_step(issuer, verb, rest),
            Thing::Process(process) => self.process_step(process, verb, rest),
            Thing::Proxy(proxy) => {
                match verb {
                    "cut" => proxy.cut(),
                    "mend" => proxy.mend(),
                    "slow" => proxy.slow(true),
                    "fast" => proxy.slow(false),
                    "lead-here" => proxy.lead_to(self.server().clients()),
                    "lead-to" => proxy.lead_to(self.port(rest)),
                    // The next write of a client with this text is lost, or held back with all
                    // behind it.
                    "lose" => proxy.lose(rest, 1),
                    "hold" => proxy.hold(rest),
                    "has-lost" => until("a write that is lost", || proxy.to_lose() == 0),
                    "holds" => until("a write that is held", || proxy.is_holding()),
                    "release" => proxy.release(),
                    // So many connections from now on, whether they come to anything or not.
                    "taken" => {
                        let all = proxy.connections() + rest.parse::<usize>().expect("a count");
                        until("connections", || proxy.connections() >= all);
                    }
                    other => panic!("no step of a network: {other}"),
                }
                Ok(())
            }
            Thing::Backend(backend) => match verb {
                "asked" => {
                    let (count, rest) = word(rest);
                    let (path, pattern) = word(rest);
                    let path = if path.is_empty() { "*" } else { path };
                    let count = count.parse().expect("a count");
                    same(&backend.count(path, &fields(pattern)), &count)
                }
                "release" => {
                    backend.release();
                    Ok(())
                }
                other => panic!("no step of a backend: {other}"),
            },
        };
        self.things.insert(name.to_owned(), thing);
        outcome
    }

    fn wire_step(&mut self, wire: &mut Wire, verb: &str, rest: &str) -> Outcome {
        let has = |told: &str| match told.contains(rest) {
            true => Ok(()),
            false => Err(format!("it said {told:?}")),
        };
        match verb {
            "send" => wire.send_bytes(&unescaped(rest)),
            "get" | "upgrade" => {
                let (target, more) = rest.split_once(" | ").unwrap_or((rest, ""));
                let handshake = if verb == "get" { "" } else { HANDSHAKE };
                wire.ask(target, &(lines(more) + handshake));
            }
            "post" => {
                let (head, body) = rest.split_once(" || ").unwrap_or((rest, ""));
                let (target, more) = head.split_once(" | ").unwrap_or((head, ""));
                let (more, length) = (lines(more), body.len());
                wire.send(&format!(
                    "POST {target} HTTP/1.1\r\nHost: localhost\r\n{more}Content-Length: \
                     {length}\r\n\r\n{body}"
                ));
            }
            "say" => wire.say(rest),
            "frame" => {
                let (kind, data) = word(rest);
                wire.send_bytes(&frame(opcode(kind), unescaped(data)));
            }
            "message" => {
                let (kind, data) = word(rest);
                return same(&wire.message(), &(opcode(kind), unescaped(data)));
            }
            "through" => _ = wire.through(&text(rest)),
            // What stands between two marks becomes a variable.
            "gives" => {
                let (name, marks) = word(rest);
                let (mark, end) = marks.split_once(" | ").expect("two marks");
                wire.through(&text(mark));
                let value = wire.through(&text(end));
                self.set(
                    name,
                    value[..value.len() - text(end).len()].trim().to_owned(),
                );
            }
            "chunk" => return has(&wire.chunk()),
            "rest" => return has(&wire.rest()),
            "closed" => wire.until_closed(),
            "head" => {
                let head = wire.head();
                return self.answered(head, wire, rest);
            }
            "answers" => {
                let (method, wanted) = word(rest);
                let answer = wire.response(method);
                return self.answered(answer, wire, wanted);
            }
            // A byte more and more until the end, where a part of the answer must be.
            "drip" => {
                let (byte, part) = word(rest);
                let told = until("the end of a drip", || {
                    wire.send(byte);
                    wire.has_ended().then(|| wire.rest())
                });
                return match told.contains(part) {
                    true => Ok(()),
                    false => Err(format!("it said {told:?}")),
                };
            }
            "bytes" => {
                let wanted = unescaped(rest);
                return same(&wire.exactly(wanted.len()), &wanted);
            }
            // The frame that closes, at the end.
            "closes" => {
                let rest_bytes = wire.rest_bytes();
                let at = rest_bytes.windows(2).rposition(|pair| pair[0] == 0x88);
                let code = at.and_then(|at| rest_bytes.get(at + 2..at + 4));
                let code = code.map(|code| u16::from_be_bytes([code[0], code[1]]));
                return same(&code, &rest.parse().ok());
            }
            "ended" => return same(&wire.rest(), &String::new()),
            // The reply to a command of Centrifugo's protocol, up to where two objects end.
            "reply" => {
                let (id, part) = word(rest);
                wire.through(&format!("\"id\":{id}"));
                let told = wire.through("}}");
                return match told.contains(part) {
                    true => Ok(()),
                    false => Err(format!("it said {told:?}")),
                };
            }
            other => panic!("no step of a wire: {other}"),
        }
        Ok(())
    }

    fn client_step(&mut self, client: &mut Sdk, verb: &str, rest: &str) -> Outcome {
        let (order, wanted) = arrow(rest);
        let (first, second) = word(order);
        let told = match verb {
            "say" => {
                client.say(rest);
                return Ok(());
            }
            "order" => {
                let order = self.order(first, second);
                client.order(first, &order);
                return Ok(());
            }
            "connect" => client.connect(&self.order("connect", order)),
            "subscribe" => client.subscribe(first),
            "unsubscribe" => {
                client.unsubscribe(first);
                return Ok(());
            }
            "cannot-subscribe" => {
                client.cannot_subscribe(first, second.parse().expect("a code"));
                return Ok(());
            }
            "recovers" => client.recovers(first),
            "event" => {
                let at = order.find(" {").unwrap_or(order.len());
                client.event(&order[..at], &fields(order[at..].trim()))
            }
            "result" => client.result(first, &fields(second)),
            "fails" => {
                let code = client.failure(first, &fields(second));
                return same(&code.to_string(), &wanted.to_owned());
            }
            "hears" => {
                let wanted = values::series(second);
                return same(&client.publications(first, wanted.len()), &wanted);
            }
            // Publications of numbers, in order, each once; so many may be missing or come twice.
            "counts" => {
                let numbers = numbers(first).expect("`FIRST..LAST`");
                let mut slack: u64 = second.parse().unwrap_or_default();
                let (mut next, last) = (*numbers.start(), *numbers.end());
                while next <= last {
                    let heard = client.event("publication", &json!({}))["data"].clone();
                    let number = heard.as_u64().unwrap_or_default();
                    let off = if number < next { 1 } else { number - next };
                    if off > slack {
                        return same(&heard, &json!(next));
                    }
                    slack -= off;
                    next = next.max(number + 1);
                }
                return Ok(());
            }
            "left" => return same(&client.left(first).to_string(), &second.to_owned()),
            "forget" => {
                client.forget(first);
                return Ok(());
            }
            other => panic!("no step of a client: {other}"),
        };
        self.fit(&told, &fields(wanted))
    }

    /// Fields of an order; to connect, with the URL of the server or of the address in `to`.
    fn order(&self, name: &str, text: &str) -> Value {
        let mut order = fields(text);
        if name == "connect" && order["url"].is_null() {
            let to = order.as_object_mut().and_then(|all| all.remove("to"));
            let to = to.as_ref().and_then(Value::as_str).map(str::to_owned);
            let to = to.unwrap_or_else(|| self.port("clients").to_string());
            order["url"] = json!(format!("ws://{to}/connection/websocket"));
        }
        order
    }
}
