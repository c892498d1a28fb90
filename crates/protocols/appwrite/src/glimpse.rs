//! What can be told of a message that is no event, for the log: where it came from, perhaps.

/// How far into a message is looked.
const LOOK_BYTES: usize = 16 << 10;
/// As much of a name as is shown.
const SHOWN_BYTES: usize = 64;

/// The project and the first channel that a message seems to name; `?` where it names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glimpse<'m> {
    /// What stands behind `"project":`.
    pub project: &'m str,
    /// What stands first behind `"channels":`.
    pub channel: &'m str,
}

/// Looks at the beginning of a message, which need not be JSON.
#[must_use]
pub fn glimpse(message: &[u8]) -> Glimpse<'_> {
    let message = &message[..message.len().min(LOOK_BYTES)];
    Glimpse {
        project: behind(message, br#""project":""#),
        channel: behind(message, br#""channels":[""#),
    }
}

fn behind<'m>(message: &'m [u8], what: &[u8]) -> &'m str {
    let at = message
        .windows(what.len())
        .position(|window| window == what);
    let rest = at.map_or(&[][..], |at| &message[at + what.len()..]);
    let is_name = |byte: &u8| byte.is_ascii_graphic() && *byte != b'"';
    let len = rest
        .iter()
        .take(SHOWN_BYTES)
        .take_while(|byte| is_name(byte))
        .count();
    match std::str::from_utf8(&rest[..len]) {
        Ok(name) if !name.is_empty() => name,
        _ => "?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_told() {
        let told = |message: &str| {
            let Glimpse { project, channel } = glimpse(message.as_bytes());
            format!("{project} {channel}")
        };
        let cut = r#"{"project":"bench","roles":["any"],"data":{"channels":["files","x"],"payl"#;
        assert_eq!(told(cut), "bench files");
        assert_eq!(told(r#"{"project":"a\nb\u0007"}"#), r"a\nb\u0007 ?");
        assert_eq!(told("{\"project\":\"a\u{7}b\"}"), "a ?");
        assert_eq!(told(""), "? ?");
        let long = format!(r#"{{"project":"{}"}}"#, "x".repeat(100));
        assert_eq!(told(&long), format!("{} ?", "x".repeat(SHOWN_BYTES)));
    }
}
