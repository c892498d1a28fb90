//! The shard: reactor, listeners, connections, timers, outbound queues, mailboxes.
