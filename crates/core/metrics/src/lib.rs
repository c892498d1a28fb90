//! Every metric name once, counters per shard, merge, text format.
