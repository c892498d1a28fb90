//! Commands of a client. Each function appends one command; subjects have no blanks and are not
//! empty, which is the caller's duty.

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn line(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
        out.push(b' ');
    }
}

/// `CONNECT` with its options, a JSON object.
pub fn connect(out: &mut Vec<u8>, options: &str) {
    line(out, &["CONNECT"]);
    out.extend_from_slice(options.as_bytes());
    out.extend_from_slice(b"\r\n");
}

pub fn ping(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PING\r\n");
}

pub fn pong(out: &mut Vec<u8>) {
    out.extend_from_slice(b"PONG\r\n");
}

/// `SUB`: what is published on a subject comes with this number.
pub fn subscribe(out: &mut Vec<u8>, subject: &str, sid: u64) {
    line(out, &["SUB", subject]);
    number(out, sid);
    out.extend_from_slice(b"\r\n");
}

pub fn unsubscribe(out: &mut Vec<u8>, sid: u64) {
    line(out, &["UNSUB"]);
    number(out, sid);
    out.extend_from_slice(b"\r\n");
}

/// `PUB`, or `HPUB` where there are headers. An answer goes to `reply`, if there is one. Header
/// values have no line breaks, which is the caller's duty.
pub fn publish(
    out: &mut Vec<u8>,
    subject: &str,
    reply: Option<&str>,
    headers: &[(&str, &str)],
    payload: &[u8],
) {
    line(
        out,
        &[if headers.is_empty() { "PUB" } else { "HPUB" }, subject],
    );
    line(out, reply.as_slice());
    let mut size = 0;
    if !headers.is_empty() {
        let lines = headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + 4);
        size = FIRST.len() + lines.sum::<usize>() + 2;
        number(out, size as u64);
        out.push(b' ');
    }
    number(out, (size + payload.len()) as u64);
    out.extend_from_slice(b"\r\n");
    if !headers.is_empty() {
        out.extend_from_slice(FIRST);
        for (name, value) in headers {
            for part in [name, ": ", value, "\r\n"] {
                out.extend_from_slice(part.as_bytes());
            }
        }
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

const FIRST: &[u8] = b"NATS/1.0\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_as_the_protocol_says() {
        let mut out = Vec::new();
        connect(&mut out, "{}");
        ping(&mut out);
        pong(&mut out);
        subscribe(&mut out, "a.*", 7);
        unsubscribe(&mut out, 7);
        publish(&mut out, "a.b", None, &[], b"hi");
        publish(&mut out, "a.b", Some("r.1"), &[], b"");
        publish(&mut out, "a.b", Some("r.1"), &[("K", "v")], b"hi");
        let expected = "CONNECT {}\r\nPING\r\nPONG\r\nSUB a.* 7\r\nUNSUB 7\r\nPUB a.b 2\r\nhi\r\n\
                        PUB a.b r.1 0\r\n\r\nHPUB a.b r.1 18 20\r\nNATS/1.0\r\nK: v\r\n\r\nhi\r\n";
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
