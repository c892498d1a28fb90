//! Bytes as lines that people can read, and back.
//!
//! A line stands for its text and CR LF. A line that ends in `\` has no CR LF behind it. `\n`,
//! `\r`, `\t`, `\\` and `\xHH` are bytes; `\{1000*a}` is a thousand times `a`.

use std::fmt::Write as _;

/// A run of equal bytes that is worth a short form.
const RUN_BYTES: usize = 100;

/// Bytes as lines. No bytes are no lines.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    let mut out = Vec::new();
    let mut line = String::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let run = rest.iter().take_while(|other| **other == byte).count();
        if rest.starts_with(b"\r\n") {
            // Editors strip what stands at the end of a line.
            if line.ends_with(' ') {
                line.truncate(line.len() - 1);
                line.push_str("\\x20");
            }
            out.push(std::mem::take(&mut line));
            at += 2;
            continue;
        }
        let mut one = String::new();
        match byte {
            b'\n' => one.push_str("\\n"),
            b'\r' => one.push_str("\\r"),
            b'\t' => one.push_str("\\t"),
            b'\\' => one.push_str("\\\\"),
            b' '..=b'~' => one.push(char::from(byte)),
            _ => one = format!("\\x{byte:02x}"),
        }
        if run >= RUN_BYTES {
            write!(line, "\\{{{run}*{one}}}").expect("text");
            at += run;
        } else {
            line.push_str(&one);
            at += 1;
        }
    }
    if !line.is_empty() {
        line.push('\\');
        out.push(line);
    }
    out
}

/// The bytes that lines stand for.
///
/// # Panics
/// If they are not written as [`lines`] would.
pub(crate) fn bytes(lines: &[String]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        let slashes = line.len() - line.trim_end_matches('\\').len();
        let is_open = slashes % 2 == 1;
        let text = if is_open {
            &line[..line.len() - 1]
        } else {
            line
        };
        unescape(text, &mut out);
        if !is_open {
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}

/// Appends what a text with escapes stands for.
pub(crate) fn unescape(text: &str, out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        let escape = &rest[at + 1..];
        let used = match escape.bytes().next() {
            Some(b'n') => push(out, b'\n'),
            Some(b'r') => push(out, b'\r'),
            Some(b't') => push(out, b'\t'),
            Some(b'\\') => push(out, b'\\'),
            Some(b'x') => {
                let byte = escape
                    .get(1..3)
                    .and_then(|hex| u8::from_str_radix(hex, 16).ok());
                out.push(byte.unwrap_or_else(|| panic!("no byte: {text}")));
                3
            }
            Some(b'{') => {
                let end = escape.find('}').unwrap_or_else(|| panic!("no end: {text}"));
                let (count, what) = escape[1..end].split_once('*').expect("COUNT*BYTES");
                let mut one = Vec::new();
                unescape(what, &mut one);
                out.extend(one.repeat(count.parse().expect("a count")));
                end + 1
            }
            _ => panic!("an escape that means nothing: {text}"),
        };
        rest = &escape[used..];
    }
    out.extend_from_slice(rest.as_bytes());
}

fn push(out: &mut Vec<u8>, byte: u8) -> usize {
    out.push(byte);
    1
}

#[test]
fn there_and_back() {
    let long = vec![b'z'; 1234];
    for wire in [
        &b""[..],
        b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"a\nb\r\nc\\",
        b"\\\r\n\xff\0\t\r",
        b"Field: \r\n x",
        &long,
    ] {
        assert_eq!(bytes(&lines(wire)), wire, "{:?}", lines(wire));
    }
}
