//! Close frames: codes that may travel, and the payload's two parts (RFC 6455 section 5.5.1).

use crate::Fault;

/// What a close frame says when it says anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseFrame<'a> {
    /// Why, as a number for which [`close_code_valid`] holds.
    pub code: u16,
    /// Why, in words for people; at most 123 bytes on the wire.
    pub reason: &'a str,
}

impl<'a> CloseFrame<'a> {
    /// Reads the payload of a close frame, which may be empty.
    pub(crate) fn parse(payload: &'a [u8]) -> Result<Option<Self>, Fault> {
        let Some((code, reason)) = payload.split_first_chunk() else {
            return match payload {
                [] => Ok(None),
                _ => Err(Fault::CloseCodeTruncated),
            };
        };
        let code = u16::from_be_bytes(*code);
        if !close_code_valid(code) {
            return Err(Fault::CloseCodeInvalid);
        }
        let reason = std::str::from_utf8(reason).map_err(|_| Fault::CloseReasonNotUtf8)?;
        Ok(Some(Self { code, reason }))
    }
}

/// Whether a close frame may carry `code`.
///
/// RFC 6455 section 7.4 and the registry that it opened: 1000 to 1014 without 1004 to
/// 1006 (which never travel), 3000 to 3999 for libraries, 4000 to 4999 for applications.
#[must_use]
pub const fn close_code_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_registry() {
        for valid in [
            1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999,
            4000, 4999,
        ] {
            assert!(close_code_valid(valid), "{valid}");
        }
        for invalid in [
            0, 1, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535,
        ] {
            assert!(!close_code_valid(invalid), "{invalid}");
        }
    }
}
