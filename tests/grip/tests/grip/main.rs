//! One binary for all tests of GRIP.

mod dates;
mod drain;
mod eventstream;
mod faults;
mod holds;
mod keys;
mod moved;
mod publishers;
mod pushpin_conf;
mod reload;
mod shipped;
mod sizes;
mod sockets;
mod stats;
mod support;
mod tunnels;
mod uploads;
