//! The table: every metric once.
//!
//! To add a metric, add a line here; to add a series to one, add a variant to its line.
//! Names follow Prometheus's conventions: counters end in `_total`, units are base units
//! and stand in the name. The prefix `throng_` is added by the macro.

use throng_types::Disconnect;

/// Apps, and namespaces, that have a label of their own; those behind them are added up.
pub(crate) const LABELS_MAX: usize = 100;
/// Cells for namespaces: of channels without one, of each label, of all others.
pub(crate) const CELLS: usize = LABELS_MAX + 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub key: &'static str,
    pub value: &'static str,
}

/// Declares a set of metrics: `"name" "Help." { Variant, Variant(label = "value"), … }`.
macro_rules! metrics {
    (
        $(#[doc = $set_doc:literal])+
        $set:ident {
            $($name:literal $help:literal {
                $($variant:ident $(($key:ident = $value:literal))?),+ $(,)?
            })+
        }
    ) => {
        $(#[doc = $set_doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $set {
            $($(
                #[doc = $help]
                $(#[doc = concat!("\n\n`", stringify!($key), "` is `", $value, "`.")])?
                $variant,
            )+)+
        }

        impl $set {
            /// Every series, those of one metric next to each other.
            pub const ALL: &'static [Self] = &[$($(Self::$variant),+),+];
            pub const COUNT: usize = Self::ALL.len();

            /// The metric's name, with the prefix.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant)|+ => concat!("throng_", $name),)+
                }
            }

            /// Help text: one sentence on the metric.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self {
                    $($(Self::$variant)|+ => $help,)+
                }
            }

            /// Label of the series, if its metric has several.
            #[must_use]
            pub const fn label(self) -> Option<Label> {
                match self {
                    $($(Self::$variant => metrics!(@label $($key $value)?),)+)+
                }
            }

            /// The place of the series in [`Self::ALL`].
            #[must_use]
            pub const fn index(self) -> usize {
                self as usize
            }
        }
    };
    (@label) => { None };
    (@label $key:ident $value:literal) => {
        Some(Label { key: stringify!($key), value: $value })
    };
}

metrics! {
    /// Events, counted since the start.
    Counter {
        "connections_accepted_total" "Connections accepted." { ConnectionsAccepted }
        "connections_refused_total" "Connections refused before they could do anything." {
            RefusedDescriptors(reason = "descriptors"),
            RefusedConnectionsMax(reason = "connections_max"),
            RefusedPerIp(reason = "per_ip"),
            RefusedPerUser(reason = "per_user"),
            RefusedUntrustedProxy(reason = "untrusted_proxy"),
            RefusedHandshakes(reason = "handshakes"),
            RefusedOrigin(reason = "origin"),
            RefusedHost(reason = "host"),
            RefusedDraining(reason = "draining"),
        }
        "connections_closed_total" "Connections that ended, by reason: client means that the peer \
                                    closed or vanished." {
            ClosedClient(reason = "client"),
            ClosedNormal(reason = "connection_closed"),
            ClosedShutdown(reason = "shutdown"),
            ClosedServerError(reason = "internal_server_error"),
            ClosedExpired(reason = "connection_expired"),
            ClosedSubscriptionExpired(reason = "subscription_expired"),
            ClosedSlow(reason = "slow"),
            ClosedWriteError(reason = "write_error"),
            ClosedInsufficientState(reason = "insufficient_state"),
            ClosedForceReconnect(reason = "force_reconnect"),
            ClosedNoPong(reason = "no_pong"),
            ClosedTooManyRequests(reason = "too_many_requests"),
            ClosedInvalidToken(reason = "invalid_token"),
            ClosedBadRequest(reason = "bad_request"),
            ClosedStale(reason = "stale"),
            ClosedForceNoReconnect(reason = "force_disconnect"),
            ClosedConnectionLimit(reason = "connection_limit"),
            ClosedChannelLimit(reason = "channel_limit"),
            ClosedInappropriateProtocol(reason = "inappropriate_protocol"),
            ClosedPermissionDenied(reason = "permission_denied"),
            ClosedNotAvailable(reason = "not_available"),
            ClosedTooManyErrors(reason = "too_many_errors"),
        }
        "publications_total" "Publications accepted, by source." {
            PublicationsClient(source = "client"),
            PublicationsApi(source = "api"),
            PublicationsGrip(source = "grip"),
            PublicationsAppwrite(source = "appwrite"),
            PublicationsFeed(source = "feed"),
        }
        "feed_refused_total" "Events of feeds that cannot be published and were left \
                              out." { FeedRefused }
        "feed_waits_total" "Times that a feed began to wait: for its source, or for the broker to \
                            take what the feed read." {
            FeedWaitsSource(reason = "source"),
            FeedWaitsBroker(reason = "broker"),
        }
        "deliveries_total" "Publications put on the queues of subscribers." { Deliveries }
        "delivery_bytes_total" "Bytes of those deliveries, as they go over the \
                                wire." { DeliveryBytes }
        "broker_losses_total" "Connections to the broker that were lost." { BrokerLosses }
        "broker_refilled_total" "Channels whose gap was filled from the broker's \
                                 history." { BrokerRefilled }
        "broker_broken_total" "Channels whose subscribers had to subscribe again, because their \
                               stream could not be continued." { BrokerBroken }
        "broker_contradictions_total" "Times that the broker gave two contents for one position, a \
                                       position behind the one before, or an impossible \
                                       answer." { BrokerContradictions }
        "broker_refused_total" "Requests that the broker did not carry out: unavailable means that \
                                nothing happened, unknown that a publication may have." {
            BrokerUnavailable(reason = "unavailable"),
            BrokerUnknown(reason = "unknown"),
        }
        "history_store_written_bytes_total" "Bytes written to the history on \
                                             disk." { HistoryStoreWritten }
        "history_store_syncs_total" "Syncs of the history on disk." { HistoryStoreSyncs }
        "history_store_lost_total" "Records of the history that were not written, because the disk \
                                    refused them or was too slow." { HistoryStoreLost }
        "presence_dropped_total" "Join and leave messages that were left out because a queue was \
                                  full, counted by each shard." { PresenceDropped }
        "dropped_total" "Deliveries dropped because a queue was full, by the channel's \
                         slow_consumer rule." {
            DroppedOldest(policy = "drop-oldest"),
            DroppedLatestOnly(policy = "latest-only"),
            DroppedClose(policy = "close"),
        }
        "conflated_total" "Deliveries that were not made because a newer publication of their \
                           window took their place (`max_delay` with \
                           `latest-only`)." { Conflated }
        "slow_consumers_total" "Times that a connection's queue became full." { SlowConsumers }
        "crowded_out_total" "Connections that were closed as slow because all queues together were \
                             full (`limits.queued_bytes_max`)." { CrowdedOut }
        "unnamed_proxies_total" "Connections whose first request names another client's address, \
                                 from an address that `listen.trusted_proxies` does not name: one \
                                 of a private network, or one that a limit \
                                 refuses." { UnnamedProxies }
        "recovered_total" "Attempts to get missed publications, by result." {
            RecoveredComplete(result = "complete"),
            RecoveredFailed(result = "failed"),
        }
        "commands_total" "Commands from clients." {
            CommandConnect(method = "connect"),
            CommandSubscribe(method = "subscribe"),
            CommandUnsubscribe(method = "unsubscribe"),
            CommandPublish(method = "publish"),
            CommandPresence(method = "presence"),
            CommandPresenceStats(method = "presence_stats"),
            CommandHistory(method = "history"),
            CommandPing(method = "ping"),
            CommandSend(method = "send"),
            CommandRpc(method = "rpc"),
            CommandRefresh(method = "refresh"),
            CommandSubRefresh(method = "sub_refresh"),
        }
        "errors_total" "Commands answered with an error, by its code in the client protocol." {
            ErrorInternal(code = "100"),
            ErrorUnauthorized(code = "101"),
            ErrorUnknownChannel(code = "102"),
            ErrorPermissionDenied(code = "103"),
            ErrorMethodNotFound(code = "104"),
            ErrorAlreadySubscribed(code = "105"),
            ErrorLimitExceeded(code = "106"),
            ErrorBadRequest(code = "107"),
            ErrorNotAvailable(code = "108"),
            ErrorTokenExpired(code = "109"),
            ErrorExpired(code = "110"),
            ErrorTooManyRequests(code = "111"),
            ErrorUnrecoverablePosition(code = "112"),
            ErrorOther(code = "other"),
        }
        "auth_failures_total" "Tokens and keys that were refused." {
            AuthMissing(reason = "missing"),
            AuthMalformed(reason = "malformed"),
            AuthAlgorithm(reason = "algorithm"),
            AuthSignature(reason = "signature"),
            AuthUnknownKey(reason = "unknown_key"),
            AuthExpired(reason = "expired"),
            AuthNotYetValid(reason = "not_yet_valid"),
            AuthAudience(reason = "audience"),
            AuthIssuer(reason = "issuer"),
            AuthChannel(reason = "channel"),
            AuthApiKey(reason = "api_key"),
            AuthRole(reason = "role"),
        }
        "token_key_fetches_total" "Fetches of the issuer's public keys (`auth.jwks_url`); after a \
                                   failure the old keys stay." {
            TokenKeysGood(result = "good"),
            TokenKeysFailed(result = "failed"),
        }
        "webhook_events_total" "Events of webhooks that no longer wait; only `sent` ones have \
                                reached their receiver." {
            HookEventsSent(result = "sent"),
            HookEventsFull(result = "no_room"),
            HookEventsOld(result = "expired"),
        }
        "webhook_requests_failed_total" "Requests of webhooks that did not succeed and are \
                                         repeated." { HookRequestsFailed }
        "trace_spans_total" "Spans for the collector of traces, by result: sent, failed (the \
                             collector did not take them), no_room (too many waited)." {
            TraceSpansSent(result = "sent"),
            TraceSpansFailed(result = "failed"),
            TraceSpansFull(result = "no_room"),
        }
        "overspent_total" "Clients that asked for more work than `[limits]` allows, by the \
                           allowance that was used up." {
            OverspentConnection(allowance = "connection"),
            OverspentAddress(allowance = "address"),
            OverspentTokens(allowance = "tokens"),
            OverspentUser(allowance = "user"),
        }
        "appwrite_refused_total" "Appwrite clients and messages of theirs that were refused, by \
                                  reason." {
            AppwriteRefusedProject(reason = "project"),
            AppwriteRefusedApiDisabled(reason = "api_disabled"),
            AppwriteRefusedOpenings(reason = "too_many_requests"),
            AppwriteRefusedMessages(reason = "too_many_messages"),
            AppwriteRefusedOrigin(reason = "origin"),
            AppwriteRefusedChannels(reason = "channels"),
            AppwriteRefusedQuery(reason = "query"),
            AppwriteRefusedFormat(reason = "format"),
            AppwriteRefusedSession(reason = "session"),
            AppwriteRefusedUnauthorized(reason = "unauthorized"),
            AppwriteRefusedPresence(reason = "presence"),
            AppwriteRefusedServer(reason = "server"),
        }
        "appwrite_events_total" "Events from Appwrite or in its form, by source." {
            AppwriteEventsRedis(source = "redis"),
            AppwriteEventsApi(source = "api"),
        }
        "appwrite_events_refused_total" "Messages from Appwrite's Redis that are not events, by \
                                         reason." {
            AppwriteEventsMalformed(reason = "malformed"),
            AppwriteEventsEmpty(reason = "empty"),
            AppwriteEventsTooLong(reason = "too_long"),
        }
        "appwrite_matches_total" "Receivers found for events from Appwrite." { AppwriteMatches }
        "appwrite_feed_waits_total" "Times that the reader of Appwrite's Redis waited for a \
                                     shard." { AppwriteFeedWaits }
        "appwrite_feed_reconnects_total" "Reconnects to Appwrite's Redis; events in between are \
                                          lost." { AppwriteFeedReconnects }
        "appwrite_feed_down_seconds_total" "Seconds without a connection to Appwrite's \
                                        Redis." { AppwriteFeedDownSeconds }
        "appwrite_feed_refused_total" "Times that Appwrite's Redis answered but did not let Throng \
                                       subscribe: a password or a permission is \
                                       missing." { AppwriteFeedRefused }
        "appwrite_lookups_total" "Questions to Appwrite about who a client is, by answer." {
            AppwriteLookupsUser(answer = "user"),
            AppwriteLookupsNobody(answer = "nobody"),
            AppwriteLookupsFailed(answer = "failed"),
            AppwriteLookupsCached(answer = "cached"),
            AppwriteLookupsRefused(answer = "refused"),
        }
        "appwrite_presences_total" "Presences that Appwrite was asked to write or to delete for \
                                    clients, by answer." {
            AppwritePresencesWritten(answer = "written"),
            AppwritePresencesDeleted(answer = "deleted"),
            AppwritePresencesRefused(answer = "refused"),
            AppwritePresencesFailed(answer = "failed"),
            AppwritePresencesFull(answer = "full"),
        }
        "grip_client_requests_total" "Requests of clients that a GRIP route \
                                      matched." { GripClientRequests }
        "grip_connection_minutes_total" "Minutes that GRIP clients were connected, in \
                                         total." { GripConnectionMinutes }
        "grip_deliveries_total" "Deliveries to GRIP clients; throng_deliveries_total has them \
                                 too." { GripDeliveries }
        "grip_requests_total" "Requests to GRIP backends." { GripRequests }
        "grip_origin_failures_total" "Requests to GRIP backends that got no answer, or only a part \
                                      of one." { GripOriginFailures }
        "grip_faults_total" "Instructions and items of GRIP backends and publishers that were \
                             refused or dropped, by reason." {
            GripInstructFaults(reason = "instruct"),
            GripFilterFaults(reason = "filter"),
            GripWaitingFull(reason = "waiting_full"),
            GripItemFaults(reason = "item"),
            GripDuplicates(reason = "duplicate"),
            GripStatsDropped(reason = "stats_full"),
        }
        "tls_handshakes_total" "TLS handshakes, by result; gone means that the peer went away." {
            TlsFull(result = "full"),
            TlsResumed(result = "resumed"),
            TlsRefused(result = "refused"),
            TlsTimedOut(result = "timed_out"),
            TlsGone(result = "gone"),
        }
        "tls_broken_total" "TLS connections that ended after their handshake because the peer \
                            broke the protocol." { TlsBroken }
        "tls_reloads_total" "Times that certificates were read again, because their files had \
                             changed or on SIGHUP." {
            TlsReloaded(result = "good"),
            TlsReloadFailed(result = "failed"),
        }
        "bad_requests_total" "HTTP requests and WebSocket frames that broke their \
                              protocol." { BadRequests }
        "bytes_in_total" "Bytes read from client connections." { BytesIn }
        "bytes_out_total" "Bytes that the kernel took for client connections." { BytesOut }
        "messages_in_total" "Messages read from clients." { MessagesIn }
        "writes_total" "Write calls on client connections." { Writes }
        "pings_total" "Pings and keep-alives sent to clients." { Pings }
        "turns_total" "Turns of the shards' loops." { Turns }
        "sleeps_total" "Times that a shard had nothing to do and slept." { Sleeps }
        "mail_total" "Messages that shards sent each other." { Mail }
        "wakes_total" "Times that a shard woke another that slept." { Wakes }
    }
}

metrics! {
    /// Current values, which rise and fall.
    Gauge {
        "connections" "Open connections." {
            ConnectionsWebsocket(transport = "websocket"),
            ConnectionsSse(transport = "sse"),
            ConnectionsStream(transport = "stream"),
            ConnectionsHttp(transport = "http"),
        }
        "calling_connections" "Open connections for calls and pages, on the API port and on \
                               gateways' own ports; the transport http has them \
                               too." { CallingConnections }
        "appwrite_connections" "Open connections to Appwrite Realtime; the transport websocket has \
                                them too." { AppwriteConnections }
        "appwrite_feed_up" "1 while Appwrite's Redis lets Throng listen." { AppwriteFeedUp }
        "grip_connections" "Clients that wait for a GRIP backend or are held by \
                            one." { GripConnections }
        "feeds_waiting" "Feeds that cannot go on: their source cannot be read, or the broker takes \
                         nothing." { FeedsWaiting }
        "feed_lag" "Events that wait in the sources of feeds; of a table at most 100,000 are \
                    counted." {
            FeedLagPostgres(source = "postgres"),
            FeedLagRedis(source = "redis"),
            FeedLagKafka(source = "kafka"),
            FeedLagNats(source = "nats"),
        }
        "broker_up" "Servers of the broker that answer: 1, or more with several Redis; 12 parts of \
                     a Redis Cluster. 0 also with the broker in memory." { BrokerUp }
        "broker_refusing_writes" "Servers of the broker that answer and take no writes: full, or \
                                  without the replicas that they need." { BrokerRefusingWrites }
        "history_store_up" "1 while history is written to disk; 0 also where there is no \
                            store." { HistoryStoreUp }
        "history_store_bytes" "Size of the history on disk, in bytes." { HistoryStoreBytes }
        "subscriptions" "Subscriptions of open connections." { Subscriptions }
        "channels" "Channels that have a subscriber or a history." { Channels }
        "history_publications" "Publications kept for clients that come \
                                back." { HistoryPublications }
        "presence_members" "Members in the lists of channels with presence." {
            PresenceMembers
        }
        "history_bytes" "Memory for the publications kept, in bytes." { HistoryBytes }
        "token_keys" "Public keys in the issuer's set (`auth.jwks_url`) at the last \
                      fetch." { TokenKeys }
        "token_keys_fetched_timestamp_seconds" "Time of the last fetch of the issuer's public \
                                                keys, in Unix seconds; 0 before the \
                                                first." { TokenKeysFetched }
        "webhook_events_waiting" "Events that wait for the receivers of \
                                  webhooks." { HookEventsWaiting }
        "tls_certificates" "Certificates in use." { TlsCertificates }
        "tls_certificate_days_left" "Whole days until the first certificate expires; 0 also once \
                                     it has, and where there is none." { TlsCertificateDaysLeft }
        "accept_paused" "Shards that have stopped accepting connections." { AcceptPaused }
        "shards" "Shards, each a thread." { Shards }
        "process_resident_bytes" "Resident memory of the process." { ProcessResidentBytes }
        "open_descriptors" "File descriptors that the process has open." { OpenDescriptors }
        "descriptors_max" "File descriptors that the process may open." { DescriptorsMax }
        "uptime_seconds" "Seconds since the start." { UptimeSeconds }
    }
}

metrics! {
    /// Distributions of durations. The names are those of the texts, in seconds; recording is in
    /// microseconds.
    Histogram {
        "turn_duration_seconds" "One turn of a shard's loop, without the wait." { TurnDuration }
        "delivery_lag_seconds" "Time from the acceptance of a publication to the end of the turn \
                                in which a shard wrote or queued it for the last of its \
                                subscribers. Includes `max_delay` and, between nodes, the \
                                difference of their clocks." { DeliveryLag }
        "api_command_duration_seconds" "Time from a call of the server API to the end of the turn \
                                        that answered it. `publish` includes `/pub` and Pusher's \
                                        events without `info`." {
            ApiPublish(method = "publish"),
            ApiBroadcast(method = "broadcast"),
            ApiSubscribe(method = "subscribe"),
            ApiUnsubscribe(method = "unsubscribe"),
            ApiDisconnect(method = "disconnect"),
            ApiRefresh(method = "refresh"),
            ApiPresence(method = "presence"),
            ApiPresenceStats(method = "presence_stats"),
            ApiHistory(method = "history"),
            ApiHistoryRemove(method = "history_remove"),
            ApiChannels(method = "channels"),
            ApiConnections(method = "connections"),
            ApiInfo(method = "info"),
            ApiRpc(method = "rpc"),
        }
    }
}

impl Histogram {
    /// Series of a call of the server API, by its place among the calls.
    #[must_use]
    pub const fn of_call(place: usize) -> Self {
        Self::ALL[Self::ApiPublish.index() + place]
    }
}

metrics! {
    /// Numbers of one namespace, each with the label `namespace`.
    NamespaceMetric {
        "namespace_publications_total" "Publications that the broker was asked for; those to \
                                        unknown namespaces are not counted." { Publications }
        "namespace_deliveries_total" "Publications, joins and leaves handed to \
                                      subscribers." { Deliveries }
    }
}

impl Counter {
    /// Series of connections that the server closed for this reason. They stand in the order of the
    /// reasons.
    #[must_use]
    pub const fn closed(reason: Disconnect) -> Self {
        Self::ALL[Self::ClosedNormal.index() + reason as usize]
    }

    /// Series of commands that were answered with this error code; one series for all codes without
    /// their own.
    #[must_use]
    pub const fn error(code: u32) -> Self {
        match code {
            100..=112 => Self::ALL[Self::ErrorInternal.index() + (code - 100) as usize],
            _ => Self::ErrorOther,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_and_codes_have_their_series() {
        for reason in Disconnect::ALL {
            let label = Counter::closed(reason).label().expect("a reason");
            assert_eq!(label.value, reason.reason().replace(' ', "_"));
        }
        for code in 100..=112 {
            let label = Counter::error(code).label().expect("a code");
            assert_eq!(label.value, code.to_string());
        }
        for code in [0, 99, 113, u32::MAX] {
            assert_eq!(Counter::error(code), Counter::ErrorOther);
        }
    }
}

metrics! {
    /// Numbers of one app of Pusher's, each with the label `app`.
    AppMetric {
        "app_connections" "Connections of an app's clients." { Connections }
        "app_publications_total" "Events of an app, once for each of their \
                                  channels." { Publications }
        "app_publication_bytes_total" "Bytes of these events' data." { PublicationBytes }
        "app_refused_total" "Connections, events, questions and subscribes of an app that one of \
                             its limits refused." {
            RefusedConnections(limit = "connections"),
            RefusedPublications(limit = "publications"),
            RefusedBytes(limit = "bytes"),
            RefusedReads(limit = "reads"),
            RefusedChannels(limit = "channels"),
            RefusedHistory(limit = "history"),
        }
    }
}
