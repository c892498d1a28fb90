//! One binary for all tests of GRIP.

mod clients;
mod command;
mod connections;
mod dates;
mod drain;
mod eventstream;
mod faults;
mod forged;
mod holds;
mod keys;
mod links;
mod moved;
mod pushpin_conf;
mod receivers;
mod reload;
mod shipped;
mod sizes;
mod sockets;
mod stats;
mod support;
mod tunnels;
mod uploads;
