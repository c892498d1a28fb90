//! Every event of a source arrives once and in order, whatever dies.

mod nodes;
mod postgres;
mod redis;
