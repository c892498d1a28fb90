//! Subscribes of clients: permission, and the reply.
//!
//! The channel's options decide, unless a token sets them aside for its subscription.

use std::sync::Arc;

use throng_auth::SubscriptionOptions;
use throng_broker::{Announced, BackendId, ChannelMember, Recovery, Refusal, Subscribed};
use throng_centrifuge::proxy::ProxyCall;
use throng_centrifuge::{ErrorCode, Reply, Subscribe, TagFilter};
use throng_hub::Format;
use throng_metrics::Counter;
use throng_session::{
    AuthError, Form, Identity, InitialSubscription, OPENING, Sight, Verdict, may_see_presence,
    may_subscribe,
};
use throng_types::{ChannelName, Disconnect, Publisher};

use crate::Cx;
use crate::asked::{Pending, PendingSubscribe, Subscribing};
use crate::channels::check_token;
use crate::forms::{FILTERED, with_deltas};
use crate::results::{position, subscribe_result, tell_if_empty};
use crate::socket::{Socket, TokenUse, code_of, ttl};

pub(crate) fn subscribe(ws: &mut Socket, command: u32, subscribe: &Subscribe<'_>, cx: &mut Cx<'_>) {
    let Some(channel) = ws.channel(command, &subscribe.channel, cx) else {
        return;
    };
    let asks_for_delta = match &*subscribe.delta {
        "" => false,
        "fossil" => true,
        _ => return ws.disconnect(Disconnect::BadRequest, cx),
    };
    let options = cx.shared.namespaces.find(&channel).copied();
    let options = options.unwrap_or_default();
    let filter = match &subscribe.filter {
        None => None,
        // The client asked for filtered deliveries alone.
        Some(_) if !options.tags_filter => return ws.error(command, ErrorCode::BadRequest, cx),
        Some(node) => match TagFilter::new(node) {
            None => return ws.error(command, ErrorCode::BadRequest, cx),
            filter => filter,
        },
    };
    let grant = match check_token(ws, &channel, &subscribe.token, cx) {
        Ok(grant) => grant,
        Err(fault) => {
            let why = AuthError::Token(fault);
            return ws.refuse_token(command, TokenUse::Subscribe, why, cx);
        }
    };
    let wants = PendingSubscribe {
        command,
        since: position(subscribe),
        join_leave: subscribe.join_leave,
        delta: asks_for_delta && filter.is_none() && options.delta,
        filter,
        rejects_unrecovered: subscribe.rejects_unrecovered(),
        is_backends: false,
        channel,
    };
    match may_subscribe(ws.identity(), &wants.channel, grant.is_some(), cx.shared) {
        Verdict::Yes => {}
        Verdict::Ask(to) => return ask(ws, to, wants, subscribe, cx),
        Verdict::UnknownChannel => return ws.error(command, ErrorCode::UnknownChannel, cx),
        Verdict::No => return ws.error(command, ErrorCode::PermissionDenied, cx),
    }
    let until = grant.as_ref().map(|grant| grant.until);
    let own = grant.map(|grant| grant.options).unwrap_or_default();
    granted(ws, wants, until, own, cx);
}

/// Asks a backend whether the client may subscribe.
fn ask(
    ws: &mut Socket,
    to: BackendId,
    mut wants: PendingSubscribe,
    subscribe: &Subscribe<'_>,
    cx: &mut Cx<'_>,
) {
    let (command, channel) = (wants.command, wants.channel.clone());
    if ws.awaits_subscribe(&channel) {
        return ws.error(command, ErrorCode::AlreadySubscribed, cx);
    }
    let call = ProxyCall::Subscribe {
        channel: channel.as_str(),
        token: &subscribe.token,
        data: subscribe.data.as_ref().map(|data| data.bytes()),
    };
    wants.is_backends = true;
    let pending = Pending::Subscribe(Box::new(wants));
    if ws.ask((to, call), pending, cx).is_err() {
        ws.error(command, ErrorCode::TooManyRequests, cx);
    }
}

/// Subscribes a permitted client. `until` is set if its expiry was decided elsewhere, and may be
/// never.
pub(crate) fn granted(
    ws: &mut Socket,
    wants: PendingSubscribe,
    until: Option<Option<u64>>,
    own: SubscriptionOptions,
    cx: &mut Cx<'_>,
) {
    let PendingSubscribe {
        command,
        channel,
        since,
        join_leave,
        delta,
        filter,
        rejects_unrecovered,
        is_backends,
    } = wants;
    let form = match (&filter, delta) {
        (Some(_), _) => FILTERED,
        (None, true) => with_deltas(ws.mode()),
        (None, false) => ws.form(&channel, cx),
    };
    let manner = Manner::new(ws.identity(), &channel, &own, join_leave, form, cx);
    let is_plain = until.is_none() && own.data.is_none() && filter.is_none();
    if !is_plain || rejects_unrecovered || delta {
        ws.asked_mut().subscribing.push(Subscribing {
            command,
            channel: channel.clone(),
            until,
            data: own.data,
            delta,
            filter,
            rejects_unrecovered,
            is_backends,
        });
    }
    let Manner { format, presence } = manner;
    cx.subscribe_as(command, channel, format, since, presence);
}

/// A subscribe command's answer.
pub(crate) fn subscribed(
    ws: &mut Socket,
    command: u32,
    channel: &ChannelName,
    result: &Result<Subscribed, Refusal>,
    cx: &mut Cx<'_>,
) {
    let mut asked = ws.take_subscribing(command, channel);
    let subscribed = match result {
        Ok(subscribed) => subscribed,
        Err(refusal) => return ws.error(command, code_of(*refusal), cx),
    };
    let is_lost = matches!(subscribed.recovery, Recovery::Lost);
    if is_lost
        && asked
            .as_ref()
            .is_some_and(|asked| asked.rejects_unrecovered)
    {
        cx.count(Counter::RecoveredFailed);
        cx.unsubscribe(channel.clone());
        return ws.error(command, ErrorCode::UnrecoverablePosition, cx);
    }
    tell_if_empty(channel, subscribed, cx);
    let mut passed = Vec::new();
    let mut result = subscribe_result(channel, subscribed, cx);
    if let Some(filter) = asked.as_mut().and_then(|asked| asked.filter.take()) {
        let missed = result.publications.iter();
        passed.extend(
            missed
                .filter(|missed| filter.passes(missed.tags.as_deref()))
                .cloned(),
        );
        result.publications = &passed;
        ws.set_filter(channel, filter);
    }
    result.data = asked.as_ref().and_then(|asked| asked.data.as_deref());
    result.delta = asked.as_ref().is_some_and(|asked| asked.delta);
    if let Some(until) = asked.as_ref().and_then(|asked| asked.until) {
        ws.identity_mut().set_subscription_until(channel, until);
        ws.arm(cx);
        if asked.as_ref().is_some_and(|asked| !asked.is_backends) {
            result.expires = until.is_some();
            result.ttl_s = until.map_or(0, |until| ttl(until, cx.now));
        }
    }
    ws.reply(command, &Reply::Subscribe(&result), cx);
}

/// Asks for a subscription that the client did not ask for itself.
pub(crate) fn want(ws: &mut Socket, wanted: InitialSubscription, cx: &mut Cx<'_>) {
    let InitialSubscription {
        channel,
        options,
        since,
        ..
    } = wanted;
    let form = ws.form(&channel, cx);
    let Manner { format, presence } =
        Manner::new(ws.identity(), &channel, &options, false, form, cx);
    cx.subscribe_as(OPENING, channel.clone(), format, since, presence);
    if let Some(data) = options.data {
        ws.asked_mut().data.push((channel, data));
    }
}

/// Options of a client's subscription.
pub(crate) struct Manner {
    /// The wire form of deliveries.
    pub(crate) format: Format,
    /// Presence of the client in the channel, if it is listed there.
    pub(crate) presence: Option<ChannelMember>,
}

impl Manner {
    /// Decides by the channel's options and the token's. `asks_for_news` if the client asks for
    /// joins and leaves; it gets none if it may not see presence.
    pub(crate) fn new(
        identity: Option<&Identity>,
        channel: &ChannelName,
        own: &SubscriptionOptions,
        asks_for_news: bool,
        form: Form,
        cx: &Cx<'_>,
    ) -> Self {
        let options = cx.shared.namespaces.find(channel);
        let options = options.map(|options| options.presence).unwrap_or_default();
        let is_listed = own.presence.unwrap_or(options.is_listed);
        let is_announced = own.join_leave.unwrap_or(options.is_announced);
        let may_hear = || {
            let sight = may_see_presence(identity, channel, cx.shared);
            matches!(sight, Sight::Yes | Sight::IfSubscribed)
        };
        let hears = own.force_push_join_leave.unwrap_or(options.is_pushed)
            || asks_for_news && is_announced && may_hear();
        let format = cx.format(form);
        let presence = || ChannelMember {
            who: Arc::new(Publisher {
                client: cx.shared.node.client_id(cx.id).as_str().into(),
                user: { identity }.map_or_else(Box::default, |identity| identity.user.clone()),
                conn_info: identity.and_then(|identity| identity.info.clone()),
                chan_info: own.info.clone(),
            }),
            is_listed,
            announced: match is_announced {
                true => Announced::Connections,
                false => Announced::Nothing,
            },
        };
        Self {
            format: if hears { format.with_news() } else { format },
            presence: (is_listed || is_announced).then(presence),
        }
    }
}
