//! Surveys of the server API, asked of every shard and node, and this shard's own replies.
//!
//! Nothing is kept for a search: users and transports stand in the sessions, and addresses are
//! asked of the kernel, which is why not all of them are.

use std::cmp::Reverse;
use std::hash::{DefaultHasher, Hash, Hasher};

use throng_engine::{Conns, Kernel};
use throng_remote::{NodeEvent, Nodes};
use throng_session::{
    CloseReason, ControlCommand, Event, MatchedConnection, NodeCount, NodeReply, Search,
    SearchMatches, Survey, SurveyReply, Transport, from_node, to_node,
};
use throng_types::{ChannelName, ConnId, Now, ShardId, Unsubscribe};

use crate::follow;
use crate::gateways::Session;
use crate::outbox::Note;
use crate::shard::ShardApp;
use crate::waiting::Caller;

/// Connections whose addresses are asked for in one search: each is a system call, and a shard
/// serves no client meanwhile.
const ADDRESSES_MAX: usize = 65_536;
/// Channels of one connection that are reported, at most.
const CHANNELS_MAX: usize = 8;

/// Asks every node and every shard, this one first.
pub(crate) fn survey<K: Kernel>(
    app: &mut ShardApp,
    caller: Caller,
    survey: Survey,
    conns: &mut Conns<Session, K>,
    now: Now,
) {
    if let Survey::Carry { node, .. } = &survey {
        return carry(app, caller, &node.clone(), &survey, conns);
    }
    survey_for(app, caller, survey, conns, now);
}

/// Asks the one node that has a session; nobody else is concerned.
fn carry<K: Kernel>(
    app: &mut ShardApp,
    caller: Caller,
    node: &str,
    survey: &Survey,
    conns: &mut Conns<Session, K>,
) {
    let ticket = app.surveys.begin(caller, 1);
    match &app.parts.nodes {
        Some(nodes) => nodes.ask_one(ticket, node, to_node(survey)),
        None => surveyed(app, ticket, SurveyReply::Elsewhere(Vec::new()), conns),
    }
}

fn survey_for<K: Kernel>(
    app: &mut ShardApp,
    caller: Caller,
    survey: Survey,
    conns: &mut Conns<Session, K>,
    now: Now,
) {
    if let Survey::Carry { session, .. } = &survey {
        let to = app.parts.shared.node.conn_of_session(session);
        let to = to.map_or(app.parts.shard, |conn| conn.shard());
        if to != app.parts.shard && to.0 < app.outboxes.shards() {
            let ticket = app.surveys.begin(caller, 1);
            return app.outboxes.push(to, Note::Survey { ticket, survey });
        }
        let ticket = app.surveys.begin(caller, 1);
        let reply = reply(app, survey, conns, now);
        return surveyed(app, ticket, reply, conns);
    }
    let shards = app.outboxes.shards();
    let nodes = app.parts.nodes.as_ref();
    let nodes = nodes.filter(|_| !matches!(caller, Caller::Elsewhere(_)));
    // All other nodes count as one.
    let expected = usize::from(shards) + usize::from(nodes.is_some());
    let ticket = app.surveys.begin(caller, expected);
    if let Some(nodes) = nodes {
        nodes.ask(ticket, to_node(&survey));
    }
    for shard in (0..shards).map(ShardId) {
        if shard != app.parts.shard {
            let survey = survey.clone();
            app.outboxes.push(shard, Note::Survey { ticket, survey });
        }
    }
    let reply = reply(app, survey, conns, now);
    surveyed(app, ticket, reply, conns);
}

pub(crate) fn hear_nodes<K: Kernel>(app: &mut ShardApp, conns: &mut Conns<Session, K>, now: Now) {
    while let Some(event) = app.parts.nodes.as_ref().and_then(Nodes::next) {
        match event {
            // What cannot be read is of another version: no answer says so.
            NodeEvent::Asked(asker, question) => {
                if let Some(survey) = from_node(&question) {
                    survey_for(app, Caller::Elsewhere(asker), survey, conns, now);
                }
            }
            NodeEvent::Told(word) => {
                let own = app.parts.shared.node.name();
                app.parts.peers.hear(&word, &own, now.mono);
                app.with_gateways(conns, now, |gateways, host| gateways.heard(&word, host));
                if let Some(webhooks) = &app.parts.webhooks {
                    webhooks.hear(word);
                }
            }
            NodeEvent::Answered(ticket, answers) => {
                let nodes = answers.and_then(|answers| {
                    let nodes = answers.iter().map(|answer| from_node(answer));
                    nodes.collect::<Option<Vec<_>>>()
                });
                let reply = nodes.map_or(SurveyReply::Unanswered, SurveyReply::Elsewhere);
                surveyed(app, ticket, reply, conns);
            }
        }
    }
}

pub(crate) fn surveyed<K: Kernel>(
    app: &mut ShardApp,
    ticket: u32,
    reply: SurveyReply,
    conns: &mut Conns<Session, K>,
) {
    match app.surveys.take(ticket, reply) {
        Some((Caller::Here(reply_to), replies)) => {
            app.event(reply_to.conn, Event::Surveyed(replies), conns);
        }
        Some((Caller::Gateway(place), replies)) => {
            let now = app.now;
            app.with_gateways(conns, now, |gateways, host| {
                gateways.surveyed(place, replies, host);
            });
        }
        Some((Caller::Elsewhere(asker), replies)) => {
            let shared = &app.parts.shared;
            let uptime_ms = app.now.unix_ms.saturating_sub(shared.started_unix_ms);
            let reply = NodeReply {
                uid: shared.node.name().into(),
                version: shared.version.into(),
                uptime_s: u32::try_from(uptime_ms / 1000).unwrap_or(u32::MAX),
                replies,
            };
            if let Some(nodes) = &app.parts.nodes {
                nodes.answer(asker, to_node(&reply));
            }
        }
        None => {}
    }
}

pub(crate) fn reply<K: Kernel>(
    app: &mut ShardApp,
    survey: Survey,
    conns: &mut Conns<Session, K>,
    now: Now,
) -> SurveyReply {
    match survey {
        Survey::Channels => {
            let channels = app.parts.hub.channels();
            let channels = channels.map(|(name, count)| (name.clone(), count));
            SurveyReply::Channels(channels.collect())
        }
        Survey::Subscribers(channels) => {
            let hub = &app.parts.hub;
            let counted = |name: ChannelName| (hub.subscribers(&name), name);
            let counts = channels.into_iter().map(counted);
            let counts = counts.filter(|(count, _)| *count > 0);
            SurveyReply::Channels(counts.map(|(count, name)| (name, count)).collect())
        }
        Survey::Count => SurveyReply::Count(count(app, conns)),
        Survey::Find(search) => SurveyReply::Matches(look_for(app, &search, conns)),
        Survey::Disconnect {
            user,
            client,
            code,
            reason,
            whitelist,
        } => {
            let node = app.parts.shared.node.clone();
            let spared = whitelist.iter();
            let spared: Vec<_> = spared.filter_map(|client| node.conn_id(client)).collect();
            let why = CloseReason::Custom { code, reason };
            let mut count = 0;
            for conn in find(app, &user, &client, conns) {
                if !spared.contains(&conn) {
                    app.event(conn, Event::Close(&why), conns);
                    count += 1;
                }
            }
            SurveyReply::Done(count)
        }
        Survey::Carry {
            node,
            session,
            data,
        } => {
            let own = &app.parts.shared.node;
            if own.name() != *node {
                return SurveyReply::Done(0);
            }
            // As in Centrifugo, whether the session is still there is not told.
            let to = own.conn_of_session(&session);
            if let Some(to) = to.filter(|to| to.shard() == app.parts.shard) {
                app.event(to, Event::Control(&ControlCommand::Execute(data)), conns);
            }
            SurveyReply::Done(1)
        }
        Survey::Control {
            user,
            client,
            command,
        } => {
            let theirs = find(app, &user, &client, conns);
            for &conn in &theirs {
                app.event(conn, Event::Control(&command), conns);
            }
            SurveyReply::Done(theirs.len() as u32)
        }
        Survey::Unsubscribe {
            user,
            client,
            channel,
        } => {
            let mut count = 0;
            for conn in find(app, &user, &client, conns) {
                let channels = match &channel {
                    Some(channel) => vec![channel.clone()],
                    None => app.parts.hub.channels_of(conn).cloned().collect(),
                };
                for channel in channels {
                    if app.parts.hub.unsubscribe(conn, &channel, now) {
                        count += 1;
                        let (channel, why) = (&channel, Unsubscribe::Server);
                        let session = conns.session(conn);
                        follow::unsubscribed(&app.parts.shared, conn, session, (channel, why));
                        app.event(conn, Event::Unsubscribed { channel, why }, conns);
                    }
                }
            }
            SurveyReply::Done(count)
        }
    }
}

fn count<K: Kernel>(app: &ShardApp, conns: &Conns<Session, K>) -> NodeCount {
    let mut count = NodeCount::default();
    for (_, session) in conns.sessions() {
        let class = session.class();
        if !class.is_client || class.transport == Transport::Http {
            continue;
        }
        count.clients += 1;
        let user = session.user();
        if !user.is_empty() {
            count.users.push(hash(user));
        }
    }
    count.users.sort_unstable();
    count.users.dedup();
    let channels = app.parts.hub.channels();
    count.channels = channels.map(|(name, _)| name.stable_hash()).collect();
    count.subscriptions = app.parts.hub.stats().subscriptions as u32;
    count
}

/// The connections of a user, by that name in whatever app or project; or the one with a public
/// id.
fn find<K: Kernel>(
    app: &ShardApp,
    user: &str,
    client: &str,
    conns: &Conns<Session, K>,
) -> Vec<ConnId> {
    if !client.is_empty() {
        let named = app.parts.shared.node.conn_id(client);
        let named = named.filter(|conn| conn.shard() == app.parts.shard);
        let fits = |conn: &ConnId| {
            let session = conns.session(*conn);
            session.is_some_and(|session| user.is_empty() || session.user() == user)
        };
        return named.filter(fits).into_iter().collect();
    }
    let theirs = conns
        .sessions()
        .filter(|(_, session)| session.class().is_client && session.user() == user);
    theirs.map(|(conn, _)| conn).collect()
}

fn look_for<K: Kernel>(
    app: &ShardApp,
    search: &Search,
    conns: &Conns<Session, K>,
) -> SearchMatches {
    let mut found = SearchMatches::default();
    let mut asked = 0;
    let most = search.rows_max as usize;
    // What waits for them, and who they are. Bound: twice the rows.
    let mut chosen: Vec<(usize, ConnId)> = Vec::new();
    for (conn, session) in conns.sessions() {
        let class = session.class();
        if !class.is_client || class.transport == Transport::Http {
            continue;
        }
        let queued_bytes = conns.queued_bytes(conn);
        let fits = search.transport.is_none_or(|it| it == class.transport)
            && session.user().contains(&*search.user)
            && (queued_bytes > 0 || !search.slow)
            && is_in(app, conn, search)
            && !(class.transport == Transport::Sse && watches(app, conn));
        if !fits {
            continue;
        }
        if !search.address.is_empty() {
            if asked == ADDRESSES_MAX {
                found.is_cut = true;
                break;
            }
            asked += 1;
            if !address_of(app, conn, conns).contains(&*search.address) {
                continue;
            }
        }
        found.count += 1;
        if search.slow {
            // The slowest are known only after all were looked at.
            if chosen.len() >= 2 * most {
                keep_slowest(&mut chosen, most);
            }
            chosen.push((queued_bytes, conn));
        } else if chosen.len() < most {
            chosen.push((queued_bytes, conn));
        }
    }
    if search.slow {
        keep_slowest(&mut chosen, most);
    }
    let rows = chosen.into_iter().filter_map(|(queued_bytes, conn)| {
        let session = conns.session(conn)?;
        let hub = &app.parts.hub;
        Some(MatchedConnection {
            client: app.parts.shared.node.client_id(conn).as_str().into(),
            user: session.user().into(),
            address: address_of(app, conn, conns).into(),
            transport: session.class().transport,
            queued_bytes: queued_bytes as u64,
            subscriptions: hub.channels_of(conn).count() as u32,
            channels: hub.channels_of(conn).take(CHANNELS_MAX).cloned().collect(),
        })
    });
    found.rows = rows.collect();
    found
}

fn is_in(app: &ShardApp, conn: ConnId, search: &Search) -> bool {
    let channel = search.channel.as_ref();
    channel.is_none_or(|channel| app.parts.hub.channels_of(conn).any(|it| it == channel))
}

/// Whether it is a dashboard's own stream, which is no client's.
fn watches(app: &ShardApp, conn: ConnId) -> bool {
    let watched = app.parts.ticker.channel();
    app.parts.hub.channels_of(conn).any(|it| it == watched)
}

/// The client's address, as far as proxies or the kernel tell; empty if they do not.
fn address_of<K: Kernel>(app: &ShardApp, conn: ConnId, conns: &Conns<Session, K>) -> String {
    let told = app.parts.shared.forwarded.client_of(conn);
    let address = told.or_else(|| conns.peer(conn));
    address.map_or_else(String::new, |address| address.to_string())
}

fn hash(text: &str) -> u64 {
    // The same on every shard of this process, which is all that counting needs.
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Those for which the most waits, first of all.
fn keep_slowest(chosen: &mut Vec<(usize, ConnId)>, most: usize) {
    chosen.sort_unstable_by_key(|(queued_bytes, _)| Reverse(*queued_bytes));
    chosen.truncate(most);
}
