//! Several `throng` nodes on a real Redis or NATS, against other people's clients: black-box
//! tests, all of them in `tests/`.
//!
//! They know the nodes by their command line, their ports and their log, and share no code with
//! them.
