//! Messages of a client, appended to a buffer.
//!
//! Invariant: texts have no zero byte; one that has is cut there, so that nothing behind it is
//! read as something else.

/// The protocol that is asked for: 3.0.
const VERSION: u32 = 3 << 16;
/// The number in the place of a version that asks for TLS.
const TLS: u32 = 80_877_103;

/// Asks whether the server speaks TLS: it answers with one byte, `S` or `N`.
pub fn ask_tls(out: &mut Vec<u8>) {
    out.extend_from_slice(&8u32.to_be_bytes());
    out.extend_from_slice(&TLS.to_be_bytes());
}

/// Begins a session. `parameters` are pairs of names and values, `user` among them.
pub fn startup(parameters: &[(&str, &str)], out: &mut Vec<u8>) {
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&VERSION.to_be_bytes());
    for (name, value) in parameters {
        text(name, out);
        text(value, out);
    }
    out.push(0);
    close(begin, out);
}

pub fn password(password: &str, out: &mut Vec<u8>) {
    message(b'p', out, |out| text(password, out));
}

/// Chooses a mechanism of SASL, with the client's first message.
pub fn sasl_initial(mechanism: &str, first: &[u8], out: &mut Vec<u8>) {
    message(b'p', out, |out| {
        text(mechanism, out);
        out.extend_from_slice(&(first.len() as u32).to_be_bytes());
        out.extend_from_slice(first);
    });
}

pub fn sasl(data: &[u8], out: &mut Vec<u8>) {
    message(b'p', out, |out| out.extend_from_slice(data));
}

/// Asks one or more statements, with semicolons between them.
pub fn query(sql: &str, out: &mut Vec<u8>) {
    message(b'Q', out, |out| text(sql, out));
}

/// Ends the session in the regular way.
pub fn terminate(out: &mut Vec<u8>) {
    message(b'X', out, |_| {});
}

fn message(kind: u8, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(kind);
    let begin = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    close(begin, out);
}

/// Writes the length, which counts itself, into the four bytes that were left for it.
fn close(begin: usize, out: &mut [u8]) {
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend(text.bytes().take_while(|byte| *byte != 0));
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_carry_their_lengths() {
        let mut out = Vec::new();
        query("SELECT 1", &mut out);
        assert_eq!(out, b"Q\x00\x00\x00\x0dSELECT 1\0");
        out.clear();
        startup(&[("user", "a\0b")], &mut out);
        assert_eq!(out, b"\x00\x00\x00\x10\x00\x03\x00\x00user\0a\0\0");
        out.clear();
        sasl_initial("S", b"n,,", &mut out);
        assert_eq!(out, b"p\x00\x00\x00\x0dS\0\x00\x00\x00\x03n,,");
        out.clear();
        terminate(&mut out);
        assert_eq!(out, b"X\x00\x00\x00\x04");
    }
}
