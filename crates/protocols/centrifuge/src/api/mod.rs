//! The HTTP server API with which backends publish and ask (Centrifugo, page "Server API").
//!
//! Owns: the bodies of `POST /api/METHOD`, `POST /api/batch` and the older `POST /api` in both
//! directions, and the error codes. Never: performs a call, or knows HTTP beyond status numbers.
//!
//! Status rules
//! - 401 without a valid key (see `throng_auth::ApiKeys`), 405 for another method than POST;
//! - 400 with an error in JSON for a body that is not the JSON that the method asks for ([`parse`]
//!   fails);
//! - otherwise 200 with `{"result":{..}}` or `{"error":{..}}`, unless the backend asked for
//!   `X-Centrifugo-Error-Mode: transport`: then an error has the status of
//!   [`ServerApiError::http_status`] and its bare body `{"code":..,"message":..}` from
//!   [`encode_bare_error`]. Batches and the older endpoint always answer 200.

mod error;
mod fields;
mod parts;
mod pattern;
mod request;
mod response;

pub use error::{CallError, MalformedBody, ServerApiError};
pub use fields::{Field, Kind};
pub use parts::{HistoryRequest, Overrides, StatedPosition};
pub use pattern::NamePattern;
pub use request::{
    ApiRequest, BatchRequest, BroadcastRequest, ChannelRequest, ChannelsRequest,
    ConnectionsRequest, CustomDisconnect, DisconnectRequest, LegacyRequest, Method, PublishRequest,
    RefreshRequest, RpcRequest, SubscribeRequest, UnsubscribeRequest, parse, parse_batch,
    parse_batch_message, parse_legacy, parse_message,
};
pub use response::{
    ApiResult, ConnectionInfo, ConnectionsResult, NodeInfo, PublishResult, encode_bare_error,
    encode_batch_field, encode_batch_reply, encode_legacy, encode_message, encode_response,
};
