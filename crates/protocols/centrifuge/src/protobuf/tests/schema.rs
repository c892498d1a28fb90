//! The messages of `client.proto` that are spoken here, for `prost`.

use std::collections::HashMap;

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Command {
    #[prost(uint32, tag = "1")]
    pub(crate) id: u32,
    #[prost(message, optional, tag = "4")]
    pub(crate) connect: Option<ConnectRequest>,
    #[prost(message, optional, tag = "5")]
    pub(crate) subscribe: Option<SubscribeRequest>,
    #[prost(message, optional, tag = "6")]
    pub(crate) unsubscribe: Option<OfChannel>,
    #[prost(message, optional, tag = "7")]
    pub(crate) publish: Option<PublishRequest>,
    #[prost(message, optional, tag = "8")]
    pub(crate) presence: Option<OfChannel>,
    #[prost(message, optional, tag = "9")]
    pub(crate) presence_stats: Option<OfChannel>,
    #[prost(message, optional, tag = "10")]
    pub(crate) history: Option<HistoryRequest>,
    #[prost(message, optional, tag = "11")]
    pub(crate) ping: Option<Nothing>,
    #[prost(message, optional, tag = "12")]
    pub(crate) send: Option<SendRequest>,
    #[prost(message, optional, tag = "13")]
    pub(crate) rpc: Option<RpcRequest>,
    #[prost(message, optional, tag = "14")]
    pub(crate) refresh: Option<RefreshRequest>,
    #[prost(message, optional, tag = "15")]
    pub(crate) sub_refresh: Option<SubRefreshRequest>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConnectRequest {
    #[prost(string, tag = "1")]
    pub(crate) token: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) data: Vec<u8>,
    #[prost(map = "string, message", tag = "3")]
    pub(crate) subs: HashMap<String, SubscribeRequest>,
    #[prost(string, tag = "4")]
    pub(crate) name: String,
    #[prost(string, tag = "5")]
    pub(crate) version: String,
    #[prost(map = "string, string", tag = "6")]
    pub(crate) headers: HashMap<String, String>,
    #[prost(int64, tag = "7")]
    pub(crate) flag: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SubscribeRequest {
    #[prost(string, tag = "1")]
    pub(crate) channel: String,
    #[prost(string, tag = "2")]
    pub(crate) token: String,
    #[prost(bool, tag = "3")]
    pub(crate) recover: bool,
    #[prost(string, tag = "6")]
    pub(crate) epoch: String,
    #[prost(uint64, tag = "7")]
    pub(crate) offset: u64,
    #[prost(bytes = "vec", tag = "8")]
    pub(crate) data: Vec<u8>,
    #[prost(bool, tag = "9")]
    pub(crate) positioned: bool,
    #[prost(bool, tag = "10")]
    pub(crate) recoverable: bool,
    #[prost(bool, tag = "11")]
    pub(crate) join_leave: bool,
    #[prost(string, tag = "12")]
    pub(crate) delta: String,
    #[prost(message, optional, tag = "13")]
    pub(crate) tf: Option<FilterNode>,
    #[prost(int64, tag = "14")]
    pub(crate) flag: i64,
    #[prost(int32, tag = "15")]
    pub(crate) kind: i32,
    #[prost(string, tag = "17")]
    pub(crate) cursor: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FilterNode {
    #[prost(string, tag = "1")]
    pub(crate) op: String,
    #[prost(string, tag = "2")]
    pub(crate) key: String,
    #[prost(string, tag = "3")]
    pub(crate) cmp: String,
    #[prost(string, tag = "4")]
    pub(crate) val: String,
    #[prost(string, repeated, tag = "5")]
    pub(crate) vals: Vec<String>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) nodes: Vec<Self>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct OfChannel {
    #[prost(string, tag = "1")]
    pub(crate) channel: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PublishRequest {
    #[prost(string, tag = "1")]
    pub(crate) channel: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) data: Vec<u8>,
    #[prost(int32, tag = "3")]
    pub(crate) kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistoryRequest {
    #[prost(string, tag = "1")]
    pub(crate) channel: String,
    #[prost(int32, tag = "7")]
    pub(crate) limit: i32,
    #[prost(message, optional, tag = "8")]
    pub(crate) since: Option<StreamPosition>,
    #[prost(bool, tag = "9")]
    pub(crate) reverse: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StreamPosition {
    #[prost(uint64, tag = "1")]
    pub(crate) offset: u64,
    #[prost(string, tag = "2")]
    pub(crate) epoch: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SendRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RefreshRequest {
    #[prost(string, tag = "1")]
    pub(crate) token: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SubRefreshRequest {
    #[prost(string, tag = "1")]
    pub(crate) channel: String,
    #[prost(string, tag = "2")]
    pub(crate) token: String,
    #[prost(int32, tag = "3")]
    pub(crate) kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Reply {
    #[prost(uint32, tag = "1")]
    pub(crate) id: u32,
    #[prost(message, optional, tag = "2")]
    pub(crate) error: Option<Error>,
    #[prost(message, optional, tag = "4")]
    pub(crate) push: Option<Push>,
    #[prost(message, optional, tag = "5")]
    pub(crate) connect: Option<ConnectResult>,
    #[prost(message, optional, tag = "6")]
    pub(crate) subscribe: Option<SubscribeResult>,
    #[prost(message, optional, tag = "7")]
    pub(crate) unsubscribe: Option<Nothing>,
    #[prost(message, optional, tag = "8")]
    pub(crate) publish: Option<Nothing>,
    #[prost(message, optional, tag = "9")]
    pub(crate) presence: Option<Presence>,
    #[prost(message, optional, tag = "10")]
    pub(crate) presence_stats: Option<PresenceStats>,
    #[prost(message, optional, tag = "11")]
    pub(crate) history: Option<HistoryResult>,
    #[prost(message, optional, tag = "12")]
    pub(crate) ping: Option<Nothing>,
    #[prost(message, optional, tag = "13")]
    pub(crate) rpc: Option<SendRequest>,
    #[prost(message, optional, tag = "14")]
    pub(crate) refresh: Option<RefreshResult>,
    #[prost(message, optional, tag = "15")]
    pub(crate) sub_refresh: Option<Refresh>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Error {
    #[prost(uint32, tag = "1")]
    pub(crate) code: u32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
    #[prost(bool, tag = "3")]
    pub(crate) temporary: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Push {
    #[prost(string, tag = "2")]
    pub(crate) channel: String,
    #[prost(message, optional, tag = "4")]
    pub(crate) publication: Option<Publication>,
    #[prost(message, optional, tag = "5")]
    pub(crate) join: Option<Member>,
    #[prost(message, optional, tag = "6")]
    pub(crate) leave: Option<Member>,
    #[prost(message, optional, tag = "7")]
    pub(crate) unsubscribe: Option<Unsubscribed>,
    #[prost(message, optional, tag = "8")]
    pub(crate) message: Option<SendRequest>,
    #[prost(message, optional, tag = "9")]
    pub(crate) subscribe: Option<Subscribed>,
    #[prost(message, optional, tag = "12")]
    pub(crate) refresh: Option<Refresh>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Publication {
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) data: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    pub(crate) info: Option<ClientInfo>,
    #[prost(uint64, tag = "6")]
    pub(crate) offset: u64,
    #[prost(map = "string, string", tag = "7")]
    pub(crate) tags: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ClientInfo {
    #[prost(string, tag = "1")]
    pub(crate) user: String,
    #[prost(string, tag = "2")]
    pub(crate) client: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) conn_info: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) chan_info: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Member {
    #[prost(message, optional, tag = "1")]
    pub(crate) info: Option<ClientInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Unsubscribed {
    #[prost(uint32, tag = "2")]
    pub(crate) code: u32,
    #[prost(string, tag = "3")]
    pub(crate) reason: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Subscribed {
    #[prost(bool, tag = "1")]
    pub(crate) recoverable: bool,
    #[prost(string, tag = "4")]
    pub(crate) epoch: String,
    #[prost(uint64, tag = "5")]
    pub(crate) offset: u64,
    #[prost(bool, tag = "6")]
    pub(crate) positioned: bool,
    #[prost(bytes = "vec", tag = "7")]
    pub(crate) data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Refresh {
    #[prost(bool, tag = "1")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "2")]
    pub(crate) ttl: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ConnectResult {
    #[prost(string, tag = "1")]
    pub(crate) client: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(bool, tag = "3")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "4")]
    pub(crate) ttl: u32,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) data: Vec<u8>,
    #[prost(map = "string, message", tag = "6")]
    pub(crate) subs: HashMap<String, SubscribeResult>,
    #[prost(uint32, tag = "7")]
    pub(crate) ping: u32,
    #[prost(bool, tag = "8")]
    pub(crate) pong: bool,
    #[prost(string, tag = "9")]
    pub(crate) session: String,
    #[prost(string, tag = "10")]
    pub(crate) node: String,
    #[prost(int64, tag = "11")]
    pub(crate) time: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SubscribeResult {
    #[prost(bool, tag = "1")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "2")]
    pub(crate) ttl: u32,
    #[prost(bool, tag = "3")]
    pub(crate) recoverable: bool,
    #[prost(string, tag = "6")]
    pub(crate) epoch: String,
    #[prost(message, repeated, tag = "7")]
    pub(crate) publications: Vec<Publication>,
    #[prost(bool, tag = "8")]
    pub(crate) recovered: bool,
    #[prost(uint64, tag = "9")]
    pub(crate) offset: u64,
    #[prost(bool, tag = "10")]
    pub(crate) positioned: bool,
    #[prost(bytes = "vec", tag = "11")]
    pub(crate) data: Vec<u8>,
    #[prost(bool, tag = "12")]
    pub(crate) was_recovering: bool,
    #[prost(bool, tag = "13")]
    pub(crate) delta: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistoryResult {
    #[prost(message, repeated, tag = "1")]
    pub(crate) publications: Vec<Publication>,
    #[prost(string, tag = "2")]
    pub(crate) epoch: String,
    #[prost(uint64, tag = "3")]
    pub(crate) offset: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Presence {
    #[prost(map = "string, message", tag = "1")]
    pub(crate) presence: HashMap<String, ClientInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PresenceStats {
    #[prost(uint32, tag = "1")]
    pub(crate) num_clients: u32,
    #[prost(uint32, tag = "2")]
    pub(crate) num_users: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RefreshResult {
    #[prost(string, tag = "1")]
    pub(crate) client: String,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(bool, tag = "3")]
    pub(crate) expires: bool,
    #[prost(uint32, tag = "4")]
    pub(crate) ttl: u32,
}
