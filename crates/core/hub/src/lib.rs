//! One shard's subscriptions and fan-out.
