//! Messages: TCPKali's expressions and escapes.

use crate::template::escape;

/// A message with TCPKali's expressions and, after `-e`, its escapes, as a template of ours.
pub(super) fn message(text: &str, unescape: bool) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        literal.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if let Some(body) = after.strip_prefix('{') {
            let close = body
                .find('}')
                .ok_or_else(|| format!("`\\{{{body}` is never closed"))?;
            out.push_str(&escape(&std::mem::take(&mut literal)));
            out.push_str(&expression(&body[..close])?);
            rest = &body[close + 1..];
        } else if unescape {
            let taken = unescaped(after, &mut literal)?;
            rest = &after[taken..];
        } else {
            literal.push('\\');
            rest = after;
        }
    }
    literal.push_str(rest);
    // A brace that ends one literal cannot become a hole together with what follows: holes are
    // closed by then.
    out.push_str(&escape(&literal));
    Ok(out)
}

/// `connection.uid`, `connection.uid%1000`, `message.marker`.
fn expression(body: &str) -> Result<String, String> {
    let body = body.trim();
    if body == "message.marker" {
        return Ok("{payload}".into());
    }
    if let Some(argument) = body.strip_prefix("connection.uid") {
        let argument = argument.trim();
        let modulo = argument.strip_prefix('%').map(str::trim);
        if argument.is_empty() {
            return Ok("{n}".into());
        }
        if let Some(by) = modulo
            && by.parse::<u64>().is_ok_and(|by| by > 0)
        {
            return Ok(format!("{{n%{by}}}"));
        }
    }
    Err(format!(
        "the expression `\\{{{body}}}` of tcpkali is not supported; supported are connection.uid, \
         connection.uid%N and message.marker"
    ))
}

/// Takes one escape after its backslash; how many bytes of it were read.
fn unescaped(after: &str, out: &mut String) -> Result<usize, String> {
    let Some(letter) = after.chars().next() else {
        return Err("a backslash at the end".into());
    };
    let plain = match letter {
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'f' => '\u{c}',
        'b' => '\u{8}',
        'a' => '\u{7}',
        '\\' | '"' | '\'' => letter,
        'x' => {
            let digits: String = after
                .chars()
                .skip(1)
                .take(2)
                .take_while(char::is_ascii_hexdigit)
                .collect();
            let code =
                u8::from_str_radix(&digits, 16).map_err(|_| "`\\x` without digits".to_owned())?;
            return push_ascii(code, 1 + digits.len(), out);
        }
        '0'..='7' => {
            let digits: String = after
                .chars()
                .take(3)
                .take_while(|c| ('0'..='7').contains(c))
                .collect();
            let code = u8::from_str_radix(&digits, 8)
                .map_err(|_| format!("`\\{digits}` is not a byte"))?;
            return push_ascii(code, digits.len(), out);
        }
        other => return Err(format!("the escape `\\{other}` is not supported")),
    };
    out.push(plain);
    Ok(letter.len_utf8())
}

fn push_ascii(code: u8, taken: usize, out: &mut String) -> Result<usize, String> {
    if !code.is_ascii() {
        return Err(format!(
            "the byte `\\x{code:02x}` is not supported: messages are UTF-8"
        ));
    }
    out.push(char::from(code));
    Ok(taken)
}
