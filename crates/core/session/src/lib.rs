//! The front door, and the state that every gateway's sessions share.
//!
//! A connection begins as [`Http`]: requests in, answers out, until a [`Gateway`] claims a request
//! and the connection becomes one of its sessions. A session is a state machine: an [`Event`] comes
//! in with a [`Context`], and bytes, actions and [`Order`]s go out. The engine carries the orders
//! out and hands the answers back.
//!
//! Never: sockets, clocks, channels' members, a gateway's name. An idle session owns no heap
//! memory unless its client brought a token or subscribed to several channels at once.

mod address;
mod backend;
mod client_id;
mod close;
mod context;
mod date;
mod elsewhere;
pub mod encode;
mod entry;
mod follow;
mod forwarded;
mod gateway;
mod guard;
pub mod http;
mod identity;
mod notice;
mod permit;
mod publishing;
mod questions;
mod reload;
mod route;
mod shared;
mod stream;
mod survey;
mod trace;
mod users;
mod websocket;
mod work;

pub use address::{counted_as, is_close_by};
pub use backend::{
    Answered, Ask, BackendMail, BackendOptions, Backends, ProxyOptions, Question, StatusMeaning,
    WayToBackends, claims_of,
};
pub use client_id::{ClientId, NodeKey};
pub use close::{Admission, CloseReason, Port, Transport};
pub use context::{Context, Form, Order};
pub use date::{DateCell, DateText};
pub use elsewhere::{Elsewhere, NodeUse};
pub use entry::{
    EntryFault, Grant, Holder, InitialSubscription, Named, all_channels, note_ends, own_channels,
};
pub use follow::{
    FOLLOWERS_MAX, Follow, FollowEvent, FollowLine, FollowTarget, Followers, write_followed_data,
};
pub use forwarded::{Census, Counted, Forwarded};
pub use gateway::{Class, Event, Flow, Gateway, Opened, Own, Resume, Sender, ShardCalls};
pub use guard::{Guard, Guards};
pub use http::{
    Becomes, Exchange, Http, Incoming, Reject, Router, answer_text, respond, respond_json,
};
pub use identity::{AuthError, Identity, authenticate, check_token, failure};
pub use notice::{Notice, NoticeKind, Notices};
pub use permit::{
    RESERVED, Sight, Verdict, may_call, may_publish, may_read_history, may_see_presence,
    may_subscribe, may_touch,
};
pub use publishing::{Publications, PublishOutcome, publish_all};
pub use questions::{AskingClient, CannotAsk, Open, Passed, Questions};
pub use reload::Reloaded;
pub use route::{Access, Claim, Rank};
pub use shared::{Logins, Page, Pages, SessionLimits, Shared, SignIn, SignInBegun, SignInState};
pub use stream::{ChannelOpened, OPENING, Opening, Stream, StreamBeat, subscribe};
pub use survey::{
    ControlCommand, MatchedConnection, NodeCount, NodeReply, Search, SearchMatches, Survey,
    SurveyReply, from_node, to_node,
};
/// Rights of callers of the server API.
pub use throng_auth::{Caller, KeyRole};
/// The protocol in which backends are asked.
pub use throng_centrifuge::Codec;
pub use throng_centrifuge::proxy::{ProxyAnswer, ProxyCall, ProxyKind, ProxyRefusal};
pub use throng_hub::{FormKind, Patch};
pub use trace::{ClientTraces, Span, SpanWork, TracedCall, Tracer};
pub use users::{Population, Usage, UserLimits, Users};
pub use websocket::{Beat, Heard, WebSocket, answer_handshake, first_beat};
pub use work::{
    Allowance, BAD_TOKENS_MAX, BURST_US, Meter, Overspent, Payer, SharedDebt, Work, WorkLimits,
};
