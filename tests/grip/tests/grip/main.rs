//! One binary for all tests of GRIP.

mod memory;
mod origin;
mod steps;
mod stories;
