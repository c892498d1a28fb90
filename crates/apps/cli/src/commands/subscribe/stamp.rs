//! A publication as `throng tail` prints it: when it came, where, and what.

use serde_json::Value;

/// The same for what comes now.
pub(super) fn stamped_now(line: &[u8]) -> Vec<u8> {
    stamped(line, throng_sys::clock::unix_ms())
}

/// The time, the channel and the data, from a line of `/stream`. What cannot be read is shown as it
/// came.
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

/// The time of day in UTC.
fn clock(unix_ms: u64) -> String {
    let (seconds, ms) = (unix_ms / 1000 % 86_400, unix_ms % 1000);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{ms:03}Z", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

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
