//! Bytes as lines that people can read, and back.
//!
//! A line stands for its text and CR LF. A line that ends in `\` has no CR LF behind it. `\n`,
//! `\r`, `\t`, `\\` and `\xHH` are bytes; `\{1000*a}` is a thousand times `a`.

use std::fmt::Write as _;

use throng_testkit::unescaped;

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
        out.extend(unescaped(text));
        if !is_open {
            out.extend_from_slice(b"\r\n");
        }
    }
    out
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
