//! Commands of clients in Centrifugo's protocol, and the answers: the dialogues of the reference
//! server.

mod backends;
mod batches;
mod changed;
mod codes;
mod compressed;
mod moved;
mod order;
mod protobuf;
mod rights;
mod scene;
mod server_api;
mod streams;
mod surveys;
mod transports;
mod wishes;
