//! Meaning of a status of a backend's answer for the client.

use super::text::TextKind;

/// A status of a backend's answer, and its meaning for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyStatus {
    /// HTTP status, other than 200.
    pub status: u16,
    /// Whether the connection ends; otherwise the command fails.
    pub is_disconnect: bool,
    /// Whether the client may try again.
    pub is_temporary: bool,
    /// Code of the disconnect (4000 to 4999) or of the error (400 to 1999).
    pub code: u32,
    /// A word for developers.
    pub text: String,
}

/// A status and its meaning in one text.
pub(crate) struct StatusText;

impl TextKind for StatusText {
    type Field = ProxyStatus;
    const NAME: &'static str = "status and meaning";

    fn wanted() -> String {
        "a status and its meaning, such as \"404 error 1404 not found\", \"503 temporary 1503 try \
         again\" or \"403 disconnect 4403 forbidden\"; errors have codes from 400 to 1999, \
         disconnects from 4000 to 4999"
            .to_owned()
    }

    fn of(text: &str) -> Option<ProxyStatus> {
        let mut words = text.trim().splitn(4, ' ');
        let status = words.next()?.parse().ok()?;
        let meaning = words.next()?;
        let code = words.next()?.parse().ok()?;
        let text = words.next().unwrap_or_default();
        let is_disconnect = meaning == "disconnect";
        let codes = if is_disconnect { 4000..5000 } else { 400..2000 };
        let is_known = is_disconnect || matches!(meaning, "error" | "temporary");
        let is_status = (201..1000).contains(&status);
        (is_known && is_status && codes.contains(&code) && text.len() <= 120).then(|| ProxyStatus {
            status,
            is_disconnect,
            is_temporary: meaning == "temporary",
            code,
            text: text.to_owned(),
        })
    }

    fn text(value: &ProxyStatus) -> String {
        let meaning = match (value.is_disconnect, value.is_temporary) {
            (true, _) => "disconnect",
            (false, true) => "temporary",
            (false, false) => "error",
        };
        let ProxyStatus {
            status, code, text, ..
        } = value;
        format!("{status} {meaning} {code} {text}")
            .trim_end()
            .to_owned()
    }
}
