//! A publication as it is printed on a terminal, and as `throng tail` prints it: when it came,
//! where, and what.

use serde_json::Value;

/// Without the control characters that a terminal obeys: data are strangers' words. Lines and tabs
/// stay.
pub(super) fn harmless(line: &[u8]) -> Vec<u8> {
    let line = String::from_utf8_lossy(line);
    let plain = line
        .chars()
        .filter(|letter| !letter.is_control() || matches!(letter, '\n' | '\t'));
    plain.collect::<String>().into_bytes()
}

/// The time, the channel and the data of what comes now.
pub(super) fn stamped_now(line: &[u8]) -> Vec<u8> {
    stamped(line, throng_sys::clock::unix_ms())
}

/// The time, the channel and the data, from a line of `/stream`. A line that cannot be read is
/// shown as it came.
fn stamped(line: &[u8], unix_ms: u64) -> Vec<u8> {
    let time = clock(unix_ms);
    let told: Option<Value> = serde_json::from_slice(line).ok();
    let channel = told.as_ref().and_then(|told| told.get("channel")?.as_str());
    let data = told.as_ref().and_then(|told| told.get("data"));
    let (Some(channel), Some(data)) = (channel, data) else {
        return [time.as_bytes(), b"  ", line].concat();
    };
    let data = match data {
        // One line each, whatever is in it.
        Value::String(text) => text.replace(['\n', '\r'], " "),
        other => other.to_string(),
    };
    // Channels and data are strangers' words, and a terminal obeys control characters.
    let shown = format!("{time}  {channel}  {data}");
    let plain = shown.chars().filter(|letter| !letter.is_control());
    plain.collect::<String>().into_bytes()
}

fn clock(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000 % 86_400, unix_ms % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ms:03}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nobody() {
        for (line, expected) in [
            ("plain\n\ttext é", "plain\n\ttext é"),
            ("\u{1b}[2J\u{1b}]0;title\u{7}", "[2J]0;title"),
            ("\u{9b}31m\rover\u{8}\u{7f}", "31mover"),
        ] {
            assert_eq!(harmless(line.as_bytes()), expected.as_bytes());
        }
        assert_eq!(harmless(b"\xff\x1b["), "\u{fffd}[".as_bytes());
    }

    #[test]
    fn each_publication_has_one_line() {
        for (line, expected) in [
            (
                r#"{"channel":"news","data":{"a":1},"offset":4}"#,
                r#"03:25:45.678Z  news  {"a":1}"#,
            ),
            (
                r#"{"channel":"news","data":"two\nlines"}"#,
                "03:25:45.678Z  news  two lines",
            ),
            (
                "{\"channel\":\"news\",\"data\":\"\\u001b[2Jred\"}",
                "03:25:45.678Z  news  [2Jred",
            ),
            ("not JSON", "03:25:45.678Z  not JSON"),
        ] {
            let shown = stamped(line.as_bytes(), 12_345_678 + 86_400_000 * 365);
            assert_eq!(String::from_utf8(shown).unwrap(), expected);
        }
    }
}
