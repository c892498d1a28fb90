//! Why a response is no instruction.

use super::instruction::{INSTRUCT_BODY_BYTES_MAX, INSTRUCT_TYPE};
use crate::value::DocFault;

/// Why a response is no instruction. The fault is the backend's: the client gets 502.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstructFault {
    /// `Grip-Hold` is neither `response` nor `stream`.
    #[error("Grip-Hold: the mode is response or stream, nothing else")]
    Hold,
    /// More filters than a channel may have.
    #[error("channel '{0}' has more filters than it may")]
    TooManyFilters(String),
    /// A header or a parameter that must be a number from 0 up is not.
    #[error("{0} is not a number of seconds")]
    Seconds(&'static str),
    /// `Grip-Keep-Alive` with parameters but nothing to send.
    #[error("Grip-Keep-Alive: there is nothing to send")]
    KeepAliveEmpty,
    /// `Grip-Keep-Alive` with an unknown mode.
    #[error("Grip-Keep-Alive: mode is idle or interval, not '{0}'")]
    KeepAliveMode(String),
    /// `Grip-Keep-Alive` with an unknown format.
    #[error("Grip-Keep-Alive: format is raw, cstring or base64, not '{0}'")]
    KeepAliveFormat(String),
    /// The data is not what its format says.
    #[error("Grip-Keep-Alive: the data is not {0}")]
    KeepAliveData(&'static str),
    /// An empty element.
    #[error("Grip-Set-Meta: there is nothing between two commas")]
    SetMeta,
    /// Not a code from 0 to 999.
    #[error("Grip-Status: the code must be a number from 0 to 999")]
    Status,
    /// Not `<uri>; ...`.
    #[error("Grip-Link: the URI must stand between < and >")]
    Link,
    /// A URI that cannot be one.
    #[error("Grip-Link: what stands between < and > cannot be a URI")]
    LinkUri,
    /// A body with instructions comes with 200.
    #[error("the status of an {INSTRUCT_TYPE} response must be 200")]
    DocumentStatus,
    /// A body with instructions that is too large.
    #[error("the {INSTRUCT_TYPE} body is larger than {INSTRUCT_BODY_BYTES_MAX} bytes")]
    DocumentTooLarge,
    /// A body with instructions that is not JSON.
    #[error("the {INSTRUCT_TYPE} body is not JSON")]
    DocumentJson,
    /// A body with instructions that says something impossible.
    #[error("the {INSTRUCT_TYPE} body: {0}")]
    Document(#[from] DocFault),
}
