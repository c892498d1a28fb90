//! Events, written into the caller's buffer.

use memchr::memchr2;
use throng_types::{coded_enum, error_text};

/// The empty line that dispatches an event, behind [`encode_data`].
pub const EVENT_END: &[u8] = b"\n";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// Id that the client sends back as `Last-Event-ID` when it reconnects. An empty one makes it
    /// forget the one before.
    pub id: Option<&'a str>,
    /// The name under which the client dispatches it; `message` without one.
    pub event: Option<&'a str>,
    /// UTF-8 text. CR LF, CR and LF all separate lines, and arrive as LF.
    pub data: &'a [u8],
    /// Pause of the client before it reconnects, in milliseconds.
    pub retry_ms: Option<u64>,
}

coded_enum! {
    /// Reason for which an event cannot be written. The caller is at fault, nobody on the network.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FieldError {
        fn reason;
        /// The id has a CR, LF or NUL; clients ignore ids with NUL.
        Id = "an event id has a line end or NUL";
        EventName = "an event name has a line end";
    }
}

error_text!(FieldError.reason);

/// A whole event, with the empty line that dispatches it.
///
/// # Errors
/// [`FieldError`] if the id or the name cannot be written as it is. An altered id would
/// resume somewhere else, so nothing is altered, and nothing was written.
pub fn encode_event(event: &SseEvent<'_>, out: &mut Vec<u8>) -> Result<(), FieldError> {
    let name = event.event.unwrap_or_default();
    if memchr2(b'\r', b'\n', name.as_bytes()).is_some() {
        return Err(FieldError::EventName);
    }
    if let Some(id) = event.id {
        encode_id(id, out)?;
    }
    if !name.is_empty() {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    if let Some(retry_ms) = event.retry_ms {
        out.extend_from_slice(b"retry: ");
        out.extend_from_slice(itoa::Buffer::new().format(retry_ms).as_bytes());
        out.push(b'\n');
    }
    encode_data(event.data, out);
    out.extend_from_slice(EVENT_END);
    Ok(())
}

/// The `id:` line alone.
///
/// # Errors
/// [`FieldError::Id`] if the id cannot be written as it is; nothing was written.
pub fn encode_id(id: &str, out: &mut Vec<u8>) -> Result<(), FieldError> {
    if id.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        return Err(FieldError::Id);
    }
    out.extend_from_slice(b"id: ");
    out.extend_from_slice(id.as_bytes());
    out.push(b'\n');
    Ok(())
}

/// The `data:` lines alone, at least one: the half of an event that its subscribers share.
/// Put it and [`EVENT_END`] behind each one's own `id:` line.
pub fn encode_data(data: &[u8], out: &mut Vec<u8>) {
    encode_lines(b"data: ", data, out);
}

/// A comment, one line for each of the text's. Clients ignore it, and it keeps the connection
/// from looking idle to whatever stands between. It does not end an event.
pub fn encode_comment(text: &str, out: &mut Vec<u8>) {
    // Without the space, which costs a byte in every keep-alive.
    encode_lines(b":", text.as_bytes(), out);
}

fn encode_lines(prefix: &[u8], mut text: &[u8], out: &mut Vec<u8>) {
    loop {
        let end = memchr2(b'\r', b'\n', text);
        out.extend_from_slice(prefix);
        out.extend_from_slice(&text[..end.unwrap_or(text.len())]);
        out.push(b'\n');
        let Some(end) = end else { return };
        text = &text[end..];
        text = text
            .strip_prefix(b"\r\n")
            .or_else(|| text.get(1..))
            .unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(event: SseEvent<'_>, expect: Result<&str, FieldError>) {
        let mut out = b"before\n".to_vec();
        let result = encode_event(&event, &mut out);
        let written = std::str::from_utf8(&out["before\n".len()..]).unwrap();
        assert_eq!(result.map(|()| written), expect);
        assert!(result.is_ok() || written.is_empty(), "nothing was written");
    }

    #[test]
    fn events_have_their_fields_and_an_empty_line() {
        let event = SseEvent {
            data: b"a",
            ..SseEvent::default()
        };
        check(event, Ok("data: a\n\n"));
        check(SseEvent { data: b"", ..event }, Ok("data: \n\n"));
        check(
            SseEvent {
                id: Some("1:2"),
                event: Some("x y"),
                data: b"{}",
                retry_ms: Some(100),
            },
            Ok("id: 1:2\nevent: x y\nretry: 100\ndata: {}\n\n"),
        );
        let forget = SseEvent {
            id: Some(""),
            event: Some(""),
            ..event
        };
        check(forget, Ok("id: \ndata: a\n\n"));
    }

    #[test]
    fn data_are_split_at_every_line_end() {
        for (data, expect) in [
            ("", "data: \n"),
            ("a", "data: a\n"),
            ("a\nb", "data: a\ndata: b\n"),
            ("a\rb", "data: a\ndata: b\n"),
            ("a\r\nb", "data: a\ndata: b\n"),
            ("a\n\rb", "data: a\ndata: \ndata: b\n"),
            ("a\r\r\nb", "data: a\ndata: \ndata: b\n"),
            ("a\n", "data: a\ndata: \n"),
            ("\r\n", "data: \ndata: \n"),
            ("a\n\nid: evil", "data: a\ndata: \ndata: id: evil\n"),
            ("\u{2028}", "data: \u{2028}\n"),
        ] {
            let mut out = Vec::new();
            encode_data(data.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect, "{data:?}");
        }
    }

    #[test]
    fn comments_stay_comments() {
        for (text, expect) in [
            ("", ":\n"),
            ("ping", ":ping\n"),
            ("a\n\ndata: x\r", ":a\n:\n:data: x\n:\n"),
        ] {
            let mut out = Vec::new();
            encode_comment(text, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expect, "{text:?}");
        }
    }

    #[test]
    fn ids_and_names_are_never_altered() {
        for id in ["a\nb", "a\r", "\n", "a\0"] {
            let event = SseEvent {
                id: Some(id),
                ..SseEvent::default()
            };
            check(event, Err(FieldError::Id));
        }
        for name in ["a\nb", "\r"] {
            let event = SseEvent {
                id: Some("1"),
                event: Some(name),
                ..SseEvent::default()
            };
            check(event, Err(FieldError::EventName));
        }
    }
}
