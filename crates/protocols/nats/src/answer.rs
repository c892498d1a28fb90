//! JetStream's answers to requests (docs.nats.io, "JetStream wire API Reference").

use serde_json::Value;

/// JetStream's error in place of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    /// JetStream's number for it, or [`Self::IMPOSSIBLE`].
    pub code: u64,
    pub text: String,
}

impl ApiError {
    /// Not a number of NATS's: the answer cannot be read, or contradicts itself.
    pub const IMPOSSIBLE: u64 = 0;
}

/// Reads an answer.
///
/// # Errors
/// The error that it carries, or that it cannot be read.
pub fn answer(payload: &[u8]) -> Result<Value, ApiError> {
    let unread = |_| ApiError {
        code: ApiError::IMPOSSIBLE,
        text: "an answer that cannot be read".to_owned(),
    };
    let value: Value = serde_json::from_slice(payload).map_err(unread)?;
    match value.get("error") {
        None => Ok(value),
        Some(error) => Err(ApiError {
            code: error["err_code"].as_u64().unwrap_or_default(),
            text: error["description"].as_str().unwrap_or_default().to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_an_object_or_an_error() {
        assert_eq!(answer(b"{\"a\":1}").map(|it| it["a"] == 1), Ok(true));
        let refused = br#"{"error":{"code":404,"err_code":10014,"description":"no consumer"}}"#;
        let error = answer(refused).expect_err("an error");
        assert_eq!((error.code, &*error.text), (10_014, "no consumer"));
        let error = answer(b"{").expect_err("an error");
        assert_eq!(error.code, ApiError::IMPOSSIBLE);
    }
}
