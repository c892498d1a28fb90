//! Commands on their way to Redis (RESP, "Sending commands").

/// Appends a command as an array of texts.
pub fn command(out: &mut Vec<u8>, parts: &[&[u8]]) {
    length(out, b'*', parts.len());
    for part in parts {
        length(out, b'$', part.len());
        out.extend_from_slice(part);
        out.extend_from_slice(b"\r\n");
    }
}

fn length(out: &mut Vec<u8>, kind: u8, length: usize) {
    out.push(kind);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        command(&mut out, &[b"SET", b"k", b"a\r\n"]);
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\na\r\n\r\n");
    }
}
